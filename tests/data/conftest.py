"""Fixtures: a root of datasets of its own for every test, small recordings, and datasets that carry their row ids."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from utds import domains
from utds.data.columns import Episode
from utds.data.dataset import Dataset
from utds.domains.simulator import Simulator

Make = Callable[..., Dataset]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "datasets"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    return folder


@pytest.fixture
def record() -> Make:
    """`record("walker-walk", episodes, steps, seed)`: random actions, with physics and the rewards of all tasks."""

    def make(task_id: str, episodes: int = 2, steps: int = 20, seed: int = 0) -> Dataset:
        domain, task = domains.task(task_id)
        simulator = Simulator(domain, episodes, threads=1)
        random = np.random.default_rng(seed)
        observations, physics, actions, rewards = [simulator.reset(seed)], [simulator.physics()], [], []
        for _ in range(steps):
            actions.append(random.uniform(-1, 1, (episodes, domain.action_size)).astype(np.float32))
            seen, reward = simulator.step(actions[-1])
            observations.append(seen)
            rewards.append(reward)
            physics.append(simulator.physics())
        stacked = [np.stack(column, axis=1) for column in (observations, actions, rewards, physics)]
        own = domain.task_names.index(task.name)
        return Dataset.from_episodes(
            [Episode(o, a, r[:, own], False, p, r) for o, a, r, p in zip(*stacked, strict=True)],
            task=task_id,
            domain=domain.name,
            kind="random",
            seed=seed,
            task_names=domains.task_ids(domain),
        )

    return make


@pytest.fixture
def coded() -> Make:
    """`coded(d, lengths)`: every value of dataset d tells where it stands.

    Observation row r holds 10⁵·d + r in its first and −r in its second feature, action n holds n/2²⁰, reward n holds
    10⁴·d + n; all of these are exact in float32. Every second episode terminates.
    """

    def make(number: int, lengths: list[int], **metadata: object) -> Dataset:
        steps, rows = sum(lengths), sum(lengths) + len(lengths)
        row, step = np.arange(rows), np.arange(steps)
        ends = np.cumsum(lengths) - 1
        terminations = np.isin(step, ends[::2])
        return Dataset.from_arrays(
            np.stack([1e5 * number + row, -row], axis=1),
            np.stack([step, -step], axis=1) / 2**20,
            1e4 * number + step,
            terminations=terminations,
            lengths=lengths,
            **({"task": "coded"} | metadata),
        )

    return make
