"""dm_control's `tolerance`, vectorised: how the suite's tasks turn a quantity into a reward between 0 and 1."""

import math
from typing import Literal

import numpy as np

from utds.domains.base import Array

Sigmoid = Literal["gaussian", "linear", "quadratic"]


def tol(
    x: Array,
    low: float = 0.0,
    high: float = 0.0,
    margin: float = 0.0,
    value_at_margin: float = 0.1,
    sigmoid: Sigmoid = "gaussian",
) -> Array:
    """1 inside [low, high], falling outside to `value_at_margin` at a distance of `margin`; 0 at once if it is 0."""
    outside = np.where(x < low, low - x, x - high)
    inside = (low <= x) & (x <= high)
    if margin == 0:
        return np.where(inside, 1.0, 0.0)
    with np.errstate(over="ignore"):  # a state far out of bounds is worth exactly 0
        return np.where(inside, 1.0, _fall(outside / margin, value_at_margin, sigmoid))


def _fall(d: Array, value: float, sigmoid: Sigmoid) -> Array:
    """The value at a distance `d` in margins: 1 at 0, `value` at 1."""
    if sigmoid == "gaussian":
        return np.exp(-0.5 * (d * math.sqrt(-2 * math.log(value))) ** 2)
    scaled = d * (1 - value if sigmoid == "linear" else math.sqrt(1 - value))
    return np.where(np.abs(scaled) < 1, 1 - (scaled if sigmoid == "linear" else scaled**2), 0.0)
