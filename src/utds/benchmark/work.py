"""What a worker does, whichever engine it belongs to: load a lake once, then train cell after cell of it."""

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from utds import evaluation, files
from utds.benchmark.places import Place
from utds.data import store
from utds.data.dataset import Dataset
from utds.data.lake import Lake
from utds.data.pool import Pool
from utds.errors import DataError, TrainingError
from utds.training import train

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
        for place in job.places:
            with place.lock():
                if not place.finished:
                    self._train(place)

    def _train(self, place: Place) -> None:
        cell, begun = place.cell, time.monotonic()
        pool = self._pool(place)
        files.write_json(place.folder / "cell.json", cell.facts(place.fingerprint))
        place.note("start", host=socket.gethostname(), step=place.step)
        try:
            train(
                pool,
                cell.algorithm,
                seeds=cell.seed_numbers,
                steps=cell.steps,
                out=place.folder,
                evaluate=evaluation.evaluator(cell.task, cell.episodes, threads=self.threads),
                eval_every=cell.eval_every,
                log_every=cell.log_every,
                checkpoint_every=cell.checkpoint_every,
                resume=True,
            )
        except TrainingError as error:
            place.fail(str(error))
        else:
            place.note("finish", seconds=round(time.monotonic() - begun, 2))

    def _pool(self, place: Place) -> Pool:
        assert self.lake is not None
        main, *others = place.cell.datasets
        if place.cell.fingerprint({data.name: data.digest for data in self.lake.datasets}) != place.fingerprint:
            raise DataError(f"the data of {place.cell.name} changed since the matrix was planned; run it again")
        return self.lake.pool(main, *others, rewards=place.cell.rewards)  # type: ignore[arg-type]


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
