"""Action units: a robot speaks degrees, newtons or volts; datasets, pools and policies speak [-1, 1].

    robot's unit   low ─────────── 0 ─── high        what is recorded, what `Run.act` and ONNX files return
    inside          -1 ─────────────────── 1         what a dataset's column holds, what a network learns

The bounds travel with the data: dataset metadata, `pool.info`, config.json, the exported model.
"""

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np

from utds.data.columns import BLOCK, where
from utds.errors import ConfigError, DataError

MARGIN = 0.05  # of the range seen in the data, on either side of bounds found from data
_ROUNDING = 1e-5  # in units of [-1, 1]: how far float32 may round beyond a bound

Bounds = tuple[np.ndarray, np.ndarray]  # low [A], high [A], float64


def bounds(given: object, size: int) -> Bounds:
    """Bounds of `size` actions, from (low, high): a number for all of them or one for each."""
    try:
        low, high = (np.atleast_1d(np.asarray(end, np.float64)) for end in given)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise DataError(f"action bounds {given!r} are no range; give (low, high) or 'auto'") from None
    pair = []
    for array in (low, high):
        if array.shape not in ((1,), (size,)):
            raise DataError(f"action bounds of shape {list(array.shape)} don't fit {size} actions; give 1 or {size}")
        pair.append(np.broadcast_to(array, (size,)))
    if not (np.isfinite(pair).all() and (pair[0] < pair[1]).all()):
        raise DataError(f"the action bounds {pair[0].tolist()} to {pair[1].tolist()} are no range; give LOW below HIGH")
    return pair[0], pair[1]


def found(*recorded: np.ndarray) -> Bounds:
    """Bounds of actions [N, A] in the robot's unit: their range and a margin; one range for all arrays given."""
    low = np.min([actions.min(axis=0) for actions in recorded], axis=0).astype(np.float64)
    high = np.max([actions.max(axis=0) for actions in recorded], axis=0).astype(np.float64)
    still = high == low  # an action that never changes has no range: any will do
    margin = np.where(still, np.maximum(np.abs(high), 1.0), MARGIN * (high - low))
    return low - margin, high + margin


def to_unit(actions: np.ndarray, low: np.ndarray, high: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Actions [N, A] from the robot's unit to [-1, 1], float32; refuses what lies outside the bounds by its row."""
    scaled = np.empty(actions.shape, np.float32)
    for begin in range(0, len(actions), BLOCK):
        part = 2 * (actions[begin : begin + BLOCK].astype(np.float64) - low) / (high - low) - 1
        outside = ~(np.abs(part) <= 1 + _ROUNDING)
        if outside.any():
            row, feature = np.argwhere(outside)[0]
            raise DataError(
                f"actions, {where(begin + int(row), lengths, 0)}, feature {feature}: "
                f"{actions[begin + row, feature]:g} lies outside the bounds [{low[feature]:g}, {high[feature]:g}]; "
                f"give the robot's own bounds, or `auto` to find them in the data"
            )
        scaled[begin : begin + BLOCK] = np.clip(part, -1, 1)
    return scaled


def to_raw(actions: np.ndarray, low: object, high: object) -> np.ndarray:
    """Actions [..., A] from [-1, 1] to the robot's unit, float32; without bounds they stay as they are."""
    least, most = np.asarray(low, np.float64), np.asarray(high, np.float64)
    if least.size == 0:
        return np.asarray(actions, np.float32)
    return ((most + least) / 2 + (most - least) / 2 * actions).astype(np.float32)


def text(low: Sequence[float], high: Sequence[float]) -> str:
    """Bounds in words, such as [-90, 90], or [-90 -30, 90 30] where they differ between actions."""
    ends = [dict.fromkeys(end) if len(set(end)) == 1 else end for end in (low or (-1.0,), high or (1.0,))]
    return "[" + ", ".join(" ".join(f"{value:g}" for value in end) for end in ends) + "]"


def parse(given: str) -> Literal["auto"] | tuple[tuple[float, ...], tuple[float, ...]]:
    """`auto`, `-90:90`, or bounds of each action: `-90,-30:90,30`."""
    if given == "auto":
        return "auto"
    low, colon, high = given.partition(":")
    if not colon or not all(re.fullmatch(r"[-+0-9.eE]+(,[-+0-9.eE]+)*", end) for end in (low, high)):
        raise ConfigError(f"action bounds {given!r} are no range; give auto, LOW:HIGH, or LOW,LOW,…:HIGH,HIGH,…")
    try:
        return tuple(map(float, low.split(","))), tuple(map(float, high.split(",")))
    except ValueError:
        raise ConfigError(f"action bounds {given!r} hold something that is no number") from None
