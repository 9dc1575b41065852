"""D4RL: `.hdf5` or `.npz` with observations, actions, rewards, terminals and, in most files, timeouts.

    terminals   1: the episode truly ended with this step
    timeouts    1: the recording was cut after this step
    next_observations, where given, are what each step reached; else that is the next row, and unknown at a cut

Other arrays (infos/…, metadata/…) are left out and named in the notes.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from utds import files
from utds.data.columns import BLOCK, cast
from utds.data.dataset import Dataset
from utds.data.formats import arrays
from utds.data.formats.recording import Recording, check_arrays, flat, readable

_STATES = ("observations", "next_observations")
_NEEDED = ("observations", "actions", "terminals")
_OPTIONAL = ("rewards", "timeouts", "next_observations")


def read(path: Path) -> Recording:
    """The recording of a file; its states are read a block at a time."""
    with arrays.opened(path, _STATES) if path.suffix == ".npz" else hdf5(path) as found:
        return _recording(path, found)


def _recording(path: Path, found: Mapping[str, Any]) -> Recording:
    notes = check_arrays(
        path, found, _NEEDED, _OPTIONAL, "a D4RL file has observations, actions, rewards and terminals"
    )
    states, actions = _rows("observations", found["observations"]), flat("actions", found["actions"])
    ended = cast("terminals", found["terminals"], np.bool_, None)
    cut = cast("timeouts", found.get("timeouts", np.zeros(len(ended))), np.bool_, None)
    marks = {"terminations": ended, "truncations": cut & ~ended}  # an end that meets the time limit is an end
    if "next_observations" not in found:
        if "timeouts" not in found:
            notes.append(
                "neither timeouts nor next_observations in the file: episodes are told apart by terminals alone"
            )
        return Recording.of_steps(states, actions, found.get("rewards"), marks, notes=notes)
    after = _rows("next_observations", found["next_observations"])
    if "timeouts" not in found:
        marks["truncations"][:-1] = _jumps(after, states) & ~ended[:-1]
        cuts = int(marks["truncations"].sum())
        notes.append(f"no timeouts in the file: {cuts} cuts found where the states don't follow each other")
    given = {"observations": states, "actions": actions, "next_observations": after} | marks
    return Recording.of_arrays(given | ({"rewards": found["rewards"]} if "rewards" in found else {}), notes=notes)


def write(dataset: Dataset, path: Path) -> None:
    """Write an `.hdf5` file, actions in the robot's unit."""
    rows = dataset.rows
    with files.atomic(path) as part, h5py.File(part, "w") as file:
        states = dataset.read("observations")
        file["observations"], file["next_observations"] = states[rows], states[rows + 1]
        file["actions"] = dataset.raw_actions
        if dataset.metadata.has_rewards:  # else zeros would be read as facts
            file["rewards"] = dataset.read("rewards")
        file["terminals"], file["timeouts"] = dataset.read("terminations"), dataset.read("truncations")
        file["metadata/task"] = dataset.metadata.task


def _rows(name: str, values: Any) -> Any:
    """[N, d] of numbers: as it lies in the file where it is that already, to be read by slices; else in memory."""
    if isinstance(values, (h5py.Dataset, arrays.Rows)) and values.ndim == 2:
        return values
    return flat(name, values)


def _jumps(reached: Any, states: Any) -> np.ndarray:
    """Whether the state that a step reached isn't the one that the next step leaves: [N − 1]."""
    found = np.empty(len(states) - 1, bool)
    for begin in range(0, len(found), BLOCK):
        end = min(begin + BLOCK, len(found))
        found[begin:end] = (reached[begin:end] != states[begin + 1 : end + 1]).any(axis=1)
    return found


@contextlib.contextmanager
def hdf5(path: Path) -> Iterator[dict[str, Any]]:
    """The arrays of an hdf5 file by their path in it, unread; text and scalars are left out."""
    found: dict[str, Any] = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.shape and item.dtype.kind in "biuf":
            found[name] = item

    with readable(path, "hdf5", RuntimeError, KeyError), open(path, "rb"), h5py.File(path, "r") as file:
        file.visititems(visit)
        yield found
