"""Checks that name the first bad row: what is wrong, in which column, episode and step, and what to do."""

from collections.abc import Callable

import numpy as np

from utds.errors import DataError


def cast(name: str, values: object, dtype: type, width: int | None) -> np.ndarray:
    """`values` as a C-contiguous array of `dtype`, copied only where it must be.

    The shape is [n] for width None, [n, d] for width 0, [n, width] otherwise.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} has dtype {array.dtype}; give real numbers")
    if width is None and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]  # a column vector, as many recorders write rewards
    shape = "[n]" if width is None else f"[n, {width or 'd'}]"
    if array.ndim != (1 if width is None else 2) or 0 in array.shape[1:] or (width and array.shape[1] != width):
        raise DataError(f"{name} has shape {list(array.shape)}; {shape} is needed")
    if dtype is np.bool_ and array.dtype != np.bool_:
        _first(~np.isin(array, (0, 1)), lambda row: f"{name}, row {row}: {array[row]} is neither true nor false")
    with np.errstate(over="ignore"):  # what leaves float32's range becomes infinite, and is reported as such
        return np.ascontiguousarray(array, dtype)


def bounds(lengths: object) -> np.ndarray:
    """Episode lengths [E] as int64, all at least 1."""
    array = np.asarray(lengths)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.size == 0:
        raise DataError("lengths must be a list of at least one whole number: the steps of each episode")
    _first(array < 1, lambda row: f"episode {row} has {array[row]} steps; every episode needs at least one")
    return array.astype(np.int64)


def rows(name: str, found: int, lengths: np.ndarray, per_episode: int) -> None:
    """A column must have one row a step, plus `per_episode` rows (the start state) an episode."""
    needed = int(lengths.sum()) + per_episode * len(lengths)
    if found != needed:
        extra = " plus one an episode" if per_episode else ""
        raise DataError(
            f"{name} has {found} rows, but {len(lengths)} episodes of {int(lengths.sum())} steps in all need {needed} "
            f"(one a step{extra})"
        )


def finite(name: str, array: np.ndarray, lengths: np.ndarray, per_episode: int) -> None:
    """No NaN and nothing infinite."""
    if np.isfinite(array).all():
        return
    flat = array.reshape(len(array), -1)
    row = int(np.argmin(np.isfinite(flat).all(axis=1)))
    feature = int(np.argmin(np.isfinite(flat[row])))
    place = f", feature {feature}" if array.ndim > 1 else ""
    raise DataError(
        f"{name}, {where(row, lengths, per_episode)}{place}: {flat[row, feature]}; only finite numbers can be used"
    )


def bounded(array: np.ndarray, lengths: np.ndarray) -> None:
    """Actions lie in [-1, 1]."""
    outside = np.abs(array) > 1
    if outside.any():
        row = int(np.argmax(outside.any(axis=1)))
        feature = int(np.argmax(outside[row]))
        raise DataError(
            f"actions, {where(row, lengths, 0)}, feature {feature}: {array[row, feature]} lies outside [-1, 1]; "
            f"rescale the actions by the robot's bounds first"
        )


def endings(terminations: np.ndarray, truncations: np.ndarray, lengths: np.ndarray) -> None:
    """An episode ends once: at its last step, either by termination or by truncation (a time limit), never by both."""
    last = np.cumsum(lengths) - 1
    _first(
        terminations & truncations,
        lambda row: (
            f"{where(row, lengths, 0)} is marked as terminated and as truncated; "
            f"a true end is a termination alone, a time limit a truncation alone"
        ),
    )
    ended = terminations | truncations
    middle = ended.copy()
    middle[last] = False
    _first(
        middle,
        lambda row: (
            f"{where(row, lengths, 0)} is marked as an end, but the episode goes on; "
            f"check the episode lengths or the terminations and truncations"
        ),
    )
    _first(
        ~ended[last],
        lambda episode: (
            f"episode {episode} ends after {lengths[episode]} steps, yet its last step is marked neither as "
            f"terminated nor as truncated"
        ),
    )


def chained(observations: np.ndarray, next_observations: np.ndarray, lengths: np.ndarray) -> None:
    """What a step reaches is what the next step of the episode leaves; both arrays are [N, O]."""
    broken = (next_observations[:-1] != observations[1:]).any(axis=1)
    broken[np.cumsum(lengths)[:-1] - 1] = False
    _first(
        broken,
        lambda row: (
            f"the episode doesn't chain: next_observations of {where(row, lengths, 0)} differs from observations of "
            f"the following step; mark the end of the episode there or give its lengths"
        ),
    )


def where(row: int, lengths: np.ndarray, per_episode: int) -> str:
    """A row of a column in words a user can look up."""
    ends = np.cumsum(lengths + per_episode)
    episode = int(np.searchsorted(ends, row, side="right"))
    return f"row {row} (episode {episode}, step {row - int(ends[episode] - lengths[episode] - per_episode)})"


def _first(bad: np.ndarray, message: Callable[[int], str]) -> None:
    """Raise `message(row)` for the first row that is bad."""
    if bad.any():
        raise DataError(message(int(np.argmax(bad))))
