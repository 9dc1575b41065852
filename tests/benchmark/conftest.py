"""A tiny matrix with its data, and ways to run it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from utds.benchmark.matrix import Matrix, load
from utds.collection import kinds
from utds.evaluation import rollout

TEXT = """
tasks = ["tinymass-reach-top-left"]
kinds = ["random", "medium"]
sources = ["tinymass-reach-top-right"]
source_kind = "random"
columns = ["single", "each"]
algorithms = ["bc", "td3"]
preset = "paper"
seeds = 2
steps = 300
eval_every = 50
episodes = 2

[fields]
width = 8
layers = 1
batch_size = 16
"""

# Tests that run in the background ignore Ctrl-C, and so would what they start.
LISTENING = """
import signal, sys
from utds.cli import main
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main(sys.argv[1:])
"""


@pytest.fixture
def stored(tiny) -> None:
    """Random data under the ids that the matrix asks for."""
    names = ("top-left/random", "top-left/medium", "top-right/random")
    for seed, name in enumerate(names):
        task, kind = f"tinymass-reach-{name}".split("/")
        recorded = rollout.record(tiny, kinds._noisy(None, tiny, 0, [seed]), episodes=2 + seed, seed=seed)
        kinds.to_dataset(task, kind, [recorded], seed).save(f"{task}/{kind}")


@pytest.fixture
def path(tmp_path) -> Path:
    path = tmp_path / "little.toml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def matrix(tiny, path) -> Matrix:
    return load(str(path))


@pytest.fixture
def events() -> Callable[[Path], list[str]]:
    """What happened to the cell in a folder, in order."""
    return lambda cell: [json.loads(line)["event"] for line in (cell / "events.jsonl").read_text().splitlines()]


@pytest.fixture
def start(path):
    """A function that starts `utds benchmark run` in a session of its own."""
    started: list[subprocess.Popen] = []

    def start(out: Path, *more: str) -> subprocess.Popen:
        command = [sys.executable, "-c", LISTENING, "benchmark", "run", str(path), "--out", str(out), *more]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
        started.append(process)
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
