"""What a dataset is worth for a task: the returns of its episodes under the task's reward."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from utds.advise.transitions import Floats
from utds.data.dataset import Dataset

Array = NDArray[np.float64]

BEST = 0.1  # share of the episodes that count as a dataset's best


@dataclass(frozen=True)
class Worth:
    """Returns of a dataset's episodes under the main task's reward."""

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
