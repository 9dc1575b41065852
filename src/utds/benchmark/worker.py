"""What a worker does, whichever engine it belongs to, and what it is given.

It loads a lake once, then trains cell after cell of it. It is given its share of the cores and a GPU; several workers
on the same GPU divide its memory, of which JAX takes a share at its start. The process that hands GPUs out must not
take memory of one: what stands below `attempt` never starts JAX, and importing JAX does not.
"""

import contextlib
import importlib.util
import math
import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from utds import evaluation, files
from utds.adviser.dynamics import refuse_different
from utds.benchmark.cells import CellDir
from utds.data import store
from utds.data.dataset import Dataset
from utds.data.lake import Lake
from utds.errors import DataError, TrainingError
from utds.training import Run, Trainer, configuration
from utds.training.run_files import is_run

CACHE = "JAX_COMPILATION_CACHE_DIR"
MEMORY = 0.9  # of a GPU, that workers divide; the rest is for its other users
_ON_GPU = {"cuda", "gpu"}  # in JAX_PLATFORMS

spawn = multiprocessing.get_context("spawn")  # a fork would inherit JAX's threads in the middle of whatever they do


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
        self.kept: tuple[object, Lake] | None = None  # the lake, and of what it consists

    def run(self, job: Job) -> None:
        """Train the cell if it isn't finished. One that can't learn is recorded as failed; other trouble is raised."""
        cell_dir, lake = job.cell_dir, self._lake(job)
        with cell_dir.lock():
            if cell_dir.finished:
                return
            cell_dir.note("start", host=socket.gethostname(), step=cell_dir.step)
            files.write_json(cell_dir.folder / "cell.json", cell_dir.cell.facts(cell_dir.fingerprint))
            try:
                loaded = dict(zip(job.lake, lake.datasets, strict=True))  # their own names may have a version
                self._check(cell_dir, loaded)
                self._trainer(cell_dir, lake, loaded).train()
            except (TrainingError, Refused) as error:
                cell_dir.fail(str(error))
            else:
                cell_dir.note("finish")

    def _lake(self, job: Job) -> Lake:
        """The lake of a job; the last one is freed before it is loaded, which may fail."""
        consists_of = job.lake, job.tasks
        if self.kept is None or self.kept[0] != consists_of:
            self.kept = None
            self.kept = consists_of, Lake([self.load(name) for name in job.lake], job.tasks)
        return self.kept[1]

    def _check(self, cell_dir: CellDir, loaded: Mapping[str, Dataset]) -> None:
        """The dynamics of a cell that begins; every worker of the matrix looks up what another has found."""
        if cell_dir.cell.trust_dynamics or is_run(cell_dir.folder):
            return
        try:
            data = [loaded[name] for name in cell_dir.cell.datasets]
            refuse_different(data, kept=cell_dir.folder.parents[1] / "dynamics")
        except DataError as error:
            raise Refused(str(error)) from None

    def _trainer(self, cell_dir: CellDir, lake: Lake, loaded: Mapping[str, Dataset]) -> Trainer:
        """Claims the run directory."""
        cell = cell_dir.cell
        if cell.fingerprint({name: data.digest for name, data in loaded.items()}) != cell_dir.fingerprint:
            raise DataError(f"the data of {cell.name} changed since the matrix was planned; run it again")
        pool = lake.pool(*(loaded[name] for name in cell.datasets), rewards=cell.rewards)
        config = configuration(
            pool,
            cell.algorithm,
            seeds=list(cell.seed_numbers),
            steps=cell.steps,
            eval_every=cell.eval_every,
            log_every=cell.log_every,
            checkpoint_every=cell.checkpoint_every,
        )
        run = Run.claim(cell_dir.folder, config, resume=True)
        evaluate = evaluation.evaluator(cell.task, cell.episodes, threads=self.threads)
        return Trainer(run, pool, evaluate, vmap=jax.default_backend() != "cpu")


def attempt(worker: Worker, job: Job) -> str | None:
    """Run a job; what went wrong in one line, all of it on stderr."""
    try:
        worker.run(job)
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def visible_gpus(devices: Path = Path("/dev")) -> tuple[str, ...]:
    """The GPUs that JAX would see in a new process: those of CUDA_VISIBLE_DEVICES, else all of this machine."""
    asked = os.environ.get("JAX_PLATFORMS", "")
    if asked and not _ON_GPU & {name.strip() for name in asked.split(",")}:
        return ()
    if not _for_cuda():
        return ()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return tuple(str(number) for number in range(len(list(devices.glob("nvidia[0-9]*")))))
    names = [name.strip() for name in named.split(",")]
    return tuple(names[: names.index("-1")] if "-1" in names else filter(None, names))  # CUDA reads up to a -1


def _for_cuda() -> bool:
    """Whether JAX was installed with what it needs for NVIDIA's GPUs."""
    return any(importlib.util.find_spec(f"jax_cuda{version}_plugin") for version in (12, 13))


def default_workers(gpus: Sequence[str], each: float | None, cores: int) -> int:
    """The default number of workers: one per GPU, or as many as `each` leaves room for; without GPUs, one per core."""
    if not gpus or each == 0:
        return cores
    return max(1, math.floor(len(gpus) / (each or 1)))


def gpu_of(worker: int, workers: int, gpus: Sequence[str] | None) -> dict[str, str]:
    """Environment variables that give a worker its GPU: they take turns, and those on one GPU divide its memory.

    None holds it to the CPU; an empty list says nothing.
    """
    if gpus is None:
        return {"JAX_PLATFORMS": "cpu"}
    if not gpus:
        return {}
    sharing = math.ceil(workers / len(gpus))
    return {"CUDA_VISIBLE_DEVICES": gpus[worker % len(gpus)]} | memory(1 / sharing)


def memory(share: float) -> dict[str, str]:
    """The variable that holds JAX to a share of a GPU; none for a whole one, or where the user has set one."""
    name = "XLA_PYTHON_CLIENT_MEM_FRACTION"
    if not 0 < share < 1 or name in os.environ:
        return {}
    return {name: f"{MEMORY * share:.3f}"}


def environment(threads: int, out: Path) -> dict[str, str]:
    """Environment variables of a worker: its share of the cores, and where compiled programs are kept."""
    return threads_of(threads) | {CACHE: programs(out), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2"}


def programs(out: Path) -> str:
    """Where compiled programs are kept, by host: one compiled for another processor might not run here."""
    return os.environ.get(CACHE) or str(out.resolve() / "cache" / socket.gethostname())


def threads_of(count: int) -> dict[str, str]:
    """Environment variables that hold XLA (the first) and the linear algebra of NumPy and SciPy to so many threads."""
    return dict.fromkeys(("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(count))


@contextlib.contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for processes that start within the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
