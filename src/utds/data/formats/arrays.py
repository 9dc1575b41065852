"""Array files: one `.npz` whose arrays are named as the arguments of `Dataset.from_arrays`.

Beside these it may hold `task_names`, and `action_low` and `action_high` in the unit of its actions.
"""

import contextlib
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from utds import files
from utds.data.build import Marks
from utds.data.dataset import Dataset
from utds.data.formats.recording import Recording
from utds.errors import DataError
from utds.files import explained

_STEPS = ("observations", "actions", "rewards", "next_observations", *(mark.name for mark in fields(Marks)))
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
        more["metadata"] = {"task_names": tuple(str(name) for name in np.ravel(found["task_names"]))}
    return Recording.of_arrays({name: found[name] for name in _STEPS if name in found}, **more)


def write(dataset: Dataset, path: Path) -> None:
    """Write the columns by name, actions in the robot's unit, and the episodes' lengths."""
    meta = dataset.metadata
    with files.atomic(path) as part, open(part, "wb") as file:
        columns: dict[str, Any] = {name: dataset.read(name) for name in dataset.columns}
        if not meta.has_rewards:
            del columns["rewards"]  # zeros would be read as facts
        if meta.task_names:
            columns["task_names"] = np.array(meta.task_names)  # of fixed width: no object, no pickle
        if meta.action_low:
            columns |= {"actions": dataset.raw_actions, "action_low": meta.action_low, "action_high": meta.action_high}
        np.savez(file, lengths=dataset.lengths, **columns)


def load(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file; objects are refused unread, since reading one would run its code."""
    with opened(path) as found:
        return found


@contextlib.contextmanager
def opened(path: Path, unread: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """The arrays of an `.npz` file; of those that stay `unread` rows can be read while the block runs."""
    with contextlib.ExitStack() as stack:
        with understood(path):
            file = stack.enter_context(open(path, "rb"))
            archive = stack.enter_context(np.load(file, allow_pickle=False))
            found = {
                name: Rows.of(path, archive.zip, name) if name in unread else archive[name] for name in archive.files
            }
        yield found


class Rows:
    """An array [N, d] in an `.npz` file, of which rows are read; in order, or a compressed one is unpacked again."""

    def __init__(self, path: Path, file: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.path, self.shape, self.ndim, self.dtype = path, shape, len(shape), dtype
        self._file, self._first = file, file.tell()

    @classmethod
    def of(cls, path: Path, archive: zipfile.ZipFile, name: str) -> Any:
        """The array of that name; read at once if it isn't one of numbers that lie row by row."""
        file = archive.open(f"{name}.npy")
        version = np.lib.format.read_magic(file)
        header = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}.get(version[0])
        shape, by_columns, dtype = header(file) if header else ((), True, np.dtype(object))
        if by_columns or len(shape) != 2 or dtype.kind not in "biuf":
            file.close()
            with archive.open(f"{name}.npy") as again:
                return np.lib.format.read_array(again, allow_pickle=False)
        return cls(path, file, shape, dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        begin, end, _ = rows.indices(len(self))
        found = np.empty((max(0, end - begin), self.shape[1]), self.dtype)
        width = self.shape[1] * self.dtype.itemsize
        with understood(self.path):
            if self._file.tell() != self._first + begin * width:  # zipfile checks no sum of what was jumped over
                self._file.seek(self._first + begin * width)
            if self._file.readinto(found.reshape(-1).view(np.uint8).data) != found.nbytes:
                raise EOFError("it ends too early")
        return found


@contextlib.contextmanager
def understood(path: Path) -> Iterator[None]:
    """What NumPy and zipfile raise, in one line."""
    try:
        with explained(f"read {path}"):
            yield
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise DataError(
                f"{path} holds a Python object, not numbers; refused, since loading it could run code"
            ) from None
        raise DataError(f"{path} is no array file: {error}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, AttributeError, TypeError) as error:
        raise DataError(f"{path} is damaged or no .npz file ({error}); fetch it again") from error
