"""What a dataset consists of: its columns, where they are kept, and where the data came from."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from utds.errors import DataError
from utds.files import explained


class Kind(NamedTuple):
    """What a column holds."""

    dtype: type
    per_episode: int  # rows an episode has beyond one a step: 1 where the start state counts
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


@dataclass(frozen=True)
class Metadata:
    """Where a dataset comes from."""

    task: str = "custom"  # whose rewards the rewards column holds, such as walker-walk
    domain: str | None = None  # the robot, such as walker; None when utds doesn't know it
    kind: str | None = None  # random, medium, medium-replay, replay, expert, medium-expert, or a word of your own
    id: str | None = None  # under which it is stored, such as walker-walk/medium
    seed: int | None = None  # of the collection
    task_names: tuple[str, ...] = ()  # of the task_rewards' columns, such as walker-stand
    random_return: float | None = None  # reference score: mean return of a random policy
    expert_return: float | None = None  # reference score: mean return of an expert
    versions: Mapping[str, str] = field(default_factory=dict)  # of the libraries it was recorded with
    description: str = ""

    def __post_init__(self) -> None:
        """Numbers and names come from many libraries; what is stored are Python's own."""
        for name, kind in (("seed", int), ("random_return", float), ("expert_return", float)):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else kind(value))
        object.__setattr__(self, "task_names", tuple(str(name) for name in self.task_names))

    def identity(self) -> dict[str, Any]:
        """The part that belongs to the content, and therefore to the digest."""
        chosen = ("task", "domain", "kind", "seed", "task_names")
        return {name: value for name, value in asdict(self).items() if name in chosen}


class Column(Protocol):
    """A column that isn't in memory yet."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def read(self, start: int, stop: int, out: np.ndarray) -> None: ...


class Episode(NamedTuple):
    """One episode of T steps, as recorders hand it over."""

    observations: np.ndarray  # [T + 1, O]
    actions: np.ndarray  # [T, A]
    rewards: np.ndarray  # [T]
    terminated: bool = False  # the last step truly ended the episode; otherwise it was cut by a time limit
    physics: np.ndarray | None = None  # [T + 1, S] float64
    task_rewards: np.ndarray | None = None  # [T, tasks]


@dataclass(frozen=True)
class FileColumn:
    """A column that lies in a file as one or more runs of bytes, row after row."""

    path: Path
    dtype: np.dtype
    shape: tuple[int, ...]
    runs: tuple[tuple[int, int], ...]  # (offset in the file, bytes)
    stamp: tuple[int, int, int]  # of the file when the runs were read from its metadata

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
            for offset, size in self.runs:
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
