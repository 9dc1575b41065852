"""Many cells, runs and transitions: 1,000 cells planned, located, looked at and resumed, a report of 5,000 runs, and a
lake of 10 million transitions.

Required: each look at 1,000 cells within seconds, the report under 30 s and 1 GB, the lake within 1.1 × its columns.
"""

import csv
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np

from common import BYTES, CLOCK, printed_by, require, table, verdict
from utds import algorithms, report
from utds.benchmark import cells, engine, plan
from utds.benchmark.matrix import parse

ALGORITHMS = ("utds", "pbrl", "cql", "cds", "cds-zero", "uds", "bc", "td3bc")
MATRIX = {
    "domains": ["walker", "quadruped", "jaco"],
    "kinds": ["random", "medium", "medium-replay", "expert"],
    "algorithms": list(ALGORITHMS),
    "columns": ["single", "each"],
    "seeds": 2,
    "steps": 10_000,
    "preset": "paper",
}
RUNS = 5_000  # seeds over all run directories
SOURCES, EPISODES, STEPS = 10, 1_000, 1_000  # of the lake: datasets, episodes of each, steps of each
OVER_COLUMNS = 1.1  # the lake's peak memory
SECONDS, MEGABYTES = {"plan": 5.0, "locate": 5.0, "status": 5.0, "resume": 5.0, "report": 30.0}, 1024.0


class Stored:
    """In place of a stored dataset."""

    digest = "0" * 64


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(cells.store, "load", lambda name: Stored()):
        out = Path(folder)
        for name, seconds, note in _timed(out):
            rows.append({"what": name, "seconds": seconds, "at most": SECONDS[name], "of": note})
            require(f"load: seconds to {name}", seconds, most=SECONDS[name], noise=CLOCK)
    table("load", rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak:.0f} MB, at most {MEGABYTES:.0f}")
    require("load: MB of memory", peak, most=MEGABYTES, noise=BYTES)
    lake()


def lake() -> None:
    """A process that loads the datasets, over the columns that it makes of them."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"MINARI_DATASETS_PATH": folder}):
        printed_by(MAKE, SOURCES, EPISODES, STEPS)
        peak, columns, seconds = printed_by(LOAD, SOURCES)  # what was needed for making them doesn't count
    require("load: memory of a lake, over its columns", peak / columns, most=OVER_COLUMNS, noise=BYTES)
    row = {
        "transitions": SOURCES * EPISODES * STEPS,
        "seconds": seconds,
        "columns, MB": columns / 1e6,
        "peak, MB": peak / 1e6,
    }
    table("a lake", [row | {"ratio": peak / columns, "at most": OVER_COLUMNS}])


MAKE = """
import sys
import numpy as np
from utds.data.dataset import Dataset
sources, episodes, steps = map(int, sys.argv[1:])
for seed in range(sources):
    random, size = np.random.default_rng(seed), episodes * steps
    observations = random.standard_normal((size + episodes, 24), np.float32)
    actions, rewards = 2 * random.random((size, 6), np.float32) - 1, random.random(size, np.float32)
    made = Dataset.from_arrays(observations, actions, rewards, lengths=[steps] * episodes, task="walker-walk")
    made.save(f"walker-walk/part{seed}")
"""
LOAD = """
import sys, time
import jax, numpy as np, utds
from common import memory_from_here, peak_memory
from utds.data.dataset import Dataset
from utds.data.lake import Lake
small = Dataset.from_arrays(np.zeros((11, 24)), np.zeros((10, 6)), np.zeros(10))
jax.block_until_ready(utds.share(small).columns)  # everything is imported and compiled
before, begun = memory_from_here(), time.process_time()
lake = Lake([utds.load(f"walker-walk/part{seed}") for seed in range(int(sys.argv[1]))])
jax.block_until_ready(lake.columns)
seconds = time.process_time() - begun
print(peak_memory() - before, sum(leaf.nbytes for leaf in jax.tree.leaves(lake.columns)), seconds)
"""


def _timed(out: Path) -> Iterator[tuple[str, float, str]]:
    matrix = parse(MATRIX, "load")
    found: list[cells.Cell] = []
    made = _seconds(lambda: (plan.table(plan.rows([matrix])), found.extend(matrix.cells())))
    yield "plan", made, f"{len(found)} cells"
    dirs: list[cells.CellDir] = []
    yield "locate", _seconds(lambda: dirs.extend(cells.locate(found, out))), f"{len(dirs)} folders"
    for number, cell_dir in enumerate(dirs):
        _run_directory(cell_dir, number, seeds=RUNS // len(dirs) + (number < RUNS % len(dirs)))
    seen: list[plan.Status] = []
    seconds = _seconds(lambda: (seen.append(plan.Status("load", dirs)), seen[0].render()))
    yield "status", seconds, seen[0].headline()
    yield (
        "resume",
        _seconds(lambda: (engine.run("load", found, out, start=_no_engine), engine.jobs(dirs, found))),
        ("nothing left to do, and all handed out again"),
    )
    page = out / "report.html"
    seconds = _seconds(lambda: report.write(report.study([out / "cells"]), page))
    yield "report", seconds, f"{RUNS} runs, {page.stat().st_size / 2**20:.0f} MB"


def _no_engine(work: object) -> engine.Engine:
    raise AssertionError("every cell is done")


def _seconds(work: Callable[[], object]) -> float:
    """Of a core: on a busy machine the clock on the wall tells of the others."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _run_directory(cell_dir: cells.CellDir, number: int, seeds: int) -> None:
    """A finished run, with ten evaluations of each seed and as many rows of metrics."""
    cell, folder = cell_dir.cell, cell_dir.folder
    rng = np.random.default_rng(number)
    folder.mkdir(parents=True)
    sources = [{"id": name, "digest": Stored.digest, "transitions": 1000} for name in cell.datasets]
    config = {
        "algorithm": algorithms.to_config(cell.algorithm), "task": cell.task, "domain": cell.domain, "sources": sources,
        "rewards": "known", "sampling": "transitions", "observation_size": 24, "action_size": 6,
        "seeds": list(range(seeds)), "steps": cell.steps, "eval_every": 1000, "log_every": 1000,
        "checkpoint_every": 1000, "divergence": 100.0,
    }  # fmt: skip
    result = {"steps": cell.steps, "seconds": 10.0, "evaluation": {}}
    for name, value in (("config", config), ("provenance", {"versions": {"utds": "0"}}), ("result", result)):
        (folder / f"{name}.json").write_text(json.dumps(value))
    steps = [(step, seed) for step in range(1000, cell.steps + 1, 1000) for seed in range(seeds)]
    scores = rng.uniform(0, 100, len(steps))
    _log(folder / "evaluations.csv", ("step", "seed", "return", "standard_error", "score"),
         [(*at, 10 * score, 3.0, score) for at, score in zip(steps, scores, strict=True)])  # fmt: skip
    names = ("step", "seed", "uncertainty", "uncertainty_own", *(f"metric_{i}" for i in range(15)))
    _log(folder / "metrics.csv", names, [(*at, *rng.uniform(size=17)) for at in steps])


def _log(path: Path, header: tuple[str, ...], rows: list[tuple[float, ...]]) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    main()
    verdict()
