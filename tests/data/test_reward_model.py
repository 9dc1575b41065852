"""The learned reward: exact on what it can represent, good on walker's shared data, and aware of its limits."""

import numpy as np
import pytest
from scipy import stats

from utds import domains
from utds.data.columns import Episode
from utds.data.dataset import Dataset
from utds.data.labelling import Known
from utds.data.reward_model import LearnedReward
from utds.domains.simulator import Simulator
from utds.errors import ConfigError, DataError

pytestmark = pytest.mark.usefixtures("optimised")


def linear(episodes: int, seed: int, reach: float = 1.0) -> Dataset:
    """Random states within ±reach; the reward is s₀ − 2·s'₁ + a₀."""
    random = np.random.default_rng(seed)
    steps = 50 * episodes
    observations = random.uniform(-reach, reach, (steps + episodes, 2))
    actions = random.uniform(-1, 1, (steps, 1))
    rows = np.arange(steps) + np.repeat(np.arange(episodes), 50)
    rewards = observations[rows, 0] - 2 * observations[rows + 1, 1] + actions[:, 0]
    return Dataset.from_arrays(observations, actions, rewards, lengths=[50] * episodes, task="linear")


def test_a_linear_reward_is_found_and_doubt_grows_away_from_the_data():
    model = LearnedReward(steps=600, hidden=(64,)).fit(linear(20, 0))
    assert model.correlation > 0.999
    near, far = linear(5, 1), linear(5, 2, reach=5.0)
    mean, std = model.predict(near)
    assert np.sqrt(np.mean((mean - near.rewards) ** 2)) < 0.05
    assert model.error == pytest.approx(np.sqrt(np.mean((mean - near.rewards) ** 2)), rel=0.5)
    assert np.median(model.predict(far)[1]) > 5 * np.median(std)


def scripted(task: str, episodes: int, seed: int, drift: tuple[float, float]) -> Dataset:
    """Short episodes of walker as a replay buffer has them: upright or fallen, still or moving, gaits and noise."""
    domain, random, steps = domains.get("walker"), np.random.default_rng(seed), 25
    simulator = Simulator(domain, episodes)
    simulator.reset(seed)
    states = simulator.physics()
    upright = random.uniform(size=episodes) < 0.6
    states[upright, :3] = 0
    states[upright, 3:9] *= 0.3
    states[:, 9:] = random.normal(0, 0.5, (episodes, 9))
    states[upright, 9] += random.normal(drift[0], 1.5, upright.sum())  # speed along the ground
    states[upright, 11] += random.normal(drift[1], 1.0, upright.sum())  # spin
    observations, actions, rewards = [simulator.set_physics(states)], [], []
    scale, bias = random.uniform(0, 1, (episodes, 1)), random.normal(0, 0.3, (episodes, 6))
    pace, phase = random.uniform(0.02, 0.3, (episodes, 6)), random.uniform(0, 6, (episodes, 6))
    noise = np.zeros((episodes, 6))
    for step in range(steps):
        noise = 0.9 * noise + 0.3 * random.normal(size=noise.shape)
        actions.append(np.clip(scale * (bias + np.sin(pace * step + phase) + noise), -1, 1).astype(np.float32))
        seen, reward = simulator.step(actions[-1])
        observations.append(seen)
        rewards.append(reward)
    own = domain.task_names.index(task)
    columns = [np.stack(column, axis=1) for column in (observations, actions, rewards)]
    return Dataset.from_episodes(
        [Episode(o, a, r[:, own], task_rewards=r) for o, a, r in zip(*columns, strict=True)],
        task=f"walker-{task}",
        domain="walker",
        task_names=domains.task_ids(domain),
    )


def test_walker_rewards_of_shared_data():
    model = LearnedReward(steps=800).fit(scripted("walk", 800, 0, (1, 0)))
    assert model.correlation > 0.95
    for seed, (task, drift) in enumerate({"run": (2, 0), "flip": (0, 3), "stand": (0, 0)}.items(), start=1):
        shared = scripted(task, 100, seed, drift)
        truth = Known().label(shared, "walker-walk")
        mean, std = model.predict(shared)
        assert np.corrcoef(mean, truth)[0, 1] > 0.95
        assert stats.spearmanr(std, np.abs(mean - truth)).statistic > 0.2  # it doubts more where it errs more


def test_the_same_seed_learns_the_same():
    config = LearnedReward(steps=20, hidden=(8,), num_models=2)
    first, second = (config.fit(linear(4, 0)).predict(linear(2, 1)) for _ in range(2))
    assert np.array_equal(first, second)


def test_settings_that_make_no_sense():
    for name, value in (
        ("num_models", 1), ("penalty", -1.0), ("held_out", 0.0), ("hidden", (64, 0)), ("steps", 0), ("batch_size", 0),
        ("lr", 0.0), ("lr", float("nan")), ("seed", -1), ("seed", 2**32), ("steps", 1e3),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=name):
            LearnedReward(**{name: value})
    assert LearnedReward(seed=np.int64(3)).identity == "learned:seed=3"  # as a loop over np.arange gives it
    assert LearnedReward(hidden=[64, 32]) == LearnedReward(hidden=(64, 32)) and LearnedReward(hidden=8).hidden == (8,)
    with pytest.raises(DataError, match="at least two"):
        LearnedReward().fit(linear(1, 0))
