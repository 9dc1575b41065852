"""What people see of a matrix: its plan, and how far it is."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from utds.benchmark.cells import Cell
from utds.benchmark.matrix import Matrix
from utds.benchmark.places import Place, State

STATES: tuple[State, ...] = ("done", "running", "failed", "stopped", "waiting")
SHOWN = 12  # cells named at most, of the running and of the failed ones each


def plan(matrices: Sequence[Matrix]) -> Table:
    """How many settings and cells; a setting is a main task, a kind of its data, and who shares."""
    table = Table("matrix", "domain", title="settings and cells")
    for name in ("single-\ntask", "two-\ntask", "all\nsources", "algo-\nrithms", "seeds", "cells"):
        table.add_column(name, justify="right")
    totals: Counter[str] = Counter()
    for matrix in matrices:
        cells = list(matrix.cells())
        for domain in dict.fromkeys(cell.domain for cell in cells):
            here = [cell for cell in cells if cell.domain == domain]
            counts = settings(here)
            methods = len({cell.algorithm for cell in here})
            columns = [counts[column] for column in ("single", "each", "all")]
            totals.update(counts, cells=len(here))
            table.add_row(matrix.name, domain, *map(str, columns), str(methods), str(matrix.seeds), str(len(here)))
    if table.row_count > 1:
        table.add_section()
        counted = [str(totals[column]) for column in ("single", "each", "all")]
        table.add_row("total", "", *counted, "", "", str(totals["cells"]))
    return table


def settings(cells: Sequence[Cell]) -> Counter[str]:
    """How many different settings each column has, whatever the algorithm."""
    return Counter(column for column, *_ in {(cell.column, cell.task, cell.kind, cell.sources) for cell in cells})


def duration(seconds: float) -> str:
    """Two units at most: 45 s, 12 min, 3 h 20 min, 5 d 4 h."""
    minutes, hours = round(seconds / 60), seconds / 3600
    if seconds < 60:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    if hours < 48:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{hours // 24:.0f} d {hours % 24:.0f} h"


@dataclass
class Board:
    """The state of every cell, looked up again at each `look`; what is done stays done."""

    name: str
    places: Sequence[Place]
    states: dict[Place, State] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)
    at_first: float | None = None

    def look(self) -> None:
        for place in self.places:
            if self.states.get(place) != "done":
                self.states[place] = place.state
        if self.at_first is None:
            self.at_first = self.finished

    @property
    def finished(self) -> float:
        """Cells done, those under way counted in part."""
        return sum(
            1.0 if state == "done" else place.step / place.cell.steps if state in ("running", "stopped") else 0.0
            for place, state in self.states.items()
        )

    def count(self, state: State) -> int:
        return sum(found == state for found in self.states.values())

    def which(self, state: State) -> list[Place]:
        return [place for place, found in self.states.items() if found == state]

    def headline(self) -> str:
        done, failed = self.count("done"), self.count("failed")
        words = (
            f"{self.name}: {done} of {len(self.places)} cells done, {self.count('running')} running, {failed} failed"
        )
        gained, taken = self.finished - (self.at_first or 0.0), time.monotonic() - self.since
        if gained > 0 and taken > 1:
            left = len(self.places) - failed - self.finished
            words += f" · {60 * gained / taken:.3g} cells/min"
            words += f" · {duration(left * taken / gained)} left" if left > 0 else ""
        return words

    def render(self) -> RenderableType:
        table = Table("algorithm")
        for state in STATES:
            table.add_column(state, justify="right")
        for name in dict.fromkeys(place.cell.algorithm_name for place in self.places):
            counts = Counter(state for place, state in self.states.items() if place.cell.algorithm_name == name)
            table.add_row(name, *(str(counts[state] or "·") for state in STATES))
        lines = [
            f"running  {place.cell.name}  {100 * place.step / place.cell.steps:.0f} %"
            for place in self.which("running")[:SHOWN]
        ]
        lines += [f"failed   {place.cell.name}: {place.error}" for place in self.which("failed")[:SHOWN]]
        if self.count("failed") > SHOWN:
            lines.append(f"failed   and {self.count('failed') - SHOWN} more")
        return Group(Text(self.headline(), style="bold"), table, *map(Text, lines))
