import numpy as np
import pytest

from utds.advise import dynamics
from utds.data.dataset import Dataset
from utds.errors import DataError


@pytest.fixture
def push(push):
    """Enough of it to compare."""
    return lambda *given, **named: push(*given, **{"episodes": 80, **named})


def late(dataset: Dataset, feature: int) -> Dataset:
    """The same data with one feature measured a step late."""
    observations = dataset.observations.copy()
    first = np.concatenate([[0], np.cumsum(dataset.lengths + 1)])[:-1]
    kept = observations[first, feature]
    observations[1:, feature] = dataset.observations[:-1, feature]
    observations[first, feature] = kept
    columns = {name: dataset.column(name) for name in dataset.columns}
    return Dataset.checked(columns | {"observations": observations}, dataset.lengths, dataset.metadata)


def test_other_behaviour_is_no_other_dynamics(push):
    main = push(0)
    found = dynamics.checks(main, [push(1), push(2, (0.1, 0.1)), push(3, (-0.1, 0.1))])
    assert [check.verdict for check in found] == ["same"] * 3, found


@pytest.mark.parametrize("change", [{"gear": 0.5}, {"damping": 3.0}])
def test_another_motor_and_another_damping_are_refused(push, change):
    found = dynamics.check(push(0), push(1, (0.1, 0.1), **change))
    assert found.verdict == "different", found
    assert found.p < 1e-6


def test_a_weak_motor_shows_along_its_axis(push):
    found = dynamics.check(push(0), push(1, gear=0.5))
    assert found.feature in (0, 2)  # position and velocity along x
    assert f"feature {found.feature}" in found.sentence("main")


def test_a_feature_measured_late_is_refused(push):
    found = dynamics.check(push(0), late(push(1), 3))
    assert found.verdict == "different", found
    assert found.feature in (1, 3)  # position and velocity along y tell each other


def test_nothing_is_said_of_data_from_elsewhere(push):
    main, there = push(0), push(1)
    far = there.observations.copy()
    far[:, :2] += 5
    columns = {name: there.column(name) for name in there.columns} | {"observations": far}
    found = dynamics.check(main, Dataset.checked(columns, there.lengths, there.metadata))
    assert (found.verdict, found.comparable, found.cells) == ("unknown", 0.0, 0)
    assert "too little in common" in found.sentence("main")


def test_nothing_is_said_from_a_handful_of_episodes(push):
    assert dynamics.check(push(0, episodes=5), push(1)).verdict == "unknown"


def test_the_same_seed_gives_the_same_answer(push):
    main, other = push(0), push(1)
    assert dynamics.check(main, other, seed=3) == dynamics.check(main, other, seed=3)


def test_training_refuses_other_dynamics(push):
    from utds.cli import train

    with pytest.raises(DataError, match="--trust-dynamics"):
        train._check_dynamics(push(0), [push(1, gear=0.5)])
