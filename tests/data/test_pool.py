"""Pools: rows that stay together, whose data is whose, uniform frequencies, stacks, statistics, refusals."""

from collections import Counter
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from utds.data.dataset import Dataset
from utds.data.labelling import Zero
from utds.data.lake import Lake, share
from utds.data.pool import Batch
from utds.errors import ConfigError, DataError

LENGTHS = ([3, 7, 2], [5, 5], [1, 9, 4, 6])


@partial(jax.jit, static_argnames=("size", "which"))
def draw(pool, key, size: int, which: str = "sample") -> Batch:
    return getattr(pool, which)(key, size)


@pytest.fixture
def sources(coded) -> list[Dataset]:
    return [coded(number, lengths) for number, lengths in enumerate(LENGTHS)]


def decoded(batch: Batch, datasets: list[Dataset]) -> list[tuple[int, int]]:
    """(dataset, transition) of each row of the batch, after checking that all its columns agree on it."""
    found = []
    batch = jax.tree.map(np.asarray, batch)
    for i, observation in enumerate(batch.observations):
        number, row = divmod(int(observation[0]), 100_000)
        step = round(float(batch.actions[i, 0]) * 2**20)
        data = datasets[number]
        assert observation[1] == -row and data.rows[step] == row
        assert np.array_equal(batch.next_observations[i], observation + np.array([1, -1]))
        assert batch.actions[i, 1] == -batch.actions[i, 0]
        assert batch.rewards[i] == 10_000 * number + step
        assert batch.terminations[i] == float(data.terminations[step])
        found.append((number, step))
    return found


def test_every_row_of_a_batch_belongs_together(sources):
    pool = share(*sources)
    batch = draw(pool, jax.random.key(0), 3000)
    found = decoded(batch, sources)
    numbers = np.array([number for number, _ in found])
    assert np.array_equal(batch.source, numbers)
    assert np.array_equal(batch.sources, np.eye(3)[numbers])
    assert np.array_equal(batch.own, (numbers == 0).astype(np.float32))
    assert set(found) == {(d, n) for d, lengths in enumerate(LENGTHS) for n in range(sum(lengths))}


def test_take_walks_through_the_pool_in_order(sources):
    pool = share(sources[1], sources[0], sources[2])
    batch = pool.take(jnp.arange(pool.size))
    order = [(d, n) for d in (1, 0, 2) for n in range(sum(LENGTHS[d]))]
    assert decoded(batch, sources) == order
    assert np.array_equal(batch.source, [(1, 0, 2).index(d) for d, _ in order])


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("sampling", ["transitions", "episodes"])
def test_next_actions_are_the_episodes_own(sources, sampling, n_step):
    pool = share(*sources, sampling=sampling)
    batch = pool.sample(jax.random.key(4), 2000, n_step, next_actions=True)
    assert draw(pool, jax.random.key(4), 10).next_actions is None
    ends = [np.cumsum(lengths) for lengths in LENGTHS]
    for number, step, known, action in zip(*_codes(batch), batch.continues, batch.next_actions, strict=True):
        end = next(end for end in ends[number] if end > step)
        assert known == (step + n_step < end)
        if known:
            assert np.array_equal(action, np.array([step + n_step, -step - n_step]) / 2**20)


@pytest.mark.parametrize(("which", "allowed"), [("sample", (0, 1, 2)), ("sample_own", (0,)), ("sample_shared", (1, 2))])
def test_transitions_are_uniform(sources, which, allowed):
    pool = share(*sources)
    counts = Counter(zip(*(x.tolist() for x in _codes(draw(pool, jax.random.key(1), 200_000, which))), strict=True))
    expected = {(d, n) for d in allowed for n in range(sum(LENGTHS[d]))}
    assert set(counts) == expected
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_episodes_then_steps(sources):
    pool = share(*sources, sampling="episodes")
    counts = Counter(zip(*(x.tolist() for x in _codes(draw(pool, jax.random.key(2), 200_000))), strict=True))
    episodes = sum(len(lengths) for lengths in LENGTHS)
    expected = {}
    for d, lengths in enumerate(LENGTHS):
        chances = np.repeat(1 / (episodes * np.array(lengths)), lengths)
        expected |= {(d, n): 200_000 * chance for n, chance in enumerate(chances)}
    assert stats.chisquare([counts[key] for key in expected], list(expected.values())).pvalue > 1e-3
    own = draw(pool, jax.random.key(3), 500, "sample_own")
    assert set(np.asarray(own.source).tolist()) == {0}


def _codes(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    codes = np.asarray(batch.observations[:, 0]).astype(int) // 100_000
    return codes, np.rint(np.asarray(batch.actions[:, 0]) * 2**20).astype(int)


def test_statistics_are_those_of_the_states_that_transitions_leave(sources):
    pool = share(*sources)
    states = np.concatenate([data.observations[data.rows] for data in sources]).astype(np.float64)
    np.testing.assert_allclose(pool.mean, states.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(pool.std, states.std(axis=0), rtol=1e-6)
    own = sources[0].observations[sources[0].rows].astype(np.float64)
    np.testing.assert_allclose(pool.own_mean, own.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(pool.own_std, own.std(axis=0), rtol=1e-6)
    rewards = np.concatenate([data.rewards for data in sources])
    assert (float(pool.reward_min), float(pool.reward_max)) == (rewards.min(), rewards.max())
    assert (pool.size, pool.shared_size, pool.observation_size, pool.action_size) == (42, 30, 2, 2)


def test_a_constant_feature_has_deviation_one():
    data = Dataset.from_arrays(np.full((5, 1), 1e4 + 0.1), np.zeros((4, 1)), np.zeros(4))
    assert share(data).std.tolist() == [1.0]


@pytest.fixture
def others(coded) -> list[Dataset]:
    """The same data, but each of its own task."""
    return [coded(number, lengths, task=f"task-{number}") for number, lengths in enumerate(LENGTHS)]


def test_zero_rewards_leave_the_own_ones(others):
    pool = share(*others, rewards="zero")
    batch = pool.take(jnp.arange(pool.size))
    assert np.array_equal(batch.rewards, np.where(batch.source == 0, np.arange(42), 0))
    assert (float(pool.reward_min), float(pool.reward_max)) == (0, 11)


def test_a_function_labels_the_shared_data_alone(others):
    pool = share(*others, rewards=lambda s, a, t: s[:, 0] - 2 * t[:, 0])
    batch = pool.take(jnp.arange(pool.size))
    shared = np.asarray(batch.source) > 0
    assert np.array_equal(batch.rewards[~shared], np.arange(12))
    assert np.array_equal(batch.rewards[shared], (batch.observations - 2 * batch.next_observations)[shared, 0])


def test_pools_of_one_lake_share_columns_and_compilation(sources):
    lake = Lake(sources, tasks=["coded"])
    first, second = lake.pool(sources[0], sources[1]), lake.pool(sources[0], sources[1], rewards="zero")
    assert first.columns.observations is second.columns.observations
    before = draw._cache_size()
    assert first.columns.rewards is second.columns.rewards
    draw(first, jax.random.key(0), 17)
    draw(second, jax.random.key(0), 17)
    assert draw._cache_size() == before + 1


def test_columns_are_used_in_place(sources):
    columns = share(*sources).columns
    for name in ("observations", "actions", "rows", "rewards"):
        array = getattr(columns, name)
        assert array.unsafe_buffer_pointer() % 64 == 0
    host = np.asarray(columns.observations)
    assert host.ctypes.data == columns.observations.unsafe_buffer_pointer()


def test_different_robots_are_refused_by_name(coded):
    main = coded(0, [3], id="a/x")
    with pytest.raises(DataError, match=r"a/x is of an unnamed domain and b/y of walker"):
        share(main, coded(1, [3], id="b/y", domain="walker"))
    wider = Dataset.from_arrays(np.zeros((4, 3)), np.zeros((3, 2)), np.zeros(3), task="coded", id="c/z")
    with pytest.raises(DataError, match=r"a/x has observations of 2 numbers and c/z of 3"):
        share(main, wider)


def test_what_cannot_be_pooled_says_why(coded):
    main, other = coded(0, [3], task="walk"), coded(1, [3], task="run", id="run/replay")
    with pytest.raises(DataError, match=r"run/replay holds neither rewards of walk nor physics"):
        share(main, other)
    with pytest.raises(DataError, match="unnamed task"):
        share(coded(0, [3], task="custom"), coded(1, [3], task="custom"))
    with pytest.raises(ConfigError, match="no shared data"):
        share(main).sample_shared(jax.random.key(0), 2)
    with pytest.raises(ConfigError, match="sampling='steps'"):
        share(main, sampling="steps")
    with pytest.raises(DataError, match="not in this lake"):
        Lake([main]).pool(other)
    with pytest.raises(ConfigError, match="rewards='true' is unknown"):
        share(main, other, rewards="true")

    class OfEpisodes(Zero):
        def label(self, dataset, task, main):
            return np.ones(dataset.episodes)

    with pytest.raises(DataError, match="labels of run/replay has 1 rows, but 1 episodes of 3 steps in all need 3"):
        share(main, other, rewards=OfEpisodes())


def test_a_pool_says_what_it_holds_in_one_line(sources):
    pool = share(*sources[:2], rewards="zero")
    names = [source.name for source in sources]
    assert repr(pool) == f"<Pool for {names[0]}: {names[0]} (12 transitions), {names[1]} (10 transitions)>"
