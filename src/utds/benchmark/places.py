"""Where cells lie and how far they are: a folder for each under the matrix's, and nothing else to keep in step.

runs/pointmass/
  cells/<name>-<fingerprint>/    a run directory as `utds train` writes it, and beside its files
    cell.json                      what the cell is, and the command that reproduces it
    events.jsonl                   every start, finish and failure, only ever appended
    error.json                     why it failed for good
    lock                           held by the process that is at work on it
  logs/                          what workers print
  cache/                         compiled programs
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from utds import files
from utds.benchmark.cells import Cell
from utds.data import ids, store
from utds.errors import DataError

State = Literal["done", "failed", "running", "stopped", "waiting"]


@dataclass(frozen=True)
class Place:
    """A cell and its folder."""

    cell: Cell
    fingerprint: str
    folder: Path

    @property
    def state(self) -> State:
        if self.finished:
            return "done"
        if (self.folder / "error.json").exists():
            return "failed"
        if self.locked:
            return "running"
        return "stopped" if (self.folder / "config.json").exists() else "waiting"

    @property
    def finished(self) -> bool:
        path = self.folder / "result.json"
        return path.exists() and files.read_json(path).get("steps") == self.cell.steps

    @property
    def error(self) -> str:
        path = self.folder / "error.json"
        return files.read_json(path)["error"] if path.exists() else ""

    @property
    def step(self) -> int:
        """The last step that was logged."""
        path = self.folder / "metrics.csv"
        if not path.exists():
            return 0
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            lines = file.read().decode().splitlines()
        first = lines[-1].partition(",")[0] if lines else ""
        return int(first) if first.isdigit() else 0

    @property
    def locked(self) -> bool:
        """Whether a process is at work on the cell."""
        if not (self.folder / "lock").exists():
            return False
        with open(self.folder / "lock") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only one at work on the cell. The lock ends with its holder, however that ends."""
        with files.explained(f"write {self.folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)
            file = open(self.folder / "lock", "a")
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def note(self, event: str, **more: Any) -> None:
        """Append a line to events.jsonl; only the lock's holder does."""
        line = json.dumps({"time": round(time.time(), 3), "event": event, "process": os.getpid(), **more})
        with files.explained(f"write {self.folder}"), open(self.folder / "events.jsonl", "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def events(self) -> list[dict[str, Any]]:
        """The lines of events.jsonl. Each was written in one go: a kill can't cut one."""
        path = self.folder / "events.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def fail(self, error: str) -> None:
        """Record that the cell can't be finished."""
        self.note("failure", error=error)
        files.write_json(self.folder / "error.json", {"error": error})

    def forgive(self) -> None:
        """Let a failed cell be tried again."""
        (self.folder / "error.json").unlink(missing_ok=True)


def locate(cells: Sequence[Cell], out: Path) -> list[Place]:
    """The places of cells whose data is all there."""
    digests = {name: store.load(name).digest for name in datasets(cells)}
    places = []
    for cell in cells:
        fingerprint = cell.fingerprint(digests)
        places.append(Place(cell, fingerprint, out / "cells" / f"{cell.name}-{fingerprint[:8]}"))
    return places


def datasets(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Ids of all data of the cells."""
    return tuple(dict.fromkeys(name for cell in cells for name in cell.datasets))


def missing(names: Iterable[str]) -> list[str]:
    """Those of the datasets that aren't stored."""
    absent = []
    for name in names:
        try:
            ids.find(name)
        except DataError:
            absent.append(name)
    return absent


def set_aside(places: Sequence[Place], out: Path) -> list[Path]:
    """Move cells of the same name whose configuration, data or version has changed since to `.superseded`."""
    current, names = {place.folder.name for place in places}, {place.cell.name for place in places}
    moved = []
    for path in sorted((out / "cells").glob("*-*")):
        if path.name not in current and path.name.rpartition("-")[0] in names:
            moved.append(out / ".superseded" / path.name)
            moved[-1].parent.mkdir(exist_ok=True)
            path.rename(moved[-1])
    return moved
