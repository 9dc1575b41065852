"""Good behaviour, Γ before and after sharing, and what a dataset is worth."""

import numpy as np
import pytest

from utds.adviser import advice, score
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


def measure(*datasets):
    return score.Coverage(datasets, width=256)


def test_worth_by_hand():
    found = advice.worth(np.arange(1.0, 21.0))
    assert (found.mean, found.best) == (10.5, 19.5)  # best tenth: 19 and 20
    assert found.quartiles == (1, 5.75, 10.5, 15.25, 20)


def test_good_behaviour_is_the_best_on_record():
    high = np.linspace(0.9, 4.8, 40)
    datasets = [dataset((0, 0), np.linspace(0, 1, 60)), dataset((0, 0), high[:-5]), dataset((3, 3), high[-5:])]
    good = score.good_behaviour(datasets, [data.returns for data in datasets])
    assert len(good) == 5 * 50  # all steps of 5 % of a hundred episodes
    assert np.abs(good[:, :2].mean(axis=0) - 3).max() < 0.1


def test_sharing_never_raises_gamma_and_near_data_lowers_it_most():
    """Theorem 1, and what decides in Corollary 1: coverage of good behaviour."""
    main, near, far = (
        dataset((0, 0), [1.0] * 20),
        dataset((3, 0), [5.0] * 20, seed=1),
        dataset((-9, 0), [0] * 20, seed=2),
    )
    good = score.good_behaviour([main, near, far], [data.returns for data in (main, near, far)])
    measured = measure(main, near, far)
    alone, with_near, with_far, with_both = (measured.gamma(good, members) for members in ((), (0,), (1,), (0, 1)))
    assert with_both <= with_near < 0.5 * alone
    assert 0.8 * alone < with_far <= alone


def test_more_of_the_same_falls_as_the_root_of_the_count():
    """At one point seen n times, Γ² = 1/(n + λ) (the tabular case): four times the data halves it."""
    main, more = (
        Dataset.from_arrays(np.zeros((n + 1, 2)), np.zeros((n, 1)), np.zeros(n), task="a") for n in (100, 300)
    )
    measured = measure(main, more)
    good = np.zeros((1, 3), np.float32)
    phi = measured.features(good)
    square = float((phi**2).sum())
    for members, count in (((), 100), ((0,), 400)):
        expected = np.sqrt(square / (count * square + 1))
        assert measured.gamma(good, members) == pytest.approx(expected, rel=1e-3)
