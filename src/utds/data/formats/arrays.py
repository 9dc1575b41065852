"""Array files: one `.npz` whose arrays are named as the arguments of `Dataset.from_arrays`.

Beside these it may hold `task_names`, and `action_low` and `action_high` in the unit of its actions.
"""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from utds import files
from utds.data.dataset import Dataset
from utds.data.formats.recording import Recording
from utds.errors import DataError
from utds.files import explained

_STEPS = (
    "observations",
    "actions",
    "rewards",
    "next_observations",
    "terminations",
    "truncations",
    "lengths",
    "episode_index",
)
_EXTRA = ("physics", "task_rewards")
_ABOUT = ("task_names", "action_low", "action_high")


def read(path: Path) -> Recording:
    """The recording of a file."""
    found = load(path)
    unknown = sorted(set(found) - {*_STEPS, *_EXTRA, *_ABOUT})
    if unknown:
        names = ", ".join((*_STEPS, *_EXTRA))
        raise DataError(f"{path} holds an array {unknown[0]!r}; known names are {names}")
    for name in ("observations", "actions"):
        if name not in found:
            raise DataError(f"{path} holds no {name}; it has {', '.join(sorted(found)) or 'nothing'}")
    more: dict[str, Any] = {name: found[name] for name in _EXTRA if name in found}
    if "action_low" in found or "action_high" in found:
        more["bounds"] = (found.get("action_low"), found.get("action_high"))
    if "task_names" in found:
        more["metadata"] = {"task_names": tuple(str(name) for name in found["task_names"])}
    return Recording.of_arrays({name: found[name] for name in _STEPS if name in found}, **more)


def write(dataset: Dataset, path: Path) -> None:
    """Write the columns by name, actions in the robot's unit, and the episodes' lengths."""
    meta = dataset.metadata
    with files.atomic(path) as part, open(part, "wb") as file:
        columns: dict[str, Any] = {name: dataset.read(name) for name in dataset.columns}
        if meta.task_names:
            columns["task_names"] = np.array(meta.task_names)  # of fixed width: no object, no pickle
        if meta.action_low:
            columns |= {"actions": dataset.raw_actions, "action_low": meta.action_low, "action_high": meta.action_high}
        np.savez(file, lengths=dataset.lengths, **columns)


def load(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file; objects are refused unread, since reading one would run its code."""
    try:
        with explained(f"read {path}"), open(path, "rb") as file, np.load(file, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise DataError(
                f"{path} holds a Python object, not numbers; refused, since loading it could run code"
            ) from None
        raise DataError(f"{path} is no array file: {error}") from error
    except (zipfile.BadZipFile, EOFError, AttributeError, TypeError) as error:
        raise DataError(f"{path} is damaged or no .npz file ({error}); fetch it again") from error
