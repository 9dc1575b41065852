"""Datasets as the adviser reads them: evenly spaced samples, a scale common to all, and returns under the main task."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from utds.data.columns import spaced
from utds.data.dataset import Dataset
from utds.errors import DataError
from utds.networks import Normalizer, divisor

Floats = NDArray[np.float32]
Array = NDArray[np.float64]

BEST = 0.1  # share of the episodes that count as a dataset's best
_SCALE_ROWS = 20_000  # transitions of a dataset from which the common scale is taken


def pairs(dataset: Dataset, index: NDArray[np.int64]) -> Floats:
    """State-actions [n, O + A] of these transitions."""
    return np.concatenate([dataset.observations[dataset.rows[index]], dataset.actions[index]], axis=1)


def normalizer_of(datasets: Sequence[Dataset]) -> Normalizer:
    """Of state-actions, common to these datasets: each counts alike, however large."""
    parts = [pairs(data, spaced(data.size, _SCALE_ROWS)).astype(np.float64) for data in datasets]
    mean = np.mean([part.mean(axis=0) for part in parts], axis=0)
    square = np.mean([((part - mean) ** 2).mean(axis=0) for part in parts], axis=0)
    return Normalizer(mean.astype(np.float32), divisor(np.sqrt(square)).astype(np.float32))


@dataclass(frozen=True)
class Worth:
    """What a dataset is worth: returns of its episodes under the main task's reward."""

    mean: float
    quartiles: tuple[float, float, float, float, float]  # least, 25 %, median, 75 %, greatest
    best: float  # mean over the best tenth of the episodes
    beyond: float  # share of the episodes that return more than the main data's `best`
    returns: Array = field(repr=False, compare=False)  # [E]


def returns_of(dataset: Dataset, labels: Floats) -> Array:
    """Returns [E] of a dataset's episodes with these rewards [N]."""
    return np.add.reduceat(labels, dataset.starts[:-1], dtype=np.float64)


def worth(returns: Array, against: float | None = None) -> Worth:
    """The worth of episodes with these returns [E], held against the best of the main data."""
    least, low, median, high, greatest = (float(v) for v in np.quantile(returns, [0, 0.25, 0.5, 0.75, 1]))
    best = float(np.sort(returns)[-max(1, round(BEST * len(returns))) :].mean())
    beyond = float((returns > (best if against is None else against)).mean())
    return Worth(float(returns.mean()), (least, low, median, high, greatest), best, beyond, returns)


def check_same_robot(main: Dataset, other: Dataset) -> None:
    """Only state-actions of one shape can be compared; the robot's name, where both have one, must agree too."""
    ours, theirs = main.metadata.domain, other.metadata.domain
    sizes = [(data.observation_size, data.action_size) for data in (main, other)]
    if ours != theirs or sizes[0] != sizes[1]:
        raise DataError(
            f"{main.name} is of {ours or 'an unnamed robot'} with (observations, actions) of {sizes[0]} numbers, "
            f"{other.name} of {theirs or 'an unnamed robot'} with {sizes[1]}; only data of one robot can be shared"
        )
