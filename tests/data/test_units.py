"""Action units: from the robot's to [-1, 1] and back, through a dataset, a pool, a run, an environment and ONNX."""

import json
import shutil

import gymnasium
import numpy as np
import onnx
import onnxruntime
import pytest

import utds
from utds.data import store
from utds.data.columns import bounds_text, parse_bounds
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.errors import ConfigError, DataError
from utds.evaluation import evaluate_env
from utds.files import read_json, write_json

LOW, HIGH = (-90.0, 0.0), (90.0, 5.0)  # degrees and volts


def recorded(seed: int = 0, low=LOW, high=HIGH, **metadata) -> Dataset:
    """A robot whose right action is 45 degrees and 4 volts, recorded with some noise."""
    random = np.random.default_rng(seed)
    raw = np.clip([45.0, 4.0] + random.normal(size=(60, 2)) * [2.0, 0.05], low, high)
    states = random.normal(size=(63, 3))
    about = {"task": "robot-walk"} | metadata
    return Dataset.from_arrays(states, raw, np.zeros(60), lengths=[20] * 3, action_bounds=(low, high), **about)


def test_scaled_by_hand():
    raw = np.array([[-90.0, 0.0], [0.0, 2.5], [90.0, 5.0], [45.0, 4.0]])
    data = Dataset.from_arrays(np.zeros((5, 1)), raw, np.zeros(4), action_bounds=(LOW, HIGH))
    np.testing.assert_allclose(data.actions, [[-1, -1], [0, 0], [1, 1], [0.5, 0.6]], rtol=1e-6)
    np.testing.assert_allclose(data.raw_actions, raw, rtol=1e-6)
    assert (data.metadata.action_low, data.metadata.action_high) == (LOW, HIGH)
    plain = Dataset.from_arrays(np.zeros((5, 1)), raw / 90, np.zeros(4), action_bounds=(-1, 1))
    assert plain.metadata.action_low == () and plain.raw_actions is plain.actions


def test_bounds_belong_to_the_content():
    data = recorded()
    kept = data.save("robot-walk/degrees")
    assert kept.metadata.action_low == LOW and kept.digest == data.digest and store.verify(kept.name)
    unscaled = Dataset.from_arrays(data.observations, data.actions, data.rewards, lengths=[20] * 3, task="robot-walk")
    assert unscaled.digest != data.digest


def test_bounds_found_in_the_data_have_a_margin_and_say_so():
    raw = np.array([[0.0, 3.0], [10.0, 3.0]])
    data = Dataset.from_arrays(np.zeros((3, 1)), raw, np.zeros(2), action_bounds="auto", description="logs")
    assert data.metadata.action_low == (-0.5, 0.0) and data.metadata.action_high == (10.5, 6.0)
    assert data.metadata.description == "logs; action bounds found from the data, with a margin of 5%"
    np.testing.assert_allclose(data.actions, [[-10 / 11, 0], [10 / 11, 0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((-40, 40), r"actions, row \d+ \(episode 0, step \d+\), feature 0: .* lies outside the bounds \[-40, 40\]"),
        ((0, 0), "are no range"),
        ((0, np.inf), "are no range"),
        (90, r"action bounds 90 are no range; give \(low, high\) or 'auto'"),
        (("low", "high"), "are no range; give"),
        (((0, 0, 0), 1), r"bounds of shape \[3\] don't fit 2 actions"),
    ],
)
def test_bounds_that_cannot_be_are_refused(bounds, message):
    with pytest.raises(DataError, match=message):
        Dataset.from_arrays(np.zeros((61, 1)), recorded().raw_actions, np.zeros(60), action_bounds=bounds)


def test_actions_that_are_no_array_are_refused_with_bounds_too():
    with pytest.raises(DataError, match="actions is no array; give rows of equally many numbers"):
        Dataset.from_arrays(np.zeros((3, 1)), [[0, 1], [2]], [0, 0], action_bounds=(-1, 1))


def test_bounds_as_people_write_them():
    data = Dataset.from_arrays(np.zeros((3, 1)), [[-45.0], [9.0]], np.zeros(2), action_bounds="-90:90")
    assert data.actions[:, 0].tolist() == [-0.5, np.float32(0.1)] and data.metadata.action_high == (90.0,)
    assert parse_bounds("-90:90") == ((-90.0,), (90.0,)) and parse_bounds("-90,0:90,5") == (LOW, HIGH)
    assert bounds_text(LOW, HIGH) == "[-90 0, 90 5]" and bounds_text((), ()) == "[-1, 1]"
    assert bounds_text((-2.0, -2.0), (2.0, 2.0)) == "[-2, 2]"
    for wrong in ("90", "a:b", "1:2:3", "--1:2", "-:2"):
        with pytest.raises(ConfigError, match="action bounds"):
            parse_bounds(wrong)


def test_other_bounds_are_not_shared():
    with pytest.raises(DataError, match=r"robot-walk has actions in \[-90 0, 90 5\] and robot-run in \[-90 -5, 90 5\]"):
        share(recorded(), recorded(low=(-90, -5), task="robot-run"), rewards="zero")


SEEN = []  # actions of the policy that an own evaluation was handed


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    algorithm = utds.make_algorithm("utds", preset="fast", width=8, num_critics=2, batch_size=16)
    pool = share(recorded())
    assert (pool.info.action_low, pool.info.action_high) == (LOW, HIGH)

    def evaluate(act):
        SEEN.append(act(np.ones((1, 3))))
        return {"return": 0.0}

    return utds.train(pool, algorithm, steps=3, out=tmp_path_factory.mktemp("runs") / "run", evaluate=evaluate)


def test_a_policy_speaks_the_robots_unit(run, tmp_path):
    from utds.training import act

    states = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    inside, raw = act(run.algorithm, run.policy(), states), run.act(states)
    assert np.abs(inside).max() <= 1
    np.testing.assert_allclose(raw, [0, 2.5] + inside * [90, 2.5], rtol=1e-5, atol=1e-5)
    path = run.export(tmp_path / "policy.onnx", ensemble=True)
    session = onnxruntime.InferenceSession(str(path))
    found, gamma = session.run(["actions", "uncertainty"], {"observations": states})
    np.testing.assert_allclose(found, raw, rtol=1e-4, atol=1e-3)
    assert gamma.shape == (50,)
    about = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert json.loads(about["action_low"]) == list(LOW) and json.loads(about["action_high"]) == list(HIGH)
    assert about["actions"].startswith("in the robot's unit") and about["task"] == "robot-walk"
    assert run.config["action_low"] == list(LOW)


def test_runs_of_earlier_versions_still_open(run, tmp_path):
    recorded().save("robot-walk")
    folder = shutil.copytree(run.path, tmp_path / "run")
    config = read_json(folder / "config.json")
    for word in ("known", "learned", "zero"):
        old = {name: value for name, value in config.items() if not name.startswith("action_l")}
        old.pop("action_high")
        write_json(folder / "config.json", old | {"rewards": word})
        opened = utds.Run(folder)
        assert opened.pool().info.rewards == word and opened.act(np.zeros((1, 3))).max() <= 1
    write_json(folder / "config.json", config | {"rewards": "function"})
    with pytest.raises(ConfigError, match="not stored: give it"):
        utds.Run(folder).pool()
    assert utds.Run(folder).pool(rewards=lambda s, a, t: a[:, 0]).size == 60


def test_another_labelling_does_not_resume(run, tmp_path):
    pool = share(recorded(), recorded(1, task="robot-run"), rewards=utds.LearnedReward(2.0, 2, (4,), 2))
    options = {"steps": 2, "out": tmp_path / "learned", "evaluate": None, "log_every": 1}
    made = utds.train(pool, run.algorithm, **options)
    assert made.config["rewards"] == "learned:penalty=2.0,num_models=2,hidden=4,steps=2"
    other = share(recorded(), recorded(1, task="robot-run"), rewards=utds.LearnedReward(1.0, 2, (4,), 2))
    with pytest.raises(ConfigError, match=r"rewards='learned:penalty=2\.0.*not 'learned:penalty=1\.0"):
        utds.train(other, run.algorithm, resume=True, **options)
    config = json.loads((made.path / "config.json").read_text())
    write_json(made.path / "config.json", config | {"rewards": "learned:penalty=2.0,members=2,hidden=4,steps=2"})
    resumed = utds.train(pool, run.algorithm, resume=True, **options | {"steps": 4})  # of an earlier version
    assert resumed.finished and resumed.config["rewards"] == made.config["rewards"]


class Dial(gymnasium.Env):
    """One step; the reward is the first action as the environment gets it."""

    observation_space = gymnasium.spaces.Box(-9, 9, (3,), np.float32)
    action_space = gymnasium.spaces.Box(np.float32(LOW), np.float32(HIGH))

    def reset(self, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return np.zeros(3, np.float32), float(action[0]), True, False, {}


def test_environments_get_actions_in_their_unit_once(run):
    expected = run.act(np.zeros((1, 3), np.float32))[0, 0]
    assert run.evaluate(2, env=Dial()).mean == pytest.approx(expected, rel=1e-6)
    assert evaluate_env(lambda s: np.full((1, 2), 0.5), Dial(), 1).mean == 45  # a policy in [-1, 1] is scaled
    assert evaluate_env(lambda s: np.full((1, 2), 100.0), Dial(), 1, raw=True).mean == 90  # held within the box


def test_an_own_evaluation_sees_the_robots_unit(run):
    np.testing.assert_allclose(SEEN[-1], run.act(np.ones((1, 3))), rtol=1e-5, atol=1e-5)


def test_reward_functions_see_the_robots_unit():
    pool = share(recorded(), recorded(1, task="robot-run"), rewards=lambda s, a, t: a[:, 0])
    labels = np.asarray(pool.take(np.arange(pool.size)).rewards)[60:]
    np.testing.assert_allclose(labels, recorded(1).raw_actions[:, 0], rtol=1e-6)
