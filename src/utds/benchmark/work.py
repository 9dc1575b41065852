"""What a worker does, whichever engine it belongs to: load a lake once, then train cell after cell of it."""

import contextlib
import os
import socket
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from utds import evaluation, files
from utds.benchmark import together
from utds.benchmark.places import Place
from utds.data import store
from utds.data.dataset import Dataset
from utds.data.lake import Lake
from utds.data.pool import Pool
from utds.errors import DataError, TrainingError
from utds.runs import Run
from utds.training import Trainer, configuration

Load = Callable[[str], Dataset]


@dataclass(frozen=True)
class Job:
    """Work for one worker: a cell, or several to be trained together, and the lake that they belong to."""

    places: tuple[Place, ...]
    lake: tuple[str, ...]  # ids of all datasets of the domain that the matrix uses
    tasks: tuple[str, ...]  # main tasks of the matrix in that domain

    @property
    def program(self) -> tuple[Any, ...]:
        return self.places[0].cell.program


class Worker:
    """Keeps the lake of the last job: a matrix has one a domain."""

    def __init__(self, threads: int, load: Load = store.load) -> None:
        self.threads, self.load = threads, load
        self.key: tuple[tuple[str, ...], ...] = ()

    def run(self, job: Job) -> None:
        """Train what isn't finished. A cell that can't learn is recorded as failed; any other trouble is raised."""
        if self.key != (job.lake, job.tasks):
            self.lake: Lake | None = None  # freed before the next is loaded
            self.lake = Lake([self.load(name) for name in job.lake], job.tasks)
            self.key = (job.lake, job.tasks)
        with contextlib.ExitStack() as locks:
            for place in job.places:  # always in the matrix's order: two that wait for each other can't happen
                locks.enter_context(place.lock())
            self._train([place for place in job.places if not place.finished])

    def _train(self, places: Sequence[Place]) -> None:
        trainers: dict[Trainer, Place] = {}
        for place in places:
            trainers[self._trainer(place)] = place
            place.note("start", host=socket.gethostname(), step=place.step)
        ended = alone(*trainers) if len(trainers) == 1 else together.train(list(trainers))
        for trainer, error in ended:
            if error is None:
                trainers[trainer].note("finish")
            else:
                trainers[trainer].fail(str(error))

    def _trainer(self, place: Place) -> Trainer:
        """Claims the run directory and writes what it is."""
        cell, pool = place.cell, self._pool(place)
        config = configuration(
            pool,
            cell.algorithm,
            seeds=list(cell.seed_numbers),
            steps=cell.steps,
            eval_every=cell.eval_every,
            log_every=cell.log_every,
            checkpoint_every=cell.checkpoint_every,
        )
        files.write_json(place.folder / "cell.json", cell.facts(place.fingerprint))
        run = Run.claim(place.folder, config, resume=True)
        evaluate = evaluation.evaluator(cell.task, cell.episodes, threads=self.threads)
        return Trainer(run, pool, evaluate, vmap=jax.default_backend() != "cpu")

    def _pool(self, place: Place) -> Pool:
        assert self.lake is not None
        main, *others = place.cell.datasets
        if place.cell.fingerprint({data.name: data.digest for data in self.lake.datasets}) != place.fingerprint:
            raise DataError(f"the data of {place.cell.name} changed since the matrix was planned; run it again")
        return self.lake.pool(main, *others, rewards=place.cell.rewards)  # type: ignore[arg-type]


def attempt(worker: Worker, job: Job) -> str | None:
    """Run a job; what went wrong in one line, all of it on stderr."""
    try:
        worker.run(job)
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def alone(trainer: Trainer) -> Iterator[together.End]:
    """Train one cell, as `utds train` does."""
    try:
        trainer.train()
    except TrainingError as error:
        yield trainer, error
    else:
        yield trainer, None


def environment(threads: int, out: Path) -> dict[str, str]:
    """Environment variables of a worker: its share of the cores, and where compiled programs are kept.

    Programs are kept by host: one compiled for another processor might not run here.
    """
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(out.resolve() / "cache" / socket.gethostname())
    kept = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2"}
    return threads_of(threads) | kept


def threads_of(count: int) -> dict[str, str]:
    """Environment variables that hold XLA (the first) and the linear algebra of NumPy and SciPy to so many threads."""
    return dict.fromkeys(("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(count))
