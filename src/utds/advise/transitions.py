"""State-actions of datasets as the adviser reads them: evenly spaced samples, and a scale common to all datasets."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from utds.data.dataset import Dataset
from utds.errors import DataError

Floats = NDArray[np.float32]

_CONSTANT = 1e-6  # deviation below which a feature counts as constant
_SCALE_ROWS = 20_000  # transitions of a dataset from which the common scale is taken


class Scale(NamedTuple):
    """What brings state-actions to zero mean and unit deviation: every dataset counts alike, however large."""

    mean: Floats  # [O + A]
    deviation: Floats  # [O + A]; 1 where a feature is constant

    def __call__(self, pairs: Floats) -> Floats:
        return (pairs - self.mean) / self.deviation


def spaced(size: int, count: int) -> NDArray[np.int64]:
    """`count` positions evenly spread over 0 … size−1; all of them where there are fewer."""
    return np.unique(np.linspace(0, size - 1, min(count, size)).round().astype(np.int64))


def pairs(dataset: Dataset, index: NDArray[np.int64]) -> Floats:
    """State-actions [n, O + A] of these transitions."""
    return np.concatenate([dataset.observations[dataset.rows[index]], dataset.actions[index]], axis=1)


def scale_of(datasets: Sequence[Dataset]) -> Scale:
    """The scale common to these datasets."""
    parts = [pairs(data, spaced(data.size, _SCALE_ROWS)).astype(np.float64) for data in datasets]
    mean = np.mean([part.mean(axis=0) for part in parts], axis=0)
    square = np.mean([((part - mean) ** 2).mean(axis=0) for part in parts], axis=0)
    deviation = np.sqrt(square)
    return Scale(mean.astype(np.float32), np.where(deviation < _CONSTANT, 1.0, deviation).astype(np.float32))


def check_same_robot(main: Dataset, other: Dataset) -> None:
    """Only state-actions of one shape can be compared; the robot's name, where both have one, must agree too."""
    ours, theirs = main.metadata.domain, other.metadata.domain
    sizes = [(data.observation_size, data.action_size) for data in (main, other)]
    if ours != theirs or sizes[0] != sizes[1]:
        raise DataError(
            f"{main.name} is of {ours or 'an unnamed robot'} with (observations, actions) of {sizes[0]} numbers, "
            f"{other.name} of {theirs or 'an unnamed robot'} with {sizes[1]}; only data of one robot can be shared"
        )
