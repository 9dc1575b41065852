"""How a dataset lies in its file: Minari's group per episode, with every column in one stretch of bytes.

Minari wants `episode_<k>/observations` and so on, a small hdf5 dataset for each column of each episode; reading
thousands of those one by one is slow. Here the small datasets are contiguous and written column by column, with hdf5's
own headers kept apart, so the rows of all episodes follow each other in the file:

    | headers | observations of episode 0, 1, 2, … | actions of episode 0, 1, 2, … | rewards … |

Minari reads the file as any other; utds reads a column with one call at the offset that hdf5 reports, which stands in
the metadata as a list of extents (offset, bytes): normally one, more if hdf5 had to put a header in between.
"""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from utds import terminal
from utds.data.columns import COLUMNS
from utds.data.dataset import Dataset
from utds.errors import DataError
from utds.files import explained

FILE = "main_data.hdf5"
_HEADER = 1000  # bytes that hdf5 needs for a group or a small dataset, measured as 630 and rounded up

Extents = list[list[int]]


@dataclass(frozen=True)
class FileColumn:
    """A column that lies in a file as one or more extents of bytes, row after row."""

    path: Path
    dtype: np.dtype
    shape: tuple[int, ...]
    extents: tuple[tuple[int, int], ...]  # (offset in the file, bytes)
    stamp: tuple[int, int, int]  # of the file when the extents were read from its metadata

    @staticmethod
    def stamp_of(file: Path | int) -> tuple[int, int, int]:
        """What changes when a file is replaced or written to."""
        found = os.stat(file)
        return found.st_ino, found.st_size, found.st_mtime_ns

    def read(self, start: int, stop: int, out: np.ndarray) -> None:
        """Fill `out`, C-contiguous and of this column's dtype, with rows start … stop−1."""
        width = self.dtype.itemsize * int(np.prod(self.shape[1:]))
        target = out.reshape(-1).view(np.uint8).data
        begin, end, seen = start * width, stop * width, 0  # byte positions within the column
        with explained(f"read {self.path}"), open(self.path, "rb", buffering=0) as file:
            if self.stamp_of(file.fileno()) != self.stamp:
                raise DataError(f"{self.path} changed after the dataset was loaded; load it again")
            for offset, size in self.extents:
                low, high = max(begin, seen), min(end, seen + size)
                if low < high:
                    self._fill(file.fileno(), offset + low - seen, target[low - begin : high - begin])
                seen += size

    def _fill(self, file: int, offset: int, target: memoryview) -> None:
        done = 0
        while done < len(target):  # one read gives at most 2 GiB
            count = os.preadv(file, [target[done:]], offset + done)
            if count == 0:
                raise DataError(f"{self.path} ends too early; it was cut short: restore it or make the dataset again")
            done += count


def path_of(column: str) -> str:
    """Where Minari keeps a column within an episode."""
    return f"infos/{column}" if column in ("physics", "task_rewards") else column


def write(dataset: Dataset, path: Path) -> dict[str, Extents]:
    """Write the file; returns the extents of each column.

    hdf5 writes the headers and says where the columns belong; their bytes we write ourselves, because hdf5 can't give
    up cleanly when the disk is full.
    """
    sizes = {name: COLUMNS[name].bytes(dataset.shape(name)) for name in COLUMNS if name in dataset}
    headers = dataset.episodes * (len(sizes) + 2) * _HEADER
    if shutil.disk_usage(path.parent).free < headers + sum(sizes.values()):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    extents = _headers(dataset, path, headers)
    with open(path, "rb+", buffering=0) as file, terminal.bar("writing", sum(sizes.values()), "bytes") as advance:
        for name in sizes:
            _pour(file.fileno(), extents[name], dataset.parts(name))
            advance(sizes[name], note=f"{dataset.name} {name}")
    return extents


def _headers(dataset: Dataset, path: Path, room: int) -> dict[str, Extents]:
    """Everything of the file but the columns' bytes, for which space is set aside; returns where."""
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    extents: dict[str, Extents] = {}
    with h5py.File(path, "w", meta_block_size=room) as file:
        groups = []
        for index, steps in enumerate(dataset.lengths.tolist()):
            group = file.create_group(f"episode_{index}")
            group.attrs["id"] = index
            group.attrs["total_steps"] = steps
            group.create_group("infos")
            groups.append(group.id)
        for name in COLUMNS:
            if name in dataset:
                extents[name] = []
                kind = h5py.h5t.py_create(np.dtype(COLUMNS[name].dtype), logical=True)
                for group, (start, stop) in zip(groups, _spans(dataset, name), strict=True):
                    space = h5py.h5s.create_simple((stop - start, *dataset.shape(name)[1:]))
                    made = h5py.h5d.create(group, path_of(name).encode(), kind, space, settings)
                    _extend(extents[name], made.get_offset(), made.get_storage_size())
    return extents


def _pour(file: int, extents: Extents, parts: Iterable[np.ndarray]) -> None:
    """Write the parts of a column, one after the other, into its extents."""
    free = iter(extents)
    offset = room = 0
    for part in parts:
        left = part.reshape(-1).view(np.uint8).data
        while len(left):
            if room == 0:
                offset, room = next(free)
            done = os.pwrite(file, left[:room], offset)
            offset, room, left = offset + done, room - done, left[done:]


def describe(dataset: Dataset, extents: dict[str, Extents]) -> dict[str, Any]:
    """What the metadata say about the columns."""
    return {
        name: {"dtype": np.dtype(COLUMNS[name].dtype).str, "shape": list(dataset.shape(name)), "runs": extents[name]}
        for name in extents
    }


def columns(path: Path, described: dict[str, Any]) -> dict[str, FileColumn]:
    """The columns of the file at `path`, to be read when asked for."""
    stamp = FileColumn.stamp_of(path)
    found = {}
    for name, entry in described.items():
        dtype, shape = np.dtype(entry["dtype"]), tuple(int(size) for size in entry["shape"])
        extents = tuple((int(offset), int(size)) for offset, size in entry["runs"])
        if name not in COLUMNS or dtype != COLUMNS[name].dtype:
            raise DataError(f"{path}: column {name} of dtype {dtype} is unknown; the metadata were altered")
        if sum(size for _, size in extents) != COLUMNS[name].bytes(shape):
            raise DataError(f"{path}: the bytes of column {name} don't add up; the metadata were altered")
        found[name] = FileColumn(path, dtype, shape, extents, stamp)
    return found


def located(dataset: Dataset, path: Path) -> dict[str, Extents]:
    """The extents of each column as the file itself has them, through hdf5; for checking the metadata against."""
    extents: dict[str, Extents] = {name: [] for name in dataset.columns}
    with h5py.File(path, "r") as file:
        for name in dataset.columns:
            for index, (start, stop) in enumerate(_spans(dataset, name)):
                found = file[f"episode_{index}/{path_of(name)}"]
                if found.shape != (stop - start, *dataset.shape(name)[1:]) or found.dtype != COLUMNS[name].dtype:
                    raise DataError(f"{path}: episode {index} holds {name} of another shape or dtype than recorded")
                _extend(extents[name], found.id.get_offset(), found.id.get_storage_size())
    return extents


def _spans(dataset: Dataset, name: str) -> Iterator[tuple[int, int]]:
    """First and last-plus-one row of each episode in a column."""
    ends = np.cumsum(dataset.lengths + COLUMNS[name].per_episode)
    return zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)


def _extend(extents: Extents, offset: int, size: int) -> None:
    if extents and sum(extents[-1]) == offset:
        extents[-1][1] += size
    else:
        extents.append([offset, size])
