"""What a dataset consists of: its columns, where the data came from, the units of actions, and the checks of columns.

A robot's actions are in degrees, newtons or volts; datasets, pools and policies have them in [-1, 1]:

    robot's unit   low ─────────── 0 ─── high        what is recorded, what `Run.act` and ONNX files return
    inside          -1 ─────────────────── 1         what a dataset's column holds, what a network learns

The bounds travel with the data: dataset metadata, `pool.info`, config.json, the exported model.
"""

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from utds.errors import ConfigError, DataError
from utds.files import explained


class Kind(NamedTuple):
    """What a column holds."""

    dtype: type
    per_episode: int  # rows an episode has beyond one per step: 1 where the start state counts
    vector: bool  # [n, d] or [n]

    def bytes(self, shape: tuple[int, ...]) -> int:
        """Of a column of this shape."""
        return int(np.prod(shape)) * np.dtype(self.dtype).itemsize


COLUMNS: Mapping[str, Kind] = {
    "observations": Kind(np.float32, 1, True),
    "actions": Kind(np.float32, 0, True),
    "rewards": Kind(np.float32, 0, False),
    "terminations": Kind(np.bool_, 0, False),
    "truncations": Kind(np.bool_, 0, False),
    "physics": Kind(np.float64, 1, True),
    "task_rewards": Kind(np.float32, 0, True),
}
OPTIONAL = ("physics", "task_rewards")
BLOCK = 1 << 14  # rows that are looked at together: few enough to stay in the processor's cache
KNOWN = "known"  # the labelling of rewards that are facts: recorded, or recomputed from physics
ZERO = "zero"  # of data without rewards: all are 0
MARGIN = 0.05  # of the range seen in the data, on either side of bounds found from data
BOUNDS_FOUND = f"action bounds found from the data, with a margin of {MARGIN:.0%}"  # as descriptions say it
ROUNDING = 1e-5  # in units of [-1, 1]: how far float32 may round beyond a bound

Bounds = tuple[np.ndarray, np.ndarray]  # low [A], high [A], float64


@dataclass(frozen=True)
class Metadata:
    """Where a dataset comes from."""

    task: str = "custom"  # whose rewards the rewards column holds, such as walker-walk
    domain: str | None = None  # the robot, such as walker; None when utds doesn't know it
    kind: str | None = None  # such as random or medium-replay, see utds.collection.kinds, or a word of your own
    id: str | None = None  # under which it is stored, such as walker-walk/medium
    seed: int | None = None  # of the collection
    task_names: tuple[str, ...] = ()  # of the task_rewards' columns, such as walker-stand
    random_return: float | None = None  # what scores 0: on our domains, uniformly random actions
    expert_return: float | None = None  # reference score: mean return of an expert
    labelling: str = KNOWN  # where the rewards come from: facts, or the identity of the `Labelling` that made them
    action_low: tuple[float, ...] = ()  # bounds of the actions in the robot's unit; the actions column holds them …
    action_high: tuple[float, ...] = ()  # … scaled to [-1, 1]. Empty: the robot's unit is [-1, 1] itself
    versions: Mapping[str, str] = field(default_factory=dict)  # of the libraries it was recorded with
    description: str = ""

    def __post_init__(self) -> None:
        """Numbers and names come from many libraries; what is stored are Python's own."""
        for name, kind in (("seed", int), ("random_return", float), ("expert_return", float)):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else kind(value))
        names = [self.task_names] if isinstance(self.task_names, str) else self.task_names
        object.__setattr__(self, "task_names", tuple(str(name) for name in names))
        low, high = (tuple(float(bound) for bound in bounds) for bounds in (self.action_low, self.action_high))
        if len(low) != len(high) or not all(below < above for below, above in zip(low, high, strict=True)):
            raise DataError(f"action bounds {low} to {high} are no bounds: give a lower and a higher one per action")
        if all(bounds == (-1.0, 1.0) for bounds in zip(low, high, strict=True)):
            low = high = ()
        object.__setattr__(self, "action_low", low)
        object.__setattr__(self, "action_high", high)

    @property
    def has_rewards(self) -> bool:
        return self.labelling != ZERO

    def identity(self) -> dict[str, Any]:
        """The part that belongs to the content, and therefore to the digest."""
        chosen = ["task", "domain", "kind", "seed", "task_names"]
        if self.labelling != KNOWN:
            chosen.append("labelling")
        if self.action_low:
            chosen += ["action_low", "action_high"]
        return {name: value for name, value in asdict(self).items() if name in chosen}


@dataclass(frozen=True)
class FileColumn:
    """A column that isn't in memory yet: it lies in a file as one or more extents of bytes, row after row."""

    path: Path
    dtype: np.dtype
    shape: tuple[int, ...]
    extents: tuple[tuple[int, int], ...]  # (offset in the file, bytes)
    written: tuple[int, int, int] | None  # the file's stamp when its metadata were read

    def read(self, start: int, stop: int, out: np.ndarray) -> None:
        """Fill `out`, C-contiguous and of this column's dtype, with rows start … stop−1."""
        width = self.dtype.itemsize * int(np.prod(self.shape[1:]))
        target = out.reshape(-1).view(np.uint8).data
        begin, end, seen = start * width, stop * width, 0  # byte positions within the column
        with explained(f"read {self.path}"), open(self.path, "rb") as file:
            if stamp(file.fileno()) != self.written:
                raise DataError(f"{self.path} changed after the dataset was loaded; load it again")
            for offset, size in self.extents:
                low, high = max(begin, seen), min(end, seen + size)
                if low < high:
                    file.seek(offset + low - seen)
                    if file.readinto(target[low - begin : high - begin]) < high - low:
                        raise DataError(
                            f"{self.path} ends too early; it was cut short: restore it or make the dataset again"
                        )
                seen += size


def stamp(path: Path | int) -> tuple[int, int, int] | None:
    """What changes when a file or a folder is replaced or written to; nothing where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class Episode(NamedTuple):
    """One episode of T steps, as recorders hand it over."""

    observations: np.ndarray  # [T + 1, O]
    actions: np.ndarray  # [T, A]
    rewards: np.ndarray  # [T]
    terminated: bool = False  # the last step truly ended the episode; otherwise it was cut by a time limit
    physics: np.ndarray | None = None  # [T + 1, S] float64
    task_rewards: np.ndarray | None = None  # [T, tasks]


def spaced(size: int, count: int) -> np.ndarray:
    """`count` positions evenly spread over 0 … size−1; all of them where there are fewer."""
    return np.unique(np.linspace(0, size - 1, min(count, size)).round().astype(np.int64))


# Units of actions


def bounds_of(given: object, size: int) -> Bounds:
    """Bounds of `size` actions, from (low, high): a number for all of them or one for each."""
    try:
        low, high = (np.atleast_1d(np.asarray(end, np.float64)) for end in given)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise DataError(f"action bounds {given!r} are no range; give (low, high) or 'auto'") from None
    for array in (low, high):
        if array.shape not in ((1,), (size,)):
            raise DataError(f"action bounds of shape {list(array.shape)} don't fit {size} actions; give 1 or {size}")
    low, high = (np.broadcast_to(array, (size,)) for array in (low, high))
    if not (np.isfinite([low, high]).all() and (low < high).all()):
        raise DataError(f"the action bounds {low.tolist()} to {high.tolist()} are no range; give LOW below HIGH")
    return low, high


def bounds_found(*recorded: np.ndarray) -> Bounds:
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
        outside = ~(np.abs(part) <= 1 + ROUNDING)
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


def bounds_text(low: Sequence[float], high: Sequence[float]) -> str:
    """Bounds in words, such as [-90, 90], or [-90 -30, 90 30] where they differ between actions."""
    ends = [dict.fromkeys(end) if len(set(end)) == 1 else end for end in (low or (-1.0,), high or (1.0,))]
    return "[" + ", ".join(" ".join(f"{value:g}" for value in end) for end in ends) + "]"


def parse_bounds(given: str) -> Literal["auto"] | tuple[tuple[float, ...], tuple[float, ...]]:
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


# Checks that name the first bad row: what is wrong, in which column, episode and step, and what to do


def cast(name: str, values: object, dtype: type | None, width: int | None) -> np.ndarray:
    """`values` as a C-contiguous array of `dtype` (None: of their own), copied only where it must be.

    The shape is [n] for width None, [n, d] for width 0, [n, width] otherwise.
    """
    try:
        array = np.asarray(values)
    except ValueError:  # rows of several lengths
        raise DataError(f"{name} is no array; give rows of equally many numbers") from None
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} has dtype {array.dtype}; give real numbers")
    if width is None and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]  # a column vector, as many recorders write rewards
    shape = "[n]" if width is None else f"[n, {width or 'd'}]"
    if array.ndim != (1 if width is None else 2) or 0 in array.shape[1:] or (width and array.shape[1] != width):
        raise DataError(f"{name} has shape {list(array.shape)}; {shape} is needed")
    if dtype is np.bool_ and array.dtype != np.bool_:
        if (row := first_true((array != 0) & (array != 1))) is not None:
            raise DataError(f"{name}, row {row}: {array[row]} is neither true nor false")
    with np.errstate(over="ignore"):  # what leaves float32's range becomes infinite, and is reported as such
        return np.ascontiguousarray(array, dtype)


def checked_column(name: str, values: object, kind: Kind, lengths: np.ndarray) -> np.ndarray:
    """A column of this kind, copied only where it must be, after the checks that all columns pass."""
    array = cast(name, values, kind.dtype, 0 if kind.vector else None)
    check_count(name, len(array), lengths, kind.per_episode)
    if kind.dtype is not np.bool_:
        check_finite(name, array, lengths, kind.per_episode)
    return array


def episode_lengths(lengths: object) -> np.ndarray:
    """Episode lengths [E] as int64, all at least 1."""
    array = np.asarray(lengths)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.size == 0:
        raise DataError("lengths must be a list of at least one whole number: the steps of each episode")
    if (episode := first_true(array < 1)) is not None:
        raise DataError(f"episode {episode} has {array[episode]} steps; every episode needs at least one")
    return array.astype(np.int64)


def check_count(name: str, found: int, lengths: np.ndarray, per_episode: int) -> None:
    """A column must have one row per step, plus `per_episode` rows (the start state) per episode."""
    steps = int(lengths.sum())
    needed = steps + per_episode * len(lengths)
    if found != needed:
        rows = "one per step plus one per episode" if per_episode else "one per step"
        raise DataError(
            f"{name} has {found} rows, but {len(lengths)} episodes of {steps} steps in all need {needed} ({rows})"
        )


def check_finite(name: str, array: np.ndarray, lengths: np.ndarray, per_episode: int, first: int = 0) -> None:
    """No NaN and nothing infinite; `first` is the row of the column at which the array starts."""
    for begin in range(0, len(array), BLOCK):
        part = array[begin : begin + BLOCK].reshape(-1, math.prod(array.shape[1:]))
        finite = np.isfinite(part)
        if not finite.all():
            row, feature = np.argwhere(~finite)[0]
            place = f", feature {feature}" if array.ndim > 1 else ""
            raise DataError(
                f"{name}, {where(first + begin + int(row), lengths, per_episode)}{place}: {part[row, feature]}; "
                f"only finite numbers can be used"
            )


def check_actions(array: np.ndarray, lengths: np.ndarray) -> None:
    """Actions lie in [-1, 1]."""
    if array.min(initial=0) >= -1 and array.max(initial=0) <= 1:
        return
    row, feature = np.argwhere(np.abs(array) > 1)[0]
    raise DataError(
        f"actions, {where(int(row), lengths, 0)}, feature {feature}: {array[row, feature]} lies outside [-1, 1]; "
        f"rescale the actions by the robot's bounds first"
    )


def check_endings(terminations: np.ndarray, truncations: np.ndarray, lengths: np.ndarray) -> None:
    """An episode ends at its last step alone, by termination or by truncation (a time limit), never by both."""
    if (row := first_true(terminations & truncations)) is not None:
        raise DataError(
            f"{where(row, lengths, 0)} is marked as terminated and as truncated; "
            f"a true end is a termination alone, a time limit a truncation alone"
        )
    last = np.cumsum(lengths) - 1
    middle = terminations | truncations
    unmarked = ~middle[last]
    middle[last] = False
    if (row := first_true(middle)) is not None:
        raise DataError(
            f"{where(row, lengths, 0)} is marked as an end, but the episode continues; "
            f"check the episode lengths or the terminations and truncations"
        )
    if (episode := first_true(unmarked)) is not None:
        raise DataError(
            f"episode {episode} ends after {lengths[episode]} steps, yet its last step is marked neither as "
            f"terminated nor as truncated"
        )


def check_chained(reached: np.ndarray, left: np.ndarray, lengths: np.ndarray, first: int = 0) -> None:
    """What a step reaches is what the next step of the episode leaves: both [n, O], of steps from `first` on."""
    differs = reached != left
    last = np.cumsum(lengths) - 1
    low, high = np.searchsorted(last, [first, first + len(reached)])
    ends = last[low:high] - first
    if np.count_nonzero(differs) == np.count_nonzero(differs[ends]):
        return
    # What was reached comes first: it may be an episode's last state, which no step of it leaves.
    for name, given, begin in (("next_observations", reached, first), ("observations", left, first + 1)):
        check_finite(name, given, lengths, 0, begin)  # a NaN differs from itself: it would be called a broken chain
    broken = differs.any(axis=1)
    broken[ends] = False
    if (row := first_true(broken)) is not None:
        raise DataError(
            f"the episode doesn't chain: next_observations of {where(first + row, lengths, 0)} differs from "
            f"observations of the following step; mark the end of the episode there or give its lengths"
        )


def where(row: int, lengths: np.ndarray, per_episode: int) -> str:
    """A row of a column in words that a user can look up."""
    ends = np.cumsum(lengths + per_episode)
    episode = int(np.searchsorted(ends, row, side="right"))
    return f"row {row} (episode {episode}, step {row - int(ends[episode] - lengths[episode] - per_episode)})"


def first_true(found: np.ndarray) -> int | None:
    """The first position of [n] that is true."""
    return int(np.argmax(found)) if found.any() else None
