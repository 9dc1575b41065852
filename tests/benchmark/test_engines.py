"""The local engine: what runs, what is never repeated, what survives kills; cells trained together."""

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from utds.algorithms import TD3
from utds.benchmark import engines, places, runner
from utds.benchmark.engines import Slot, execute
from utds.benchmark.work import Job, Worker
from utds.cli import main
from utds.runs import Run

LEARNER = TD3(width=8, layers=1, batch=16)  # one of the matrix's two
SCORES = ("evaluations.csv", "metrics.csv", "policy-0.safetensors", "policy-1.safetensors", "checkpoint.safetensors")


def scores(out: Path) -> dict[str, list[bytes]]:
    return {path.name: [(path / name).read_bytes() for name in SCORES] for path in sorted((out / "cells").iterdir())}


def finishes(out: Path) -> Counter[str]:
    lines = [
        (p.parent.name, json.loads(x)) for p in out.glob("cells/*/events.jsonl") for x in p.read_text().splitlines()
    ]
    return Counter(name for name, line in lines if line["event"] == "finish")


def children(pid: int) -> list[int]:
    """Ids of the workers of a running matrix."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
            command = (entry.parent / "cmdline").read_text()
        except OSError:
            continue  # it ended in the meantime
        if int(fields[1]) == pid and "spawn_main" in command:
            found.append(int(entry.parent.name))
    return found


def logged(out: Path) -> int:
    return sum(path.stat().st_size for path in out.glob("cells/*/metrics.csv"))


def kill(process: subprocess.Popen, who: str) -> None:
    """kill -9: everything at once, the parent alone, or a worker."""
    if who == "all":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        victims = [process.pid] if who == "parent" else children(process.pid)[:1]
        for victim in victims:
            os.kill(victim, signal.SIGKILL)


def test_kills_at_random_moments_change_no_score_and_repeat_no_cell(start, stored, matrix, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    process = start(whole, "--workers=2")
    _, said = process.communicate()
    assert process.returncode == 0, said
    assert "8 of 8 cells done" in said
    for who in ("all", "parent", "worker"):
        process, before = start(killed, "--workers=2"), logged(killed)
        while process.poll() is None and logged(killed) <= before:
            time.sleep(0.001)  # until it trains: killing an import proves nothing
        time.sleep(random.uniform(0, 0.3))
        kill(process, who)
        if who != "worker":
            process.communicate()
    _, said = process.communicate()  # it goes on, with a new worker
    assert process.returncode == 0, said
    assert scores(killed) == scores(whole)
    assert max(finishes(killed).values()) == 1 and finishes(whole) == Counter(list(scores(whole)))
    assert runner.run("again", list(matrix.cells()), killed, start=pytest.fail) == 0  # no engine: nothing is left to do


def test_ctrl_c_leaves_a_checkpoint_and_goes_on(start, stored, tmp_path):
    process = start(tmp_path / "out", "--workers=1")
    while not logged(tmp_path / "out"):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130 and "Traceback" not in said
    begun = [path for path in (tmp_path / "out" / "cells").iterdir() if not (path / "result.json").exists()]
    assert begun and all((path / "checkpoint.safetensors").exists() for path in begun)


@pytest.fixture
def work(stored, matrix, tmp_path):
    """Places and jobs of the matrix, to be run in this process."""
    cells = list(matrix.cells())

    def work(name: str, together: int = 1) -> tuple[list[places.Place], list[Job]]:
        found = places.locate(cells, tmp_path / name)
        return found, runner.jobs(found, cells, together)

    return work


def test_cells_together_equal_cells_alone(work):
    """Up to rounding: stacked products may sum in another order."""
    worker = Worker(threads=1)
    alone, grouped = (
        [job for job in work(name, together)[1] if job.program[1:] == (LEARNER, 1)]
        for name, together in (("alone", 1), ("grouped", 2))
    )
    assert [len(job.places) for job in alone + grouped] == [1, 1, 2]
    for job in alone + grouped:
        worker.run(job)
    for job, other in zip(alone, grouped[0].places, strict=True):
        first, second = Run(job.places[0].folder), Run(other.folder)
        assert first.config == second.config and second.finished
        assert [row["step"] for row in first.metrics] == [row["step"] for row in second.metrics]
        observations = np.random.default_rng(0).normal(size=(9, 4))
        for seed in first.seeds:
            np.testing.assert_allclose(first.act(observations, seed), second.act(observations, seed), atol=1e-4)


def test_a_cell_equals_the_command_that_is_said_to_reproduce_it(work, tmp_path):
    _, jobs = work("matrix")
    worker, place = Worker(threads=1), jobs[-1].places[0]
    worker.run(jobs[-1])
    command = json.loads((place.folder / "cell.json").read_text())["command"]
    main([*command.split()[1:], "--out", str(tmp_path / "by-hand")])
    for name in SCORES:
        assert (tmp_path / "by-hand" / name).read_bytes() == (place.folder / name).read_bytes(), name
    starts = len(place.events())
    worker.run(jobs[-1])  # finished work is not done again
    assert len(place.events()) == starts and place.state == "done"


def test_changed_data_is_new_work_and_the_old_is_set_aside(work, tiny, tmp_path):
    from utds.data import store

    found, jobs = work("matrix")
    Worker(threads=1).run(jobs[0])
    changed = store.load("tinymass-reach-top-left/random").select([0])
    changed.save("tinymass-reach-top-left/random", overwrite=True)
    after, _ = work("matrix")
    assert after[0].fingerprint != found[0].fingerprint and after[0].state == "waiting"
    assert places.set_aside(after, tmp_path / "matrix") == [tmp_path / "matrix" / ".superseded" / found[0].folder.name]
    with pytest.raises(Exception, match="changed since the matrix was planned"):
        Worker(threads=1).run(jobs[0])


def test_a_diverging_cell_is_recorded_and_leaves_the_others_going(work, monkeypatch):
    monkeypatch.setattr("utds.training.Trainer.limit", property(lambda t: -1.0, lambda t, v: None), raising=False)
    jobs = [job for job in work("failing", together=2)[1] if job.program[-1] == 1]  # the two-task ones
    for job in jobs:
        Worker(threads=1).run(job)
    found = [place for job in jobs for place in job.places]
    states = Counter((place.cell.algorithm_name, place.state) for place in found)
    assert states == {("bc", "done"): 2, ("td3", "failed"): 2}
    assert "|Q| reached" in next(place.error for place in found if place.error)


@dataclass
class Script:
    """An engine whose jobs end as written."""

    ends: list[str | None]
    slots: list[Slot] = field(default_factory=lambda: [Slot(), Slot()])
    ran: list[tuple[int, Job]] = field(default_factory=list)

    def submit(self, slot, job):
        slot.job, slot.program = job, job.program
        self.ran.append((self.slots.index(slot), job))

    def wait(self, seconds):
        for slot in self.slots:
            if slot.job:
                job, slot.job = slot.job, None
                error = self.ends.pop(0) if self.ends else None
                if error is None:
                    job.places[0].folder.mkdir(parents=True, exist_ok=True)
                    (job.places[0].folder / "result.json").write_text(json.dumps({"steps": job.places[0].cell.steps}))
                yield job, error

    def close(self):
        self.slots = []


def test_a_stumbling_cell_is_retried_and_then_recorded_as_failed(work):
    _, jobs = work("scripted")
    engine = Script(ends=["killed"] * (engines.RETRIES + 1))
    execute(jobs[:1], engine)
    assert len(engine.ran) == engines.RETRIES + 1 and jobs[0].places[0].state == "failed"
    assert jobs[0].places[0].error == f"killed ({engines.RETRIES + 1} times)"
    engine = Script(ends=["killed"])
    execute(jobs[1:2], engine)
    assert len(engine.ran) == 2 and jobs[1].places[0].state == "done"


def test_workers_keep_to_the_programs_that_they_have_compiled(work):
    _, jobs = work("scripted")
    engine = Script(ends=[])
    execute(jobs, engine)
    assert len(engine.ran) == len(jobs) == 8
    homes = {job.program: {slot for slot, other in engine.ran if other.program == job.program} for job in jobs}
    assert len(homes) == 4 and all(len(slots) == 1 for slots in homes.values())


def test_status_of_a_matrix(stored, path, work, tmp_path, capsys):
    found, jobs = work("out")
    main(["benchmark", "status", str(path), "--out", str(tmp_path / "out")])
    assert "0 of 8 cells done" in capsys.readouterr().out
    Worker(threads=1).run(jobs[0])
    found[3].folder.mkdir(parents=True)
    with found[3].lock():
        main(["benchmark", "status", str(path), "--out", str(tmp_path / "out")])
    assert "1 of 8 cells done, 1 running" in capsys.readouterr().out
