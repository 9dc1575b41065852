"""Run directories as results: what each run was asked for and what came out. What can't be read is named."""

import csv
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from utds import files
from utds.errors import DataError

Array = NDArray[np.float64]
OWN = "own data"  # the source of a run that shares nothing
READS_OWN_ALONE = {"pbrl"}  # algorithms to which a pool's shared data makes no difference


@dataclass(frozen=True)
class Series:
    """Numbers along training."""

    steps: Array  # [T]
    values: Array  # [T]


@dataclass(frozen=True)
class Seed:
    """What one seed of a run reached."""

    returns: Series
    scores: Series | None  # 0 random, 100 expert; None where the task has no such reference
    uncertainty: dict[str, Series]  # by the metric's name


@dataclass(frozen=True)
class Result:
    """A finished run directory."""

    path: Path
    domain: str
    task: str  # such as walker-walk
    kind: str  # of the task's own data
    source: str  # what was shared, OWN if nothing
    config: dict[str, Any]
    version: str
    command: str | None  # as the benchmark recorded it
    cost: dict[str, float]  # seconds and steps that were timed; peak_memory_mb and parameters where recorded
    seeds: dict[int, Seed]

    @property
    def algorithm(self) -> str:
        return str(self.config["algorithm"]["name"])

    @property
    def fields(self) -> dict[str, Any]:
        return dict(self.config["algorithm"]["fields"])


def read(folders: list[Path]) -> tuple[list[Result], list[str]]:
    """All finished runs below the folders, in order of their paths, and a line for each that can't be used."""
    results, problems = [], []
    for path in dict.fromkeys(path for folder in folders for path in _run_folders(folder)):
        try:
            result = _read_run(path)
        except DataError as error:
            problems.append(str(error))
        else:
            results += [result] if result else []
    if not results:
        where = ", ".join(map(str, folders))
        why = f"; the first of {len(problems)} that can't be used: {problems[0]}" if problems else ""
        raise DataError(f"no finished run below {where}; `utds train` and `utds benchmark run` write them{why}")
    return results, problems


def _run_folders(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; give the one that `utds train` or `utds benchmark run` wrote")
    for current, inner, names in os.walk(folder):
        if {"config.json", "result.json", "evaluations.csv"} & set(names):
            inner.clear()
            yield Path(current)
        inner[:] = sorted(name for name in inner if not name.startswith("."))


def _read_run(path: Path) -> Result | None:
    """None for the folder of a collection, which has a config of another shape."""
    if not (path / "config.json").exists():
        raise DataError(f"{path} is half-written: it has no config.json")
    config = files.read_json(path / "config.json")
    if isinstance(config, dict) and "warmup" in config:
        return None
    try:
        return _result(path, config)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise DataError(f"{path} is corrupted: {type(error).__name__} {error}") from None


def _result(path: Path, config: dict[str, Any]) -> Result:
    steps = config["steps"]
    done = files.read_json(path / "result.json") if (path / "result.json").exists() else {}
    if done.get("steps") != steps:
        raise DataError(f"{path} is unfinished: `--resume` goes on with it")
    cell = files.read_json(path / "cell.json") if (path / "cell.json").exists() else {}
    domain = config["domain"] or config["task"]
    own, *shared = [source["id"] for source in config["sources"]]
    if config["algorithm"]["name"] in READS_OWN_ALONE:
        shared = []
    return Result(
        path=path,
        domain=domain,
        task=config["task"],
        kind=own.rpartition("/")[2],
        source=" + ".join(sorted(_short(name, domain) for name in shared)) or OWN,
        config=config | {"episodes": cell.get("episodes", config.get("episodes"))},
        version=files.read_json(path / "provenance.json")["versions"]["utds"],
        command=cell.get("command"),
        cost=_cost(done, len(config["seeds"])),
        seeds=_seeds(path, config["seeds"], steps),
    )


def _short(id: str, domain: str) -> str:
    """walker-run/replay -> run; another kind than replay stays."""
    return id.removeprefix(f"{domain}-").removesuffix("/replay")


def _cost(done: dict[str, Any], seeds: int) -> dict[str, float]:
    timed = done.get("timed_steps", done["steps"])
    cost = {name: float(done[name]) for name in ("peak_memory_mb", "parameters") if done.get(name) is not None}
    return cost | ({"hours_per_million": done["seconds"] / (timed * seeds) / 3600 * 1e6} if timed else {})


def _seeds(path: Path, seeds: list[int], steps: int) -> dict[int, Seed]:
    evaluations = _columns(path / "evaluations.csv")
    metrics = _columns(path / "metrics.csv")
    found = {}
    for seed in seeds:
        rows = evaluations.get(seed, {})
        if "return" not in rows or rows["return"].steps[-1] != steps:
            raise DataError(f"{path} has no evaluation of seed {seed} at its last step {steps}")
        if not np.isfinite(rows["return"].values).all():
            raise DataError(f"{path} has a return of seed {seed} that is no number")
        uncertain = {k: v for k, v in metrics.get(seed, {}).items() if k.startswith("uncertainty")}
        found[seed] = Seed(rows["return"], rows.get("score"), uncertain)
    return found


def _columns(path: Path) -> dict[int, dict[str, Series]]:
    """A log by seed and column; cells without a number are left out, rows that end too early are an error."""
    if not path.exists():
        return {}
    collected: dict[int, dict[str, list[tuple[float, float]]]] = {}
    with files.explained(f"read {path}"), open(path, newline="", encoding="utf-8", errors="replace") as file:
        for row in csv.DictReader(file):
            if None in row or None in row.values():
                raise DataError(f"{path} is half-written: a row has another length than the header")
            seed, step = int(row.pop("seed")), float(row.pop("step"))
            for name, text in row.items():
                value = float(text or math.nan)
                if name == "return" or math.isfinite(value):
                    collected.setdefault(seed, {}).setdefault(name, []).append((step, value))
    return {
        seed: {name: Series(*np.array(pairs, np.float64).T) for name, pairs in columns.items()}
        for seed, columns in collected.items()
    }
