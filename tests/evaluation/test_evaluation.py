"""Evaluation against a plain loop, hand-computed statistics, and any Gymnasium environment."""

import contextlib
import math
import warnings
from dataclasses import replace
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import utds.domains
from utds import evaluation
from utds.errors import ConfigError, DomainError, MissingExtra
from utds.evaluation import Evaluation, rollout


def push_right(observations):
    return np.tile(np.float32([1, 0.2]), (len(observations), 1))


def test_equals_a_plain_loop_over_the_environment():
    domain = utds.domains.get("pointmass")
    found = evaluation.evaluate(push_right, "pointmass-reach-top-right", episodes=2, seed=5)
    env = gymnasium.make("utds/PointmassReachTopRight-v0").unwrapped
    for episode, expected in enumerate(found.returns):
        env.reset(seed=0)
        env._simulator.set_physics(domain.start_state(5, episode)[None])
        total = sum(env.step(push_right([0])[0])[1] for _ in range(domain.steps))
        assert total == pytest.approx(expected, rel=1e-12)


def test_episodes_do_not_depend_on_how_many_run_together(monkeypatch):
    together = evaluation.evaluate(push_right, "pointmass-reach-top-right", episodes=5, seed=1)
    monkeypatch.setattr(rollout, "LOCKSTEP", 2)
    apart = evaluation.evaluate(push_right, "pointmass-reach-top-right", episodes=5, seed=1, threads=1)
    assert together.returns == apart.returns
    other = evaluation.evaluate(push_right, "pointmass-reach-top-right", episodes=5, seed=2)
    assert set(other.returns).isdisjoint(apart.returns)


def test_statistics_by_hand():
    found = Evaluation("t", (1.0, 2.0, 3.0, 6.0), random_return=1.0, expert_return=5.0)
    assert found.mean == 3
    assert found.standard_error == pytest.approx(math.sqrt(14 / 3) / 2)
    assert found.interval[1] - 3 == pytest.approx(3.182446 * found.standard_error, rel=1e-5)  # t of 3 degrees, 97.5 %
    assert found.score == 50
    assert Evaluation("t", (1.0,)).score is None and math.isnan(Evaluation("t", (1.0,)).standard_error)
    assert evaluation.over_seeds([found, found]).returns == found.returns * 2


def test_an_interval_is_over_seeds_where_there_are_several():
    """Seeds at 100, 500 and 900: no number of episodes makes that sure. t of 2 degrees at 97.5 % is 4.302653."""
    seeds = [Evaluation("t", tuple(np.full(10, float(mean)))) for mean in (100, 500, 900)]
    found = evaluation.over_seeds(seeds)
    assert found.mean == 500 and found.samples == (100, 500, 900)
    assert found.standard_error == pytest.approx(400 / math.sqrt(3))
    assert found.interval == pytest.approx((500 - 4.302653 * 400 / math.sqrt(3), 500 + 4.302653 * 400 / math.sqrt(3)))
    assert str(found) == "t: 500.0 [-493.7, 1493.7] over 3 seeds, 10 episodes each"
    cut = evaluation.over_seeds([replace(seed, least_return=0.0) for seed in seeds])
    assert cut.interval[0] == 0 and cut.interval[1] == found.interval[1]


def test_one_episode_has_no_interval():
    found = Evaluation("t", (7.0,), least_return=0.0)
    assert str(found) == "t: 7.0 over 1 episode"
    assert "1 episode<" in found._repr_html_()


@pytest.mark.parametrize("name", ["pointmass", "walker", "quadruped", "jaco"])
def test_no_reward_falls_below_the_least(name):
    domain = utds.domains.get(name)
    rng = np.random.default_rng(0)
    states = np.stack([domain.start_state(0, copy) for copy in range(8)])
    moved = states + rng.normal(0, 1, states.shape)
    rewards = domain.rewards(np.concatenate([states, moved]), rng.uniform(-1, 1, (16, domain.action_size)))
    assert domain.least_reward == 0 <= rewards.min()


def test_next_to_nothing_is_written_without_a_sign():
    assert str(Evaluation("t", (-1e-6, 0.0))) == "t: 0.0 [0.0, 0.0] over 2 episodes"


class Counter(gymnasium.Env):
    """Rewards the action as the environment sees it; ends after three steps."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Box(np.float32([0, -2]), np.float32([10, 4]), dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 3
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.zeros(2, np.float32), float(action.sum()), self.left == 0, False, {}


def test_any_gymnasium_environment_with_actions_scaled_to_its_box():
    found = evaluation.evaluate_env(push_right, Counter(), episodes=2)
    assert found.returns == pytest.approx((3 * (10 + 1.6),) * 2)  # 1 -> 10; 0.2 -> 1 + 0.2·3
    env = Counter()
    env.action_space = gymnasium.spaces.Discrete(3)
    with pytest.raises(ConfigError, match="bounded box"):
        evaluation.evaluate_env(push_right, env)


@pytest.mark.parametrize(("raw", "expected"), [(False, 10 + 2), (True, 1 + 0)])
def test_actions_of_whole_numbers_are_the_nearest(raw, expected):
    """1 -> 10 and 0.2 -> 1 + 0.2·3 = 1.6; as they are, 1 and 0.2. In a box of two axes."""
    env = Counter()
    env.action_space = gymnasium.spaces.Box(np.array([[0], [-2]]), np.array([[10], [4]]), dtype=np.int64)
    assert evaluation.evaluate_env(push_right, env, episodes=1, raw=raw).returns == (3 * expected,)


def test_an_environment_that_was_made_of_its_id_is_closed(monkeypatch):
    closed = []
    monkeypatch.setattr(Counter, "close", lambda env: closed.append(env))
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    gymnasium.register("Counter-v0", entry_point=Counter, disable_env_checker=True)
    evaluation.evaluate_env(push_right, "Counter-v0", episodes=1)
    assert len(closed) == 1
    evaluation.evaluate_env(push_right, Counter(), episodes=1)
    assert len(closed) == 1  # one that was given may be used further


def test_wrong_input():
    with pytest.raises(ConfigError, match="at least 1"):
        evaluation.evaluate(push_right, "pointmass-reach-top-right", episodes=0)
    with pytest.raises(DomainError, match="no task"):
        evaluation.evaluate(push_right, "submarine-dive")
    assert evaluation.evaluator("submarine-dive") is None
    for judged in (evaluation.evaluate, evaluation.evaluate_env):
        with pytest.raises(ConfigError, match="seed=-1 must be at least 0"):
            judged(push_right, "pointmass-reach-top-right", seed=-1)


def test_observations_of_several_parts_are_refused():
    env = Counter()
    env.observation_space = gymnasium.spaces.Dict({"arm": Counter.observation_space})
    with pytest.raises(ConfigError, match="Counter has observations of several parts; wrap it in gymnasium"):
        evaluation.evaluate_env(push_right, env)


def test_recorded_episodes_hold_together():
    """Rewards and observations of a recording are those of the simulator put into the recorded physics."""
    domain = utds.domains.get("pointmass")
    found = rollout.record(domain, push_right, episodes=2, seed=3)
    reached = found.physics[:, 1:].reshape(-1, domain.state_size)
    again = domain.rewards(reached, found.actions.reshape(-1, 2)).reshape(found.rewards.shape)
    np.testing.assert_allclose(found.rewards, again, atol=1e-6)
    np.testing.assert_array_equal(found.observations, found.physics.astype(np.float32))  # (x, y, vx, vy) both


@pytest.mark.parametrize("name", ["Pendulm-v1", "nosuchmodule:Thing-v0", "Pendulum-v99"])
def test_an_environment_that_does_not_exist_is_one_line(name):
    with pytest.raises(ConfigError, match=f"can't make the environment '{name}': ") as found:
        evaluation.evaluate_env(push_right, name, episodes=1)
    assert "\n" not in str(found.value)


def test_a_video_is_written_without_the_warning_of_a_fork(monkeypatch, tmp_path):
    class Writer(list):
        append_data = list.append

        def __enter__(self):
            return self

        def __exit__(self, *_):
            warnings.warn("os.fork() was called. os.fork() is incompatible", RuntimeWarning, stacklevel=2)
            (tmp_path / "walk.mp4").write_text(str(len(self)))

    camera = SimpleNamespace(picture=lambda state: state, close=lambda: None)
    monkeypatch.setattr("utds.domains.gym.Camera", lambda *_: camera)
    monkeypatch.setattr("utds.evaluation.returns._writer", lambda part, fps: Writer())
    monkeypatch.setattr("utds.files.atomic", contextlib.nullcontext)
    task = "pointmass-reach-top-left"
    earned = evaluation.video(lambda observations: np.zeros((len(observations), 2)), task, tmp_path / "walk.mp4")
    assert (tmp_path / "walk.mp4").read_text() == "151" and earned >= 0  # a picture of every state


def test_what_cannot_be_filmed_is_refused_before_anything_is_simulated(monkeypatch, tmp_path):
    monkeypatch.setattr(rollout, "record", None)
    for name in ("film", "film.gif"):
        with pytest.raises(ConfigError, match=f"{name} is no name of a video: let it end in .mp4 or"):
            evaluation.video(push_right, "pointmass-reach-top-right", tmp_path / name)
    monkeypatch.setattr("importlib.util.find_spec", lambda module: None)
    with pytest.raises(MissingExtra, match="videos need imageio with ffmpeg"):
        evaluation.video(push_right, "pointmass-reach-top-right", tmp_path / "film.mp4")
