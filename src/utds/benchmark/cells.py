"""A cell of a matrix: one setting, one algorithm, all seeds; and the folder in which it becomes one run directory.

Its fingerprint covers everything that its results depend on: the configuration, the datasets' digests and the version
of this package. Two cells with one fingerprint are the same work; a cell with another one is new work.

runs/pointmass/
  cells/<name>-<fingerprint>/    a run directory as `utds train` writes it, and beside its files
    cell.json                      what the cell is, and the command that reproduces it
    events.jsonl                   every start, finish and failure, only ever appended
    error.json                     why it failed for good
    lock                           held by the process that is at work on it
  search/                        cells of the search, if the matrix has one
  dynamics/                      which datasets were found to move alike
  logs/                          what workers print
  cache/                         compiled programs
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from utds import algorithms, files
from utds.algorithms import Algorithm
from utds.data import labelling, store
from utds.training import run_files
from utds.version import __version__

State = Literal["done", "failed", "running", "stopped", "waiting"]


@dataclass(frozen=True)
class Cell:
    matrix: str  # name of the matrix
    task: str  # the main task, such as walker-walk
    kind: str  # of its own data
    sources: tuple[str, ...]  # tasks that share their data; none in the single-task column
    column: str  # single, next, each or all
    source_kind: str  # kind of the shared data
    rewards: str  # of the shared data: known, learned or zero
    algorithm_name: str
    preset: str
    fields: Mapping[str, Any] = field(hash=False)  # of the algorithm, beside its preset
    varied: tuple[str, ...]  # those of the fields that differ between cells of the matrix
    seeds: int
    first_seed: int
    steps: int
    eval_every: int
    checkpoint_every: int
    episodes: int  # of an evaluation
    trust_dynamics: bool = False  # share without checking that the data moves as the main task's does
    trial: int | None = None  # of a search over fields; None for the cells that are reported
    trials: int | None = None  # how many each algorithm had, where its fields were searched for

    @property
    def domain(self) -> str:
        return self.task.partition("-")[0]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Ids of the data, the main task's own first."""
        return (f"{self.task}/{self.kind}", *(f"{task}/{self.source_kind}" for task in self.sources))

    @cached_property
    def algorithm(self) -> Algorithm:
        return algorithms.make(self.algorithm_name, preset=self.preset, **self.fields)

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: a worker makes the algorithm anew, whose class may be of a file that it has yet to run."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def alone(self) -> "Cell | None":
        """The cell of the algorithm that this one becomes, itself often; None where data is shared or it isn't so.

        Fields that only choose among shared data, such as CDS's candidates, play no part in it.
        """
        single = algorithms.entry(algorithms.entry(self.algorithm_name).single_task)
        if self.sources or self.preset not in single.presets:
            return None
        names = [field.name for field in fields(single.kind)]
        if not set(self.varied) <= set(names):
            return None
        kept = {name: value for name, value in self.fields.items() if name in names}
        found = replace(self, algorithm_name=single.name, fields=kept)
        same = all(getattr(found.algorithm, name) == getattr(self.algorithm, name, ...) for name in names)
        return found if same else None

    @property
    def log_every(self) -> int:
        return min(1_000, self.eval_every)

    @property
    def seed_numbers(self) -> tuple[int, ...]:
        return tuple(range(self.first_seed, self.first_seed + self.seeds))

    @property
    def name(self) -> str:
        """What tells the cell from the others of its matrix, for people and for folders."""
        source = {"single": "alone", "all": "from-all"}.get(self.column)
        if source is None:
            source = f"from-{self.sources[0].partition('-')[2]}"
        varied = [f"{name}={self.fields[name]}" for name in self.varied]
        trial = [] if self.trial is None else [f"trial={self.trial}"]
        return "_".join([self.task, self.kind, source, self.algorithm_name, *trial, *varied])

    @property
    def program(self) -> tuple[Any, ...]:
        """Cells with equal programs share one compilation on one lake."""
        return self.domain, self.algorithm, len(self.sources)

    def fingerprint(self, digests: Mapping[str, str]) -> str:
        """SHA-256 of all that matters; `digests` maps ids of datasets to theirs."""
        matters = {
            "version": __version__,
            "algorithm": algorithms.to_config(self.algorithm),
            "data": [[name, digests[name]] for name in self.datasets],
            "rewards": labelling.make(self.rewards).identity,
            "seeds": self.seed_numbers,
            "steps": self.steps,
            "eval_every": self.eval_every,
            "episodes": self.episodes,
        }
        return hashlib.sha256(json.dumps(matters, sort_keys=True).encode()).hexdigest()

    def command(self) -> str:
        """What reproduces the cell by itself."""
        return run_files.command(
            datasets=self.datasets,
            algorithm=self.algorithm_name,
            preset=self.preset,
            fields=self.fields,
            rewards=self.rewards,
            seeds=self.seed_numbers,
            options={"steps": self.steps, "eval_every": self.eval_every, "episodes": self.episodes},
            trust_dynamics=self.trust_dynamics,
        )

    def facts(self, fingerprint: str) -> dict[str, Any]:
        """What a reader of the run directory should know beside its configuration: cell.json."""
        searched = {name: value for name in ("trial", "trials") if (value := getattr(self, name)) is not None}
        return {
            "matrix": self.matrix,
            "name": self.name,
            "fingerprint": fingerprint,
            "task": self.task,
            "kind": self.kind,
            "column": self.column,
            "sources": list(self.sources),
            "source_kind": self.source_kind,
            "algorithm": self.algorithm_name,
            "preset": self.preset,
            "fields": dict(self.fields),
            "varied": list(self.varied),
            "episodes": self.episodes,
            "version": __version__,
            "command": self.command(),
            **searched,
        }


@dataclass(frozen=True)
class CellDir:
    """A cell and its folder, which alone says how far it is."""

    cell: Cell
    fingerprint: str
    folder: Path

    @property
    def state(self) -> State:
        if self.finished:
            return "done"
        if (self.folder / "error.json").exists():
            return "failed"
        if files.locked(self.folder / "lock"):
            return "running"
        return "stopped" if run_files.is_run(self.folder) else "waiting"

    @property
    def finished(self) -> bool:
        return run_files.result(self.folder).get("steps") == self.cell.steps

    @property
    def error(self) -> str:
        return run_files.error(self.folder)

    @property
    def step(self) -> int:
        """The last step that was logged."""
        return run_files.last_step(self.folder)

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Be the only one at work on the cell; wait for whoever is, such as the last worker of a killed run."""
        return files.lock(self.folder / "lock", f"the cell {self.cell.name}", wait=True)

    def note(self, event: str, **more: Any) -> None:
        """Append a line to events.jsonl in one go, so that a kill can't cut it; only the lock's holder does."""
        line = json.dumps({"time": round(time.time(), 3), "event": event, "process": os.getpid(), **more})
        with files.explained(f"write {self.folder}"), open(self.folder / "events.jsonl", "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def fail(self, error: str) -> None:
        """Record that the cell can't be finished."""
        self.note("failure", error=error)
        files.write_json(self.folder / "error.json", {"error": error})

    def forgive(self) -> None:
        """Let a failed cell be tried again."""
        (self.folder / "error.json").unlink(missing_ok=True)


def locate(cells: Sequence[Cell], out: Path) -> list[CellDir]:
    """The folders of cells whose data is all there; those of a search lie apart from those that are reported."""
    digests = {name: store.load(name).digest for name in datasets(cells)}
    found = []
    for cell in cells:
        fingerprint = cell.fingerprint(digests)
        room = out / ("cells" if cell.trial is None else "search")
        found.append(CellDir(cell, fingerprint, room / f"{cell.name}-{fingerprint[:8]}"))
    return found


def datasets(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Ids of all data of the cells."""
    return tuple(dict.fromkeys(name for cell in cells for name in cell.datasets))


def set_aside(dirs: Sequence[CellDir], out: Path) -> list[Path]:
    """Move cells of the same name whose configuration, data or version has changed since to `.superseded`."""
    current, names = {cell_dir.folder.name for cell_dir in dirs}, {cell_dir.cell.name for cell_dir in dirs}
    moved = []
    for path in sorted([*(out / "cells").glob("*-*"), *(out / "search").glob("*-*")]):
        if path.name not in current and path.name.rpartition("-")[0] in names:
            moved.append(_free(out / ".superseded" / path.name))
            moved[-1].parent.mkdir(exist_ok=True)
            path.rename(moved[-1])
    return moved


def _free(path: Path) -> Path:
    """The path, or one beside it where that exists: data that changes back and forth is set aside more than once."""
    names = (path.with_name(f"{path.name}{suffix}") for suffix in ("", *(f".{n}" for n in range(1, 10_000))))
    return next(name for name in names if not name.exists())
