"""A matrix from outside. Before it runs: how many cells it has, which data is missing, and how long it will take; and
from then on how far each cell is, as a table or a line.

The estimate times a few steps and one evaluation of every algorithm on made-up data.
"""

import contextlib
import functools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from utds import algorithms, domains, evaluation, terminal, training
from utds.algorithms import Policy
from utds.benchmark import search
from utds.benchmark.cells import Cell, CellDir, State, datasets, locate
from utds.benchmark.matrix import Matrix
from utds.benchmark.worker import spawn, threads_of, variables
from utds.collection import kinds
from utds.data import ids
from utds.data.columns import ZERO
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.errors import DataError
from utds.training import loop

NAMED = 4  # missing datasets named in a message
SECONDS = 0.5  # of training that are timed, after compilation
STATES: tuple[State, ...] = ("done", "running", "failed", "stopped", "waiting")
EVERY = 2.0  # seconds between looks at the state of all cells
SHOWN = 12  # cells named at most, of the running and of the failed ones each
COUNTED = {  # what is counted, and its heading
    "single_task": "single-\ntask",
    "two_task": "two-\ntask",
    "all_sources": "all\nsources",
    "algorithms": "algo-\nrithms",
    "seeds": "seeds",
    "cells": "cells",
}


def rows(matrices: Sequence[Matrix]) -> list[dict[str, Any]]:
    """How many settings and cells each domain has; a setting is a main task, a kind of its data, and who shares."""
    found = []
    for matrix in matrices:
        parts = {matrix.name: matrix.cells()}
        if matrix.search is not None:
            parts = {f"{matrix.name}, search": matrix.search_cells(), **parts}
        for name, cells in parts.items():
            for domain in dict.fromkeys(cell.domain for cell in cells):
                here = [cell for cell in cells if cell.domain == domain]
                counts = settings(here)
                methods = len(
                    {(cell.algorithm_name, json.dumps([cell.fields[name] for name in cell.varied])) for cell in here}
                )
                two = counts["next"] + counts["each"]
                numbers = (counts["single"], two, counts["all"], methods, here[0].seeds, len(here))
                found.append({"matrix": name, "domain": domain, **dict(zip(COUNTED, numbers, strict=True))})
    return found


def table(found: Sequence[dict[str, Any]]) -> Table:
    """The rows, with a line of totals where there are several."""
    shown = terminal.table("matrix", "domain", numbers=tuple(COUNTED.values()), title="settings and cells")
    for row in found:
        shown.add_row(row["matrix"], row["domain"], *(str(row[name]) for name in COUNTED))
    if len(found) > 1:
        shown.add_section()
        totals = {name: str(sum(row[name] for row in found)) for name in COUNTED} | {"algorithms": "", "seeds": ""}
        shown.add_row("total", "", *totals.values())
    return shown


def settings(cells: Sequence[Cell]) -> Counter[str]:
    """How many different settings each column has, whatever the algorithm."""
    return Counter(column for column, *_ in {(cell.column, cell.task, cell.kind, cell.sources) for cell in cells})


def missing(names: Iterable[str]) -> list[str]:
    """Those of the datasets that aren't stored."""
    absent = []
    for name in names:
        try:
            ids.find(name)
        except DataError:
            absent.append(name)
    return absent


def require(cells: Sequence[Cell]) -> None:
    """Say in one line what is missing and how to make it."""
    absent = missing(datasets(cells))
    if absent:
        raise DataError(
            f"{complaint(absent)}; make them with `--generate 100` (episodes of the policies that ship), "
            f"`utds data generate {_task(absent[0])}` or `utds collect {_task(absent[0])}`"
        )


def complaint(absent: Sequence[str]) -> str:
    more = f" and {len(absent) - NAMED} more" if len(absent) > NAMED else ""
    return f"{len(absent)} datasets of the matrix are not stored: {', '.join(absent[:NAMED])}{more}"


def generate(cells: Sequence[Cell], episodes: int, seed: int = 0) -> None:
    """Make the missing datasets by rolling out the policies that ship, `episodes` of each.

    In a process of its own: JAX would start in this one and keep memory of a GPU that it is about to hand out.
    """
    if absent := missing(datasets(cells)):
        with variables({"JAX_PLATFORMS": "cpu"}), ProcessPoolExecutor(1, mp_context=spawn) as pool:
            pool.submit(_generate, absent, episodes, seed).result()


def _generate(absent: Sequence[str], episodes: int, seed: int) -> None:
    ladders = {task: kinds.load_ladder(task) for task in dict.fromkeys(map(_task, absent))}
    with terminal.bar("generating", len(absent), "datasets") as advance:
        for name in absent:
            kind = name.rpartition("/")[2]
            kinds.generate(ladders[_task(name)], kind, episodes, seed).save(name)
            advance(note=name)


def _task(name: str) -> str:
    return name.partition("/")[0]


class Speed(NamedTuple):
    """Seconds."""

    step: float  # a gradient step of one seed
    evaluation: float  # of one seed
    start: float  # compiling and the like


def seconds(cells: Sequence[Cell], threads: int) -> float:
    """What all cells take on one worker of so many threads."""
    timed: dict[Any, Cell] = {}
    for cell in cells:  # a pool that shares is the dearer one: CDS looks at ten times the data
        key = _timed_as(cell)
        timed[key] = max(timed.get(key, cell), cell, key=lambda c: bool(c.sources))
    speeds: dict[Any, Speed] = {}
    with (
        variables(threads_of(threads)),
        ProcessPoolExecutor(1, mp_context=spawn) as pool,
        terminal.bar("measuring", len(timed), "algorithms") as advance,
    ):
        for key, cell in timed.items():
            speeds[key] = pool.submit(speed, cell, threads).result()
            advance(note=cell.algorithm_name)
    total = sum(found.start for found in speeds.values())
    for cell in cells:
        found = speeds[_timed_as(cell)]
        evaluations = -(-cell.steps // cell.eval_every)
        total += cell.seeds * (cell.steps * found.step + evaluations * found.evaluation)
    return total


def _timed_as(cell: Cell) -> tuple[Any, ...]:
    """Cells with one key take about as long; the trials of a search are not timed one by one."""
    return cell.domain, cell.algorithm if cell.trial is None else cell.algorithm_name


def speed(cell: Cell, threads: int) -> Speed:
    """Measured here and now."""
    domain, _ = domains.task(cell.task)
    random = np.random.default_rng(0)
    made = [_data(domain, f"{domain.name}-{i}", random) for i in range(1 + bool(cell.sources))]
    pool, key = share(*made, rewards=ZERO), jax.random.key(0)
    algorithm = algorithms.resolve(cell.algorithm, cell.steps)
    spec = algorithms.spec_of(algorithm, pool)
    begun = time.perf_counter()
    seed_state = loop.fresh(algorithm, spec, pool, key)
    seed_state = jax.block_until_ready(loop.advance(algorithm, seed_state, pool, key, 1))
    compiled = time.perf_counter() - begun
    steps, taken = 1, 0.0
    while taken < SECONDS:
        steps *= 2
        begun = time.perf_counter()
        seed_state = jax.block_until_ready(loop.advance(algorithm, seed_state, pool, key, steps))
        taken = time.perf_counter() - begun
    evaluated = 0.0
    if evaluate := evaluation.evaluator(cell.task, cell.episodes, threads=threads):
        act = functools.partial(training.act, algorithm, Policy.of(seed_state.state))
        for _ in range(2):  # the first one compiles and loads
            begun = time.perf_counter()
            evaluate(act)
            evaluated = time.perf_counter() - begun
    return Speed(taken / steps, evaluated, compiled)


def _data(domain: domains.Domain, task: str, random: np.random.Generator) -> Dataset:
    size = 1000
    return Dataset.from_arrays(
        random.normal(size=(size + 1, domain.observation_size)),
        random.uniform(-1, 1, (size, domain.action_size)),
        random.uniform(size=size),
        task=task,
    )


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
    """The state of every cell, looked up again at each `refresh`; what is done stays done."""

    name: str
    dirs: Sequence[CellDir]
    states: dict[CellDir, State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.refresh()
        self.since, self.at_first = time.monotonic(), self.finished

    def refresh(self) -> None:
        for cell_dir in self.dirs:
            if self.states.get(cell_dir) != "done":
                self.states[cell_dir] = cell_dir.state

    @property
    def finished(self) -> float:
        """Cells done, those under way counted in part."""
        under_way = (d.step / d.cell.steps for state in ("running", "stopped") for d in self.which(state))
        return self.count("done") + sum(under_way)

    def count(self, *states: State) -> int:
        return sum(found in states for found in self.states.values())

    def which(self, state: State) -> list[CellDir]:
        return [cell_dir for cell_dir, found in self.states.items() if found == state]

    def headline(self) -> str:
        done, failed = self.count("done"), self.count("failed")
        words = f"{self.name}: {done} of {len(self.dirs)} cells done, {self.count('running')} running, {failed} failed"
        gained, taken = self.finished - self.at_first, time.monotonic() - self.since
        if gained > 0 and taken > 1:
            left = len(self.dirs) - failed - self.finished
            words += f" · {60 * gained / taken:.3g} cells/min"
            words += f" · {duration(left * taken / gained)} left" if left > 0 else ""
        return words

    def counts(self) -> dict[str, dict[State, int]]:
        """How many cells of each algorithm are in which state."""
        found = {cell_dir.cell.algorithm_name: dict.fromkeys(STATES, 0) for cell_dir in self.dirs}
        for cell_dir, state in self.states.items():
            found[cell_dir.cell.algorithm_name][state] += 1
        return found

    def to_json(self) -> dict[str, Any]:
        """Counts in all and for each algorithm, and every cell that is running, failed or stopped."""
        cells = [
            {"cell": d.cell.name, "folder": str(d.folder), "state": state, "step": d.step, "steps": d.cell.steps}
            | ({"error": d.error} if state == "failed" else {})
            for state in ("running", "failed", "stopped")
            for d in self.which(state)
        ]
        found: dict[str, Any] = {"name": self.name, "cells": len(self.dirs)}
        found |= {state: self.count(state) for state in STATES}
        return found | {"algorithms": self.counts(), "unfinished": cells}

    def render(self) -> RenderableType:
        table = terminal.table("algorithm", numbers=STATES)
        for name, counts in self.counts().items():
            table.add_row(name, *(str(counts[state] or "·") for state in STATES))
        running, failed = self.which("running")[:SHOWN], self.which("failed")
        lines = [f"running  {d.cell.name}  {100 * d.step / d.cell.steps:.0f} %" for d in running]
        lines += [f"failed   {d.cell.name}: {d.error}" for d in failed[:SHOWN]]
        if len(failed) > SHOWN:
            lines.append(f"failed   and {len(failed) - SHOWN} more")
        return Group(Text(self.headline(), style="bold"), table, *map(Text, lines))


def statuses(matrix: Matrix, out: Path) -> Iterator[Status]:
    """The state of a matrix's search, if it has one, and then of the cells whose fields the search has found."""
    found: dict[str, dict[str, Any]] | None = None
    if matrix.search is not None:
        trials = Status(f"{matrix.name}, search", locate(matrix.search_cells(), out))
        yield trials
        found = search.best(search.rank(matrix.search, search.ended(trials.dirs)))
        if not found:
            return
    yield Status(matrix.name, locate(matrix.cells(found, tuple(found or ())), out))


def watch(matrix: Matrix, out: Path, once: bool = False) -> None:
    """Show the state of a matrix, in a terminal again and again until all is done; its search first, if it has one."""
    console, seen = Console(), 0
    for status in statuses(matrix, out):
        begun = matrix.search is not None and not seen and (out / "cells").exists()  # before all algorithms' trials end
        if once or begun or not console.is_terminal:
            console.print(status.render())
        else:
            _watch(status, console)
        seen += 1
    if seen < 1 + (matrix.search is not None):
        console.print(f"{matrix.name}: its cells wait for the fields that the search finds", highlight=False)


def _watch(status: Status, console: Console) -> None:
    with Live(console=console, auto_refresh=False) as live, contextlib.suppress(KeyboardInterrupt):
        while True:
            status.refresh()
            live.update(status.render(), refresh=True)
            if status.count("done", "failed") == len(status.dirs):
                return
            time.sleep(EVERY)


@contextlib.contextmanager
def shown(status: Status, console: Console) -> Iterator[Callable[[], None]]:
    """A function that shows the status anew: a live table in a terminal, else a line whenever a cell has ended.

    It may be called at any time and looks every `EVERY` seconds: looking at hundreds of folders takes workers' time.
    """
    live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
    ended, looked = status.count("done", "failed"), time.monotonic()

    def show() -> None:
        nonlocal ended, looked
        if time.monotonic() - looked < EVERY:
            return
        status.refresh()
        before, ended, looked = ended, status.count("done", "failed"), time.monotonic()
        if live is not None:
            live.update(status.render(), refresh=True)
        elif ended > before:
            console.print(status.headline(), highlight=False, soft_wrap=True)

    with live or contextlib.nullcontext():
        yield show
