"""`kill -9` at random moments: the run that is resumed ten times ends where the uninterrupted one does."""

import multiprocessing
import random
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path

SCRIPT = """
import numpy as np

from utds.algorithms import UTDS
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.training import train

random = np.random.default_rng(0)
columns = random.normal(size=(101, 3)), random.uniform(-1, 1, (100, 2)), random.uniform(size=100)
train(
    share(Dataset.from_arrays(*columns, task="main")),
    UTDS(num_critics=2, width=8, layers=1, batch_size=8, ood_actions=1),
    seeds=2, steps=600, log_every=3, eval_every=5, checkpoint_every=4,
    evaluate=lambda act: {"return": float(act(np.ones((1, 3)))[0, 0])},
    out=out, resume=True,
)
"""
KILLS = 10
FILES = ("checkpoint.safetensors", "policy-0.safetensors", "policy-1.safetensors", "metrics.csv", "evaluations.csv")

server = multiprocessing.get_context("forkserver")  # it imports once; nothing of JAX runs before the fork
server.set_forkserver_preload(["utds.training", "utds.data.lake"])


def start(out: Path) -> ForkServerProcess:
    process = server.Process(target=exec, args=(SCRIPT, {"out": str(out)}))
    process.start()
    return process


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_resuming_after_kills_gives_the_same_run(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    process = start(whole)
    process.join()
    assert process.exitcode == 0
    kills = 0
    while process.exitcode != 0 or kills == 0:
        process = start(killed)
        before = size(killed / "metrics.csv")
        while kills < KILLS and process.is_alive() and size(killed / "metrics.csv") in (0, before):
            time.sleep(0.001)  # until it trains: killing an import proves nothing
        if kills < KILLS:
            time.sleep(random.uniform(0, 0.05))
            process.kill()
            kills += 1
        process.join()
    assert kills == KILLS, "the run ended before it could be killed often enough"
    for name in FILES:
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name
