"""Fitted Q evaluation on problems whose values are known, and as a user types it."""

import functools

import jax
import numpy as np
import pytest

from utds.algorithms import UTDS
from utds.cli import main
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.errors import ConfigError
from utds.evaluation import fqe
from utds.evaluation.fqe import FQE, Estimate
from utds.training import train
from utds.training.run import Run


@pytest.fixture(autouse=True, scope="module")
def quick_compilation():
    """Networks are tiny here: compiling is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


SMALL = {"num_critics": 3, "width": 32, "layers": 1, "batch_size": 64, "tau": 0.1, "lr": 3e-3, "discount": 0.9}
REWARDS = np.array([0.0, 0.2, 0.0, 1.0])  # of the state that is left: four states in a ring


def single_steps(states, actions, task="main") -> Dataset:
    """Steps in the ring, each an episode of its own, cut and not ended: a = 1 goes to the next state, a = −1 stays."""
    after = np.where(actions > 0, (states + 1) % 4, states)
    eye, ones = np.eye(4), np.ones(len(states), int)
    return Dataset.from_arrays(
        eye[states], actions[:, None], REWARDS[states], next_observations=eye[after], lengths=ones, task=task
    )


@pytest.fixture(scope="module")
def ring():
    """Own data starts in state 0; shared data has the other states."""
    random = np.random.default_rng(0)
    own, other = np.zeros(100, int), random.integers(1, 4, 300)
    signs = random.choice([-1.0, 1.0], 400)
    shared = single_steps(other, signs[100:], "other")
    return share(single_steps(own, signs[:100]), shared, rewards=lambda o, a, n: o @ REWARDS)


def policy(*signs):
    """Which way to go in each state."""
    return lambda observations: (observations @ np.array(signs, np.float32))[:, None]


POLICIES = {  # name: (what it does in each state, its value in state 0 at γ = 0.9)
    "stay at the second": (policy(1, -1, 1, 1), 0.9 * 0.2 / 0.1),
    "stay": (policy(-1, -1, -1, -1), 0.0),
    "to the last": (policy(1, 1, 1, -1), 0.9 * 0.2 + 0.9**3 / 0.1),
    "round and round": (policy(1, 1, 1, 1), (0.9 * 0.2 + 0.9**3) / (1 - 0.9**4)),
}


def test_values_of_a_ring(ring):
    found = dict(fqe.ranked({name: act for name, (act, _) in POLICIES.items()}, ring, steps=600, **SMALL))
    for name, (_, value) in POLICIES.items():
        assert found[name].mean == pytest.approx(value, abs=0.25), name
        assert found[name].interval[0] <= found[name].mean <= found[name].interval[1]
    assert list(found) == ["to the last", "round and round", "stay at the second", "stay"]  # the best first


def test_the_same_seed_gives_the_same_estimate(ring):
    act = policy(1, 1, 1, 1)
    estimates = [fqe.evaluate(act, ring, seed, steps=20, **SMALL).values for seed in (3, 3, 4)]
    assert estimates[0] == estimates[1] != estimates[2]


def test_constant_reward_is_its_sum_at_once():
    """Both ends of the reachable range are 1/(1 − γ): after one look at the rewards nothing is left to learn."""
    steps = np.zeros((20, 1))
    data = Dataset.from_arrays(steps, steps, np.ones(20), next_observations=steps, lengths=np.full(2, 10), task="main")
    assert fqe.evaluate(lambda o: o, share(data), steps=1, **SMALL).values == pytest.approx([10.0] * 3)


@pytest.mark.parametrize(
    ("rewards", "ends", "bounds"),
    [((-1, 2), False, (-10, 20)), ((0.5, 2), False, (5, 20)), ((0.5, 2), True, (0.5, 20)), ((-3, -1), True, (-30, -1))],
)
def test_values_stay_within_what_rewards_can_sum_to(rewards, ends, bounds):
    assert fqe._reachable(*rewards, 10, ends) == bounds


def test_every_member_draws_as_many_episodes_as_a_source_has():
    drawn = fqe._bootstrap([7, 1, 30], 50, seed=0)
    assert drawn.shape == (50, 38)
    for part, count in ((drawn[:, :7], 7), (drawn[:, 7:8], 1), (drawn[:, 8:], 30)):
        assert np.all(part.sum(axis=1) == count)
    assert np.mean(drawn[:, 8:] == 0) == pytest.approx((1 - 1 / 30) ** 30, abs=0.03)


def test_the_interval_is_the_members_spread():
    estimate = Estimate("main", (1.0, 2.0, 3.0), discount=0.9)
    assert estimate.mean == 2 and estimate.interval == pytest.approx((2 - 1.96, 2 + 1.96))
    assert estimate.level == pytest.approx(0.2)


def test_recorded_episodes_are_discounted_from_their_starts():
    zeros = np.zeros((5, 1))
    data = Dataset.from_arrays(zeros, zeros[:3], [1, 2, 3], lengths=[2, 1], task="main")
    assert fqe.behaviour(share(data, data.with_rewards("other", np.ones(3)), rewards="zero"), 0.5) == 2.5


def test_senseless_options_are_refused():
    with pytest.raises(ConfigError, match="discount"):
        FQE(discount=1.0)


def test_evaluate_offline(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "data"))
    random = np.random.default_rng(0)
    data = single_steps(random.integers(0, 4, 50), random.choice([-1.0, 1.0], 50)).save("ring/main")
    train(share(data), UTDS(num_critics=2, width=8, layers=1, batch_size=8), seeds=2, steps=2, out=tmp_path / "run")
    monkeypatch.setattr(fqe, "evaluate_run", functools.partial(fqe.evaluate_run, steps=3, width=8))
    main(["evaluate", str(tmp_path / "run"), "--offline"])
    said = capsys.readouterr().out
    assert said.count("estimated value") == 2 and "discounted by 0.99" in said
    assert f"worth {data.rewards.mean():.2f} from their start states" in said and "ranks policies" in said

    single_steps(np.ones(5, int), np.ones(5)).save("ring/main", overwrite=True)
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate", str(tmp_path / "run"), "--offline"])
    assert "ring/main is not the data that" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate", str(tmp_path / "run"), "--offline", "--env=CartPole-v1"])
    assert "leave out --env" in capsys.readouterr().err
    assert Run(tmp_path / "run").config["sources"][0]["digest"] == data.digest
