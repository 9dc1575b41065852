"""Relabelling against what the simulator gave at collection, in every domain, and what is kept of it."""

import dataclasses
import functools
import hashlib
import re
import subprocess
import sys

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from scipy.spatial import KDTree, cKDTree

from utds import domains
from utds.data import cache, ids, labelling, store
from utds.data.dataset import Dataset
from utds.data.labelling import FunctionReward, Known
from utds.data.lake import Lake, share
from utds.data.reward_model import LearnedReward
from utds.domains import pointmass
from utds.errors import ConfigError, DataError

FIRST = [domains.task_ids(domains.get(name))[0] for name in ("walker", "quadruped", "jaco", "pointmass")]


@pytest.mark.parametrize("task", FIRST)
def test_physics_gives_the_rewards_of_the_collection(task, record):
    made = record(task, episodes=4, steps=50)
    names, table = labelling.from_physics(made)
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
    physical = Known().label(without(made, "task_rewards"), other)
    monkeypatch.setattr(labelling, "physics_passes", None)  # from here on, computing anything would fail
    assert np.array_equal(Known().label(made, other), made.task_rewards[:, 2])
    assert np.array_equal(Known().label(made, made.metadata.task), made.rewards)
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
    with pytest.raises(DataError, match=r"walker-run holds neither rewards of walker-walk nor.*as file\.py:name"):
        Known().label(bare, "walker-walk")
    with pytest.raises(DataError, match="neither rewards of walker-fly"):
        Known().label(record("walker-run"), "walker-fly")


def test_a_function_sees_rows_that_belong_together(coded):
    data = coded(0, [3, 5, 1])
    rewards = FunctionReward(lambda s, a, t: t[:, 0] * 1000 + s[:, 0] + a[:, 0] * 2**20).label(data, "mine")
    assert np.array_equal(rewards, (data.rows + 1) * 1000.0 + data.rows + np.arange(9))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda s, a, t: s, r"gave shape \[9, 2\] for 9 transitions"),
        (lambda s, a, t: 1.0, r"gave shape \[\] for 9"),
        (lambda s, a, t: np.where(np.arange(len(a)) == 4, np.nan, 0), "gave nan for transition 4"),
        (lambda s, a: s[:, 0], r"the reward function function:<lambda>@\w+ failed: TypeError: .* positional arguments"),
        (lambda s, a, t: s[:, 9], r"<lambda>@\w+, line \d+ failed: IndexError: index 9 is out of bounds"),
        (lambda s, a, t: np.array(["x"] * len(a)), "gave numbers of dtype <U1; it must give real ones"),
        (lambda s, a, t: 1j * s[:, 0], "gave numbers of dtype complex"),
    ],
)
def test_a_function_that_gives_nonsense_is_refused(coded, function, message):
    with pytest.raises(DataError, match=message):
        FunctionReward(function).label(coded(0, [3, 5, 1]), "mine")


def test_relabelled_datasets_keep_their_data(record):
    made = record("walker-walk")
    zero = labelling.relabel(made, "walker-run", "zero")
    assert zero.metadata.task == "walker-run" and not zero.rewards.any()
    assert zero.observations is made.observations
    run = labelling.relabel(made, "walker-run")
    assert np.array_equal(run.rewards, made.task_rewards[:, made.metadata.task_names.index("walker-run")])
    with pytest.raises(ConfigError, match="rewards='guess' is unknown"):
        labelling.relabel(made, "walker-run", "guess")
    with pytest.raises(ConfigError, match="needs the main task's own data"):
        labelling.relabel(made, "walker-run", "learned")


def test_results_are_kept_beside_the_dataset(record, monkeypatch):
    kept = without(record("pointmass-reach-top-left"), "task_rewards").save("pointmass-reach-top-left/random")
    task = kept.metadata.task_names[1]
    first = Known().label(kept, task)
    (file,) = (ids.folder(kept.name) / "relabelled").iterdir()
    passes = labelling.physics_passes
    monkeypatch.setattr(labelling, "physics_passes", None)
    assert np.array_equal(Known().label(store.load(kept.name), task), first)
    monkeypatch.setattr(labelling, "physics_passes", passes)
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])  # a damaged file is made again
    assert np.array_equal(Known().label(kept, task), first) and file.read_bytes() == whole
    file.write_bytes(whole[:300] + bytes([whole[300] ^ 1]) + whole[301:])
    assert np.array_equal(Known().label(kept, task), first)
    other = without(record("pointmass-reach-top-left", seed=9), "task_rewards")
    Known().label(other.save(kept.name, overwrite=True), task)
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


def test_verify_takes_large_rewards_as_float32_holds_them(record, monkeypatch):
    domain = domains.get("pointmass")
    large = dataclasses.replace(domain, reward=lambda features, actions: 1000 * domain.reward(features, actions))
    monkeypatch.setitem(domains._DOMAINS, "pointmass", large)
    made = record("pointmass-reach-top-left")
    assert made.rewards.max() > 100
    assert store.verify(made.save("pointmass-reach-top-left/large").name).reward_error < 1e-4
    wrong = np.array(made.rewards)
    wrong[7] *= 1 + 1e-5
    made.with_rewards(made.metadata.task, wrong).save("pointmass-reach-top-left/wrong")
    with pytest.raises(DataError, match="at transition 7 is off by 0"):
        store.verify("pointmass-reach-top-left/wrong")


def test_learned_rewards_can_be_doubted(coded):
    main, other = coded(0, [30] * 4), coded(1, [20] * 2, task="other")
    plain = LearnedReward(steps=30, hidden=(16,), num_models=3)
    found = plain.predict(other, main)
    assert found.std.min() > 0 and found.mean.shape == (40,)
    careful = LearnedReward(2.0, steps=30, hidden=(16,), num_models=3).label(other, "coded", main)
    np.testing.assert_allclose(careful, found.mean - 2 * found.std, rtol=1e-5)
    pool = share(main, other, rewards=plain)
    batch = pool.take(np.arange(pool.size))
    assert (
        np.array_equal(batch.rewards, np.concatenate([main.rewards, found.mean]))
        and pool.info.rewards == plain.identity
    )


def test_learned_rewards_are_kept_whatever_the_penalty(coded, monkeypatch):
    main, other = coded(0, [30] * 4).save("coded/main"), coded(1, [20] * 2, task="other").save("other/replay")
    model = LearnedReward(steps=30, hidden=(16,), num_models=3)
    found = model.predict(other, main)
    monkeypatch.setattr(LearnedReward, "fit", None)
    again = LearnedReward(5.0, steps=30, hidden=(16,), num_models=3).predict(other, main)
    assert np.array_equal(found.mean, again.mean) and found.correlation == again.correlation


def test_editing_a_domains_reward_or_a_helper_of_it_makes_new_labels(record, monkeypatch):
    kept = without(record("pointmass-reach-top-left"), "task_rewards").save("pointmass-reach-top-left/random")
    task = kept.metadata.task_names[1]
    first, domain = Known().label(kept, task), domains.get("pointmass")
    old = domain.reward
    edited = dataclasses.replace(domain, reward=lambda features, actions: 2 * old(features, actions))
    monkeypatch.setitem(domains._DOMAINS, "pointmass", edited)
    np.testing.assert_allclose(Known().label(kept, task), 2 * first, rtol=1e-6)
    monkeypatch.setitem(domains._DOMAINS, "pointmass", domain)
    assert np.array_equal(Known().label(kept, task), first)


def test_editing_the_model_file_of_ones_own_robot_makes_new_labels(record, monkeypatch, tmp_path):
    """The code that reads the file stays the same."""
    kept = without(record("pointmass-reach-top-left"), "task_rewards").save("pointmass-reach-top-left/random")
    path, made = tmp_path / "mine.xml", []
    domain = dataclasses.replace(
        domains.get("pointmass"),
        spec=lambda: mujoco.MjSpec.from_file(str(path)),
        reward=lambda features, actions: np.tile(features["at"][:, :1], 4),
    )
    for offset in (0.0, 1.0):
        xml = pointmass.XML.replace('<geom name="mass"', f'<site name="tip" pos="{offset} 0 0"/><geom name="mass"')
        path.write_text(
            xml.replace("<actuator>", '<sensor><framepos name="at" objtype="site" objname="tip"/></sensor><actuator>')
        )
        monkeypatch.setitem(domains._DOMAINS, "pointmass", dataclasses.replace(domain))  # as another process has it
        made.append(labelling.from_physics(kept)[1][:, 0])
    np.testing.assert_allclose(made[1], made[0] + 1, atol=1e-6)


SOURCE = """
import dataclasses
import functools
import re

import numpy as np
TARGET = {target}
def closeness(x):  {comment}
    return {body}
def unrelated():
    return {other}
def reach(observations, actions, next_observations):
    return closeness(next_observations[:, 0])
"""


def written(path, target="0.5", body="-abs(x - TARGET)", other="1", comment="") -> str:
    path.write_text(SOURCE.format(target=target, body=body, other=other, comment=comment))
    return f"{path}:reach"


def test_a_function_is_known_by_what_it_does(tmp_path):
    path = tmp_path / "rewards.py"
    plain = labelling.make(written(path)).identity
    assert plain.startswith(f"{path}:reach@")
    for same in ({"other": "2"}, {"comment": "# words"}):
        assert labelling.make(written(path, **same)).identity == plain
    for different in ({"target": "0.6"}, {"body": "-(x - TARGET) ** 2"}):
        assert labelling.make(written(path, **different)).identity != plain
    written(path)
    assert labelling.make(plain).identity == plain  # as configurations have it
    written(path, target="0.6")
    with pytest.raises(DataError, match=r"rewards\.py:reach changed"):
        labelling.make(plain)


HELPERS = """
import math
import numpy as np
SCALE = {scale}
class Shape:
    width = {width}
    def __init__(self, power):
        self.power = power
    @staticmethod
    def apply(x):
        return {body}
    def of(self, x):
        return x ** self.power
class Narrow(Shape):
    pass
NARROW = Narrow({power})
def shape(x):
    return -SCALE * abs(x)
def unrelated():
    return {other}
"""
PLAIN = {"scale": "1.0", "width": "2.0", "body": "-x", "power": "2", "other": "1"}
USES = {  # how a reward reaches a helper of another file, and what of the file matters to it
    "import helpers\nreach = lambda s, a, t: helpers.shape(t[:, 0])": {"scale"},
    "def reach(s, a, t):\n    import helpers\n    return helpers.shape(t[:, 0])": {"scale"},
    "from helpers import Shape\nreach = lambda s, a, t: Shape.apply(t[:, 0])": {"width", "body"},
    "import helpers\nreach = lambda s, a, t: helpers.Narrow.apply(t[:, 0])": {"width", "body"},
    "from helpers import NARROW\nreach = lambda s, a, t: NARROW.of(t[:, 0])": {"width", "body", "power"},
}


@pytest.mark.parametrize(("source", "matters"), USES.items())
def test_editing_a_module_or_a_class_that_a_function_uses_tells_it_apart(tmp_path, monkeypatch, source, matters):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a second edit within a second would go unseen
    (tmp_path / "rewards.py").write_text(source)

    def identity(**edits):
        (tmp_path / "helpers.py").write_text(HELPERS.format(**PLAIN | edits))
        sys.modules.pop("helpers", None)
        return labelling.make(f"{tmp_path}/rewards.py:reach").identity

    plain = identity()
    assert identity() == plain
    assert {name for name in PLAIN if identity(**{name: "7 * 3"}) != plain} == matters
    sys.modules.pop("helpers")


def test_captured_values_tell_functions_apart():
    def scaled(factor):
        return lambda s, a, t: factor * t[:, 0]

    names = [FunctionReward(scaled(factor)).identity for factor in (1.0, 2.0, np.ones(2), np.ones(3), 1.0)]
    assert len(set(names)) == 4 and names[0] == names[4] and all(n.startswith("function:<lambda>@") for n in names)
    partial = [FunctionReward(functools.partial(np.full, k)).identity for k in (1, 2)]
    assert partial[0] != partial[1]


class Slotted:
    __slots__ = ("goal",)


class Target(Slotted):
    """Has attributes too, and its goal isn't among them."""

    def __init__(self, goal, **more):
        self.goal = goal
        vars(self).update(more)


class Endless:
    """A copy of it would be made from another one, and so on."""

    def __reduce_ex__(self, protocol):
        return Endless, (Endless(),)


class Locked:
    def __reduce_ex__(self, protocol):
        raise TypeError("can't be copied")


@pytest.mark.parametrize(
    "make",
    [
        lambda i: jnp.array([0.5, float(i)]),
        lambda i: KDTree(np.full((50, 2), i)),
        lambda i: cKDTree(np.full((50, 2), i)),
        Target,
        lambda i: Target(i, scale=2.0),
    ],
)
def test_what_attributes_do_not_show_tells_functions_apart(make):
    values = [make(i) for i in (0, 1, 0)]
    names = [FunctionReward(lambda s, a, t, value=value: value).identity for value in values]
    assert names[0] == names[2] != names[1]


def test_values_that_have_no_end_or_cannot_be_copied_are_told_apart_by_themselves():
    for made in (Endless(), Locked()):
        rewards = [FunctionReward(lambda s, a, t, value=value: value) for value in (made, type(made)())]
        assert rewards[0].identity != rewards[1].identity


def test_digests_of_constants_are_the_same_in_every_process(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import jax.numpy as jnp\nimport numpy as np\nfrom scipy.spatial import KDTree\n"
        "GOAL, TREE = jnp.array([0.5, 0.5]), KDTree(np.arange(100.0).reshape(50, 2))\n"
        "def reach(s, a, t):\n    return TREE.query(t)[0] - np.asarray(GOAL)[0]\n"
    )
    code = f"from utds.data import labelling; print(labelling.make({str(path) + ':reach'!r}).identity)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert labelling.make(f"{path}:reach").identity == found.strip()


@pytest.mark.parametrize("rewards", ["zero", "goal:0=0.1,1=-0.2", lambda s, a, t: t[:, 0]])
def test_saved_labels_are_no_facts(record, rewards):
    made = record("pointmass-reach-top-left")
    task = made.metadata.task_names[1]
    main, bare = record(task, seed=1), without(made, "task_rewards", "physics")
    kept = labelling.relabel(made, task, rewards).save(f"{task}/labelled")
    assert kept.metadata.labelling == labelling.make(rewards).identity != "known"
    assert store.verify(kept.name).reward_error < 1e-6  # of the facts that it holds beside its labels
    assert np.array_equal(Known().label(kept, task), made.task_rewards[:, 1])
    lost = labelling.relabel(bare, task, rewards)
    assert not labelling.is_known(lost, task)
    with pytest.raises(DataError, match=r"are no facts but labels \(.*label both alike|holds no rewards of"):
        share(main, lost)
    if rewards == "zero":
        return
    alike = labelling.relabel(without(main, "task_rewards", "physics"), task, rewards)
    pool = share(alike, lost)  # both labelled alike: nothing is to be done
    assert np.array_equal(pool.take(np.arange(pool.size)).rewards, np.concatenate([alike.rewards, lost.rewards]))
    assert kept.digest != made.digest and dataclasses.replace(made.metadata).labelling == "known"


def test_learned_labels_say_what_they_were_learned_from(coded):
    main, other = coded(0, [30] * 4), coded(1, [20] * 2, task="other")
    model = LearnedReward(2.0, steps=3, hidden=(4,), num_models=2)
    made = labelling.relabel(other, "coded", model, main=main)
    assert made.metadata.labelling == f"learned:penalty=2.0,num_models=2,hidden=4,steps=3 from {main.digest[:16]}"
    assert labelling.make(model.identity) == model


def test_learned_labels_of_earlier_versions_are_understood(coded):
    model = LearnedReward(2.0, num_models=2, hidden=(4,), steps=3, batch_size=8, lr=0.01)
    old = "learned:penalty=2.0,members=2,hidden=4,steps=3,batch=8,learning_rate=0.01"
    assert labelling.make(old) == model
    main, other = (
        coded(i, [3]).with_rewards("coded", np.ones(3, np.float32), f"{identity} from 1f2e")
        for i, identity in enumerate((old, model.identity))
    )
    assert labelling.carries(other, main) and labelling.carries(main, other)


def test_data_that_carries_the_reward_keeps_it_and_nothing_else_is_labelled(coded):
    main, same, other, idle = (coded(i, [3], task=t) for i, t in enumerate(("walk", "walk", "run", "turn")))
    seen = []

    def reward(observations, actions, next_observations):
        seen.append(int(observations[0, 0]) // 100_000)
        return np.full(len(actions), 7.0)

    lake, labels = Lake([main, same, other, idle]), FunctionReward(reward)
    pool = lake.pool(main, same, other, rewards=labels)
    assert seen == [2]
    batch = pool.take(np.arange(pool.size))
    assert batch.rewards.tolist() == [0, 1, 2, 10_000, 10_001, 10_002, 7, 7, 7]
    lake.pool(main, other, rewards=labels)
    assert seen == [2], "labels that are there are used again"


def test_main_data_without_rewards_is_labelled_like_the_rest(coded):
    states = np.arange(6.0)[:, None]
    main, other = (Dataset.from_steps(states, states / 9, lengths=[3, 3], task=task) for task in ("walk", "run"))
    pool = share(main, other, rewards="goal:0=2")
    assert np.asarray(pool.take(np.arange(8)).rewards).tolist() == [-1, 0, -2, -3] * 2
    for rewards, message in (("known", "walk holds no rewards of walk; choose a function as file.py:name, a goal"),
                             ("learned", "walk holds no rewards to learn from")):  # fmt: skip
        with pytest.raises(DataError, match=message):
            share(main, other, rewards=rewards)
    assert not np.asarray(share(main, other, rewards="zero").take(np.arange(8)).rewards).any()


def test_goals_give_distances_or_successes(coded):
    data = coded(0, [4])  # reaches (1, -1), (2, -2), (3, -3), (4, -4)
    near = labelling.make("goal:0=2,1=-1").label(data, "mine")
    np.testing.assert_allclose(near, -np.sqrt([1, 1, 5, 13]), rtol=1e-6)
    assert labelling.make("goal:0=2.5,radius=0.5").label(data, "mine").tolist() == [0, 1, 1, 0]
    with pytest.raises(DataError, match="the goal names feature 2, but observations of coded have features 0 to 1"):
        labelling.make("goal:2=1").label(data, "mine")


@pytest.mark.parametrize(
    "text", ["goal:", "goal:x=1", "goal:0", "goal:-1=2", "goal:0=nan", "goal:0=1,radius=0", "goal:0=1,radius=nan",
             "goal:0=1,radius=inf", "goal:0=0.5,0=9", "goal:0=0.5,00=9", "learned:penalty=1,penalty=2",
             "learned:depth=2",
             "learned:steps=many", "zero:1", "known:", "function:f@12", "file.txt:f"]
)  # fmt: skip
def test_labellings_that_make_no_sense_are_refused(text):
    with pytest.raises(ConfigError, match=re.escape(text)):
        labelling.make(text)


def test_a_file_that_is_called_as_a_library_is_told_apart_by_its_code_too(tmp_path):
    """A library's code isn't looked into, and an edit would have found the labels of the code before."""
    path = tmp_path / "random.py"
    plain = labelling.make(written(path)).identity
    assert labelling.make(written(path, target="0.6")).identity != plain
    assert labelling.make(written(path)).identity == plain
    assert plain.rpartition("@")[2] == labelling.make(written(tmp_path / "rewards.py")).identity.rpartition("@")[2]


def test_digests_stay_as_they_are_stored():
    """Such a built-in is among the members of every enumeration; runs and datasets keep digests in their files."""
    known = hashlib.sha256(b"tuple:builtin_function_or_method:None.__new__").hexdigest()
    assert cache.code_digest(object.__new__) == known


def test_a_file_may_hold_a_dataclass_and_its_folder_an_at_sign(tmp_path):
    folder = tmp_path / "a@b"
    folder.mkdir()
    (folder / "mine.py").write_text(
        "from __future__ import annotations\nimport dataclasses\nimport typing\n"
        "@dataclasses.dataclass\nclass Reach:\n    kind: typing.ClassVar[str] = 'near'\n    scale: float = 2.0\n"
        "    def __call__(self, s, a, t):\n        return self.scale * t[:, 0]\nreach = Reach()\n"
    )
    made = labelling.make(f"{folder}/mine.py:reach")
    assert labelling.make(made.identity).identity == made.identity
    with pytest.raises(DataError, match=r"mine\.py:reach changed"):
        labelling.make(f"{folder}/mine.py:reach@{'0' * 16}")


def test_labels_are_made_where_they_cannot_be_kept(record, monkeypatch):
    """A store that is shared is often read-only."""
    kept = without(record("pointmass-reach-top-left"), "task_rewards").save("pointmass-reach-top-left/random")
    folder = ids.folder(kept.name)
    (folder / "relabelled").write_text("no folder")  # for root, too, nothing can be written below
    labels = Known().label(kept, kept.metadata.task_names[1])
    np.testing.assert_array_equal(labels, Known().label(without(kept), kept.metadata.task_names[1]))


def test_labels_that_are_no_numbers_are_refused_by_their_row(record, monkeypatch):
    main, other = (without(record(f"pointmass-reach-{at}"), "task_rewards") for at in ("top-left", "top-right"))
    domain = domains.get("pointmass")
    old = domain.reward
    broken = dataclasses.replace(domain, reward=lambda f, a: np.where(f["qpos"][:, :1] < 9, np.nan, old(f, a)))
    monkeypatch.setitem(domains._DOMAINS, "pointmass", broken)
    with pytest.raises(DataError, match=r"labels of pointmass-reach-top-right, row 0 \(episode 0, step 0\): nan"):
        share(main, other)


def test_a_function_in_a_file_that_fails_is_named_with_its_line(tmp_path, coded):
    (tmp_path / "mine.py").write_text("def reach(s, a, t):\n    x = 0\n    return 1 / x\n")
    with pytest.raises(DataError, match=r"mine\.py:reach@\w+, line 3 failed: ZeroDivisionError: ") as caught:
        labelling.make(f"{tmp_path}/mine.py:reach").label(coded(0, [3]), "mine")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("code", "message"), [("x = 1", "has no function 'f'"), ("1 / 0", "ZeroDivisionError")])
def test_files_that_hold_no_function_are_refused(tmp_path, code, message):
    (tmp_path / "mine.py").write_text(code)
    with pytest.raises(DataError, match=message):
        labelling.make(f"{tmp_path}/mine.py:f")
