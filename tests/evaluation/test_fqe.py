"""Fitted Q evaluation on problems whose values are known, against the truth on the point mass, and its coverage."""

import numpy as np
import pytest

from utds import domains
from utds.collection import kinds
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.errors import ConfigError
from utds.evaluation import fqe, rollout
from utds.evaluation.fqe import FQE, Estimate

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


def value(signs, horizon, discount=0.9, start=0):
    """Of a policy of the ring, step by step."""
    state, total = start, 0.0
    for step in range(horizon):
        total += discount**step * REWARDS[state]
        state = (state + (signs[state] > 0)) % 4
    return total


POLICIES = {
    "stay at the second": (1, -1, 1, 1),
    "stay": (-1, -1, -1, -1),
    "to the last": (1, 1, 1, -1),
    "round and round": (1, 1, 1, 1),
}


@pytest.mark.parametrize("horizon", [6, 60])
def test_values_of_a_ring(ring, horizon):
    found = FQE(steps=800, horizon=horizon, **SMALL).evaluate({n: policy(*s) for n, s in POLICIES.items()}, ring)
    assert list(found) == list(POLICIES)
    for name, signs in POLICIES.items():
        assert found[name].mean == pytest.approx(value(signs, horizon), abs=0.35), name
        low, high = found[name].interval
        assert low <= found[name].mean <= high


def noisy_rings(seed, episodes=40, horizon=6):
    """Episodes of random steps from any state of the ring, with noise on the rewards."""
    random = np.random.default_rng(seed)
    signs = random.choice([-1.0, 1.0], (episodes, horizon))
    moved = np.cumsum(np.append(np.zeros((episodes, 1)), signs > 0, axis=1), axis=1)
    states = (random.integers(0, 4, (episodes, 1)) + moved.astype(int)) % 4  # [E, H + 1]
    rewards = REWARDS[states[:, :-1]] + random.normal(0, 0.3, signs.shape)
    lengths = [horizon] * episodes
    return share(
        Dataset.from_arrays(
            np.eye(4)[states.ravel()], signs.reshape(-1, 1), rewards.ravel(), lengths=lengths, task="main"
        )
    )


def test_intervals_hold_the_value_in_most_repetitions():
    """Data drawn anew 20 times; the true value is a sum by hand, over start states that are equally likely."""
    signs = POLICIES["to the last"]
    judge, starts = FQE(steps=300, **SMALL | {"num_critics": 5}), range(4)
    truth = np.mean([value(signs, 6, start=start) for start in starts])
    found = [judge.evaluate({"a": policy(*signs)}, noisy_rings(seed), seed)["a"] for seed in range(20)]
    assert np.mean([estimate.mean for estimate in found]) == pytest.approx(truth, abs=0.15)
    assert sum(low <= truth <= high for low, high in (estimate.interval for estimate in found)) >= 16


def test_the_same_seed_gives_the_same_estimate(ring):
    judge, act = FQE(steps=20, horizon=5, **SMALL), {"a": policy(1, 1, 1, 1)}
    estimates = [judge.evaluate(act, ring, seed)["a"].values for seed in (3, 3, 4)]
    assert estimates[0] == estimates[1] != estimates[2]


def test_constant_reward_is_its_sum_at_once():
    """Both ends of the reachable range are Σ γᵗ: after one look at the rewards nothing is left to learn."""
    steps = np.zeros((20, 1))
    data = Dataset.from_arrays(steps, steps, np.ones(20), next_observations=steps, lengths=np.full(2, 10), task="main")
    found = FQE(steps=1, **SMALL).evaluate({"stay": lambda o: o}, share(data))["stay"]  # as long as recorded: 10 steps
    assert found.values == pytest.approx([(1 - 0.9**10) / 0.1] * 3)
    assert fqe.recorded(share(data), 0.9).mean == pytest.approx((1 - 0.9**10) / 0.1)


@pytest.mark.parametrize(
    ("rewards", "ends", "bounds"),
    [((-1, 2), False, (-10, 20)), ((0.5, 2), False, (5, 20)), ((0.5, 2), True, (0.5, 20)), ((-3, -1), True, (-30, -1))],
)
def test_values_stay_within_what_rewards_can_sum_to(rewards, ends, bounds):
    assert tuple(map(float, fqe._reachable(np.array(rewards, np.float32), ends, np.float32(10)))) == bounds


def test_every_critic_draws_as_many_episodes_as_a_source_has():
    drawn = fqe._bootstrap([7, 1, 30], 50, seed=0)
    assert drawn.shape == (50, 38)
    for part, count in ((drawn[:, :7], 7), (drawn[:, 7:8], 1), (drawn[:, 8:], 30)):
        assert np.all(part.sum(axis=1) == count)
    assert np.mean(drawn[:, 8:] == 0) == pytest.approx((1 - 1 / 30) ** 30, abs=0.03)


def test_the_interval_is_the_critics_spread_and_differences_are_paired():
    a, b = Estimate((1.0, 2.0, 3.0)), Estimate((0.5, 1.5, 2.5))
    assert a.mean == 2 and a.interval == pytest.approx((2 - 4.3027, 2 + 4.3027), abs=1e-3)  # t with 2 degrees
    assert fqe.difference(a, b).interval == pytest.approx((0.5, 0.5))
    assert fqe.mean([a, b]).values == (0.75, 1.75, 2.75)
    assert str(Estimate((1.25,))) == "1.25"


def test_intervals_are_cut_to_what_is_possible():
    a, b = Estimate((1.0, 2.0, 3.0), (0.0, 4.0)), Estimate((0.0, 0.0, 0.0), (0.0, 4.0))
    assert a.interval == (0, 4) and a.half_width == pytest.approx(4.3027, abs=1e-3)
    assert fqe.difference(a, b).interval == pytest.approx((2 - 4.3027, 4), abs=1e-3)  # from −4 to 4 is possible
    assert fqe.mean([a, b]).possible == (0, 4)
    pool = of_lengths([1, 2, 3, 1, 4, 9], [3, 3])
    assert fqe.possible(pool, 0.5, 3) == (1.75, 9 * 1.75)
    assert fqe.recorded(pool, 0.5).low == 1.75  # t with one degree reaches far below
    assert FQE(steps=1, **SMALL).evaluate({"a": lambda o: o}, pool)["a"].possible == pytest.approx(
        (1 + 0.9 + 0.81, 9 * 2.71)
    )


def of_lengths(rewards, lengths, terminations=None):
    states = np.zeros((sum(lengths) + len(lengths), 1))
    actions = np.zeros((sum(lengths), 1))
    return share(Dataset.from_arrays(states, actions, rewards, lengths=lengths, terminations=terminations, task="main"))


def test_recorded_episodes_count_over_the_same_horizon():
    pool = of_lengths([1, 2, 3, 1, 4, 9], [3, 3])
    assert fqe.horizon_of(pool) == 3
    found = fqe.recorded(pool, 0.5)
    returns = np.array([1 + 2 / 2 + 3 / 4, 1 + 4 / 2 + 9 / 4])
    assert found.mean == pytest.approx(returns.mean()) and found.episodes == 2
    half = 12.7062 * returns.std(ddof=1) / np.sqrt(2)  # t with one degree
    assert found.high == pytest.approx(min(returns.mean() + half, 9 * 1.75), rel=1e-4)
    assert fqe.recorded(pool, 0.5, horizon=1).mean == 1
    with pytest.raises(ConfigError, match="longer than any recorded episode, 3 steps"):
        fqe.recorded(pool, 0.5, horizon=4)


def test_episodes_that_were_cut_early_count_for_what_they_have_and_ended_ones_for_nothing_more():
    cut = of_lengths([1, 1, 1, 1, 5], [4, 1])  # the second was cut after a step: nobody knows what would have followed
    assert fqe.recorded(cut, 1.0, horizon=4).mean == 3 + 3
    ended = of_lengths([1, 1, 1, 1, 5], [4, 1], [0, 0, 0, 0, 1])  # it ended: what follows is nothing
    assert fqe.horizon_of(ended) == 4
    assert fqe.recorded(ended, 1.0).mean == (4 + 5) / 2
    returns = np.array([4.0, 5.0])
    assert fqe.recorded(ended, 1.0).high - 4.5 == pytest.approx(12.7062 * returns.std(ddof=1) / np.sqrt(2), rel=1e-4)


def test_senseless_options_are_refused(ring):
    with pytest.raises(ConfigError, match="discount"):
        FQE(discount=1.0)
    with pytest.raises(ConfigError, match="horizon"):
        FQE(horizon=0)
    for judged in (lambda: FQE().evaluate({}, ring, seed=-1), lambda: fqe.outside(policy(1), ring, seed=-1)):
        with pytest.raises(ConfigError, match="seed=-1 must be at least 0"):
            judged()


def test_a_policy_acts_as_a_simulator_would_take_it(ring):
    """What lies beyond ±1 is cut: critics have seen nothing there."""
    policies = {"within": policy(*POLICIES["to the last"]), "beyond": policy(*(9 * np.array(POLICIES["to the last"])))}
    found = FQE(steps=20, horizon=6, **SMALL).evaluate(policies, ring)
    assert found["within"] == found["beyond"]
    assert fqe.outside(policies["within"], ring) == fqe.outside(policies["beyond"], ring)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda o: np.zeros(len(o)), r"mine gives actions of shape \(400,\); \(400, 1\) is needed"),
        (lambda o: np.full((len(o), 1), np.nan), "mine gives actions that are no finite numbers"),
    ],
)
def test_a_policy_that_gives_no_actions_is_named(ring, act, message):
    with pytest.raises(ConfigError, match=message):
        FQE(steps=1, horizon=6, **SMALL).evaluate({"mine": act}, ring)


def test_outside_tells_a_policy_of_the_data_from_a_stranger():
    random = np.random.default_rng(0)
    states = random.uniform(-1, 1, (2010, 2))
    actions = np.clip(0.5 * states[:, :1] + random.normal(0, 0.05, (2010, 1)), -1, 1)
    kept = np.ones(2010, bool)
    kept[200::201] = False
    data = Dataset.from_arrays(states, actions[kept], np.zeros(2000), lengths=[200] * 10, task="main")
    pool = share(data)
    assert fqe.outside(lambda o: 0.5 * o[:, :1], pool) < 0.1
    assert fqe.outside(lambda o: -0.5 * o[:, :1], pool) > 0.5
    one = share(data.select([0]))  # a single episode: all that there is to compare with is itself
    assert fqe.outside(lambda o: 0.5 * o[:, :1], one) < 0.3


TASK, DISCOUNT = "pointmass-reach-top-left", 0.95


def test_intervals_hold_the_truth_on_the_point_mass():
    """A poor and a good policy of those that made the data; the truth is the simulator's, which no fit ever sees."""
    rungs, (domain, task) = kinds.load_ladder(TASK), domains.task(TASK)
    pool = share(kinds.generate(rungs, "replay", 40, seed=0))
    column, judged = domain.tasks.index(task), {"poor": 0, "good": len(rungs) - 1}
    judge = FQE(num_critics=5, width=64, steps=600, discount=DISCOUNT)
    found = judge.evaluate({name: rungs.act(rung) for name, rung in judged.items()}, pool)
    for name, rung in judged.items():
        rewards = rollout.record(domain, rungs.act(rung), 20, 777, exploration_start=True).rewards[:, :, column]
        truth = float(np.mean(rewards @ DISCOUNT ** np.arange(domain.steps)))
        low, high = found[name].interval
        assert low < truth < high, (name, truth, low, high)
        assert high - low < 10, name  # half of what rewards can sum to: wide enough to hold anything holds nothing
    assert fqe.difference(found["good"], found["poor"]).mean > 0


@pytest.mark.parametrize(
    ("numbers", "written"),
    [
        ((1.98, 4.5e-34, 5.78), "1.98 [0, 5.78]"),
        ((2e-5, 1e-5, 3e-5), "2e-05 [1e-05, 3e-05]"),
        ((0.0, 0.0, 0.0), "0 [0, 0]"),
        ((-0.0, -1.5, 1.5), "0 [-1.5, 1.5]"),
        ((3.25, float("nan"), float("nan")), "3.25"),
    ],
)
def test_values_in_words(numbers, written):
    assert fqe.text(*numbers) == written
