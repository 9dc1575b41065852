"""dm_control's `tolerance`, vectorised: how the suite's tasks turn a quantity into a reward between 0 and 1."""

import math
from typing import Literal

import numpy as np

from utds.domains.base import Array

Sigmoid = Literal["gaussian", "linear", "quadratic"]


def tol(
    x: Array,
    low: float | Array = 0.0,
    high: float = 0.0,
    margin: float | Array = 0.0,
    value_at_margin: float = 0.1,
    sigmoid: Sigmoid = "gaussian",
) -> Array:
    """1 inside [low, high], falling outside to `value_at_margin` at a distance of `margin`; 0 at once if it is 0.

    `low` and `margin` may be arrays that broadcast against `x`: one call for tasks that differ in nothing else. Ten
    copies' rewards cost what NumPy's calls cost, so there are few of them.
    """
    outside = low - x if high == math.inf else np.maximum(low - x, x - high)
    outside = np.maximum(outside, 0.0)  # distance to the interval
    if not isinstance(margin, np.ndarray) and margin == 0:
        return np.where(outside == 0, 1.0, 0.0)
    d = outside / margin
    if sigmoid == "gaussian":
        return np.exp(-0.5 * (d * math.sqrt(-2 * math.log(value_at_margin))) ** 2)
    if sigmoid == "linear":
        return np.maximum(1.0 - d * (1 - value_at_margin), 0.0)
    return np.maximum(1 - (d * math.sqrt(1 - value_at_margin)) ** 2, 0)
