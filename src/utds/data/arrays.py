"""From arrays as people have them to the columns of a dataset: episode bounds, flags, observations held once."""

from collections.abc import Sequence

import numpy as np

from utds.data import validation
from utds.errors import DataError


def arrange(
    observations: object,
    actions: object,
    rewards: object,
    next_observations: object,
    terminations: object,
    truncations: object,
    lengths: object,
) -> tuple[dict[str, object], np.ndarray]:
    """Columns and episode lengths [E] from what `Dataset.from_arrays` was given."""
    rewards = validation.cast("rewards", rewards, np.float32, None)
    given: dict[str, object] = {"observations": observations, "actions": actions, "rewards": rewards}
    marks = {}
    for name, values in (("terminations", terminations), ("truncations", truncations)):
        marks[name] = np.zeros(len(rewards), np.bool_)
        if values is not None:
            marks[name] = validation.cast(name, values, np.bool_, None)
        if len(marks[name]) != len(rewards):
            raise DataError(f"{name} has {len(marks[name])} rows, but rewards has {len(rewards)}; both need one a step")
    steps = (
        validation.bounds(lengths)
        if lengths is not None
        else _between_marks(marks["terminations"] | marks["truncations"])
    )
    validation.rows("rewards", len(rewards), steps, 0)
    if next_observations is not None:
        given["observations"] = _interleaved(observations, next_observations, steps)
    last = np.cumsum(steps) - 1
    cut = marks["truncations"].copy()
    cut[last] |= ~marks["terminations"][last]  # where no end is marked, the recording was cut
    return given | {"terminations": marks["terminations"], "truncations": cut}, steps


def joined(name: str, parts: Sequence[np.ndarray | None]) -> np.ndarray:
    """The episodes' parts of a column, end to end."""
    arrays: list[np.ndarray] = []
    for index, part in enumerate(parts):
        if part is None:
            raise DataError(f"episode {index} has no {name}, while others have; record it for all or for none")
        array = np.asarray(part)
        if arrays and array.shape[1:] != arrays[0].shape[1:]:
            raise DataError(
                f"episode {index}: {name} has rows of shape {list(array.shape[1:])}, "
                f"but episode 0 has {list(arrays[0].shape[1:])}; all episodes must come from one robot"
            )
        arrays.append(array)
    return np.concatenate(arrays)


def flags(lengths: np.ndarray, ended: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Terminations and truncations [N] of episodes of these lengths [E], of which some truly `ended` [E]."""
    last = np.cumsum(lengths) - 1
    terminations, truncations = np.zeros((2, int(lengths.sum())), np.bool_)
    terminations[last] = ended
    truncations[last] = ~ended
    return terminations, truncations


def _between_marks(ends: np.ndarray) -> np.ndarray:
    """Lengths of the episodes that end where marked, and at the last step."""
    if len(ends) == 0:
        raise DataError("rewards is empty; a dataset needs at least one step")
    last = np.flatnonzero(ends)
    if not ends[-1]:
        last = np.append(last, len(ends) - 1)
    return np.diff(last, prepend=-1)


def _interleaved(observations: object, next_observations: object, lengths: np.ndarray) -> np.ndarray:
    """[N + E, O] from what each step leaves and reaches, both [N, O]; refuses steps that don't chain."""
    before = validation.cast("observations", observations, np.float32, 0)
    after = validation.cast("next_observations", next_observations, np.float32, before.shape[1])
    validation.rows("observations (given with next_observations)", len(before), lengths, 0)
    validation.rows("next_observations", len(after), lengths, 0)
    validation.finite(
        "observations", before, lengths, 0
    )  # a NaN differs from itself: it would be called a broken chain
    validation.finite("next_observations", after, lengths, 0)
    validation.chained(before, after, lengths)
    rows = np.empty((len(before) + len(lengths), before.shape[1]), np.float32)
    last = np.cumsum(lengths) - 1
    index = np.arange(len(before)) + np.repeat(np.arange(len(lengths)), lengths)
    rows[index] = before
    rows[index[last] + 1] = after[last]
    return rows
