"""The point mass by hand: rewards at chosen states, walls that hold, speeds that follow from mass and damping."""

import numpy as np
import pytest

from utds import domains
from utds.domains.pointmass import in_wall
from utds.domains.simulator import Simulator

DOMAIN = domains.get("pointmass")


def rewards(position, action):
    state = np.array([[*position, 0.0, 0.0]])
    return dict(zip(DOMAIN.task_names, DOMAIN.rewards(state, np.array([action], float))[0], strict=True))


def test_rewards_by_hand():
    assert rewards((0.15, 0.15), (0, 0))["reach-top-right"] == 1  # on the target, no effort
    assert rewards((0.15, 0.15), (1, -1))["reach-top-right"] == pytest.approx(0.8)  # full effort costs a fifth
    assert rewards((0.15, 0.15), (0.5, 0))["reach-top-right"] == pytest.approx((4 + (0.75 + 1) / 2) / 5)
    assert rewards((-0.15, 0.18), (0, 0))["reach-top-left"] == pytest.approx(1)  # on the edge of the radius
    far = rewards((-0.15, -0.15 + 0.13), (0, 0))["reach-bottom-left"]  # radius and margin away: a tenth
    assert far == pytest.approx(0.1)
    half = rewards((0.15, -0.15 + 0.08), (0, 0))["reach-bottom-right"]  # half a margin out: 0.1 ** (1/4)
    assert half == pytest.approx(0.1**0.25)


def push(start, action, steps):
    """The path [steps, 2] of a mass pushed one way."""
    with Simulator(DOMAIN) as simulator:
        simulator.set_physics([[*start, 0.0, 0.0]])
        path = []
        for _ in range(steps):
            simulator.step([action])
            path.append(simulator.physics()[0, :2])
    return np.array(path)


def test_walls_stop_the_mass():
    path = push((-0.1, 0.1), (0, -1), 60)  # down onto the horizontal wall: half width 0.02 and the mass's 0.01
    assert path[-1, 1] == pytest.approx(0.03, abs=2e-3)
    path = push((-0.1, 0.1), (1, 0), 60)  # right onto the vertical one
    assert path[-1, 0] == pytest.approx(-0.03, abs=2e-3)


def test_the_gap_lets_it_pass_and_the_joint_limit_holds():
    path = push((-0.2, 0.24), (1, 0), 120)  # above the end of the vertical wall at 0.18
    assert path[-1, 0] == pytest.approx(0.29, abs=2e-3)


def test_terminal_velocity_is_force_over_damping():
    with Simulator(DOMAIN) as simulator:
        simulator.set_physics([[-0.28, 0.24, 0.0, 0.0]])
        for _ in range(30):  # ten time constants m / c = 0.3 s
            simulator.step([[1, 0]])
        assert simulator.physics()[0, 2] == pytest.approx(0.2, rel=1e-3)


def test_exploration_starts_cover_the_arena_outside_the_walls():
    states = np.stack([DOMAIN.start_state(0, i, exploration_start=True) for i in range(400)])
    assert not any(in_wall(x, y) for x, y in states[:, :2])
    for corner in (states[:, :2] @ np.diag(signs) for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1))):
        assert 60 < (corner > 0.03).all(axis=1).sum() < 120  # a quarter each, give or take
    own = np.stack([DOMAIN.start_state(0, i) for i in range(200)])
    assert (own[:, 0] >= -0.29).all() and (own[:, 0] <= -0.15).all()
    assert (own[:, 1] >= 0.15).all() and (own[:, 1] <= 0.29).all()
