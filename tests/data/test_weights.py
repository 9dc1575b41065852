"""Weights per transition: frequencies against the weights, by hand and by chi-square."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from utds.adviser import dynamics
from utds.data import pool as pool_module
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.data.pool import ReturnWeights, Source, can_be_remade, running
from utds.errors import ConfigError, DataError

LENGTHS = ([3, 4], [5], [2, 2])


@pytest.fixture
def sources(coded) -> list[Dataset]:
    return [coded(number, lengths, task=f"task-{number}") for number, lengths in enumerate(LENGTHS)]


def frequencies(pool, which: str, draws: int = 100_000) -> np.ndarray:
    """How often each transition of the pool, in its order, was drawn."""
    batch = jax.jit(lambda pool, key: getattr(pool, which)(key, draws))(pool, jax.random.key(3))
    first = np.concatenate([[0], np.cumsum(pool.info.sizes)])
    step = np.rint(np.asarray(batch.actions[:, 0]) * 2**20).astype(int)
    return np.bincount(first[np.asarray(batch.source)] + step, minlength=pool.size)


@pytest.mark.parametrize("which", ["sample", "sample_own", "sample_shared"])
def test_transitions_are_drawn_as_often_as_they_weigh(sources, which):
    random = np.random.default_rng(0)
    parts = [random.uniform(0, 3, data.size) for data in sources]
    parts[1][2] = 0.0
    pool = share(*sources, rewards="zero", weights=parts)
    weights = np.concatenate(parts)
    own = np.arange(pool.size) < sources[0].size
    weights = np.where({"sample": own | True, "sample_own": own, "sample_shared": ~own}[which], weights, 0)
    found = frequencies(pool, which)
    assert not found[weights == 0].any()
    expected = 100_000 * weights[weights > 0] / weights.sum()
    assert stats.chisquare(found[weights > 0], expected).pvalue > 1e-3


def test_random_bits_below_a_limit_are_what_whole_numbers_give():
    random = np.random.default_rng(1)
    bits = np.concatenate([random.integers(0, 2**32, 500), [0, 2**32 - 1]]).astype(np.uint32)
    for limit in (1, 2, 65_535, 65_537, 1_500_000_001, 2**31 - 2):
        found = pool_module._below(jnp.asarray(bits), jnp.int32(limit))
        assert found.tolist() == [int(value) * limit >> 32 for value in bits]


def test_equal_weights_are_uniform_and_none_cost_nothing(sources):
    pool = share(*sources, rewards="zero", weights=lambda found: [np.ones(s.dataset.size) for s in found])
    assert stats.chisquare(frequencies(pool, "sample")).pvalue > 1e-3
    plain = share(*sources, rewards="zero")
    assert plain.weights is None and plain.info.weights == "uniform" and pool.info.weights.startswith("function:<lam")


def test_running_sums_lose_nothing_that_counts(coded):
    data = coded(0, [4])
    sums = running([[1.0, 0.0, 1e-12, 3.0]], [Source(data, data.rewards, True)])
    counts = np.diff(sums, prepend=0)
    assert counts[1] == 0 and counts[2] == 1 and counts[3] / counts[0] == pytest.approx(3, rel=1e-8)
    assert sums.dtype == np.int32 and sums[-1] > 2**31 - 10


@pytest.mark.parametrize("scale", [1e308, 2.0**-1060])
def test_weights_of_any_size_are_drawn_alike(coded, scale):
    """Their sum may be beyond the largest number, or too small to divide by."""
    data = coded(0, [4])
    plain, scaled = (
        running([k * np.array([1.0, 0.0, 0.5, 1.0])], [Source(data, data.rewards, True)]) for k in (1, scale)
    )
    np.testing.assert_allclose(scaled, plain, atol=4)


def test_returns_weigh_by_hand(sources):
    # Returns of the main task: 0+1+2 = 3 and 3+4+5+6 = 18; what is shared earns nothing.
    pool = share(*sources, rewards="zero", weights="returns:temperature=0.5")
    assert pool.info.weights == "returns:temperature=0.5"
    counts = np.diff(np.asarray(pool.weights, np.int64), prepend=0)
    by_hand = np.repeat(np.exp(np.array([3, 18, 0, 0, 0]) / 18 / 0.5), [3, 4, 5, 2, 2])
    np.testing.assert_allclose(counts / counts.sum(), by_hand / by_hand.sum(), rtol=1e-6)


def test_doubted_dynamics_weigh_less(sources, monkeypatch):
    def checks(main, candidates, seed):
        found = [("different", 1e-9), ("same", 0.4)]
        return [dynamics.Check(d.name, v, p, 0, 0, "", 1, 9) for d, (v, p) in zip(candidates, found, strict=True)]

    monkeypatch.setattr(dynamics, "checks", checks)
    pool = share(*sources, rewards="zero", weights="dynamics:floor=0.25")
    counts = np.diff(np.asarray(pool.weights, np.int64), prepend=0)
    np.testing.assert_allclose(counts / counts[0], [1] * 7 + [0.25] * 5 + [1] * 4, rtol=1e-6)
    assert pool.info.weights == "dynamics:floor=0.25,seed=0"
    again = share(*sources, rewards="zero", weights=dynamics.DynamicsWeights(0.25))
    assert np.array_equal(again.weights, pool.weights) and again.info.weights == pool.info.weights


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ([np.ones(7)], DataError, "weights of 1 datasets were given for 3"),
        ([np.ones(7), np.ones(4), np.ones(4)], DataError, r"weights of task-1 have shape \[4\]; \[5\] is needed"),
        ([np.ones(7), -np.ones(5), np.ones(4)], DataError, r"weights of task-1, transition 0: -1\.0"),
        ([np.ones(7), np.zeros(5), np.ones(4)], DataError, "all weights of task-1 are 0; leave it out"),
        ("best", ConfigError, "weights='best' is unknown"),
        ("returns:", ConfigError, "weights='returns:': write options as"),
        (
            "returns:speed=1",
            ConfigError,
            "weights='returns:speed=1': returns has no option 'speed'",
        ),
        ("dynamics:seed=0.5", ConfigError, "weights='dynamics:seed=0.5': '0.5' is no value of seed"),
    ],
)
def test_weights_that_make_no_sense_are_refused(sources, weights, error, message):
    with pytest.raises(error, match=message):
        share(*sources, rewards="zero", weights=weights)


def test_what_weights_do_not_go_with(sources):
    with pytest.raises(ConfigError, match="leave out sampling"):
        share(*sources, rewards="zero", weights="returns", sampling="episodes")
    with pytest.raises(ConfigError, match="temperature is 0"):
        ReturnWeights(0)


@pytest.mark.parametrize(
    ("identity", "expected"),
    [("uniform", True), ("returns:temperature=0.2", True), ("dynamics:floor=0.05,seed=0", False),
     ("function:f@1f2e", False), ("arrays@1f2e", False), ("mine", False)],
)  # fmt: skip
def test_weights_that_a_run_can_make_again(identity, expected):
    assert can_be_remade(identity) is expected
