"""Relabelling against what the simulator gave at collection, in every domain, and what is kept of it."""

import numpy as np
import pytest

from utds import domains
from utds.data import ids, relabel, store
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.data.reward_model import LearnedReward
from utds.errors import ConfigError, DataError

FIRST = [domains.task_ids(domains.get(name))[0] for name in ("walker", "quadruped", "jaco", "pointmass")]


@pytest.mark.parametrize("task", FIRST)
def test_physics_gives_the_rewards_of_the_collection(task, record):
    made = record(task, episodes=4, steps=50)
    names, table = relabel.from_physics(made)
    assert names == made.metadata.task_names
    np.testing.assert_allclose(table[:, names.index(task)], made.rewards, atol=1e-6, rtol=0)
    np.testing.assert_allclose(table, made.task_rewards, atol=1e-6, rtol=0)
    assert np.ptp(table, axis=1).max() > 1e-3, "the tasks must differ, or this shows nothing"


def without(dataset: Dataset, *columns: str) -> Dataset:
    kept = {name: dataset.column(name) for name in dataset.columns if name not in columns}
    return Dataset.checked(kept, dataset.lengths, dataset.metadata)


def test_known_rewards_come_from_the_column_or_else_from_physics(record, monkeypatch):
    made = record("pointmass-reach-top-left")
    other = made.metadata.task_names[2]
    physical = relabel.known(without(made, "task_rewards"), other)
    monkeypatch.setattr(relabel, "physics_passes", None)  # from here on, computing anything would fail
    assert np.array_equal(relabel.known(made, other), made.task_rewards[:, 2])
    assert np.array_equal(relabel.known(made, made.metadata.task), made.rewards)
    np.testing.assert_allclose(physical, made.task_rewards[:, 2], atol=1e-6, rtol=0)


def test_sharing_relabels_what_is_shared(record):
    main, other = record("walker-walk", seed=0), record("walker-run", seed=1)
    pool = share(main, other)
    batch = pool.take(np.arange(pool.size))
    walk = other.task_rewards[:, other.metadata.task_names.index("walker-walk")]
    assert np.array_equal(batch.rewards, np.concatenate([main.rewards, walk]))
    assert not np.array_equal(walk, other.rewards)


def test_unknown_rewards_say_what_can_be_done(record):
    bare = without(record("walker-run"), "task_rewards", "physics")
    with pytest.raises(DataError, match="walker-run holds neither rewards of walker-walk nor physics"):
        relabel.known(bare, "walker-walk")
    with pytest.raises(DataError, match="neither rewards of walker-fly"):
        relabel.known(record("walker-run"), "walker-fly")


def test_a_function_sees_rows_that_belong_together(coded):
    data = coded(0, [3, 5, 1])
    rewards = relabel.from_function(data, lambda s, a, t: t[:, 0] * 1000 + s[:, 0] + a[:, 0] * 2**20)
    assert np.array_equal(rewards, (data.rows + 1) * 1000.0 + data.rows + np.arange(9))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda s, a, t: s, r"gave shape \[9, 2\] for 9 transitions"),
        (lambda s, a, t: 1.0, r"gave shape \[\] for 9"),
        (lambda s, a, t: np.where(np.arange(len(a)) == 4, np.nan, 0), "gave nan for transition 4"),
    ],
)
def test_a_function_that_gives_nonsense_is_refused(coded, function, message):
    with pytest.raises(DataError, match=message):
        relabel.from_function(coded(0, [3, 5, 1]), function)


def test_relabelled_datasets_keep_their_data(record):
    made = record("walker-walk")
    zero = relabel.relabel(made, "walker-run", "zero")
    assert zero.metadata.task == "walker-run" and not zero.rewards.any()
    assert zero.observations is made.observations
    run = relabel.relabel(made, "walker-run")
    assert np.array_equal(run.rewards, made.task_rewards[:, made.metadata.task_names.index("walker-run")])
    with pytest.raises(ConfigError, match="rewards='guess' is unknown"):
        relabel.relabel(made, "walker-run", "guess")
    with pytest.raises(ConfigError, match="needs the main task's own data"):
        relabel.relabel(made, "walker-run", "learned")


def test_results_are_kept_beside_the_dataset(record, monkeypatch):
    kept = without(record("pointmass-reach-top-left"), "task_rewards").save("pointmass-reach-top-left/random")
    task = kept.metadata.task_names[1]
    first = relabel.known(kept, task)
    (file,) = (ids.folder(kept.name) / "relabelled").iterdir()
    passes = relabel.physics_passes
    monkeypatch.setattr(relabel, "physics_passes", None)
    assert np.array_equal(relabel.known(store.load(kept.name), task), first)
    monkeypatch.setattr(relabel, "physics_passes", passes)
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])  # a damaged file is made again
    assert np.array_equal(relabel.known(kept, task), first) and file.read_bytes() == whole
    file.write_bytes(whole[:300] + bytes([whole[300] ^ 1]) + whole[301:])
    assert np.array_equal(relabel.known(kept, task), first)
    other = without(record("pointmass-reach-top-left", seed=9), "task_rewards")
    relabel.known(other.save(kept.name, overwrite=True), task)
    assert [path.name != file.name for path in file.parent.iterdir()] == [True]  # other content, other name


def test_verify_recomputes_rewards(record):
    made = record("pointmass-reach-top-left")
    good = made.save("pointmass-reach-top-left/random")
    assert store.verify(good.name).reward_error < 1e-6
    wrong = np.array(made.rewards)
    wrong[7] += 0.01
    made.with_rewards(made.metadata.task, wrong).save("pointmass-reach-top-left/wrong")
    with pytest.raises(DataError, match=r"reward of pointmass-reach-top-left at transition 7 is off by 0\.01"):
        store.verify("pointmass-reach-top-left/wrong")


def test_learned_rewards_can_be_doubted(coded):
    main, other = coded(0, [30] * 4), coded(1, [20] * 2, task="other")
    plain = LearnedReward(steps=30, hidden=(16,), members=3)
    found = relabel.predicted(other, main, plain)
    assert found.std.min() > 0 and found.mean.shape == (40,)
    careful = relabel.rewards_for(other, "coded", LearnedReward(2.0, steps=30, hidden=(16,), members=3), main=main)
    np.testing.assert_allclose(careful, found.mean - 2 * found.std, rtol=1e-5)
    pool = share(main, other, rewards=plain)
    batch = pool.take(np.arange(pool.size))
    assert np.array_equal(batch.rewards, np.concatenate([main.rewards, found.mean])) and pool.info.rewards == "learned"


def test_learned_rewards_are_kept_whatever_the_penalty(coded, monkeypatch):
    main, other = coded(0, [30] * 4).save("coded/main"), coded(1, [20] * 2, task="other").save("other/replay")
    model = LearnedReward(steps=30, hidden=(16,), members=3)
    found = relabel.predicted(other, main, model)
    monkeypatch.setattr(LearnedReward, "fit", None)
    again = relabel.predicted(other, main, LearnedReward(5.0, steps=30, hidden=(16,), members=3))
    assert np.array_equal(found.mean, again.mean) and found.correlation == again.correlation
