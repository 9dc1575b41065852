"""Collections that are killed and go on: every round, policy and evaluation is that of an uninterrupted one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from utds.collection import Collect
from utds.collection.online import Collection
from utds.data import ids, store

pytestmark = pytest.mark.usefixtures("tiny")
TASK = "tinymass-reach-top-left"
OPTIONS = {"copies": 4, "warmup": 160, "batch_size": 32, "width": 16, "evaluate_every": 320, "evaluation_episodes": 2}


def contents(folder: Path) -> dict[str, object]:
    """Everything that a collection has written; rounds by their arrays, since archives carry the time."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*.*")):
        if path.suffix == ".npz":
            with np.load(path) as columns:
                found[path.name] = {name: columns[name].tobytes() for name in columns}
        elif path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


class Killed(BaseException):
    """The end of a process, as far as files can tell."""


def die_at_first_write(monkeypatch, after: bool) -> None:
    """Kill before or after the first file that takes its place, not counting the configuration of a start."""
    replace = os.replace

    def trap(source, target):
        if Path(target).name == "config.json":
            return replace(source, target)
        if after:
            replace(source, target)
        raise Killed

    monkeypatch.setattr(os, "replace", trap)


def test_a_collection_killed_before_and_after_every_write_is_the_uninterrupted_one(tmp_path, monkeypatch):
    config = Collect(TASK, steps=960, seed=3, **OPTIONS)
    Collection(tmp_path / "whole", config).run()
    kills, ended = 0, False
    while not ended:
        for after in (False, True):
            with monkeypatch.context() as patched:
                die_at_first_write(patched, after)
                try:
                    Collection(tmp_path / "killed", config).run()
                    ended = True
                except Killed:
                    kills += 1
    whole = contents(tmp_path / "whole")
    files_written = 6 + 6 + 2 * 4  # rounds, learners, policies and evaluations: untrained and after every second round
    assert kills == 2 * files_written and len(whole) == 6 + 1 + 4 + 1 + 1
    assert contents(tmp_path / "killed") == whole


def test_rounds_that_are_taken_away_are_collected_again_as_they_were(tmp_path):
    config = Collect(TASK, steps=640, **OPTIONS)
    Collection(tmp_path, config).run()
    whole = contents(tmp_path)
    (tmp_path / "rounds" / "00003.npz").unlink()
    Collection(tmp_path, config).run()
    assert contents(tmp_path) == whole
    (tmp_path / "learner.safetensors").unlink()
    (tmp_path / "policies" / "00001.safetensors").unlink()
    Collection(tmp_path, config).run()
    assert contents(tmp_path) == whole


def test_a_shared_collection_may_go_on_meanwhile(tmp_path):
    """Going on, a collection shares the rounds that it began with."""
    options = OPTIONS | {"share": str(tmp_path / "theirs")}
    Collection(tmp_path / "theirs", Collect(TASK, steps=320, **OPTIONS)).run()
    Collection(tmp_path / "once", Collect(TASK, steps=480, seed=1, **options)).run()
    Collection(tmp_path / "twice", Collect(TASK, steps=320, seed=1, **options)).run()
    Collection(tmp_path / "theirs", Collect(TASK, steps=480, **OPTIONS)).run()
    Collection(tmp_path / "twice", Collect(TASK, steps=480, seed=1, **options)).run()
    assert contents(tmp_path / "twice") == contents(tmp_path / "once")


def test_kill_minus_nine(tmp_path):
    """The command, killed while it collects and while it stores datasets, against the command left alone."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in OPTIONS.items()]
    command = [sys.executable, "-m", "utds", "collect", TASK, "--steps=1600", *options, "--episodes=4"]
    digests = []
    for name, kills in (("whole", ()), ("killed", ("c/rounds/*3.npz", "d/utds/*/random-v0"))):
        folder = tmp_path / name
        environment = os.environ | {"MINARI_DATASETS_PATH": str(folder / "d")}
        here = [*command, f"--out={folder / 'c'}"]
        for moment in kills:
            with subprocess.Popen(here, env=environment) as process:
                while not list(folder.glob(moment)) and process.poll() is None:
                    time.sleep(0.005)
                process.send_signal(signal.SIGKILL)
            assert process.returncode == -signal.SIGKILL, moment
        done = subprocess.run(here, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("MINARI_DATASETS_PATH", str(folder / "d"))
            digests.append({ids.short(id): store.load(id).digest for id, _ in ids.stored()})
            assert store.verify(f"{TASK}/replay").reward_error < 1e-6
    assert contents(tmp_path / "killed" / "c") == contents(tmp_path / "whole" / "c")
    assert digests[0] == digests[1] and len(digests[0]) == 7
