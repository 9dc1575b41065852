"""Small problems with known answers, learnt by every algorithm; and a bandit whose best-looking action has no data."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

from utds.algorithms import entries
from utds.algorithms.utds import uncertainty
from utds.networks import q_values
from utds.training import train

STEPS = 400  # enough for the numbers below
VALUED = [name for name in entries() if name != "bc"]


@pytest.fixture
def learn(tiny, problems, tmp_path):
    """`learn(algorithm, problem)`: the run."""
    return lambda name, problem: train(
        problems[problem], tiny(name), steps=STEPS, log_every=STEPS, out=tmp_path / "run"
    )


def q_at(run, observation, actions):
    """Q_n at one observation and several actions: [E, n]."""
    actions = jnp.asarray(actions, jnp.float32).reshape(-1, 1)
    observations = jnp.broadcast_to(jnp.asarray(observation, jnp.float32), (len(actions), 2))
    return q_values(run.policy().critic, observations, actions)


@pytest.mark.parametrize("name", VALUED)
def test_constant_reward(name, learn):
    run = learn(name, "constant")
    assert np.mean(q_at(run, [0.2, -0.3], np.linspace(-0.8, 0.8, 9))) == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("name", VALUED)
def test_chain(name, learn):
    run = learn(name, "chain")
    for place, value in (([-1, 0], 0.25), ([0, 1], 0.5), ([1, 0], 1.0)):
        assert np.mean(q_at(run, place, np.linspace(-0.8, 0.8, 9))) == pytest.approx(value, abs=0.1), place


@pytest.mark.parametrize("name", entries())
def test_bandit_beyond_the_data(name, learn):
    run = learn(name, "bandit")
    action = float(run.act(np.zeros((1, 2)))[0, 0])
    if name == "bc":
        assert action == pytest.approx(-0.2, abs=0.05)  # the data's mean
    elif name == "td3":
        assert action > 0.9  # nothing holds it back
    elif name in ("td3bc", "rebrac"):  # a + 0.2 = λ/2, λ = 0.2/|Q|, Q = a: the positive root of a² + 0.2 a − 0.1
        assert action == pytest.approx(0.2317, abs=0.1)
    elif name in ("sac-n", "edac"):  # of lines through the data the lowest still rises; along one axis all grow alike
        assert 0.3 < action < 0.9  # and entropy keeps it from the bound
    elif name in ("awac", "iql"):  # the mean under weights exp(5 a): u − λ + (u − l)/(exp((u − l)/λ) − 1), λ = 1/5
        assert action == pytest.approx(0.8 / np.expm1(4), abs=0.05)
    elif name in ("utds", "pbrl"):
        assert 0 < action < 0.3  # well above the data's mean, and with the data
    elif name in ("cql", "cds", "cds-zero", "uds"):
        assert -0.3 < action < 0.3  # with the data
    else:
        assert -1 < action < 1  # where it should be, its own tests say
    if name == "utds":
        gamma = uncertainty(q_at(run, [0, 0], [-0.2, 0.9]))
        assert gamma[1] > 3 * gamma[0]


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_pretanh_l2_draws_a_policy_from_the_bounds(weight, problems, tiny, tmp_path):
    """The best action maximises −(a + 0.4)² − weight·artanh(a)²."""
    run = train(problems["valley"], replace(tiny("td3"), pretanh_l2=weight), steps=2 * STEPS, out=tmp_path / "run")
    best = brentq(lambda a: (a + 0.4) * (1 - a**2) + weight * np.arctanh(a), -0.9, 0.9)
    assert float(run.act(np.zeros((1, 2)))[0, 0]) == pytest.approx(best, abs=0.03)
