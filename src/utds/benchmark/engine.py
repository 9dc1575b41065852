"""Running jobs on workers that may die. `run` is a matrix from beginning to end, `Local` the engine of this machine.

An engine has slots. A slot is a worker that keeps its lake and its compiled programs between jobs, so a job goes to a
slot that has compiled its program already, else to one whose program no other slot is compiling. `Local` has a process
for each worker, with its share of the cores; the engine of a Ray cluster is in `cluster.py`.

    this process ── pipe ── worker 0      job  ->    one at a time
                 └─ pipe ── worker 1      <- None, or what went wrong

A worker that dies is replaced. Workers whose parent dies save a checkpoint and end; should they linger, the cell's lock
keeps a new worker waiting.
"""

import multiprocessing
import multiprocessing.connection as connections
import os
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from utds.benchmark import search
from utds.benchmark.cells import Cell, CellDir, datasets, locate, set_aside
from utds.benchmark.matrix import Matrix
from utds.benchmark.plan import Status, shown
from utds.benchmark.worker import Job, Worker, attempt, environment, gpu_of, spawn, variables

RETRIES = 3  # of a cell whose worker died or failed at it
SAVING = 120.0  # seconds that a worker is given to write its checkpoint when all is stopped


@dataclass(eq=False)  # two idle slots are still two
class Slot:
    """A place for one job at a time."""

    job: Job | None = None
    program: Any = None  # of the last job


class Engine(Protocol):
    """Where jobs run; `Local`, or `utds.benchmark.cluster.Cluster`."""

    @property
    def slots(self) -> Sequence[Slot]:
        """Those that are ready to work or at work."""

    def submit(self, slot: Slot, job: Job) -> None: ...

    def wait(self, seconds: float) -> Iterable[tuple[Job, str | None]]:
        """Jobs that ended since, each with what went wrong, if anything; at once if there are any."""

    def close(self) -> None:
        """End the workers; those at work save a checkpoint first."""


def run_matrix(
    matrix: Matrix,
    out: Path,
    start: Callable[[Sequence[Job]], Engine],
    retry: bool = False,
    search_only: bool = False,
    algorithms: Sequence[str] = (),
) -> list[Status]:
    """A matrix's search, if it has one, then its cells with the fields found. Returns how far each of them came.

    A trial that fails is a bad trial, not a failure of the matrix. Where algorithms are named, those of others wait.
    """
    found, statuses = None, []
    if matrix.search is not None:
        statuses.append(run(f"{matrix.name}, search", matrix.search_cells(algorithms), out, start, retry))
        found = conclude(matrix, out)
    if not search_only:
        statuses.append(run(matrix.name, matrix.cells(found, algorithms), out, start, retry))
    return statuses


def conclude(matrix: Matrix, out: Path) -> dict[str, dict[str, Any]]:
    """Rank the trials of a search, write and print what came out; the best fields of every algorithm that is done."""
    assert matrix.search is not None
    dirs = search.ended(locate(matrix.search_cells(), out))
    ranked = search.rank(matrix.search, dirs)
    best = search.best(ranked)
    console = Console()
    console.print(search.table(matrix.search, ranked))
    paths = search.write(matrix.search, ranked, dirs, out)
    console.print(f"wrote {' and '.join(map(str, paths))}", highlight=False, soft_wrap=True)
    return best


def run(
    name: str,
    cells: Sequence[Cell],
    out: Path,
    start: Callable[[Sequence[Job]], Engine],
    retry: bool = False,
) -> Status:
    """Run what isn't done. Cells that have failed before stay failed unless `retry`. Returns how far all came."""
    found, console = locate(cells, out), Console(stderr=True)
    moved = set_aside(found, out)
    for path in moved:
        console.print(f"superseded by a changed configuration, data or version: {path}", highlight=False)
    if moved:
        console.print(f"if another matrix made them, give each a folder of its own: --out, here {out}", highlight=False)
    if retry:
        for cell_dir in found:
            cell_dir.forgive()
    status = Status(name, found)
    todo = [cell_dir for cell_dir in found if status.states[cell_dir] not in ("done", "failed")]
    if todo:
        work = jobs(todo, cells)
        with shown(status, console) as show:
            execute(work, start(work), show)
    status.refresh()
    console.print(status.headline(), highlight=False)
    for cell_dir in status.which("failed"):
        console.print(f"failed: {cell_dir.folder}: {cell_dir.error}", highlight=False, soft_wrap=True)
    return status


def jobs(todo: Sequence[CellDir], cells: Sequence[Cell]) -> list[Job]:
    """A job for each cell to do, programs one after the other."""
    programs: dict[object, list[CellDir]] = {}
    for cell_dir in todo:
        programs.setdefault(cell_dir.cell.program, []).append(cell_dir)
    lakes: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    for domain in dict.fromkeys(cell.domain for cell in cells):
        here = [cell for cell in cells if cell.domain == domain]
        lakes[domain] = datasets(here), tuple(dict.fromkeys(cell.task for cell in here))
    return [Job(cell_dir, *lakes[cell_dir.cell.domain]) for group in programs.values() for cell_dir in group]


def execute(
    jobs: Iterable[Job], engine: Engine, tick: Callable[[], None] = lambda: None, retries: int = RETRIES
) -> None:
    """Run all jobs. A job whose worker died is taken up by another one; after `retries` times its cell has failed."""
    waiting, attempts = list(jobs), Counter[CellDir]()
    try:
        while waiting or any(slot.job for slot in engine.slots):
            for slot in engine.slots:
                if slot.job is None and waiting:
                    job = _choose(waiting, slot, engine.slots)
                    waiting.remove(job)
                    engine.submit(slot, job)
            for job, error in engine.wait(0.5):
                if _is_retried(job.cell_dir, error or "the worker ended without a word", attempts, retries):
                    waiting.insert(0, job)
            tick()
    finally:
        engine.close()


def _choose(waiting: list[Job], slot: Slot, slots: Sequence[Slot]) -> Job:
    """A job of the slot's own program, else of one that no slot is busy with, else any."""
    busy = [other.program for other in slots if other.job]
    own = (job for job in waiting if job.program == slot.program)
    new = (job for job in waiting if job.program not in busy)
    return next(own, None) or next(new, None) or waiting[0]


def _is_retried(cell_dir: CellDir, error: str, attempts: Counter[CellDir], retries: int) -> bool:
    """Whether a cell that ended is to be taken up again; one that ended so too often is recorded as failed."""
    if cell_dir.finished or cell_dir.error:
        return False
    attempts[cell_dir] += 1
    if attempts[cell_dir] > retries:
        with cell_dir.lock():
            cell_dir.fail(f"{error} ({attempts[cell_dir]} times)")
    return attempts[cell_dir] <= retries


@dataclass(eq=False)
class _Process(Slot):
    process: Any = None
    pipe: Any = None


class Local:
    """`workers` processes of `threads` threads each; where there are `gpus`, each with one of them. None: none."""

    def __init__(self, workers: int, threads: int, out: Path, gpus: Sequence[str] | None = ()) -> None:
        self.threads, self.out, self.gpus = threads, out, gpus
        self.slots = [_Process() for _ in range(workers)]
        for slot in self.slots:
            self._start(slot)

    def submit(self, slot: Slot, job: Job) -> None:
        assert isinstance(slot, _Process)
        slot.job, slot.program = job, job.program
        try:
            slot.pipe.send(job)
        except OSError:
            return  # it died while idle: `wait` finds out, and the job is tried again

    def wait(self, seconds: float) -> Iterator[tuple[Job, str | None]]:
        connections.wait([x for slot in self.slots for x in (slot.pipe, slot.process.sentinel)], seconds)
        for slot in self.slots:
            job = slot.job
            if slot.pipe.poll():
                try:
                    error = slot.pipe.recv()
                except (EOFError, OSError):  # it was killed, in the middle of its answer or before
                    error = self._replace(slot)
            elif not slot.process.is_alive():
                error = self._replace(slot)
            else:
                continue
            slot.job = None
            if job is not None:
                yield job, error

    def close(self) -> None:
        for slot in self.slots:
            slot.pipe.close()  # ends an idle worker
            if slot.job is not None:
                slot.process.terminate()  # it writes a checkpoint first
        for slot in self.slots:
            slot.process.join(SAVING)
            if slot.process.is_alive():
                slot.process.kill()
                slot.process.join()

    def _start(self, slot: _Process) -> None:
        slot.pipe, theirs = spawn.Pipe()
        number = self.slots.index(slot)
        log = self.out / "logs" / f"worker-{number}.log"
        process: BaseProcess = spawn.Process(target=_serve, args=(theirs, self.threads, log), daemon=True)
        given = environment(self.threads, self.out) | gpu_of(number, len(self.slots), self.gpus)
        with variables(given):  # libraries read them when they load
            process.start()
        theirs.close()
        slot.process, slot.program = process, None

    def _replace(self, slot: _Process) -> str:
        slot.process.join()
        code = slot.process.exitcode
        slot.pipe.close()
        self._start(slot)
        return f"its worker was killed by signal {-code}" if code < 0 else f"its worker ended with exit code {code}"


def _serve(pipe: Connection, threads: int, log: Path) -> None:
    """A worker's life."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "a", buffering=1, encoding="utf-8") as file:
        os.dup2(file.fileno(), 2)  # the terminal belongs to the parent; native libraries write here too
        sys.stderr = file
        threading.Thread(target=_end_with_parent, daemon=True).start()
        worker = Worker(threads)
        try:
            while True:
                pipe.send(attempt(worker, pipe.recv()))
        except (EOFError, OSError, KeyboardInterrupt):
            return
        except Exception:  # such as a job of a module that can't be imported here
            traceback.print_exc()  # while the log is open: after this block stderr is closed
            sys.exit(1)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connections.wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
