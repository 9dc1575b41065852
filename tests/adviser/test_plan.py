"""The planner on a line whose best plans can be worked out by hand."""

import numpy as np
import pytest

from utds.adviser import score
from utds.adviser.score import Planner
from utds.data.dataset import Dataset

STEP = 0.1  # of the walk along the line


def walk(start: float, steps: int, direction: int = 1, terminated: bool = False) -> Dataset:
    """An episode along the line; its first coordinate is the place, the second is constant."""
    places = start + direction * STEP * np.arange(steps + 1)
    ends = np.zeros(steps, bool)
    ends[-1] = terminated
    return Dataset.from_arrays(
        np.stack([places, np.ones(steps + 1)], axis=1),
        np.full((steps, 1), 0.5 * direction),
        np.zeros(steps),
        terminations=ends,
        truncations=~ends & (np.arange(steps) == steps - 1),
        lengths=[steps],
    )


def planner(datasets: list[Dataset], labels: list[np.ndarray]) -> Planner:
    return Planner(datasets, [np.asarray(x, np.float32) for x in labels])


def test_a_dataset_alone_is_worth_its_episode():
    labels = np.arange(10) / 10
    assert planner([walk(0, 10)], [labels]).value() == pytest.approx(labels.sum())


def test_shared_data_goes_on_where_the_own_data_ends():
    """The own walk ends where the other begins: five steps without a reward, then five with 1 each."""
    found = planner([walk(0, 10), walk(0.5, 10)], [np.zeros(10), np.ones(10)])
    assert found.value() == 0
    assert found.value((0,)) == pytest.approx(5, abs=1e-4)


def test_a_gap_costs_the_square_of_its_length():
    """Ten steps to the end of the own walk, where it waits; ten with a reward of 1 beyond a gap of 0.12."""
    places = STEP * np.minimum(np.arange(21), 10)
    own = Dataset.from_arrays(np.stack([places, np.ones(21)], axis=1), np.full((20, 1), 0.5), np.zeros(20))
    found = planner([own, walk(1.12, 10)], [np.zeros(20), np.ones(10)])
    assert found.value((0,)) == pytest.approx(10 - (0.12 / STEP) ** 2, abs=1e-3)


def test_no_way_leads_through_a_wall():
    """Two walks along both sides of a wall: far nearer to each other than to their ends, and yet apart."""
    along = STEP * np.arange(31)
    low, high = (np.stack([along, np.full(31, side)], axis=1) for side in (0.0, 0.02))
    own, other = (Dataset.from_arrays(side, np.full((30, 1), 0.5), np.zeros(30)) for side in (low, high))
    found = planner([own, other], [np.zeros(30), np.ones(30)])
    assert found.value((0,)) == 0


def test_no_plan_goes_on_after_a_termination():
    """Half a step lies between the walk that leads there and the rewards; where it ends for good, the last step too."""
    away, rewarded = walk(0, 10, direction=-1), walk(0.55, 10)
    values = [
        planner([away, walk(0, 5, terminated=ends), rewarded], [np.zeros(10), np.zeros(5), np.ones(10)]).value((0, 1))
        for ends in (False, True)
    ]
    assert values == pytest.approx([5 - 0.5**2, 6 - 1.5**2], abs=1e-3)


def test_sharing_never_predicts_a_loss():
    random = np.random.default_rng(0)
    datasets = [
        Dataset.from_arrays(random.normal(size=(63, 3)), random.uniform(-1, 1, (60, 2)), np.zeros(60), lengths=[20] * 3)
        for _ in range(3)
    ]
    found = planner(datasets, [random.uniform(0, 1, 60) for _ in datasets])
    alone, both = found.value(), found.value((0, 1))
    assert alone <= found.value((0,)) <= both
    assert alone <= found.value((1,)) <= both


def test_negative_rewards_are_no_reason_to_stop():
    """Every step costs 1: an episode of ten is worth −10, whichever way it goes."""
    assert planner([walk(0, 10), walk(0, 10, -1)], [np.full(10, -1.0)] * 2).value((0,)) == pytest.approx(-10)


def test_an_episode_may_last_as_long_as_the_longest_on_record():
    """A robot that always falls after five steps, and one that walks on: without a domain the data tells the limit."""
    own, other = walk(0, 5, terminated=True), walk(0, 40)
    found = planner([own, other], [np.ones(5), np.ones(40)])
    assert found.value((0,)) == pytest.approx(40)


def test_who_falls_earns_nothing_more():
    """Every step is worth 1 or more, but an episode of five that ends for good is worth five."""
    own, other = walk(0, 5, terminated=True), walk(3, 40)
    assert planner([own, other], [np.ones(5), np.ones(40)]).value() == pytest.approx(5, abs=0.01)


def test_long_data_is_cut_into_few_stretches(monkeypatch):
    """The best episode stays when most of the others are left out."""
    monkeypatch.setattr(score, "STRETCHES", 20)
    episodes = 50
    data = Dataset.from_arrays(
        np.tile(np.stack([STEP * np.arange(11), np.ones(11)], axis=1), (episodes, 1)),
        np.full((10 * episodes, 1), 0.5), np.zeros(10 * episodes), lengths=[10] * episodes,
    )  # fmt: skip
    labels = np.zeros(10 * episodes)
    labels[330:340] = 1
    found = planner([data], [labels])
    assert len(found._parts[0].begin) <= 20
    assert found.value() == pytest.approx(10, abs=1e-4)
