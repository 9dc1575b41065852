"""What people see of a matrix that runs: how far each cell is, as a table or a line."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from utds import terminal
from utds.benchmark import search
from utds.benchmark.cells import CellDir, State, locate
from utds.benchmark.matrix import Matrix

STATES: tuple[State, ...] = ("done", "running", "failed", "stopped", "waiting")
EVERY = 2.0  # seconds between looks at the state of all cells
SHOWN = 12  # cells named at most, of the running and of the failed ones each


def duration(seconds: float) -> str:
    """Two units at most: 45 s, 12 min, 3 h 20 min, 5 d 4 h."""
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    if hours < 24 * 730:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours / 24 / 365:.0f} years"


@dataclass
class Status:
    """The state of every cell, looked up again at each `look`; what is done stays done."""

    name: str
    dirs: Sequence[CellDir]
    states: dict[CellDir, State] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)
    at_first: float | None = None

    def look(self) -> None:
        for cell_dir in self.dirs:
            if self.states.get(cell_dir) != "done":
                self.states[cell_dir] = cell_dir.state
        if self.at_first is None:
            self.at_first = self.finished

    @property
    def finished(self) -> float:
        """Cells done, those under way counted in part."""
        return sum(
            1.0 if state == "done" else cell_dir.step / cell_dir.cell.steps if state in ("running", "stopped") else 0.0
            for cell_dir, state in self.states.items()
        )

    def count(self, state: State) -> int:
        return sum(found == state for found in self.states.values())

    def which(self, state: State) -> list[CellDir]:
        return [cell_dir for cell_dir, found in self.states.items() if found == state]

    def headline(self) -> str:
        done, failed = self.count("done"), self.count("failed")
        words = f"{self.name}: {done} of {len(self.dirs)} cells done, {self.count('running')} running, {failed} failed"
        gained, taken = self.finished - (self.at_first or 0.0), time.monotonic() - self.since
        if gained > 0 and taken > 1:
            left = len(self.dirs) - failed - self.finished
            words += f" · {60 * gained / taken:.3g} cells/min"
            words += f" · {duration(left * taken / gained)} left" if left > 0 else ""
        return words

    def counts(self) -> dict[str, Counter[State]]:
        """How many cells of each algorithm are in which state."""
        found: dict[str, Counter[State]] = {cell_dir.cell.algorithm_name: Counter() for cell_dir in self.dirs}
        for cell_dir, state in self.states.items():
            found[cell_dir.cell.algorithm_name][state] += 1
        return found

    def to_json(self) -> dict[str, Any]:
        """Counts in all and for each algorithm, and every cell that is running, failed or stopped."""
        counts = {name: {state: found[state] for state in STATES} for name, found in self.counts().items()}
        cells = [
            {"cell": d.cell.name, "folder": str(d.folder), "state": state, "step": d.step, "steps": d.cell.steps}
            | ({"error": d.error} if state == "failed" else {})
            for state in ("running", "failed", "stopped")
            for d in self.which(state)
        ]
        found: dict[str, Any] = {"name": self.name, "cells": len(self.dirs)}
        found |= {state: self.count(state) for state in STATES}
        return found | {"algorithms": counts, "unfinished": cells}

    def render(self) -> RenderableType:
        table = terminal.table("algorithm", numbers=STATES)
        for name, counts in self.counts().items():
            table.add_row(name, *(str(counts[state] or "·") for state in STATES))
        lines = [
            f"running  {cell_dir.cell.name}  {100 * cell_dir.step / cell_dir.cell.steps:.0f} %"
            for cell_dir in self.which("running")[:SHOWN]
        ]
        lines += [f"failed   {cell_dir.cell.name}: {cell_dir.error}" for cell_dir in self.which("failed")[:SHOWN]]
        if self.count("failed") > SHOWN:
            lines.append(f"failed   and {self.count('failed') - SHOWN} more")
        return Group(Text(self.headline(), style="bold"), table, *map(Text, lines))


def statuses(matrix: Matrix, out: Path) -> Iterator[Status]:
    """The state of a matrix's search, if it has one, and then of the cells whose fields the search has found."""
    found: dict[str, dict[str, Any]] | None = None
    if matrix.search is not None:
        trials = Status(f"{matrix.name}, search", locate(matrix.search_cells(), out))
        trials.look()
        yield trials
        found = search.best(search.rank(matrix.search, search.ended(trials.dirs)))
        if not found:
            return
    status = Status(matrix.name, locate(matrix.cells(found, tuple(found or ())), out))
    status.look()
    yield status


def watch(matrix: Matrix, out: Path, once: bool = False) -> None:
    """Show the state of a matrix, in a terminal again and again until all is done; its search first, if it has one."""
    console, seen = Console(), 0
    for status in statuses(matrix, out):
        begun = matrix.search is not None and not seen and (out / "cells").exists()  # before all algorithms' trials end
        _watch(status, console, once or begun)
        seen += 1
    if seen < 1 + (matrix.search is not None):
        console.print(f"{matrix.name}: its cells wait for the fields that the search finds", highlight=False)


def _watch(status: Status, console: Console, once: bool) -> None:
    if once or not console.is_terminal:
        console.print(status.render())
        return
    with Live(console=console, auto_refresh=False) as live, contextlib.suppress(KeyboardInterrupt):
        while True:
            status.look()
            live.update(status.render(), refresh=True)
            if status.count("done") + status.count("failed") == len(status.dirs):
                return
            time.sleep(EVERY)


@contextlib.contextmanager
def shown(status: Status, console: Console) -> Iterator[Callable[[], None]]:
    """A function that shows the status anew: a live table in a terminal, else a line whenever a cell has ended.

    It may be called at any time and looks every `EVERY` seconds: looking at hundreds of folders takes workers' time.
    """
    live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
    ended, looked = status.count("done") + status.count("failed"), time.monotonic()

    def show() -> None:
        nonlocal ended, looked
        if time.monotonic() - looked < EVERY:
            return
        status.look()
        before, ended, looked = ended, status.count("done") + status.count("failed"), time.monotonic()
        if live is not None:
            live.update(status.render(), refresh=True)
        elif ended > before:
            console.print(status.headline(), highlight=False, soft_wrap=True)

    with live or contextlib.nullcontext():
        yield show
