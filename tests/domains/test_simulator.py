"""The simulator: determinism, physics in and out, and bad input that leaves it usable."""

import numpy as np
import pytest

from utds import domains
from utds.domains.base import quiet_import, tolerance
from utds.domains.simulator import Simulator
from utds.errors import DomainError, SimulationError

original = quiet_import("dm_control.utils.rewards").tolerance


def run(name, threads, steps=20, n=5):
    random = np.random.default_rng(0)
    with Simulator(name, n, threads=threads) as simulator:
        simulator.reset(4)
        return [simulator.step(random.uniform(-1, 1, (n, simulator.domain.action_size))) for _ in range(steps)][-1]


@pytest.mark.parametrize("name", domains.names())
def test_same_seed_same_numbers_whatever_the_threads(name):
    (observations, rewards), (others, other_rewards) = run(name, threads=1), run(name, threads=3)
    np.testing.assert_array_equal(observations, others)
    np.testing.assert_array_equal(rewards, other_rewards)


def test_a_copy_starts_where_it_starts_however_many_there_are():
    with Simulator("walker", 2) as few, Simulator("walker", 6) as many:
        np.testing.assert_array_equal(few.reset(9), many.reset(9)[:2])
        assert not np.array_equal(many.reset(9)[0], many.reset(10)[0])


def test_physics_round_trip_continues_alike():
    with Simulator("quadruped", 3) as simulator:
        simulator.reset(0)
        simulator.step(np.full((3, 12), 0.3))
        states = simulator.physics()
        first = simulator.set_physics(states)
        np.testing.assert_array_equal(simulator.physics(), states)
        after = simulator.step(np.zeros((3, 12)))[0]
        np.testing.assert_array_equal(simulator.set_physics(states), first)
        np.testing.assert_array_equal(simulator.step(np.zeros((3, 12)))[0], after)


@pytest.mark.parametrize("name", domains.names())
def test_rewards_from_physics_equal_the_simulators(name):
    random = np.random.default_rng(1)
    with Simulator(name, 4) as simulator:
        simulator.reset(2, exploration_start=True)
        for _ in range(10):
            actions = random.uniform(-1.5, 1.5, (4, simulator.domain.action_size))  # clipped alike in both
            _, rewards = simulator.step(actions)
            np.testing.assert_allclose(simulator.domain.rewards(simulator.physics(), actions), rewards, atol=1e-12)


@pytest.mark.parametrize("sigmoid", ["gaussian", "linear", "quadratic"])
@pytest.mark.parametrize("margin", [0.0, 0.3, 2.0])
def test_tolerance_is_dm_controls(sigmoid, margin):
    x = np.random.default_rng(0).uniform(-5, 5, 200)
    expected = original(x, bounds=(-0.5, 1.0), margin=margin, sigmoid=sigmoid, value_at_margin=0.2)
    np.testing.assert_allclose(tolerance(x, -0.5, 1.0, margin, 0.2, sigmoid), expected, atol=1e-15)


def bad_actions(random, n, width):
    """A random kind of action array, and whether the simulator should take it."""
    good = random.uniform(-1, 1, (n, width))
    kind = random.integers(10)
    if kind == 0:
        good[random.integers(n), random.integers(width)] = random.choice([np.nan, np.inf, -np.inf])
        return good, False
    if kind == 1:
        return good[:, :-1], False
    if kind == 2:
        return good[: n - 1], False
    if kind == 3:
        return good[0], False
    if kind == 4:
        return good.astype(str), False
    if kind == 5:
        return good.astype(complex), False
    if kind == 6:
        return [[0.0] * width, [0.0]], False
    if kind == 7:
        return good > 0, False
    if kind == 8:
        return good * 10 ** random.uniform(0, 300), True  # out of range: clipped
    return random.choice([np.float32, np.int8, np.float16])(0) * good.astype(np.float32), True


def test_ten_thousand_bad_actions_leave_it_usable():
    random = np.random.default_rng(0)
    with Simulator("pointmass", 3, threads=1) as simulator:
        simulator.reset(0)
        for _ in range(10_000):
            before = simulator.physics()
            actions, fine = bad_actions(random, 3, 2)
            if fine:
                observations, rewards = simulator.step(actions)
                assert np.isfinite(observations).all() and np.isfinite(rewards).all()
            else:
                with pytest.raises(SimulationError, match="pointmass: actions"):
                    simulator.step(actions)
                np.testing.assert_array_equal(simulator.physics(), before)


def test_out_of_range_actions_are_clipped():
    with Simulator("walker", 2) as simulator:
        simulator.reset(0)
        observations, _ = simulator.step(np.stack([np.full(6, 7.0), np.full(6, 7.0)]))
        simulator.reset(0)
        np.testing.assert_array_equal(simulator.step(np.ones((2, 6)))[0], observations)


@pytest.mark.parametrize("name", ["walker", "quadruped", "jaco"])
def test_a_blow_up_is_reported_and_the_simulator_goes_on_after_a_reset(name, capfd):
    with Simulator(name, 3) as simulator:
        simulator.reset(0)
        states = simulator.physics()
        states[1, simulator.domain.model.nq :] = 1e12
        with pytest.raises(SimulationError, match="copy 1 blew up"):
            simulator.set_physics(states)
            for _ in range(50):
                simulator.step(np.zeros((3, simulator.domain.action_size)))
        with pytest.raises(SimulationError, match="reset"):
            simulator.step(np.zeros((3, simulator.domain.action_size)))
        simulator.reset(0)
        observations, rewards = simulator.step(np.zeros((3, simulator.domain.action_size)))
        assert np.isfinite(observations).all() and np.isfinite(rewards).all()


def test_states_must_be_finite_and_of_the_right_shape():
    with Simulator("walker", 2) as simulator:
        with pytest.raises(SimulationError, match=r"states of copy 1 hold nan in column 0"):
            simulator.set_physics([[0.0] * 18, [np.nan] * 18])
        with pytest.raises(SimulationError, match=r"\(2, 18\), got \(2, 17\)"):
            simulator.set_physics(np.zeros((2, 17)))
        with pytest.raises(SimulationError, match="before step"):
            simulator.step(np.zeros((2, 6)))


def test_wrong_names_and_numbers():
    with pytest.raises(DomainError, match="there is no domain 'walkr'"):
        Simulator("walkr")
    with pytest.raises(DomainError, match="has no task 'fly'"):
        domains.task("walker-fly")
    with pytest.raises(DomainError, match="there is no task 'walk'"):
        domains.task("walk")
    with pytest.raises(SimulationError, match="n=0"):
        Simulator("walker", 0)
    with pytest.raises(SimulationError, match="seed"), Simulator("pointmass") as simulator:
        simulator.reset(-1)
