"""Locks that end with their holder, and what killed writers leave behind."""

import errno
import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from utds import files
from utds.errors import BusyError

HOLD = """
import sys
from utds import files
with files.lock(sys.argv[1], "it"):
    print("held", flush=True)
    input()
"""
WRITE = """
import sys
from utds import files
with files.atomic(sys.argv[1]) as part:
    part.write_text("whole")
    print("writing", flush=True)
    input()
"""
COUNT = """
import sys
from pathlib import Path
from utds import files
path = Path(sys.argv[1])
for _ in range(50):
    with files.lock(path.with_name("lock"), "it", wait=True):
        path.write_text(str(int(path.read_text()) + 1))
"""


@contextmanager
def process(script: str, path: Path) -> Iterator[subprocess.Popen]:
    """A process that has done what it says and waits for a line."""
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout.readline()
        yield started
        if started.poll() is None:
            started.kill()


def test_a_second_process_is_told_who_holds_the_lock_until_that_is_killed(tmp_path):
    path = tmp_path / "deep" / "lock"
    with process(HOLD, path) as holder:
        assert files.locked(path)
        with pytest.raises(BusyError) as caught, files.lock(path, "the run x"):
            pass
        day = time.strftime("%Y-%m-%d")
        assert str(caught.value).startswith(
            f"the run x is in use by process {holder.pid} on {socket.gethostname()} since {day}"
        )
        assert "\n" not in str(caught.value)
        holder.kill()
        holder.wait()
        assert path.exists() and not files.locked(path)
        with files.lock(path, "the run x"):
            assert files.locked(path) and str(os.getpid()) in path.read_text()
    assert not path.exists() and not files.locked(path)


def test_a_thread_may_take_its_lock_again_and_another_thread_may_not(tmp_path):
    path, told = tmp_path / "lock", []

    def other() -> None:
        try:
            with files.lock(path, "it"):
                told.append("held twice")
        except BusyError as error:
            told.append(str(error))

    with files.lock(path, "it"), files.lock(tmp_path / "." / "lock", "it"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert files.locked(path)
    assert len(told) == 1 and f"process {os.getpid()}" in told[0]


def test_processes_that_wait_take_turns(tmp_path):
    """Though each removes the lock file when it is done, no two ever hold it at once."""
    path = tmp_path / "count"
    path.write_text("0")
    started = [subprocess.Popen([sys.executable, "-c", COUNT, str(path)]) for _ in range(4)]
    assert [process.wait() for process in started] == [0] * 4
    assert path.read_text() == "200" and os.listdir(tmp_path) == ["count"]


def test_leftovers_of_the_dead_are_removed_and_those_of_the_living_stay(tmp_path):
    with process(WRITE, tmp_path / "dead.txt") as dead, process(WRITE, tmp_path / "alive.txt") as alive:
        dead.kill()
        dead.wait()
        rooms = sorted(path.name.split(".")[1] for path in tmp_path.glob(".*.part"))
        assert rooms == ["alive", "dead"]
        files.write_json(tmp_path / "mine.json", {})  # the first that this process writes here
        (room,) = tmp_path.glob(".*.part")
        assert room.name.startswith(".alive.txt.")
        files.clean_up(tmp_path)
        alive.communicate("\n")
        assert alive.returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["alive.txt", "mine.json"]
    assert (tmp_path / "alive.txt").read_text() == "whole"


def test_only_what_nobody_can_be_at_work_on_is_removed(tmp_path):
    def room(name: str, days: float, *entries: str, lock: str | None = None) -> None:
        folder = tmp_path / name
        folder.mkdir()
        for entry in entries:
            (folder / entry).write_text("data")
        if lock is not None:
            (folder / "lock").write_text(lock)
        moment = time.time() - days * 86_400
        os.utime(folder, (moment, moment))

    room(".a.npz.old12345.part", 2, "a.npz")  # of an earlier version, which made no locks
    room(".a.npz.new12345.part", 0.5, "a.npz")  # it might still be at work
    room(".b.json.empty123.part", 0.01, lock="")  # killed before it signed
    room(".b.json.young123.part", 0, lock="")  # about to sign
    room(".notes.mine.part", 9, "letters", "photos")  # somebody's own
    room(".c.d.part", 9, "c", "more", lock="not ours")
    files.clean_up(tmp_path)
    left = [".a.npz.new12345.part", ".b.json.young123.part", ".c.d.part", ".notes.mine.part"]
    assert sorted(os.listdir(tmp_path)) == left


def test_file_systems_without_locks_do_without(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(fcntl, "flock", refuse)
    (tmp_path / ".a.txt.left1234.part").mkdir()
    (tmp_path / ".a.txt.left1234.part" / "lock").write_text('{"process": 1, "host": "x", "since": "y"}')
    with files.lock(tmp_path / "lock", "it"):
        files.write_json(tmp_path / "a.json", 1)
        assert not files.locked(tmp_path / "lock")
    assert sorted(os.listdir(tmp_path)) == [".a.txt.left1234.part", "a.json"]  # its writer may live: nobody can tell
