"""Fitted Q evaluation on problems whose values are known, and as a user types it."""

import functools

import numpy as np
import pytest

from utds import fitted
from utds.algorithms import UTDS
from utds.cli import main
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.fitted import FQE, Estimate
from utds.runs import Run
from utds.training import train

SMALL = {"members": 3, "width": 32, "layers": 1, "batch": 64, "tau": 0.1, "rate": 3e-3, "discount": 0.9}
DRIFT, PUSH = 0.8, 0.3  # s' = DRIFT·s + PUSH·a, reward s: a = −k·s is worth s/(1 − γ(DRIFT − PUSH·k))


def single_steps(states, actions, task="main") -> Dataset:
    """Transitions of the linear system, each an episode of its own, cut and not ended."""
    after = DRIFT * states + PUSH * actions
    return Dataset.from_arrays(
        states, actions, states[:, 0], next_observations=after, lengths=np.ones(len(states), int), task=task
    )


@pytest.fixture(scope="module")
def linear():
    """Own data starts at 0.2 … 1; shared data covers the rest."""
    random = np.random.default_rng(0)
    draw = lambda low, high, n=400: random.uniform(low, high, (n, 1))  # noqa: E731
    own, other = single_steps(draw(0.2, 1), draw(-1, 1)), single_steps(draw(-1, 0.2), draw(-1, 1), "other")
    return share(own, other, rewards=lambda o, a, n: o[:, 0])


def linear_policy(k):
    return lambda observations: np.clip(-k * observations, -1, 1)


def test_values_of_a_linear_system(linear):
    policies = {str(k): linear_policy(k) for k in (0.6, 0.0, 1.0, 0.3)}
    found = dict(fitted.ranked(policies, linear, steps=600, **SMALL))
    start = float(np.mean(np.asarray(linear.columns.observations)[np.asarray(linear.columns.rows)[:400], 0]))
    for k in (0.0, 0.3, 0.6, 1.0):
        expected = start / (1 - 0.9 * (DRIFT - PUSH * k))
        assert found[str(k)].mean == pytest.approx(expected, rel=0.1), k
        low, high = found[str(k)].interval
        assert low < found[str(k)].mean < high
    assert list(found) == ["0.0", "0.3", "0.6", "1.0"]  # the best first


def test_the_same_seed_gives_the_same_estimate(linear):
    estimates = [fitted.evaluate(linear_policy(0.5), linear, seed, steps=20, **SMALL).values for seed in (3, 3, 4)]
    assert estimates[0] == estimates[1] != estimates[2]


def test_constant_reward_is_its_sum_at_once():
    """Both ends of the reachable range are 1/(1 − γ): after one look at the rewards nothing is left to learn."""
    steps = np.zeros((20, 1))
    data = Dataset.from_arrays(steps, steps, np.ones(20), next_observations=steps, lengths=np.full(2, 10), task="main")
    assert fitted.evaluate(lambda o: o, share(data), steps=1, **SMALL).values == pytest.approx([10.0] * 3)


@pytest.mark.parametrize(
    ("rewards", "ends", "bounds"),
    [((-1, 2), False, (-10, 20)), ((0.5, 2), False, (5, 20)), ((0.5, 2), True, (0.5, 20)), ((-3, -1), True, (-30, -1))],
)
def test_values_stay_within_what_rewards_can_sum_to(rewards, ends, bounds):
    assert fitted._reachable(*rewards, 10, ends) == bounds


def test_every_member_draws_as_many_episodes_as_a_source_has():
    drawn = fitted._bootstrap([7, 1, 30], 50, seed=0)
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
    assert fitted.behaviour(share(data, data.with_rewards("other", np.ones(3)), rewards="zero"), 0.5) == 2.5


def test_senseless_options_are_refused():
    with pytest.raises(fitted.base.ConfigError, match="discount"):
        FQE(discount=1.0)


def test_evaluate_offline(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "data"))
    random = np.random.default_rng(0)
    data = single_steps(random.uniform(-1, 1, (50, 1)), random.uniform(-1, 1, (50, 1))).save("line/main")
    train(share(data), UTDS(members=2, width=8, layers=1, batch=8), seeds=2, steps=2, out=tmp_path / "run")
    monkeypatch.setattr(fitted, "evaluate_run", functools.partial(fitted.evaluate_run, steps=3, width=8))
    main(["evaluate", str(tmp_path / "run"), "--offline"])
    said = capsys.readouterr().out
    assert said.count("estimated value") == 2 and "discounted by 0.99" in said
    assert f"worth {data.rewards.mean():.2f} from their start states" in said and "ranks policies" in said

    single_steps(np.ones((5, 1)), np.ones((5, 1))).save("line/main", overwrite=True)
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate", str(tmp_path / "run"), "--offline"])
    assert "line/main is not the data that" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate", str(tmp_path / "run"), "--offline", "--env=CartPole-v1"])
    assert "leave out --env" in capsys.readouterr().err
    assert Run(tmp_path / "run").config["sources"][0]["digest"] == data.digest
