"""The local engine: a process a worker, each with its share of the cores.

    this process ── pipe ── worker 0      job  ->    one at a time
                 └─ pipe ── worker 1      <- None, or what went wrong

A worker that dies is replaced. Workers whose parent dies save a checkpoint and end; should they linger, the cell's lock
keeps a new worker waiting.
"""

import contextlib
import multiprocessing
import multiprocessing.connection as connections
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from utds.benchmark.engines import Slot
from utds.benchmark.work import Job, Worker, attempt, environment

SAVING = 120.0  # seconds that a worker is given to write its checkpoint when all is stopped

spawn = multiprocessing.get_context("spawn")  # a fork would inherit JAX's threads in the middle of whatever they do


@dataclass(eq=False)
class _Process(Slot):
    process: Any = None
    pipe: Any = None


class Local:
    """`workers` processes of `threads` threads each."""

    def __init__(self, workers: int, threads: int, out: Path) -> None:
        self.threads, self.out = threads, out
        self.slots = [_Process() for _ in range(workers)]
        for slot in self.slots:
            self._start(slot)

    def submit(self, slot: Slot, job: Job) -> None:
        assert isinstance(slot, _Process)
        slot.job, slot.program = job, job.program
        try:
            slot.pipe.send(job)
        except BrokenPipeError:
            return  # it died while idle: `wait` finds out, and the job is tried again

    def wait(self, seconds: float) -> Iterator[tuple[Job, str | None]]:
        connections.wait([x for slot in self.slots for x in (slot.pipe, slot.process.sentinel)], seconds)
        for slot in self.slots:
            job = slot.job
            if slot.pipe.poll():
                try:
                    error = slot.pipe.recv()
                except EOFError:
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
        log = self.out / "logs" / f"worker-{self.slots.index(slot)}.log"
        process: BaseProcess = spawn.Process(target=_serve, args=(theirs, self.threads, log), daemon=True)
        with variables(environment(self.threads, self.out)):  # libraries read them when they load
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
        except (EOFError, BrokenPipeError, KeyboardInterrupt):
            return


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connections.wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


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
