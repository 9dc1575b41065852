"""How long a matrix will take: a few steps and one evaluation of every algorithm, on made-up data."""

import functools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from utds import domains, evaluation, progress, runs
from utds.algorithms import Policy, Spec
from utds.benchmark.cells import Cell
from utds.benchmark.local import spawn, variables
from utds.benchmark.work import threads_of
from utds.data.dataset import Dataset
from utds.data.lake import share

SECONDS = 0.5  # of training that are timed, after compilation


class Speed(NamedTuple):
    """Seconds."""

    step: float  # a gradient step of one seed
    evaluation: float  # of one seed
    start: float  # compiling and the like


def seconds(cells: Sequence[Cell], threads: int) -> float:
    """What all cells take on one worker of so many threads."""
    kinds: dict[Any, Cell] = {}
    for cell in cells:  # a pool that shares is the dearer one: CDS looks at ten times the data
        key = (cell.domain, cell.algorithm)
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
        found = speeds[cell.domain, cell.algorithm]
        evaluations = -(-cell.steps // cell.eval_every)
        total += cell.seeds * (cell.steps * found.step + evaluations * found.evaluation)
    return total


def speed(cell: Cell, threads: int) -> Speed:
    """Measured here and now."""
    import jax

    from utds.lanes import advance, fresh

    domain, _ = domains.task(cell.task)
    random = np.random.default_rng(0)
    made = [_data(domain, f"{domain.name}-{i}", random) for i in range(1 + bool(cell.sources))]
    pool, algorithm, key = share(*made, rewards="zero"), cell.algorithm, jax.random.key(0)
    spec = Spec.of(pool)
    begun = time.perf_counter()
    lane = fresh(algorithm, spec, pool, key)
    lane = jax.block_until_ready(advance(algorithm, lane, pool, key, 1))
    compiled = time.perf_counter() - begun
    steps, taken = 1, 0.0
    while taken < SECONDS:
        steps *= 2
        begun = time.perf_counter()
        lane = jax.block_until_ready(advance(algorithm, lane, pool, key, steps))
        taken = time.perf_counter() - begun
    evaluate = evaluation.evaluator(cell.task, cell.episodes, threads=threads)
    act = functools.partial(runs.act, algorithm, Policy.of(lane.state))
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
