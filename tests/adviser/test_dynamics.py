import numpy as np
import pytest

from utds.adviser import dynamics
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


def far(dataset: Dataset) -> Dataset:
    """The same data five metres away."""
    observations = dataset.observations.copy()
    observations[:, :2] += 5
    columns = {name: dataset.column(name) for name in dataset.columns} | {"observations": observations}
    return Dataset.checked(columns, dataset.lengths, dataset.metadata)


def test_altered_robots_are_refused_and_other_behaviour_is_not(push):
    candidates = {
        "other seed": push(1),
        "other way": push(2, (0.1, 0.1)),
        "third way": push(3, (-0.1, 0.1)),
        "weak motor": push(4, gear=0.5),
        "weak motor, other way": push(5, (0.1, 0.1), gear=0.5),
        "thick air": push(6, (0.1, 0.1), damping=3.0),
        "late sensor": late(push(7), 3),
        "elsewhere": far(push(8)),
    }
    found = dict(zip(candidates, dynamics.checks(push(0), list(candidates.values())), strict=True))
    verdicts = {name: check.verdict for name, check in found.items()}
    assert verdicts == dict.fromkeys(candidates, "different") | {
        "other seed": "same",
        "other way": "same",
        "third way": "same",
        "elsewhere": "unknown",
    }, found
    assert max(found[name].p for name in ("weak motor", "thick air", "late sensor")) < 1e-4
    assert (found["weak motor"].feature, found["weak motor"].cause) == (2, "action 0")  # the velocity along x
    assert "feature 2 changes" in found["weak motor"].sentence("main")
    assert found["late sensor"].feature in (1, 3)  # position and velocity along y tell each other
    assert found["elsewhere"].comparable == 0
    assert "too little in common" in found["elsewhere"].sentence("main")


def test_nothing_is_said_from_a_handful_of_episodes(push):
    assert dynamics.check(push(0, episodes=5), push(1)).verdict == "unknown"


def test_the_same_seed_gives_the_same_answer(push, monkeypatch):
    monkeypatch.setattr(dynamics, "STEPS", 250)
    main, other = push(0), push(1)
    assert dynamics.check(main, other, seed=3) == dynamics.check(main, other, seed=3)


def test_training_refuses_other_dynamics(push, monkeypatch):
    found = dynamics.Check("theirs", "different", 1e-9, -0.4, 2, "action 0", 0.9, 40)
    monkeypatch.setattr(dynamics, "checks", lambda main, others: [found])
    with pytest.raises(DataError, match=r"doesn't move as .* per standard deviation of action 0 .*--trust-dynamics"):
        dynamics.refuse_different([push(0, episodes=6), push(1, episodes=6)])
