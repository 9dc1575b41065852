"""Replacing a stored dataset, interrupted wherever it can be: the old or the new one is there, whole."""

import builtins
import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from utds import files
from utds.data import ids, store
from utds.data.dataset import Dataset
from utds.errors import DataError

# A file that an interruption came too soon to close is closed when Python frees it.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
ID = "robot-walk/medium"
CALLS = ("rename", "replace", "unlink", "rmdir", "mkdir", "fsync")  # of os


def made(value: float) -> Dataset:
    return Dataset.from_arrays(np.full((3, 2), value), np.zeros((2, 1)), np.full(2, value))


class Trap:
    """Raises KeyboardInterrupt, as Ctrl-C does, or kills the process, at the call number `at` that changes files."""

    def __init__(self, at: int = -1, after: bool = False, kill: bool = False) -> None:
        self.at, self.after, self.kill, self.calls = at, after, kill, 0

    def __enter__(self) -> "Trap":
        self.before = [(os, name, getattr(os, name)) for name in CALLS]
        self.before += [(builtins, "open", open), (io, "open", open), (files, "_exchange", files._exchange)]
        for where, name, function in self.before:
            setattr(where, name, self.around(function))
        return self

    def __exit__(self, *_: object) -> None:
        for where, name, function in self.before:
            setattr(where, name, function)

    def around(self, function):
        def call(*args, **options):
            if function is open and not set("wa+") & set(str([*args, "r"][1])):
                return function(*args, **options)
            self.calls += 1
            if self.calls - 1 != self.at:
                return function(*args, **options)
            if self.after:
                with contextlib.suppress(OSError):  # such as of a folder that is there already
                    function(*args, **options)
            if self.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise KeyboardInterrupt

        return call


def calls_of_a_replacement() -> int:
    """How many calls there are to interrupt."""
    made(1).save(ID, overwrite=True)
    with Trap() as trap:
        made(2).save(ID, overwrite=True)
    return trap.calls


def found_whole(folder: Path) -> bool:
    """Whether what is stored is one of the two datasets, and nothing else is there for a reader to find."""
    assert [name for name in os.listdir(folder) if not name.startswith(".")] in ([], ["medium-v0"])
    return store.verify(ID).digest in {made(1).digest, made(2).digest}


def left_after_cleaning(folder: Path) -> list[str]:
    """What is there once time has passed and the leftovers of the dead are cleaned up."""
    files.UNLOCKED, before = (0.0, 0.0), files.UNLOCKED
    try:
        files.clean_up(folder)
    finally:
        files.UNLOCKED = before
    return os.listdir(folder)


@pytest.fixture(autouse=True)
def no_waiting_for_disks(monkeypatch) -> None:
    """Names change the same without, and hundreds of times as fast."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(params=["exchange", "two renames"])
def way(request, monkeypatch) -> str:
    """As Linux swaps folders, and as other file systems have to."""
    if request.param == "two renames":
        monkeypatch.setattr(files, "_exchange", lambda *_: False)
    return request.param


@pytest.mark.parametrize("after", [False, True])
def test_ctrl_c_at_every_call_leaves_the_old_or_the_new_data(root, way, after):
    total = calls_of_a_replacement()
    assert total > 20
    folder = ids.folder(ID).parent
    for at in range(total):
        value = 1 if store.load(ID).digest == made(2).digest else 2
        with pytest.raises(KeyboardInterrupt), Trap(at, after):
            made(value).save(ID, overwrite=True)
        assert found_whole(folder), (at, after)
    assert left_after_cleaning(folder) == ["medium-v0"]


def test_ctrl_c_at_every_line_of_the_swap_leaves_the_old_or_the_new_data(root, way):
    """Signals come between any two lines of Python, not only at calls of the system."""
    made(1).save(ID)
    interrupted, at = True, 0
    while interrupted:
        interrupted, seen, swapping = False, 0, False

        def trace(frame, event, _, at=at):
            nonlocal interrupted, seen, swapping
            swapping |= frame.f_code.co_name == "_swap"
            if frame.f_code.co_filename != files.__file__:
                return None
            if swapping and event == "line" and not interrupted:
                seen += 1
                if seen > at:
                    interrupted = True
                    raise KeyboardInterrupt
            return trace

        value = 1 if store.load(ID).digest == made(2).digest else 2
        before = sys.gettrace()
        with contextlib.suppress(KeyboardInterrupt):
            try:
                sys.settrace(trace)
                made(value).save(ID, overwrite=True)
            finally:
                sys.settrace(before)
        assert found_whole(ids.folder(ID).parent), at
        at += 1
    assert at > 20


KILLED = """
import os, random, signal, sys, time
sys.path.insert(0, sys.argv[1])
from test_interruption import ID, Trap, calls_of_a_replacement, found_whole, left_after_cleaning, made
from utds import files
from utds.data import ids

def killed(work, number=None):
    "Run `work` in a child that kills itself, or is sent a signal; whether it left something half-written."
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)
    while number is not None and os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(random.uniform(0, 0.1))
        os.kill(child, number)  # again, should it have come where Python can't raise
    if number is None:
        os.waitpid(child, 0)
    assert found_whole(folder), (work, number)
    return any(name.endswith(".part") for name in os.listdir(folder))

def replace(at):
    with Trap(at, kill=True):
        made(1 + at % 2).save(ID, overwrite=True)

def replace_forever():
    for turn in range(10**6):
        made(1 + turn % 2).save(ID, overwrite=True)

os.fsync = lambda _: None  # names change the same without
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in what runs in the background
assert "jax" not in sys.modules  # so forking is safe
folder, left = ids.folder(ID).parent, 0
for way in (files._exchange, lambda *_: False):
    files._exchange = way
    for at in range(calls_of_a_replacement()):
        left += killed(lambda: replace(at))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL) * 4:
        killed(replace_forever, number)
assert left > 20, "no kill came in the middle of a write"
made(1).save(ID, overwrite=True)  # its lock may have been left too
print(left_after_cleaning(folder))
"""


def test_kills_at_every_call_and_signals_at_any_moment_leave_the_old_or_the_new_data(root):
    command = [sys.executable, "-c", KILLED, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['medium-v0']"  # nothing is left of what the dead were writing


def test_a_replacement_while_a_dataset_is_loaded_goes_unnoticed(root, monkeypatch):
    """Metadata and data are two files: they are read of the same dataset, though one is replaced in between."""
    longer = Dataset.from_arrays(np.zeros((9, 2)), np.zeros((8, 1)), np.zeros(8))
    for new in (made(2), longer):  # of the same size, and of another one
        made(1).save(ID, overwrite=True)
        read, replacements = store.read_metadata, [new]

        def read_then_replaced(folder, read=read, replacements=replacements):
            found = read(folder)
            if replacements:
                monkeypatch.setattr(store, "read_metadata", read)
                replacements.pop().save(ID, overwrite=True)
            return found

        monkeypatch.setattr(store, "read_metadata", read_then_replaced)
        found = store.load(ID)
        assert found.digest == new.digest and np.array_equal(found.observations, new.observations)


def test_of_two_killed_replacements_the_later_is_undone(root):
    """As file systems that can't swap folders, and earlier versions, leave them."""
    folder = ids.folder(ID)
    for name, value in (("zzz", 1), ("abc", 2)):
        made(value).save(ID, overwrite=True)
        room = folder.with_name(f".{folder.name}.{name}.part")
        room.mkdir()
        os.rename(folder, room / "replaced")
        time.sleep(0.05)  # the file system's clock ticks slowly
    assert store.load(ID).digest == made(2).digest


def test_a_failed_replacement_leaves_the_old_data(root, way, monkeypatch):
    kept = made(1).save(ID)

    def refuse(source, target, refused=files._exchange if way == "exchange" else os.rename):
        if Path(target) == ids.folder(ID) and Path(source).name != "replaced":
            raise PermissionError(13, "Permission denied")
        return refused(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(*((files, "_exchange") if way == "exchange" else (os, "rename")), refuse)
        with pytest.raises(DataError, match=r"could not write .* Permission denied"):
            made(2).save(ID, overwrite=True)
    assert store.load(ID).digest == kept.digest and os.listdir(ids.folder(ID).parent) == ["medium-v0"]
