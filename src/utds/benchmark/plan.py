"""Before a matrix runs: how many cells it has, which data is missing, and how long it will take.

The estimate times a few steps and one evaluation of every algorithm on made-up data.
"""

import functools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from utds import algorithms, domains, evaluation, progress, terminal, training
from utds.algorithms import Policy
from utds.benchmark.cells import Cell, datasets
from utds.benchmark.engine import spawn
from utds.benchmark.matrix import Matrix
from utds.benchmark.worker import threads_of, variables
from utds.collection import kinds
from utds.data import ids
from utds.data.columns import ZERO
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.errors import DataError

NAMED = 4  # missing datasets named in a message
SECONDS = 0.5  # of training that are timed, after compilation


COUNTED = ("single_task", "two_task", "all_sources", "algorithms", "seeds", "cells")


def rows(matrices: Sequence[Matrix]) -> list[dict[str, Any]]:
    """How many settings and cells each domain has; a setting is a main task, a kind of its data, and who shares."""
    found = []
    for name, cells in _parts(matrices):
        for domain in dict.fromkeys(cell.domain for cell in cells):
            here = [cell for cell in cells if cell.domain == domain]
            counts = settings(here)
            methods = len({(cell.algorithm_name, *(cell.fields[name] for name in cell.varied)) for cell in here})
            two = counts["next"] + counts["each"]
            numbers = (counts["single"], two, counts["all"], methods, here[0].seeds, len(here))
            found.append({"matrix": name, "domain": domain, **dict(zip(COUNTED, numbers, strict=True))})
    return found


def table(found: Sequence[dict[str, Any]]) -> Table:
    """The rows, with a line of totals where there are several."""
    heads = ("single-\ntask", "two-\ntask", "all\nsources", "algo-\nrithms", "seeds", "cells")
    shown = terminal.table("matrix", "domain", numbers=heads, title="settings and cells")
    for row in found:
        shown.add_row(row["matrix"], row["domain"], *(str(row[name]) for name in COUNTED))
    if len(found) > 1:
        shown.add_section()
        totals = {name: str(sum(row[name] for row in found)) for name in COUNTED}
        shown.add_row("total", "", *(totals[name] if name not in ("algorithms", "seeds") else "" for name in COUNTED))
    return shown


def _parts(matrices: Sequence[Matrix]) -> Iterator[tuple[str, list[Cell]]]:
    """The search of each matrix, if it has one, and its cells."""
    for matrix in matrices:
        if matrix.search is not None:
            yield f"{matrix.name}, search", matrix.search_cells()
        yield matrix.name, list(matrix.cells())


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
    with progress.bar("generating", len(absent), "datasets") as advance:
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
    kinds: dict[Any, Cell] = {}
    for cell in cells:  # a pool that shares is the dearer one: CDS looks at ten times the data
        key = _timed_as(cell)
        kinds[key] = max(kinds.get(key, cell), cell, key=lambda c: bool(c.sources))
    with (
        variables(threads_of(threads)),
        ProcessPoolExecutor(1, mp_context=spawn) as pool,
        progress.bar("measuring", len(kinds), "algorithms") as advance,
    ):
        speeds = {}
        for key, cell in kinds.items():
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
    import jax

    from utds.training.loop import advance, fresh

    domain, _ = domains.task(cell.task)
    random = np.random.default_rng(0)
    made = [_data(domain, f"{domain.name}-{i}", random) for i in range(1 + bool(cell.sources))]
    pool, key = share(*made, rewards=ZERO), jax.random.key(0)
    algorithm = algorithms.resolve(cell.algorithm, cell.steps)
    spec = algorithms.spec_of(algorithm, pool)
    begun = time.perf_counter()
    seed_state = fresh(algorithm, spec, pool, key)
    seed_state = jax.block_until_ready(advance(algorithm, seed_state, pool, key, 1))
    compiled = time.perf_counter() - begun
    steps, taken = 1, 0.0
    while taken < SECONDS:
        steps *= 2
        begun = time.perf_counter()
        seed_state = jax.block_until_ready(advance(algorithm, seed_state, pool, key, steps))
        taken = time.perf_counter() - begun
    evaluate = evaluation.evaluator(cell.task, cell.episodes, threads=threads)
    act = functools.partial(training.act, algorithm, Policy.of(seed_state.state))
    return Speed(taken / steps, _second_time(lambda: evaluate(act)) if evaluate else 0.0, compiled)


def _data(domain: domains.Domain, task: str, random: np.random.Generator) -> Dataset:
    size = 1000
    return Dataset.from_arrays(
        random.normal(size=(size + 1, domain.observation_size)),
        random.uniform(-1, 1, (size, domain.action_size)),
        random.uniform(size=size),
        task=task,
    )


def _second_time(do: Callable[[], object]) -> float:
    """Seconds of a call, after one that compiles and loads."""
    do()
    begun = time.perf_counter()
    do()
    return time.perf_counter() - begun
