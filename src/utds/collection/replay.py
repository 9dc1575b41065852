"""The replay buffer of online collection: whole rounds in memory, batches of n-step transitions out of them."""

import jax.numpy as jnp
import numpy as np

from utds.collection import Collect
from utds.data.pool import Batch
from utds.domains.base import Domain
from utds.evaluation.rollout import Episodes


class Replay:
    """All rounds so far in memory, and batches of `n_step` transitions from them."""

    def __init__(self, domain: Domain, task: int, config: Collect, capacity: int) -> None:
        self._config, self._task, self._steps = config, task, domain.steps
        copies = (capacity * config.copies,)
        self._observations = np.empty((*copies, domain.steps + 1, domain.observation_size), np.float32)
        self._actions = np.empty((*copies, domain.steps, domain.action_size), np.float32)
        self._rewards = np.empty((*copies, domain.steps), np.float32)
        self._rounds = 0  # finished
        self._filled = 0  # steps of the current round

    def add_round(self, episodes: Episodes) -> None:
        rows = slice(self._rounds * self._config.copies, (self._rounds + 1) * self._config.copies)
        self._observations[rows], self._actions[rows] = episodes.observations, episodes.actions
        self._rewards[rows] = episodes.rewards[..., self._task]
        self._rounds, self._filled = self._rounds + 1, 0

    def add_step(self, t: int, episodes: Episodes) -> None:
        """Step t of the round under way, which `episodes` holds so far."""
        rows = slice(self._rounds * self._config.copies, (self._rounds + 1) * self._config.copies)
        self._observations[rows, t : t + 2] = episodes.observations[:, t : t + 2]
        self._actions[rows, t] = episodes.actions[:, t]
        self._rewards[rows, t] = episodes.rewards[:, t, self._task]
        self._filled = t + 1

    def statistics(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the observations of the finished rounds."""
        seen = self._observations[: self._rounds * self._config.copies].reshape(-1, self._observations.shape[-1])
        return seen.mean(axis=0, dtype=np.float64), seen.std(axis=0, dtype=np.float64)

    def sample(self, random: np.random.Generator, updates: int) -> Batch:
        """`updates` batches [U, B, …] for the learner."""
        return Batch(*map(jnp.asarray, self.draw(random, updates)))

    def draw(self, random: np.random.Generator, updates: int) -> tuple[np.ndarray, ...]:
        """The columns of `updates` batches, uniform over the windows of n steps that lie within an episode."""
        n, copies = self._config.n_step, self._config.copies
        windows = self._steps - n + 1  # of an episode
        drawn = random.integers(
            0,
            self._rounds * windows + max(0, self._filled - n + 1),
            size=(updates, self._config.batch_size),
        )
        row = drawn // windows * copies + random.integers(0, copies, size=drawn.shape)
        t = drawn % windows
        rewards = sum(self._config.discount**k * self._rewards[row, t + k] for k in range(n))
        return (
            self._observations[row, t],
            self._actions[row, t],
            rewards,
            np.zeros(drawn.shape, np.float32),  # nothing terminates
            self._observations[row, t + n],
            np.ones(drawn.shape, np.float32),  # all of it is the task's own
            np.zeros(drawn.shape, np.int32),
        )
