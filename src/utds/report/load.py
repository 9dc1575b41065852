"""Run directories as results: what each run was asked for and what came out, what to call it and how to make it again.

What can't be read is named.
"""

import functools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from utds import algorithms
from utds.data.columns import KNOWN
from utds.data.labelling import FunctionReward
from utds.data.pool import UNIFORM
from utds.errors import DataError, DomainError
from utds.training import run_files

Array = NDArray[np.float64]
OWN = "own data"  # the source of a run that shares nothing
Role = Literal["figure", "ablation", "apart"]  # compared everywhere; only among β2's values; only listed
BETA = {"beta_ood": "initial value", "beta_ood_end": "end value", "beta_ood_decay": "decay factor α"}  # β2's schedule
DRAWN = {"sampling": "transitions", "weights": UNIFORM}  # how a pool is usually drawn from


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
    scale: tuple[float, float] | None  # returns of random actions and of the reference expert: scores 0 and 100
    recorded: tuple[float, float] | None  # returns of the task's own data: mean, and mean of the best tenth of episodes
    trials: int  # of the search for its algorithm's fields; 0 where nothing was searched for
    cost: dict[str, float]  # seconds and steps that were timed; peak_memory_mb and parameters where recorded
    seeds: dict[int, Seed]
    unlike: str | None = None  # where an earlier CSV tells it and not the fields: what is unlike most runs, or nothing

    @property
    def algorithm(self) -> str:
        return str(self.config["algorithm"]["name"])

    @property
    def fields(self) -> dict[str, Any]:
        return dict(self.config["algorithm"]["fields"])


@dataclass(frozen=True)
class Offline:
    """A finished run that was judged from data alone, or that can't be judged otherwise."""

    path: Path
    config: dict[str, Any]
    found: dict[str, Any]  # its offline.json; empty where it wasn't judged yet


def read(folders: list[Path]) -> tuple[list[Result], list[str], list[Offline]]:
    """All finished runs below the folders, in order of their paths, and a line for each that can't be used.

    Runs that were judged from data alone, or were never evaluated, stand in the last list.
    """
    results, problems, offline = [], [], []
    for path in dict.fromkeys(path for folder in folders for path in run_files.folders(folder)):
        try:
            config = _finished(path)
            if config is None:
                continue
            found = run_files.offline(path)
            without_simulator = found or config["domain"] is None  # elsewhere evaluations that lack are lost
            evaluated = (path / "evaluations.csv").exists() or not without_simulator
            if evaluated:
                results.append(_result(path, config))
            if found or not evaluated:
                offline.append(Offline(path, config, found))
        except DataError as error:
            problems.append(str(error))
    if not results and not offline:
        where = ", ".join(map(str, folders))
        why = f"; the first of {len(problems)} that can't be used: {problems[0]}" if problems else ""
        raise DataError(f"no finished run below {where}; `utds train` and `utds benchmark run` write them{why}")
    return results, problems, offline


def _finished(path: Path) -> dict[str, Any] | None:
    """The config of a finished run; None for the folder of a collection, whose config is another, and for trials."""
    if not run_files.is_run(path):
        raise DataError(f"{path} is half-written: it has no config.json")
    if run_files.is_collection(path):
        return None
    config = run_files.config(path)
    if run_files.cell(path).get("trial") is not None:
        return None
    if run_files.result(path).get("steps") != config["steps"]:
        raise DataError(f"{path} is unfinished: resume it with `--resume`")
    return config


def _result(path: Path, config: dict[str, Any]) -> Result:
    done, cell = run_files.result(path), run_files.cell(path)
    domain = config["domain"] or config["task"]
    own, *shared = [source["id"] for source in config["sources"]]
    known = algorithms.entries().get(config["algorithm"]["name"])  # none where it is of a file that isn't loaded
    if known is not None and not known.reads_shared:
        shared = []
    return Result(
        path=path,
        domain=domain,
        task=config["task"],
        kind=own.rpartition("/")[2],
        source=" + ".join(sorted(_short(name, domain) for name in shared)) or OWN,
        config=config | {"episodes": cell.get("episodes", config.get("episodes"))},
        version=run_files.version(path),
        command=cell.get("command"),
        scale=scale(config["task"]),
        recorded=_recorded(config["sources"][0]),
        trials=cell.get("trials") or 0,
        cost=_cost(done, len(config["seeds"])),
        seeds=_seeds(path, config["seeds"], config["steps"], scale(config["task"])),
    )


@functools.cache
def scale(task: str) -> tuple[float, float] | None:
    """The returns that score 0 and 100, where the task is known here and has them."""
    from utds import domains

    try:
        found = domains.task(task)[1]
    except DomainError:
        return None
    return None if found.reference is None else (found.random, found.reference)


def _recorded(source: dict[str, Any]) -> tuple[float, float] | None:
    """Runs of earlier versions don't tell."""
    found = source.get("recorded")
    return (found["mean"], found["best_tenth"]) if found else None


def _short(id: str, domain: str) -> str:
    """walker-run/replay -> run; another kind than replay stays."""
    return id.removeprefix(f"{domain}-").removesuffix("/replay")


def _cost(done: dict[str, Any], seeds: int) -> dict[str, float]:
    timed = done.get("timed_steps", done["steps"])
    cost = {name: float(done[name]) for name in ("peak_memory_mb", "parameters") if done.get(name) is not None}
    return cost | ({"hours_per_million": done["seconds"] / (timed * seeds) / 3600 * 1e6} if timed else {})


def _seeds(path: Path, seeds: list[int], steps: int, scale: tuple[float, float] | None) -> dict[int, Seed]:
    evaluations = _columns(path / "evaluations.csv", lambda name: name in ("return", "score"))
    metrics = _columns(path / "metrics.csv", lambda name: name.startswith("uncertainty"))
    found = {}
    for seed in seeds:
        rows = evaluations.get(seed, {})
        if "return" not in rows or rows["return"].steps[-1] != steps:
            raise DataError(f"{path} has no evaluation of seed {seed} at its last step {steps}")
        if not np.isfinite(rows["return"].values).all():
            raise DataError(f"{path} has a return of seed {seed} that is no number")
        scores = rows.get("score")
        if scores is None or scores.steps.size < rows["return"].steps.size:  # its reference may have come later
            scores = as_scores(rows["return"], scale)
        found[seed] = Seed(rows["return"], scores, metrics.get(seed, {}))
    return found


def as_scores(returns: Series, scale: tuple[float, float] | None) -> Series | None:
    """Returns as scores, where the task has any."""
    if scale is None:
        return None
    low, high = scale
    return Series(returns.steps, 100 * (returns.values - low) / (high - low))


def _columns(path: Path, wanted: Callable[[str], bool]) -> dict[int, dict[str, Series]]:
    """A log by seed and column; cells without a number are left out."""
    collected: dict[int, dict[str, list[tuple[float, float]]]] = {}
    for row in run_files.rows(path, wanted):
        mine, step = collected.setdefault(row.pop("seed"), {}), row.pop("step")
        for name, value in row.items():
            if name == "return" or math.isfinite(value):
                mine.setdefault(name, []).append((step, value))
    found = {
        seed: {name: Series(*np.array(pairs, np.float64).T) for name, pairs in columns.items()}
        for seed, columns in collected.items()
    }
    for seed, columns in found.items():
        if any((np.diff(series.steps) <= 0).any() for series in columns.values()):
            raise DataError(f"{path} has steps of seed {seed} that don't rise; it was altered")
    return found


def command(result: Result) -> str | None:
    """As the benchmark recorded it, else from the run's config; none where only Python can ask for such a run."""
    config = result.config
    if result.command or not config["sources"]:  # a CSV has the command or doesn't, and tells no data
        return result.command
    if not _on_the_command_line(config):
        return None
    preset, differences = algorithms.nearest_preset(result.algorithm, result.fields)
    drawn = {name: config[name] for name, usual in DRAWN.items() if config.get(name, usual) != usual}
    return run_files.command(
        datasets=[source["id"] for source in config["sources"]],
        algorithm=result.algorithm,
        preset=preset,
        fields=differences,
        rewards=config.get("rewards", KNOWN),
        seeds=config["seeds"],
        options={name: config[name] for name in ("steps", "eval_every", "episodes") if config.get(name)} | drawn,
    )


def _on_the_command_line(config: dict[str, Any]) -> bool:
    """Whether it has words for a run's seeds, weights and rewards: none for functions and arrays given in Python."""
    seeds = sorted(config["seeds"])
    follow = seeds == list(range(seeds[0], seeds[0] + len(seeds)))
    in_python = str(config.get("rewards")).partition(":")[0] == FunctionReward.name
    return follow and not in_python and "@" not in config.get("weights", UNIFORM)  # the digest of what was given


def labels_of(results: list[Result]) -> list[tuple[str, Role]]:
    """A label and a role for every result; what most runs of an algorithm have in common goes without saying."""
    fields: dict[str, list[dict[str, Any]]] = defaultdict(list)
    pools: dict[tuple[str, bool], list[dict[str, Any]]] = defaultdict(list)
    told: dict[Path, Result] = {}  # a run counts once, though a CSV has a row for each of its seeds
    for result in results:
        if result.unlike is None:
            told.setdefault(result.path, result)
    for result in told.values():
        fields[result.algorithm].append(result.fields)
        pools[result.algorithm, result.source == OWN].append(pool_of(result))
    usual_fields = {name: _most(found) for name, found in fields.items()}
    usual_pools = {key: _most(found) for key, found in pools.items()}
    budgets: dict[tuple[str, bool], list[int]] = defaultdict(list)
    for result in results:
        budgets[_budget(result)].append(result.config["steps"])
    steps = {key: _most(found) for key, found in budgets.items()}
    labels = []
    for result in results:
        other_steps = result.config["steps"] != steps[_budget(result)]
        if result.unlike is not None:
            labels.append(_label_of_row(result, other_steps))
            continue
        unlike = _unlike(result.fields, usual_fields[result.algorithm])
        pool = _unlike(pool_of(result), usual_pools[result.algorithm, result.source == OWN])
        labels.append(_label(result, unlike, pool, other_steps))
    return labels


def shown(label: str) -> str:
    """A label as people read it, with what its algorithm is registered to be called in place of the name."""
    name, dot, rest = label.partition(" · ")
    known = algorithms.entries().get(name)  # none where it is of a file that isn't loaded
    return f"{known.label if known else name}{dot}{rest}"


def pool_of(result: Result) -> dict[str, Any]:
    """How its pool draws, and the rewards of shared data, which say nothing about runs that share none."""
    drawn = {name: result.config.get(name, usual) for name, usual in DRAWN.items()}
    if drawn["weights"].startswith("arrays@"):  # other arrays for every pool
        drawn["weights"] = "arrays"
    return drawn if result.source == OWN else drawn | {"rewards": result.config.get("rewards", KNOWN)}


def _unlike(values: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in usual or usual[name] != value}


def _budget(result: Result) -> tuple[str, bool]:
    """Runs with one key are expected to take equally many steps; own data alone, being less, may take fewer."""
    return result.domain, result.source == OWN


def _label(result: Result, unlike: dict[str, Any], pool: dict[str, Any], other_steps: bool) -> tuple[str, Role]:
    words = [f"{name}={value}" for name, value in unlike.items()]
    ablation = bool(unlike) and set(unlike) <= set(BETA) and not pool
    if len(words) > 1 and not ablation:
        preset, differences = algorithms.nearest_preset(result.algorithm, result.fields)
        words = words if differences else [preset]
    words += [f"{name}={value}" for name, value in pool.items()]
    return _joined(result, words, "ablation" if ablation else "figure", other_steps)


def _label_of_row(result: Result, other_steps: bool) -> tuple[str, Role]:
    """As its CSV has it; a schedule of β2 can't be compared with others without the fields themselves."""
    words = [word for word in (result.unlike or "").split(", ") if word]
    schedule = any(word.partition("=")[0] in BETA for word in words)
    return _joined(result, words, "apart" if schedule else "figure", other_steps)


def _joined(result: Result, words: list[str], role: Role, other_steps: bool) -> tuple[str, Role]:
    if other_steps:
        role, words = "apart", [*words, f"{result.config['steps']:,} steps"]
    return " · ".join([result.algorithm, *([", ".join(words)] if words else [])]), role


def _most(values: list[Any]) -> Any:
    """The value that comes up most often, the first of equals."""
    keys = [json.dumps(value, sort_keys=True) for value in values]
    return values[keys.index(Counter(keys).most_common(1)[0][0])]
