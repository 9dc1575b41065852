"""The local engine: what runs, what is never repeated, what survives kills."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from utds.benchmark import engine
from utds.benchmark.cells import CellDir, locate, set_aside
from utds.benchmark.engine import RETRIES, Slot, execute
from utds.benchmark.worker import Job, Worker, attempt
from utds.cli import main

SCORES = ("evaluations.csv", "metrics.csv", "policy-0.safetensors", "policy-1.safetensors", "checkpoint.safetensors")


def scores(out: Path) -> dict[str, list[bytes]]:
    return {path.name: [(path / name).read_bytes() for name in SCORES] for path in sorted((out / "cells").iterdir())}


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
    """Folders and jobs of the matrix's cells, to be run in this process."""
    cells = list(matrix.cells())

    def work(name: str) -> tuple[list[CellDir], list[Job]]:
        found = locate(cells, tmp_path / name)
        return found, engine.jobs(found, cells)

    return work


def test_kills_at_random_moments_change_no_score_and_repeat_no_cell(start, work, matrix, events, tmp_path):
    killed = tmp_path / "killed"
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
    assert "8 of 8 cells done" in said
    here = Worker(threads=1)
    for job in work("whole")[1]:
        here.run(job)
    assert scores(killed) == scores(tmp_path / "whole")
    assert max(events(cell).count("finish") for cell in (killed / "cells").iterdir()) == 1 and len(scores(killed)) == 8
    again = engine.run("again", list(matrix.cells()), killed, start=pytest.fail)  # no engine: nothing is left to do
    assert again.count("done") == 8


def test_a_cell_equals_the_command_that_is_said_to_reproduce_it(work, events, tmp_path):
    _, jobs = work("matrix")
    worker, cell_dir = Worker(threads=1), jobs[-1].cell_dir
    worker.run(jobs[-1])
    command = json.loads((cell_dir.folder / "cell.json").read_text())["command"]
    main([*command.split()[1:], "--out", str(tmp_path / "by-hand")])
    for name in SCORES:
        assert (tmp_path / "by-hand" / name).read_bytes() == (cell_dir.folder / name).read_bytes(), name
    starts = len(events(cell_dir.folder))
    worker.run(jobs[-1])  # finished work is not done again
    assert len(events(cell_dir.folder)) == starts and cell_dir.state == "done"


def test_changed_data_is_new_work_and_the_old_is_set_aside(work, tiny, tmp_path):
    from utds.data import store

    found, jobs = work("matrix")
    Worker(threads=1).run(jobs[0])
    changed = store.load("tinymass-reach-top-left/random").select([0])
    changed.save("tinymass-reach-top-left/random", overwrite=True)
    after, _ = work("matrix")
    assert after[0].fingerprint != found[0].fingerprint and after[0].state == "waiting"
    assert set_aside(after, tmp_path / "matrix") == [tmp_path / "matrix" / ".superseded" / found[0].folder.name]
    with pytest.raises(Exception, match="changed since the matrix was planned"):
        Worker(threads=1).run(jobs[0])


def test_two_matrices_in_one_folder_are_told_how_to_stay_apart(work, matrix, tmp_path, capsys):
    """As with two files of one name, whose cells differ."""
    found, _ = work("matrix")
    other = found[0].folder.with_name(f"{found[0].cell.name}-00000000")
    other.mkdir(parents=True)
    with pytest.raises(InterruptedError):
        engine.run("name", list(matrix.cells()), tmp_path / "matrix", start=_stop)
    said = " ".join(capsys.readouterr().err.split())
    assert "superseded" in said and "if another matrix made them, give each a folder of its own: --out" in said


def _stop(jobs):
    raise InterruptedError


def test_a_diverging_cell_is_recorded_and_leaves_the_others_going(work, monkeypatch):
    monkeypatch.setattr("utds.training.Trainer.limit", property(lambda t: -1.0, lambda t, v: None), raising=False)
    jobs = [job for job in work("failing")[1] if job.program[-1] == 1]  # the two-task ones
    for job in jobs:
        Worker(threads=1).run(job)
    found = [job.cell_dir for job in jobs]
    states = Counter((place.cell.algorithm_name, place.state) for place in found)
    assert states == {("bc", "done"): 2, ("td3", "failed"): 2}
    assert "|Q| reached" in next(place.error for place in found if place.error)


def test_a_worker_goes_on_after_a_lake_that_could_not_be_loaded(work):
    """The lake before it was freed: its cells must not fail because of another robot's data."""
    _, (first, second, *_) = work("matrix")
    worker = Worker(threads=1)
    worker.run(first)
    assert "walker-walk/nope" in str(attempt(worker, replace(second, lake=("walker-walk/nope",))))
    assert attempt(worker, second) is None and second.cell_dir.state == "done"


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
                    job.cell_dir.folder.mkdir(parents=True, exist_ok=True)
                    done = {"steps": job.cell_dir.cell.steps, "seconds": 1.0, "evaluation": {}}
                    (job.cell_dir.folder / "result.json").write_text(json.dumps(done))
                yield job, error

    def close(self):
        self.slots = []


def test_a_stumbling_cell_is_retried_and_then_recorded_as_failed(work):
    _, jobs = work("scripted")
    scripted = Script(ends=["killed"] * (RETRIES + 1))
    execute(jobs[:1], scripted)
    assert len(scripted.ran) == RETRIES + 1 and jobs[0].cell_dir.state == "failed"
    assert jobs[0].cell_dir.error == f"killed ({RETRIES + 1} times)"
    scripted = Script(ends=["killed"])
    execute(jobs[1:2], scripted)
    assert len(scripted.ran) == 2 and jobs[1].cell_dir.state == "done"


def test_the_log_of_a_worker_tells_why_it_ended(tmp_path):
    spawn, log = multiprocessing.get_context("spawn"), tmp_path / "worker-0.log"
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=engine._serve, args=(theirs, 1, log))
    process.start()
    ours.send_bytes(b"no job at all")
    process.join(60)
    assert process.exitcode == 1 and "UnpicklingError" in log.read_text()


def test_workers_keep_to_the_programs_that_they_have_compiled(work):
    _, jobs = work("scripted")
    scripted = Script(ends=[])
    execute(jobs, scripted)
    assert len(scripted.ran) == len(jobs) == 8
    homes = {job.program: {slot for slot, other in scripted.ran if other.program == job.program} for job in jobs}
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
        main(["benchmark", "status", str(path), "--out", str(tmp_path / "out"), "--json"])
    (state,) = json.loads(capsys.readouterr().out)
    assert (
        state["cells"] == 8
        and state["done"] == 1
        and sum(counts["done"] for counts in state["algorithms"].values()) == 1
    )
    assert [(cell["cell"], cell["state"]) for cell in state["unfinished"]] == [(found[3].cell.name, "running")]
