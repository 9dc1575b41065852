"""The point mass in its arena, as it is and altered, under random pushes."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from utds.collection import kinds
from utds.data import store
from utds.data.dataset import Dataset
from utds.evaluation import rollout

Push = Callable[..., Dataset]


@pytest.fixture(autouse=True)
def full_size(optimised) -> None:
    """The check of dynamics fits networks of 256 units."""


@pytest.fixture
def push(tiny) -> Push:
    """`push(seed, towards, damping, gear)`: 25 episodes of a mass drawn towards a corner, from all over the arena."""

    def record(
        seed: int = 0,
        towards: tuple[float, float] = (0.0, 0.0),
        damping: float = 1.0,
        gear: float = 1.0,
        task: str = "reach-top-left",
        episodes: int = 25,
    ) -> Dataset:
        def spec():
            made = tiny.spec()
            for joint in made.joints:
                joint.damping = np.array(joint.damping) * damping
            first = made.actuators[0]
            first.gear = np.array(first.gear) * gear
            return made

        random = np.random.default_rng(seed)

        def act(observations: np.ndarray) -> np.ndarray:
            drawn = 3 * (np.array(towards) - observations[:, :2])
            return np.clip(drawn + random.uniform(-1, 1, drawn.shape), -1, 1)

        robot = tiny if damping == gear == 1 else replace(tiny, spec=spec)
        block = rollout.record(robot, act, episodes, seed, exploration_start=True)
        return kinds.to_dataset(f"{tiny.name}-{task}", f"pushes-{seed}", [block], seed)

    return record


@pytest.fixture
def corners(push) -> dict[str, Dataset]:
    """Stored: main data about the middle, and two candidates: one goes where the reward is, one the other way."""
    made = {
        "own": push(0, task="reach-top-right"),
        "there": push(2, (0.1, 0.1)),
        "away": push(3, (-0.2, -0.2)),
    }
    for name, data in made.items():
        data.save(name)
    return {name: store.load(name) for name in made}
