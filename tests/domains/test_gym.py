"""Every task as a Gymnasium environment, by Gymnasium's own checks."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import utds.domains
from utds.domains.gym import env_id
from utds.errors import ConfigError, MissingExtra, SimulationError

IDS = [env_id(utds.domains.get(name), task) for name in utds.domains.names() for task in utds.domains.get(name).tasks]


def test_ids():
    assert len(set(IDS)) == 16
    assert {"utds/WalkerWalk-v0", "utds/QuadrupedRollFast-v0", "utds/JacoReachTopLeft-v0"} <= set(IDS)
    assert set(IDS) <= set(gymnasium.registry)


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_an_id_with_its_module_needs_no_other_import():
    code = """
import gymnasium, sys
assert not any(name.partition(".")[0] == "utds" for name in sys.modules)
env = gymnasium.make("utds.domains:utds/WalkerWalk-v0")
print(env.spec.id, env.reset(seed=0)[0].shape, env.spec.to_json(), sep="\\n")
"""
    done = run(code)
    assert done.returncode == 0, done.stderr
    name, shape, spec = done.stdout.splitlines()
    assert (name, shape) == ("utds/WalkerWalk-v0", "(24,)")
    # A spec in JSON, as Minari keeps it beside a dataset, brings the environment back where utds isn't imported.
    code = f"""
import gymnasium
from gymnasium.envs.registration import EnvSpec
print(gymnasium.make(EnvSpec.from_json({spec!r})).reset(seed=0)[0].shape)
"""
    done = run(code)
    assert done.returncode == 0 and done.stdout == "(24,)\n", done.stderr


@pytest.mark.filterwarnings("ignore:.*infinity:UserWarning")  # velocities have no bound
@pytest.mark.parametrize("name", IDS)
def test_passes_gymnasiums_checks(name):
    env = gymnasium.make(name)
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_the_time_limit_truncates_and_never_terminates():
    env = gymnasium.make("utds/JacoReachTopLeft-v0")
    env.reset(seed=0)
    ends = [env.step(np.zeros(9, np.float32))[2:4] for _ in range(250)]
    assert ends[:-1] == [(False, False)] * 249 and ends[-1] == (False, True)


@pytest.mark.parametrize("name", IDS)
def test_vector_env_equals_its_single_envs_and_resets_itself(name):
    envs = gymnasium.make_vec(name, num_envs=3, vectorization_mode="vector_entry_point")
    observations, info = envs.reset(seed=5)
    again, _ = envs.reset(seed=5)
    np.testing.assert_array_equal(observations, again)
    assert observations in envs.observation_space
    envs.action_space.seed(0)
    observations, rewards, terminated, truncated, info = envs.step(envs.action_space.sample())
    assert observations in envs.observation_space
    assert rewards.shape == (3,) and not terminated.any() and not truncated.any()
    column = [env_id(d, t) for d in [envs.unwrapped._domain] for t in d.tasks].index(name)
    np.testing.assert_array_equal(rewards, info["rewards"][:, column])
    envs.close()


def test_vector_env_truncates_all_then_starts_anew():
    envs = gymnasium.make_vec("utds/PointmassReachTopLeft-v0", num_envs=2, vectorization_mode="vector_entry_point")
    first, _ = envs.reset(seed=1)
    actions = np.zeros((2, 2), np.float32)
    truncated = [envs.step(actions)[3].all() for _ in range(150)]
    assert truncated == [False] * 149 + [True]
    observations, rewards, _, after, _ = envs.step(actions)
    assert (rewards == 0).all() and not after.any()
    assert not np.array_equal(observations, first)  # other start states than the first episode's
    envs.close()


def test_bad_actions_are_one_clear_line():
    env = gymnasium.make("utds/WalkerWalk-v0", disable_env_checker=True)
    env.reset(seed=0)
    with pytest.raises(SimulationError, match="hold nan"):
        env.step(np.full(6, np.nan, np.float32))
    with pytest.raises(ConfigError, match="render_mode"):
        env.render()
    with pytest.raises(ConfigError, match="human"):
        utds.domains.gym.TaskEnv("walker", "walk", render_mode="human")


def test_renders_or_says_what_to_install():
    try:
        env = gymnasium.make("utds/PointmassReachTopLeft-v0", render_mode="rgb_array")
    except MissingExtra as error:
        assert "install EGL or OSMesa" in str(error) and "\n" not in str(error)
        return
    env.reset(seed=0)
    picture = env.render()
    assert picture.shape == (480, 480, 3) and picture.dtype == np.uint8
    assert picture.std() > 10  # something is drawn
    red = picture[..., 0].astype(int) - picture[..., 2]  # the mass is orange, all else grey
    row, column = np.unravel_index(red.argmax(), red.shape)
    assert row < 240 and column < 240  # it starts at the top left
    env.close()


def test_no_opengl_is_one_clear_line(monkeypatch):
    def missing(name):
        raise ImportError(f"no {name} here")

    monkeypatch.setattr("utds.domains.gym.importlib.import_module", missing)
    with pytest.raises(MissingExtra, match=r"no mujoco.egl here.*apt install"):
        utds.domains.gym.TaskEnv("walker", "walk", render_mode="rgb_array")
