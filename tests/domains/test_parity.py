"""dm_control is the oracle: same start, same actions, equal observations, physics and rewards."""

import mujoco
import numpy as np
import pytest

from utds import domains
from utds.domains.base import quiet_import
from utds.domains.simulator import Simulator

suite = quiet_import("dm_control.suite")
manipulation = quiet_import("dm_control.manipulation")
tolerance = quiet_import("dm_control.utils.rewards").tolerance

OWN = {"walker": {"stand", "walk", "run"}, "quadruped": {"walk", "run"}}  # tasks that dm_control itself has


def flat(observation):
    return np.concatenate([np.ravel(v) for name, v in observation.items() if name != "target_position"])


def environment(domain, task, seed):
    """dm_control's environment, for a task it lacks one with the same dynamics; and an independent reward."""
    if domain == "jaco":
        env = manipulation.load("reach_site_features", seed=seed)
        return env, lambda physics: jaco_reward(physics, task)
    name = task if task in OWN[domain] else "walk"
    env = suite.load(domain, name, task_kwargs={"random": seed})
    if task in OWN[domain]:
        return env, env.task.get_reward
    return env, {"flip": flip, "jump": jump, "roll-fast": roll_fast}[task]


def flip(physics):
    mujoco.mj_subtreeVel(physics.model.ptr, physics.data.ptr)  # MuJoCo's own function rather than a sensor
    momentum = physics.named.data.subtree_angmom["torso", "y"]
    height, upright = physics.named.data.xpos["torso", "z"], physics.named.data.xmat["torso", "zz"]
    stand = (3 * tolerance(height, (1.2, np.inf), margin=0.6) + (1 + upright) / 2) / 4
    spin = tolerance(momentum, (5, np.inf), margin=5, value_at_margin=0, sigmoid="linear")
    return stand * (5 * spin + 1) / 6


def upright(physics):
    return tolerance(physics.torso_upright(), (1, np.inf), sigmoid="linear", margin=2, value_at_margin=0)


def jump(physics):
    height = physics.named.data.subtree_com["torso", "z"]
    return upright(physics) * tolerance(height, (1, np.inf), margin=1, value_at_margin=0.5, sigmoid="linear")


def roll_fast(physics):
    speed = np.linalg.norm(physics.torso_velocity())
    return upright(physics) * tolerance(speed, (5, np.inf), margin=5, value_at_margin=0.5, sigmoid="linear")


def jaco_reward(physics, task):
    x = -0.09 if task.endswith("left") else 0.09
    y = 0.09 if "top" in task else -0.09
    hand = physics.named.data.site_xpos["jaco_arm/jaco_hand/pinchsite"]
    return tolerance(np.linalg.norm(hand - [x, y, 0.001]), (0, 0.05), margin=0.05)


PAPER = [task_id for name in ("walker", "quadruped", "jaco") for task_id in domains.task_ids(domains.get(name))]


@pytest.mark.parametrize("task_id", PAPER)
def test_equals_dm_control(task_id):
    domain, task = domains.task(task_id)
    env, reward_of = environment(domain.name, task.name, seed=7)
    first = env.reset()
    centre, half = domain.action_range
    random = np.random.RandomState(3)
    with Simulator(domain, n=2) as simulator:
        start = env.physics.get_state()
        observations = simulator.set_physics(np.stack([start, start]))
        np.testing.assert_array_equal(observations[1], flat(first.observation))
        column = domain.tasks.index(task)
        for _ in range(domain.steps):
            action = random.uniform(-1, 1, domain.action_size)
            timestep = env.step(centre + half * action)
            observations, rewards = simulator.step(np.stack([-action, action]))
            np.testing.assert_array_equal(observations[1], flat(timestep.observation))
            np.testing.assert_array_equal(simulator.physics()[1], env.physics.get_state())
            assert rewards[1, column] == pytest.approx(reward_of(env.physics), abs=1e-12)
            if task.name in OWN.get(domain.name, ()):
                assert rewards[1, column] == timestep.reward


@pytest.mark.parametrize("name", ["walker", "quadruped"])
def test_start_states_are_dm_controls(name):
    """A generator in the same state draws the same start as dm_control's own environment."""
    domain = domains.get(name)
    env = suite.load(name, "walk", task_kwargs={"random": np.random.RandomState(11)})
    env.reset()
    np.testing.assert_array_equal(domain.start()(np.random.RandomState(11)), env.physics.get_state())


def test_jaco_start_states_are_dm_controls():
    domain = domains.get("jaco")
    env = manipulation.load("reach_site_features", seed=11)
    env.reset()
    np.testing.assert_array_equal(domain.start()(np.random.RandomState(11)), env.physics.get_state())


@pytest.mark.parametrize(
    ("name", "observation", "action"), [("walker", 24, 6), ("quadruped", 78, 12), ("jaco", 42, 9), ("pointmass", 4, 2)]
)
def test_sizes(name, observation, action):
    domain = domains.get(name)
    with Simulator(domain) as simulator:
        assert simulator.reset(0).shape == (1, observation) == (1, domain.observation_size)
    assert domain.model.nu == action == domain.action_size
