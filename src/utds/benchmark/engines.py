"""Running jobs on workers that may die: whichever engine they belong to, this loop hands out, collects and retries.

An engine has slots. A slot is a worker that keeps its lake and its compiled programs between jobs, so a job goes to a
slot that has compiled its program already, else to one whose program no other slot is compiling.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from utds.benchmark.places import Place
from utds.benchmark.work import Job

RETRIES = 3  # of a cell whose worker died or stumbled


@dataclass
class Slot:
    """A place for one job at a time."""

    job: Job | None = None
    program: Any = None  # of the last job


class Engine(Protocol):
    """Where jobs run; see `utds.benchmark.local` and `utds.benchmark.cluster`."""

    @property
    def slots(self) -> Sequence[Slot]:
        """Those that are ready to work or at work."""

    def submit(self, slot: Slot, job: Job) -> None: ...

    def wait(self, seconds: float) -> Iterable[tuple[Job, str | None]]:
        """Jobs that ended since, each with what went wrong, if anything; at once if there are any."""

    def close(self) -> None:
        """End the workers; those at work save a checkpoint first."""


def execute(
    jobs: Iterable[Job], engine: Engine, tick: Callable[[], None] = lambda: None, retries: int = RETRIES
) -> None:
    """Run all jobs. A job whose worker died is taken up by another one; after `retries` times its cells have failed."""
    waiting, stumbles = list(jobs), Counter[Place]()
    try:
        while waiting or any(slot.job for slot in engine.slots):
            for slot in engine.slots:
                if slot.job is None and waiting:
                    job = _choose(waiting, slot, engine.slots)
                    waiting.remove(job)
                    engine.submit(slot, job)
            for job, error in engine.wait(0.5):
                again = _unfinished(job, error or "the worker ended without a word", stumbles, retries)
                if again:
                    waiting.insert(0, replace(job, places=again))
            tick()
    finally:
        engine.close()


def _choose(waiting: list[Job], slot: Slot, slots: Sequence[Slot]) -> Job:
    """A job of the slot's own program, else of one that no slot is busy with, else any."""
    busy = [other.program for other in slots if other.job]
    own = (job for job in waiting if job.program == slot.program)
    new = (job for job in waiting if job.program not in busy)
    return next(own, None) or next(new, None) or waiting[0]


def _unfinished(job: Job, error: str, stumbles: Counter[Place], retries: int) -> tuple[Place, ...]:
    """The cells of a job that are to be taken up again; those that stumbled too often are recorded as failed."""
    left = tuple(place for place in job.places if not place.finished and not place.error)
    for place in left:
        stumbles[place] += 1
        if stumbles[place] > retries:
            with place.lock():
                place.fail(f"{error} ({stumbles[place]} times)")
    return tuple(place for place in left if stumbles[place] <= retries)
