"""Shared data that seems to follow other dynamics, drawn less often in place of being refused."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from utds.adviser.dynamics import LEVEL, checks
from utds.data.weights import Source
from utds.errors import ConfigError


@dataclass(frozen=True)
class DynamicsWeights:
    """1 for the main data and what moves as it does; p / 0.05, at least `floor`, for data that the check doubts."""

    floor: float = 0.05  # weight of data that certainly moves otherwise
    seed: int = 0  # of the check's networks

    def __post_init__(self) -> None:
        if not 0 < self.floor <= 1:
            raise ConfigError(f"floor is {self.floor}; it lies above 0 and up to 1")

    @property
    def identity(self) -> str:
        return f"dynamics:floor={self.floor},seed={self.seed}"

    def __call__(self, sources: Sequence[Source]) -> list[np.ndarray]:
        main, others = sources[0].dataset, [source.dataset for source in sources[1:]]
        found = checks(main, others, seed=self.seed) if others else []
        doubted = [max(self.floor, check.p / LEVEL) if check.verdict == "different" else 1.0 for check in found]
        return [np.full(source.dataset.size, weight) for source, weight in zip(sources, [1.0, *doubted], strict=True)]
