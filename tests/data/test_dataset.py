"""Datasets from arrays: every form that data comes in, and every fault named by its row."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from utds.data.build import Builder
from utds.data.columns import Episode
from utds.data.dataset import Dataset, best_tenth
from utds.errors import DataError


def arrays(**changes) -> dict:
    """Two episodes of 2 and 3 steps, the first of which terminates."""
    found = {
        "observations": np.arange(14.0).reshape(7, 2),
        "actions": np.linspace(-1, 1, 5)[:, None],
        "rewards": np.arange(5.0),
        "terminations": [False, True, False, False, False],
        "lengths": [2, 3],
    }
    return found | changes


@pytest.mark.parametrize("value", [np.nan, 1e300])
def test_a_bad_last_state_is_named_where_the_episode_does_not_chain(value):
    states = np.arange(12.0).reshape(6, 2)
    reached = states + 2
    reached[5, 0], reached[1] = value, 9  # the step after row 1 leaves another state
    with pytest.raises(DataError, match=r"next_observations, row 5 \(episode 0, step 5\), feature 0: (nan|inf)"):
        Dataset.from_arrays(states, np.zeros((6, 1)), np.zeros(6), next_observations=reached)


def test_columns_bounds_and_returns():
    data = Dataset.from_arrays(**arrays(), task="walk")
    assert (data.size, data.episodes, data.observation_size, data.action_size) == (5, 2, 2, 1)
    assert data.rows.tolist() == [0, 1, 3, 4, 5]
    assert data.starts.tolist() == [0, 2, 5]
    assert data.returns.tolist() == [0 + 1, 2 + 3 + 4]
    assert data.truncations.tolist() == [False, False, False, False, True]  # cut where no end is marked
    assert data.observations.dtype == np.float32 and data.physics is None
    second = data.episode(1)
    assert second.observations[:, 0].tolist() == [6, 8, 10, 12] and second.rewards.tolist() == [2, 3, 4]
    assert not second.terminated and data.episode(0).terminated


def test_next_observations_give_the_same_dataset():
    whole = Dataset.from_arrays(**arrays())
    before, after = whole.observations[whole.rows], whole.observations[whole.rows + 1]
    pairs = Dataset.from_arrays(
        before, whole.actions, whole.rewards, next_observations=after, terminations=whole.terminations
    )
    assert np.array_equal(pairs.observations, whole.observations)
    assert pairs.lengths.tolist() == [2, 3] and pairs.digest == whole.digest


def test_blocks_cross_episodes_rightly():
    data = Dataset.from_arrays(**arrays())
    for size in (1, 2, 3, 5, 100):
        before, after = [], []
        for where, observations, actions, following in data.blocks(size):
            assert np.array_equal(actions, data.actions[where])
            before.append(observations)
            after.append(following)
        assert np.array_equal(np.concatenate(before), data.observations[[0, 1, 3, 4, 5]])
        assert np.array_equal(np.concatenate(after), data.observations[[1, 2, 4, 5, 6]])


def test_arrays_of_the_right_dtype_are_not_copied_and_cannot_be_written():
    rewards = np.zeros(3, np.float32)
    data = Dataset.from_arrays(np.zeros((4, 1), np.float32), np.zeros((3, 1), np.float32), rewards)
    assert np.shares_memory(data.rewards, rewards)
    with pytest.raises(ValueError, match="read-only"):
        data.rewards[0] = 1


def broken(name: str, row: int, value: float) -> dict:
    values = np.array(arrays()[name], float)
    values[row] = value
    return {name: values}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (broken("observations", 4, np.nan), r"observations, row 4 \(episode 1, step 1\), feature 0: nan"),
        (broken("observations", 0, 1e39), r"observations, row 0 \(episode 0, step 0\), feature 0: inf"),
        (broken("rewards", 3, -np.inf), r"rewards, row 3 \(episode 1, step 1\): -inf"),
        (broken("actions", 2, 1.5), r"actions, row 2 \(episode 1, step 0\), feature 0: 1.5 lies outside \[-1, 1\]"),
        ({"rewards": np.zeros((5, 2))}, r"rewards has shape \[5, 2\]; \[n\] is needed"),
        ({"observations": np.zeros(7)}, r"observations has shape \[7\]; \[n, d\] is needed"),
        ({"observations": np.zeros((7, 0))}, r"observations has shape \[7, 0\]"),
        ({"actions": np.array([["a"]] * 5)}, r"actions has dtype <U1; give real numbers"),
        ({"rewards": np.array([1, None, 2, 3, 4], object)}, r"rewards has dtype object"),
        ({"rewards": np.zeros(4)}, r"terminations has 5 rows, but rewards has 4"),
        ({"actions": np.zeros((4, 1))}, r"actions has 4 rows, but 2 episodes of 5 steps in all need 5"),
        ({"observations": np.zeros((5, 2))}, r"observations has 5 rows.* need 7 \(one per step plus one per episode\)"),
        ({"physics": np.zeros((5, 3))}, r"physics has 5 rows.* need 7"),
        ({"lengths": [2, 2]}, r"rewards has 5 rows, but 2 episodes of 4 steps in all need 4"),
        ({"lengths": [5, 0]}, r"episode 1 has 0 steps"),
        ({"lengths": [2.5, 2.5]}, r"lengths must be a list of at least one whole number"),
        ({"terminations": [0, 1, 0, 0, 2]}, r"terminations, row 4: 2 is neither true nor false"),
        (
            {"terminations": [1, 0, 0, 0, 0]},
            r"row 0 \(episode 0, step 0\) is marked as an end, but the episode continues",
        ),
        ({"truncations": [0, 1, 0, 0, 0]}, r"row 1 \(episode 0, step 1\) is marked as terminated and as truncated"),
        ({"task_rewards": np.zeros((5, 2))}, r"task_rewards has 2 columns, but 0 task_names"),
        (
            {"next_observations": np.ones((5, 2)), "observations": np.zeros((5, 2))},
            r"doesn't chain.* row 0 \(episode 0",
        ),
        ({"next_observations": np.zeros((5, 3)), "observations": np.zeros((5, 2))}, r"next_observations has shape"),
    ],
)
def test_faults_are_named(changes, message):
    with pytest.raises(DataError, match=message):
        Dataset.from_arrays(**arrays(**changes))


def test_nothing_at_all_is_refused():
    with pytest.raises(DataError, match="rewards is empty"):
        Dataset.from_arrays(np.zeros((1, 2)), np.zeros((0, 1)), [])
    with pytest.raises(DataError, match="nothing was recorded"):
        Dataset.from_episodes([])


def test_recorded_episodes_must_be_alike():
    whole = Episode(np.zeros((3, 2)), np.zeros((2, 1)), np.zeros(2), physics=np.zeros((3, 4)))
    with pytest.raises(DataError, match="episode 1 has no physics, unlike the first"):
        Dataset.from_episodes([whole, whole._replace(physics=None)])
    with pytest.raises(DataError, match=r"episode 1: actions has rows of shape \[3\], but the first episode has \[1\]"):
        Dataset.from_episodes([whole, whole._replace(actions=np.zeros((2, 3)))])
    with pytest.raises(DataError, match="episode 0 has no step"):
        Builder().add(whole._replace(rewards=np.zeros(0)))


def test_each_recorded_episode_has_a_row_per_step():
    """Here the second one's rows too few make up for the first one's too many: every later row would be shifted."""
    long, short = (Episode(np.zeros((rows, 2)), np.zeros((3, 1)), np.zeros(3)) for rows in (5, 3))
    with pytest.raises(DataError, match="episode 0 has 5 rows of observations and 3 steps; 4 are needed"):
        Dataset.from_episodes([long, short])
    with pytest.raises(DataError, match="episode 0 has 2 rows of actions and 3 steps; 3 are needed"):
        Dataset.from_episodes([Episode(np.zeros((4, 2)), np.zeros((2, 1)), np.zeros(3))])


def test_episodes_are_selected_by_a_mask_too():
    data = Dataset.from_arrays(np.zeros((9, 1)), np.zeros((6, 1)), [1, 2, 3, 4, 5, 6], lengths=[2, 2, 2])
    assert data.select(data.returns > 5).returns.tolist() == [7, 11]
    with pytest.raises(DataError, match="a mask of 2 episodes doesn't fit the 3 of custom"):
        data.select(np.array([True, False]))


def test_a_single_task_may_be_named_by_a_word():
    data = Dataset.from_arrays(np.zeros((3, 1)), [[0], [0]], [0, 0], task_rewards=[[0], [0]], task_names="walk")
    assert data.metadata.task_names == ("walk",)
    with pytest.raises(DataError, match="observations is no array; give rows of equally many numbers"):
        Dataset.from_arrays([[1, 2], [3]], [[0]], [0])


def test_selected_episodes_and_rewards_of_another_task():
    data = Dataset.from_arrays(**arrays(), task="walk", seed=3)
    flipped = data.select([1, 0])
    assert flipped.rewards.tolist() == [2, 3, 4, 0, 1] and flipped.metadata.seed == 3
    other = data.with_rewards("run", np.full(5, 7.0))
    assert other.metadata.task == "run" and other.returns.tolist() == [14, 21]
    assert other.observations is data.observations and other.digest != data.digest
    with pytest.raises(DataError, match="there is no episode 2"):
        data.episode(2)


def test_the_digest_covers_every_column_the_bounds_and_the_identity():
    full = arrays(physics=np.ones((7, 2)), task_rewards=np.ones((5, 1)), task_names=("walk",), task="walk")
    digests = {Dataset.from_arrays(**full).digest}
    changes = [{name: np.array(full[name], float)} for name in ("observations", "actions", "rewards", "physics")]
    changes.append({"task_rewards": np.ones((5, 1))})
    for change in changes:
        (array,) = change.values()
        array.flat[3] = np.nextafter(np.float32(array.flat[3]), np.float32(-2))  # the last bit of one number
        digests.add(Dataset.from_arrays(**(full | change)).digest)
    for change in (
        {"terminations": [0, 1, 0, 0, 1]},
        {"task": "run"},
        {"kind": "expert"},
        {"seed": 1},
        {"domain": "x"},
    ):
        digests.add(Dataset.from_arrays(**(full | change)).digest)
    assert len(digests) == 1 + 5 + 5
    renamed = dataclasses.replace(Dataset.from_arrays(**full).metadata, id="a/b", description="words")
    same = Dataset.from_arrays(**(full | dataclasses.asdict(renamed)))
    assert same.digest in digests


dtypes = st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.int32, np.uint8, np.bool_, ">f4"])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_shape_length_and_dtype_survives(data):
    lengths = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    steps, rows = sum(lengths), sum(lengths) + len(lengths)
    widths = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))

    def array(shape, low=-100, high=100):
        dtype = np.dtype(data.draw(dtypes))
        if dtype.kind == "f":
            elements = hnp.from_dtype(dtype, min_value=low, max_value=high, allow_nan=False)
        elif dtype.kind == "b":
            elements = st.booleans()
        else:
            elements = st.integers(max(low, np.iinfo(dtype).min), min(high, np.iinfo(dtype).max))
        return data.draw(hnp.arrays(dtype, shape, elements=elements))

    given_arrays = (array((rows, widths[0])), array((steps, widths[1]), -1, 1), array(steps))
    found = Dataset.from_arrays(*given_arrays, lengths=lengths, task="any")
    for name, values in zip(("observations", "actions", "rewards"), given_arrays, strict=True):
        assert np.array_equal(found.column(name), values.astype(np.float32))
    again = Dataset.from_episodes((found.episode(i) for i in range(found.episodes)), task="any")
    assert again.digest == found.digest and again.lengths.tolist() == lengths


def test_logs_with_as_many_states_as_actions():
    states, index = np.arange(5.0)[:, None], [7, 7, 7, 4, 4]
    cut = Dataset.from_steps(states, states / 10, states, episode_index=index, task="walk")
    assert cut.lengths.tolist() == [2, 1] and cut.observations[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert cut.rewards.tolist() == [0, 1, 3] and cut.truncations.tolist() == [False, True, True]
    ended = Dataset.from_steps(states, states / 10, states, episode_index=index, terminations=[0, 0, 1, 0, 0])
    assert ended.lengths.tolist() == [3, 1] and ended.observations[:, 0].tolist() == [0, 1, 2, 2, 3, 4]
    assert ended.rewards.tolist() == [0, 1, 2, 3] and ended.terminations.tolist() == [False, False, True, False]
    bare = Dataset.from_steps(states, 90 * states, lengths=[5], action_bounds=(0, 360))
    assert bare.metadata.labelling == "zero" and not bare.rewards.any() and bare.raw_actions.max() == 270


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"episode_index": [0, 1, 0, 1, 1]}, "episode 0 isn't in one piece: its steps are shuffled"),
        ({"episode_index": [0, 0, 0, 0, 1]}, "episode 1 has one step, whose outcome wasn't logged"),
        ({"actions": np.zeros((4, 1))}, "observations has 5 rows and actions 4"),
        ({"rewards": np.zeros(4)}, "rewards has 4 rows"),
        ({"episode_index": [0, 0, 1]}, "rewards has 5 rows, but 2 episodes of 3 steps"),
    ],
)
def test_logs_that_cannot_be_right(changes, message):
    given = {"observations": np.zeros((5, 1)), "actions": np.zeros((5, 1)), "rewards": np.zeros(5)}
    with pytest.raises(DataError, match=message):
        Dataset.from_steps(**(given | changes))


@pytest.mark.parametrize(("returns", "expected"), [([3.0], 3), (range(9), 8), (range(10), 9), (range(11), 9.5)])
def test_the_best_tenth_is_rounded_up_to_whole_episodes(returns, expected):
    assert best_tenth(np.array(returns)[::-1]) == expected
