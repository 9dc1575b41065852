"""What a worker does, whichever engine it belongs to: load a lake once, then train cell after cell of it."""

import socket
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from utds import evaluation, files
from utds.benchmark.cells import CellDir
from utds.data import store
from utds.data.dataset import Dataset
from utds.data.lake import Lake
from utds.data.pool import Pool
from utds.errors import DataError, TrainingError
from utds.training import Run, Trainer, configuration
from utds.training.run_files import is_run
from utds.training.sharing import check_dynamics


class Refused(DataError):
    """Data that must not be shared: trying again would not help."""


Load = Callable[[str], Dataset]


@dataclass(frozen=True)
class Job:
    """Work for one worker: a cell, and the lake that it belongs to."""

    cell_dir: CellDir
    lake: tuple[str, ...]  # ids of all datasets of the domain that the matrix uses
    tasks: tuple[str, ...]  # main tasks of the matrix in that domain

    @property
    def program(self) -> tuple[Any, ...]:
        return self.cell_dir.cell.program


class Worker:
    """Keeps the lake of the last job: a matrix has one per domain."""

    def __init__(self, threads: int, load: Load = store.load) -> None:
        self.threads, self.load = threads, load
        self.key: tuple[tuple[str, ...], ...] = ()
        self.lake: Lake | None = None

    def run(self, job: Job) -> None:
        """Train the cell if it isn't finished. One that can't learn is recorded as failed; other trouble is raised."""
        if self.key != (job.lake, job.tasks):
            self.key, self.lake = (), None  # freed before the next is loaded, which may fail
            self.lake = Lake([self.load(name) for name in job.lake], job.tasks)
            self.key = (job.lake, job.tasks)
        cell_dir = job.cell_dir
        with cell_dir.lock():
            if cell_dir.finished:
                return
            cell_dir.note("start", host=socket.gethostname(), step=cell_dir.step)
            try:
                self._check(cell_dir)
                self._trainer(cell_dir).train()
            except (TrainingError, Refused) as error:
                cell_dir.fail(str(error))
            else:
                cell_dir.note("finish")

    def _check(self, cell_dir: CellDir) -> None:
        """The dynamics of a cell that begins; every worker of the matrix looks up what another has found."""
        if cell_dir.cell.trust_dynamics or is_run(cell_dir.folder):
            return
        assert self.lake is not None
        loaded = {data.name: data for data in self.lake.datasets}
        try:
            check_dynamics([loaded[name] for name in cell_dir.cell.datasets], cell_dir.folder.parents[1] / "dynamics")
        except DataError as error:
            raise Refused(str(error)) from None

    def _trainer(self, cell_dir: CellDir) -> Trainer:
        """Claims the run directory and writes what it is."""
        cell, pool = cell_dir.cell, self._pool(cell_dir)
        config = configuration(
            pool,
            cell.algorithm,
            seeds=list(cell.seed_numbers),
            steps=cell.steps,
            eval_every=cell.eval_every,
            log_every=cell.log_every,
            checkpoint_every=cell.checkpoint_every,
        )
        files.write_json(cell_dir.folder / "cell.json", cell.facts(cell_dir.fingerprint))
        run = Run.claim(cell_dir.folder, config, resume=True)
        evaluate = evaluation.evaluator(cell.task, cell.episodes, threads=self.threads)
        return Trainer(run, pool, evaluate, vmap=jax.default_backend() != "cpu")

    def _pool(self, cell_dir: CellDir) -> Pool:
        assert self.lake is not None
        main, *others = cell_dir.cell.datasets
        if cell_dir.cell.fingerprint({data.name: data.digest for data in self.lake.datasets}) != cell_dir.fingerprint:
            raise DataError(f"the data of {cell_dir.cell.name} changed since the matrix was planned; run it again")
        return self.lake.pool(main, *others, rewards=cell_dir.cell.rewards)


def attempt(worker: Worker, job: Job) -> str | None:
    """Run a job; what went wrong in one line, all of it on stderr."""
    try:
        worker.run(job)
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None
