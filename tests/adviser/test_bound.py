"""Good behaviour, the bound before and after sharing, and what a dataset is worth."""

import itertools

import numpy as np
import pytest

from utds.adviser import advice, bound
from utds.data.dataset import Dataset


def dataset(centre, returns, steps=50, seed=0):
    """Episodes around a centre in the plane, with these returns."""
    random = np.random.default_rng(seed)
    count = len(returns)
    return Dataset.from_arrays(
        np.asarray(centre) + 0.3 * random.normal(size=(count * (steps + 1), 2)),
        random.uniform(-1, 1, (count * steps, 1)),
        np.repeat(np.asarray(returns) / steps, steps),
        lengths=np.full(count, steps),
        task="a",
    )


def coverage(*datasets):
    return bound.Coverage(datasets, width=256, seed=0, reach=0.5, limit=10_000)


def test_worth_by_hand():
    found = advice.worth(np.arange(1.0, 21.0), against=15.0)
    assert (found.mean, found.best, found.beyond) == (10.5, 19.5, 0.25)  # best tenth: 19 and 20; 16 … 20 are beyond
    assert found.quartiles == (1, 5.75, 10.5, 15.25, 20)


def test_good_behaviour_is_the_best_on_record():
    high = np.linspace(0.9, 4.8, 40)
    datasets = [dataset((0, 0), np.linspace(0, 1, 60)), dataset((0, 0), high[:-5]), dataset((3, 3), high[-5:])]
    good = bound.good_behaviour(datasets, [data.returns for data in datasets])
    assert len(good.pairs) == 5 * 50  # all steps of 5 % of a hundred episodes
    assert np.abs(good.pairs[:, :2].mean(axis=0) - 3).max() < 0.1


def test_sharing_never_raises_the_bound_and_near_data_lowers_it_most():
    """Theorem 1, and what decides in Corollary 1: coverage of good behaviour."""
    main, near, far = (
        dataset((0, 0), [1.0] * 20),
        dataset((3, 0), [5.0] * 20, seed=1),
        dataset((-9, 0), [0] * 20, seed=2),
    )
    good = bound.good_behaviour([main, near, far], [data.returns for data in (main, near, far)])
    measured = coverage(main, near, far)
    alone, with_near, with_far, with_both = (
        measured.bound(good, members).gamma for members in ((), (0,), (1,), (0, 1))
    )
    assert with_both <= with_near < 0.5 * alone
    assert 0.8 * alone < with_far <= alone


def test_more_of_the_same_falls_as_the_root_of_the_count():
    """At one point seen n times, Γ² = 1/(n + λ) (the tabular case): four times the data halves it."""
    main, more = (
        Dataset.from_arrays(np.zeros((n + 1, 2)), np.zeros((n, 1)), np.zeros(n), task="a") for n in (100, 300)
    )
    measured = coverage(main, more)
    good = bound.GoodBehaviour(np.zeros((1, 3), np.float32), np.zeros((1, 3), np.float32))
    phi = measured.features(good.pairs)
    square = float((phi**2).sum())
    for members, count in (((), 100), ((0,), 400)):
        expected = np.sqrt(square / (count * square + 1))
        assert measured.bound(good, members).gamma == pytest.approx(expected, rel=1e-3)


def test_overlap_of_the_same_and_of_other_places():
    main, same, other = dataset((0, 0), [1.0] * 20), dataset((0, 0), [1.0] * 20, seed=1), dataset((4, 4), [1.0] * 20)
    measured = coverage(main, same, other)
    assert measured.overlap(main, same) == pytest.approx(0.95, abs=0.04)
    assert measured.overlap(main, other) == 0


def test_many_candidates_are_added_one_by_one():
    """Six candidates: combinations of 2 … 6, each containing the one before, each bound no greater."""
    datasets = [dataset((2.5 * index, 0), [float(index)] * 10, seed=index) for index in range(7)]
    measured = coverage(*datasets)
    good = bound.good_behaviour(datasets, [data.returns for data in datasets])
    singles = [measured.bound(good, (index,)) for index in range(6)]
    found = bound.combinations_of(measured, good, singles)
    assert [len(option.subset) for option in found] == [2, 3, 4, 5, 6]
    assert all(set(a.subset) < set(b.subset) for a, b in itertools.pairwise(found))
    assert all(b.gamma <= a.gamma for a, b in itertools.pairwise(found))
