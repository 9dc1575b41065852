"""Collection: what it records, what a kill leaves behind, and the kinds of data made from it."""

import json
import shlex
import shutil

import numpy as np
import pytest
import tyro

from utds import serialization
from utds.collection import Collect, kinds
from utds.collection.online import Collection, Replay
from utds.data import store
from utds.data.dataset import Dataset
from utds.errors import ConfigError, DataError
from utds.evaluation import rollout
from utds.evaluation.rollout import Episodes
from utds.networks import Layer, Normalizer

pytestmark = pytest.mark.usefixtures("tiny")
TASK = "tinymass-reach-top-left"
OPTIONS = {"copies": 4, "warmup": 160, "batch_size": 32, "width": 16, "evaluate_every": 320, "evaluation_episodes": 2}


def test_steps_that_end_before_the_warm_up_leave_the_folder_to_the_corrected_ones(tmp_path):
    with pytest.raises(ConfigError, match="steps=320 end before the warm-up of 10000 does"):
        Collection(tmp_path / "c", Collect(TASK, steps=320, **OPTIONS | {"warmup": 10_000}))
    assert not (tmp_path / "c").exists()
    Collection(tmp_path / "c", Collect(TASK, steps=320, **OPTIONS))


def test_replay_gives_n_step_transitions_within_episodes(tiny):
    config = Collect(TASK, copies=2, n_step=3, discount=0.9, batch_size=200)
    replay = Replay(tiny, 1, config, capacity=3)
    blocks = [numbered(tiny, 2, offset) for offset in (0, 1000)]
    replay.add_round(blocks[0])
    for t in range(10):  # a round under way: only its first ten steps count
        replay.add_step(t, blocks[1])
    batch = replay.sample(np.random.default_rng(0), 5)
    first, last = np.asarray(batch.observations)[..., 0], np.asarray(batch.next_observations)[..., 0]
    np.testing.assert_array_equal(last - first, 3)
    np.testing.assert_array_equal(np.asarray(batch.actions)[..., 0], first)
    np.testing.assert_allclose(batch.rewards, first + 0.9 * (first + 1) + 0.81 * (first + 2), rtol=1e-6)
    steps = np.unique(first)
    assert set(steps) <= {offset + 100 * copy + t for offset in (0, 1000) for copy in (0, 1) for t in range(38)}
    assert steps.max() == 1000 + 100 + 7  # three steps from there end at the last observation that there is


def numbered(domain, copies, offset):
    """Episodes whose every entry is offset + 100 · copy + step."""
    block = Episodes.empty(domain, copies)
    for column in block:
        ids = offset + 100 * np.arange(copies)[:, None] + np.arange(column.shape[1])
        column[:] = ids[..., None]
    return block


def test_collects_evaluates_and_makes_every_kind(tmp_path, capsys):
    config = Collect(TASK, steps=1280, seed=1, **OPTIONS)
    collection = Collection(tmp_path / "c", config)
    collection.run()
    lines = [line for line in capsys.readouterr().err.splitlines() if "return" in line]
    assert len(lines) > 1 and lines[0].startswith(f"{tmp_path / 'c'}: step 160 of 1280, return ")
    found = collection.ladder()
    assert found.steps[0] == 160 and len(found) >= 2 and found.total_steps == 1280
    assert found.command.startswith(f"utds collect {TASK} --steps 1280 --seed 1 --copies 4")
    found.save(tmp_path / "l.safetensors")
    again = kinds.load_ladder(TASK, tmp_path / "l.safetensors")
    assert (again.returns, again.steps, again.medium) == (found.returns, found.steps, found.medium)
    for kind in kinds.KINDS:
        stored = kinds.from_collection(collection, found, kind, episodes=8).save(f"{TASK}/{kind}")
        assert store.verify(stored.name).reward_error < 1e-6
        assert stored.episodes == 8 or kind == "medium-replay"
    rounds = [collection.load_round(i) for i in range(8)]
    everything = kinds.from_collection(collection, found, "replay", episodes=1000)
    np.testing.assert_array_equal(everything.actions.reshape(32, 40, 2), np.concatenate([r.actions for r in rounds]))
    made = kinds.generate(again, "replay", 6, seed=2)
    assert made.episodes == 6 and made.metadata.kind == "replay"
    np.testing.assert_array_equal(made.actions, kinds.generate(again, "replay", 6, seed=2).actions)


def test_random_unrolls_a_freshly_initialised_policy_per_episode(tmp_path, tiny):
    """Of the collector's architecture: without noise, each episode's actions are one untrained network's."""
    collection = Collection(tmp_path, Collect(TASK, steps=320, seed=1, **OPTIONS))
    collection.run()
    found = collection.ladder()
    act = found.fresh(3, seed=7)
    actors, normalizer = act.args
    trained = found.policies["actor"]
    assert [layer.weight.shape for layer in actors] == [(3, *layer.weight.shape[1:]) for layer in trained]
    assert [layer.gain is None for layer in actors] == [layer.gain is None for layer in trained]
    states = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    for i, state in enumerate(states):
        scaled = (state - normalizer.mean) / normalizer.std
        hidden = scaled
        for layer in actors[:-1]:
            hidden = hidden @ layer.weight[i] + layer.bias[i]
            hidden = (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-5) * layer.gain[i] + layer.offset[i]
            hidden = np.maximum(hidden, 0)
        expected = np.tanh(hidden @ actors[-1].weight[i] + actors[-1].bias[i])
        np.testing.assert_allclose(act(states)[i], expected, rtol=1e-4, atol=1e-5)
    made = kinds.generate(found, "random", 6, seed=2)
    np.testing.assert_array_equal(made.actions, kinds.generate(found, "random", 6, seed=2).actions)
    actions = made.actions.reshape(6, tiny.steps, 2)
    between, within = actions.mean(axis=1).std(axis=0), actions.std(axis=1).mean(axis=0)
    assert (between > 0.15).all() and (within < 0.3).all()  # uniform actions: 0.09 and 0.58


def test_uniform_is_uniform_and_random_of_earlier_versions_still_loads(tmp_path):
    """`random` used to be uniform actions. Such data keeps its kind, and is never taken for today's."""
    config = Collect(TASK, steps=320, seed=1, **OPTIONS)
    collection = Collection(tmp_path, config)
    collection.run()
    made = kinds.from_collection(collection, collection.ladder(), "uniform", 8)
    np.testing.assert_allclose(np.sort(made.actions.ravel()), np.linspace(-1, 1, made.actions.size), atol=0.1)
    described = {"task": TASK, "kind": "random", "description": made.metadata.description}  # as it then was
    old = Dataset.from_arrays(made.observations, made.actions, made.rewards, lengths=made.lengths, **described)
    assert store.load(old.save(f"{TASK}/random").name).metadata.kind == "random"
    assert not kinds.stored(config, "random", 8)
    kinds.from_collection(collection, collection.ladder(), "random", 8).save(f"{TASK}/random", overwrite=True)
    assert kinds.stored(config, "random", 8)


def test_other_options_in_the_same_folder_are_refused(tmp_path):
    Collection(tmp_path, Collect(TASK, **OPTIONS))
    with pytest.raises(ConfigError, match=r"noise=0.2, not 0.5; give the same options"):
        Collection(tmp_path, Collect(TASK, noise=0.5, **OPTIONS))
    Collection(tmp_path, Collect(TASK, steps=2_000_000, **OPTIONS))  # going on for longer is fine


def test_fewer_steps_than_are_recorded_are_refused(tmp_path):
    """Policies and a learner from beyond the end would count as the shorter collection's."""
    Collection(tmp_path, Collect(TASK, steps=480, **OPTIONS)).run()
    Collection(tmp_path, Collect(TASK, steps=960, **OPTIONS))
    with pytest.raises(ConfigError, match="holds more than the 320 steps asked for; give more --steps"):
        Collection(tmp_path, Collect(TASK, steps=320, **OPTIONS))
    Collection(tmp_path, Collect(TASK, steps=480, **OPTIONS))  # asking for more was a mistake


def test_the_command_of_a_collection_is_one_that_can_be_typed():
    config = Collect(TASK, layer_norm=False, share="my collections/jump", lr=1e-3)
    argv = shlex.split(config.command)
    assert argv[:2] == ["utds", "collect"] and "--share 'my collections/jump'" in config.command
    assert tyro.cli(Collect, args=argv[2:]) == config


def test_data_of_a_collection_without_layer_norm_by_an_earlier_version_is_known():
    config = Collect(TASK, layer_norm=False, **OPTIONS)
    told = kinds._collected(config, "uniform", 8).replace("--no-layer-norm", "--layer-norm False")
    made = Dataset.from_arrays(np.zeros((3, 2)), np.zeros((2, 2)), np.zeros(2), task=TASK, description=told)
    made.save(f"{TASK}/uniform")
    assert kinds.stored(config, "uniform", 8) and not kinds.stored(Collect(TASK, **OPTIONS), "uniform", 8)


def test_a_collection_of_an_earlier_version_goes_on(tmp_path):
    config, path = Collect(TASK, lr=1e-3, **OPTIONS), tmp_path / "config.json"
    Collection(tmp_path, config)
    written = json.loads(path.read_text())
    old = {{"batch_size": "batch", "lr": "rate"}.get(name, name): value for name, value in written.items()}
    path.write_text(json.dumps(old))
    with pytest.raises(ConfigError, match=r"lr=0.001, not 0.002"):
        Collection(tmp_path, Collect(TASK, lr=2e-3, **OPTIONS))
    Collection(tmp_path, config)
    assert json.loads(path.read_text()) == written
    told = kinds._collected(config, "uniform", 8).replace("--batch-size", "--batch").replace("--lr", "--rate")
    made = Dataset.from_arrays(np.zeros((3, 2)), np.zeros((2, 2)), np.zeros(2), task=TASK, description=told)
    made.save(f"{TASK}/uniform")
    assert kinds.stored(config, "uniform", 8)


@pytest.mark.parametrize(
    "wrong", ["copies=0", "steps=-1", "seed=-1", "noise=nan", "discount=1.5", "lr=inf", "evaluation_episodes=1"]
)
def test_options_that_make_no_sense_are_one_line(wrong):
    name, value = wrong.split("=")
    with pytest.raises(ConfigError, match=f"^{wrong} must lie between"):
        Collect(TASK, **{name: int(value) if value.lstrip("-").isdigit() else float(value)})
    with pytest.raises(ConfigError, match=r"steps=1000000\.0 must be a whole number"):
        Collect(TASK, steps=1e6)
    with pytest.raises(ConfigError, match="never learn"):
        Collect(TASK, copies=1, update_ratio=0.25)


def test_damaged_collections_are_one_line(tmp_path):
    config = Collect(TASK, steps=320, **OPTIONS)
    with pytest.raises(ConfigError, match="n_step=41 is more than the 40 steps"):
        Collection(tmp_path, Collect(TASK, n_step=41))
    Collection(tmp_path, config).run()

    def told(path: str, content: bytes) -> str:
        before = (tmp_path / path).read_bytes()
        (tmp_path / path).write_bytes(content)
        with pytest.raises((ConfigError, DataError)) as caught:
            again = Collection(tmp_path, config)
            again.run()
            again.ladder()
        (tmp_path / path).write_bytes(before)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "tells of no collection" in told("config.json", b"[]")
    assert "no valid JSON" in told("config.json", b"{")
    assert "is no recorded round" in told("rounds/00001.npz", b"PK")
    small = tmp_path / "small.npz"
    np.savez(small, **{name: np.zeros(3) for name in Episodes._fields})
    assert "observations has shape (3,), expected (4, 41, 4)" in told("rounds/00001.npz", small.read_bytes())
    assert "cut short or altered" in told("learner.safetensors", b"x" * 100)
    policy = (tmp_path / "policies/00000.safetensors").read_bytes()
    assert "another kind" in told("learner.safetensors", policy)
    assert "holds no return" in told("policies/00001.safetensors", policy.replace(b"return", b"retunr"))
    Collection(tmp_path, config).run()


def test_another_tasks_rounds_are_learnt_from_under_the_own_reward(tmp_path, tiny):
    other = "tinymass-reach-top-right"
    theirs = Collection(tmp_path / "theirs", Collect(TASK, steps=320, **OPTIONS))
    theirs.run()
    mine = Collection(tmp_path / "mine", Collect(other, steps=320, share=str(tmp_path / "theirs"), **OPTIONS))
    mine.run()
    task = [task.name for task in tiny.tasks].index("reach-top-right")
    rounds = [collection.load_round(i).rewards[..., task] for collection in (theirs, mine) for i in (0, 1)]
    np.testing.assert_array_equal(mine._replay._rewards, np.concatenate(rounds).astype(np.float32))
    assert f"--share {tmp_path / 'theirs'}" in mine.ladder().command
    assert kinds.from_collection(mine, mine.ladder(), "replay", episodes=100).episodes == 8  # its own alone


def test_only_a_collection_of_the_same_robot_can_be_shared(tmp_path):
    with pytest.raises(ConfigError, match="holds no recorded rounds to share"):
        Collection(tmp_path / "mine", Collect(TASK, share=str(tmp_path / "nowhere"), **OPTIONS))
    Collection(tmp_path / "theirs", Collect(TASK, steps=160, **OPTIONS)).run()
    cut = tmp_path / "cut"
    shutil.copytree(tmp_path / "theirs", cut)
    (cut / "rounds" / "00000.npz").write_bytes(b"")
    with pytest.raises(DataError, match=r"00000\.npz is no recorded round"):
        Collection(tmp_path / "mine", Collect(TASK, share=str(cut), **OPTIONS)).run()
    (cut / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="tells of no collection"):
        Collection(tmp_path / "other", Collect(TASK, share=str(cut), **OPTIONS))
    with pytest.raises(
        ConfigError, match=r"of tinymass-reach-top-left with copies=4; only .* with copies=5 can be shared"
    ):
        Collection(tmp_path / "mine", Collect(TASK, share=str(tmp_path / "theirs"), **OPTIONS | {"copies": 5}))


def test_rungs_come_nearest_to_equal_steps_of_return():
    returns = [0, 10, 5, 80, 40, 100, 90]
    assert kinds.choose(returns, best=5) == [0, 1, 3, 4, 5]  # levels 0, 12.5, … 100; none past the best
    assert kinds.choose(returns, best=3) == [0, 1, 3]  # one that fresh episodes preferred
    assert kinds.choose(list(range(0, 90, 10)), best=8) == list(range(9))
    about = dict.fromkeys(kinds._META) | {"returns": (10.0, 40.0, 56.0, 100.0)}
    assert kinds.Ladder(policies=None, **about).medium == 2


def test_the_best_policy_is_the_best_of_fresh_episodes(tmp_path):
    """Three policies that push one way each: only staying in the corner pays, though it was evaluated worst."""
    paths = []
    for name, push in {"right": [9, 0], "stay": [0, 0], "down": [0, -9]}.items():
        paths.append(tmp_path / f"{name}.safetensors")
        actor = (Layer(np.zeros((4, 2), np.float32), np.array(push, np.float32)),)
        normalizer = Normalizer(np.zeros(4, np.float32), np.ones(4, np.float32))
        serialization.save(paths[-1], {"normalizer": normalizer, "actor": actor}, {"steps": 0})
    assert kinds.best_of(TASK, paths, [50.0, 10.0, 30.0]) == 1


def test_missing_policies_and_wrong_kinds_are_one_line(tmp_path):
    with pytest.raises(DataError, match=f"utds collect {TASK}"):
        kinds.load_ladder(TASK)
    with pytest.raises(DataError, match=r"there is no file .*absent\.safetensors; give one that utds collect"):
        kinds.load_ladder(TASK, tmp_path / "absent.safetensors")
    about = dict.fromkeys(kinds._META, 0) | {"kind": "ladder", "task": TASK}
    for lacking in ({"noise"}, set()):  # the second has no policy
        path = tmp_path / "damaged.safetensors"
        serialization.save(path, {"x": np.zeros(1)}, {name: about[name] for name in about.keys() - lacking})
        with pytest.raises(DataError, match=r"damaged\.safetensors is damaged \(.*make it again with: utds collect"):
            kinds.load_ladder(TASK, path)
    with pytest.raises(ConfigError, match="no kind of data called 'mediun'"):
        kinds.checked(["mediun"])
    assert kinds.checked([]) == kinds.KINDS


def test_episodes_are_apportioned_by_largest_remainder():
    assert kinds._apportion(np.array([1, 1, 1]), 10) == [4, 3, 3]
    assert kinds._apportion(np.array([5, 0, 95]), 10) == [1, 0, 9]
    assert sum(kinds._apportion(np.array([0.3, 0.3, 7.7, 2.1]), 97)) == 97


def test_recording_is_reproducible(tiny):
    act = kinds._noisy(lambda o: np.zeros((len(o), 2), np.float32), tiny, 0.3, [1])
    again = kinds._noisy(lambda o: np.zeros((len(o), 2), np.float32), tiny, 0.3, [1])
    first, second = (rollout.record(tiny, a, 3, seed=4, exploration_start=True) for a in (act, again))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
