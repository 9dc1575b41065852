"""Equal tuning: the same number of trials for every algorithm of a matrix, on settings that its tables don't contain.

[search]
trials = 12                                # of every algorithm; trial 0 is its preset as it is
tasks = ["walker-run"]                     # settings to search on: main tasks,
kinds = ["medium-replay"]                  # kinds of their own data,
columns = ["each"]                         # and who shares, as in the matrix
[search.fields]                            # of every algorithm
tau = [0.005, 0.01, 0.02]                  # one of these
[search.fields.utds]                       # of one
beta_ood = {uniform = [0.0, 2.0]}
actor_lr = {log_uniform = [1e-4, 1e-3]}

A trial's value of a field depends on the search's seed, the algorithm, the trial and the field alone: more trials, or
another field, change none of the others.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from utds import algorithms, files, terminal
from utds.benchmark.cells import CellDir
from utds.errors import ConfigError, DataError
from utds.training import run_files

RANGES = ("uniform", "log_uniform")


@dataclass(frozen=True)
class Search:
    """See the module's description."""

    trials: int
    fields: Mapping[str, Any]  # field -> distribution, or algorithm -> such a table
    settings: Mapping[str, Any]  # keys of the matrix that are others here
    seed: int = 0  # of the draws

    def distributions(self, algorithm: str) -> dict[str, Any]:
        """What is drawn for an algorithm, by field."""
        common = {name: value for name, value in self.fields.items() if not _is_table(value)}
        own = self.fields.get(algorithm, {})
        return common | dict(own if _is_table(own) else {})

    def draw(self, algorithm: str, preset: str, trial: int) -> dict[str, Any]:
        """The fields of a trial; trial 0 changes none."""
        if trial == 0:
            return {}
        standard = algorithms.make(algorithm, preset=preset)
        return {
            name: _value(distribution, f"{self.seed}/{algorithm}/{trial}/{name}", getattr(standard, name))
            for name, distribution in self.distributions(algorithm).items()
        }

    @property
    def algorithms(self) -> list[str]:
        """Those that have a table of their own."""
        return [name for name, value in self.fields.items() if _is_table(value)]


def _value(distribution: Any, key: str, standard: Any) -> Any:
    """A draw; whole where the field is."""
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(key.encode()).digest()[:16], "big"))
    if isinstance(distribution, list):
        return distribution[int(rng.integers(len(distribution)))]
    ((kind, (low, high)),) = distribution.items()
    value = rng.uniform(low, high) if kind == "uniform" else math.exp(rng.uniform(math.log(low), math.log(high)))
    if isinstance(standard, int) and not isinstance(standard, bool):
        return round(value)
    return float(f"{value:.4g}")  # what tables show is what was run


def extremes(name: str, distribution: Any) -> list[Any]:
    """The values to be checked: all of a list, the ends of a range."""
    if isinstance(distribution, list) and distribution:
        return distribution
    if isinstance(distribution, Mapping) and len(distribution) == 1:
        ((kind, ends),) = distribution.items()
        numbers = isinstance(ends, list) and len(ends) == 2 and all(type(end) in (int, float) for end in ends)
        if kind in RANGES and numbers and ends[0] < ends[1] and (kind == "uniform" or ends[0] > 0):
            return ends
    raise ConfigError(
        f"[search.fields] {name} = {distribution!r} must be a list of values, {{uniform = [low, high]}} or "
        "{log_uniform = [low, high]} with 0 < low < high"
    )


def _is_table(value: Any) -> bool:
    """Whether a value is a table of fields, and not a distribution of one."""
    return isinstance(value, Mapping) and (not value or not set(value) <= set(RANGES))


class Trial(NamedTuple):
    """How one trial of an algorithm did."""

    number: int
    fields: dict[str, Any]  # that were drawn
    score: float  # the mean over settings of the last evaluation's; -inf if it failed on one


def rank(search: Search, dirs: Sequence[CellDir]) -> dict[str, list[Trial]]:
    """Every algorithm's trials, the best first."""
    waiting = [cell_dir for cell_dir in dirs if cell_dir.state not in ("done", "failed")]
    if waiting:
        raise DataError(f"{len(waiting)} of the search's {len(dirs)} cells are not done: {waiting[0].folder}")
    scores = _scores(dirs)
    groups: dict[tuple[str, int], list[CellDir]] = {}
    for cell_dir in dirs:
        groups.setdefault((cell_dir.cell.algorithm_name, cell_dir.cell.trial or 0), []).append(cell_dir)
    ranked: dict[str, list[Trial]] = {}
    for (algorithm, number), group in groups.items():
        drawn = search.draw(algorithm, group[0].cell.preset, number)
        mean = float(np.mean([scores[cell_dir.folder] for cell_dir in group]))
        ranked.setdefault(algorithm, []).append(Trial(number, drawn, mean))
    return {name: sorted(trials, key=lambda trial: (-trial.score, trial.number)) for name, trials in ranked.items()}


def ended(dirs: Sequence[CellDir]) -> list[CellDir]:
    """The cells of those algorithms whose trials have all ended."""
    waiting = {d.cell.algorithm_name for d in dirs if d.state not in ("done", "failed")}
    return [cell_dir for cell_dir in dirs if cell_dir.cell.algorithm_name not in waiting]


def _scores(dirs: Sequence[CellDir]) -> dict[Path, float]:
    """Each cell's normalised score, on one scale per setting: the task's own, or else from the worst trial to the best.

    Returns of different settings are never averaged as they are. The trials are those of one algorithm: which of them
    is the best must not depend on the others, whose trials may come later.
    """
    found: dict[Path, float] = {}
    groups: dict[tuple[str, ...], list[CellDir]] = {}
    for cell_dir in dirs:
        groups.setdefault((cell_dir.cell.algorithm_name, *cell_dir.cell.datasets), []).append(cell_dir)
    for group in groups.values():
        last = {cell_dir.folder: _last(cell_dir) for cell_dir in group}
        if any("score" in value for value in last.values()):
            found |= {folder: value.get("score", -math.inf) for folder, value in last.items()}
            continue
        returns = {folder: value.get("return", -math.inf) for folder, value in last.items()}
        finite = [value for value in returns.values() if math.isfinite(value)]
        low, span = min(finite, default=0.0), (max(finite, default=1.0) - min(finite, default=0.0)) or 1.0
        found |= {folder: 100 * (value - low) / span for folder, value in returns.items()}
    return found


def _last(cell_dir: CellDir) -> dict[str, float]:
    """The last evaluation, mean over seeds; nothing of a cell that failed."""
    if cell_dir.state == "failed":
        return {}
    rows = [row for row in run_files.rows(cell_dir.folder / "evaluations.csv") if row["step"] == cell_dir.cell.steps]
    if not rows:
        raise DataError(
            f"{cell_dir.folder} has no evaluation at its last step: its task has no simulator to search with"
        )
    return {name: float(np.mean([row[name] for row in rows])) for name in ("return", "score") if name in rows[0]}


def best(ranked: Mapping[str, Sequence[Trial]]) -> dict[str, dict[str, Any]]:
    """The fields of each algorithm's best trial."""
    for name, trials in ranked.items():
        if not math.isfinite(trials[0].score):
            raise DataError(f"every trial of {name} failed: give its fields narrower ranges")
    return {name: dict(trials[0].fields) for name, trials in ranked.items()}


def table(search: Search, ranked: Mapping[str, Sequence[Trial]]) -> Table:
    numbers = ("trials", "best", "score", "preset")
    shown = terminal.table("algorithm", "best trial's fields", numbers=numbers, title="search, by last returns")
    for name, trials in ranked.items():
        found, preset = trials[0], next(trial for trial in trials if trial.number == 0)
        chosen = " ".join(f"{key}={value}" for key, value in found.fields.items()) or "as in the preset"
        scores = (f"{trial.score:.1f}" if math.isfinite(trial.score) else "failed" for trial in (found, preset))
        shown.add_row(name, chosen, str(search.trials), str(found.number), *scores)
    return shown


def write(
    search: Search, ranked: Mapping[str, Sequence[Trial]], dirs: Sequence[CellDir], out: Path
) -> tuple[Path, Path]:
    """Write search.json with every trial, and search.toml with the best fields, to be put into a matrix."""

    def entry(trial: Trial) -> dict[str, Any]:
        score = round(trial.score, 3) if math.isfinite(trial.score) else None
        return {"trial": trial.number, "score": score, "fields": trial.fields}

    settings = sorted({" + ".join(cell_dir.cell.datasets) for cell_dir in dirs})
    found = {
        "trials": search.trials,
        "seed": search.seed,
        "settings": settings,
        "best": {name: entry(trials[0]) for name, trials in ranked.items()},
        "all": {name: [entry(trial) for trial in trials] for name, trials in ranked.items()},
    }
    lines = [f"# The best of {search.trials} trials of each algorithm on {', '.join(settings)}"]
    for name, trials in ranked.items():
        lines += ["", f"[fields.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in trials[0].fields.items())]
    paths = out / "search.json", out / "search.toml"
    files.write_json(paths[0], found)
    files.write_text(paths[1], "\n".join(lines) + "\n")
    return paths
