"""Run directories as results: what each run was asked for and what came out, what to call it and how to make it again.

What can't be read is named.
"""

import functools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

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
    cost: dict[str, float]  # hours_per_million where steps were timed; peak_memory_mb and parameters where recorded
    seeds: dict[int, Seed]
    unlike: str | None = None  # where an earlier CSV tells it and not the fields: what is unlike most runs, or nothing

    @property
    def algorithm(self) -> str:
        return str(self.config["algorithm"]["name"])

    @property
    def fields(self) -> dict[str, Any]:
        return dict(self.config["algorithm"]["fields"])


class Offline(NamedTuple):
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
    cell = run_files.cell(path)
    if cell.get("trial") is not None:
        return None
    failed = run_files.error(path)
    if not run_files.is_run(path):
        raise DataError(f"{path} failed: {failed}" if failed else f"{path} is half-written: it has no config.json")
    if run_files.is_collection(path):
        return None
    config = run_files.config(path)
    if not run_files.is_finished(config, run_files.result(path)):
        again = "run its matrix again" if cell else "resume it with `--resume`"
        raise DataError(f"{path} failed: {failed}" if failed else f"{path} is unfinished: {again}")
    return config


def _result(path: Path, config: dict[str, Any]) -> Result:
    done, cell, limits = run_files.result(path), run_files.cell(path), scale(config["task"])
    domain = config["domain"] or config["task"]
    own, *others = config["sources"]
    shared = [source["id"] for source in others] if run_files.shares(config) else []
    short = [id.removeprefix(f"{domain}-").removesuffix("/replay") for id in shared]  # another kind than replay stays
    recorded = own.get("recorded")  # runs of earlier versions don't tell
    return Result(
        path=path,
        domain=domain,
        task=config["task"],
        kind=own["id"].removeprefix(f"{config['task']}/"),  # ids of one's own stay whole: monday/medium
        source=" + ".join(sorted(short)) or OWN,
        config=config | {"episodes": cell.get("episodes", config.get("episodes"))},
        version=run_files.version(path),
        command=cell.get("command"),
        scale=limits,
        recorded=(recorded["mean"], recorded["best_tenth"]) if recorded else None,
        trials=cell.get("trials") or 0,
        cost=_cost(done, len(config["seeds"])),
        seeds=_seeds(path, config["seeds"], config["steps"], limits),
    )


@functools.cache
def scale(task: str) -> tuple[float, float] | None:
    """The returns that score 0 and 100, where the task is known here and has them."""
    from utds import domains

    try:
        found = domains.task(task)[1]
    except DomainError:
        return None
    return None if found.reference is None else (found.lowest, found.reference)


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


def score(returns: Any, scale: tuple[float, float]) -> Any:
    """A return or an array of them as scores."""
    low, high = scale
    return 100 * (returns - low) / (high - low)


def as_scores(returns: Series, scale: tuple[float, float] | None) -> Series | None:
    """Returns as scores, where the task has any."""
    return None if scale is None else Series(returns.steps, score(returns.values, scale))


def together(series: Sequence[Series]) -> tuple[Array, Array]:
    """The steps that all of them have [T], and their values there [N, T]."""
    steps = functools.reduce(np.intersect1d, (one.steps for one in series))
    return steps, np.array([one.values[np.isin(one.steps, steps)] for one in series])


def _columns(path: Path, wanted: Callable[[str], bool]) -> dict[int, dict[str, Series]]:
    """A log by seed and column; cells without a number are left out."""
    collected: dict[int, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in run_files.rows(path, wanted):
        mine, step = collected[row.pop("seed")], row.pop("step")
        for name, value in row.items():
            if name == "return" or math.isfinite(value):
                mine[name].append((step, value))
    found: dict[int, dict[str, Series]] = {}
    for seed, columns in collected.items():
        found[seed] = {name: Series(*np.array(pairs, np.float64).T) for name, pairs in columns.items()}
        if any((np.diff(series.steps) <= 0).any() for series in found[seed].values()):
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
    told: dict[Hashable, Result] = {}  # a run counts once, though a CSV has a row for each of its seeds
    for result in results:
        if result.unlike is None:  # two people's runs may have one path
            asked = json.dumps([result.fields, pool_of(result)], sort_keys=True)
            told.setdefault((result.path, result.algorithm, asked), result)
    fields = _usual(told.values(), lambda r: r.algorithm, lambda r: r.fields)
    pools = _usual(told.values(), lambda r: (r.algorithm, r.source == OWN), pool_of)
    # Own data alone, being less, may take fewer steps.
    steps = _usual(results, lambda r: (r.domain, r.source == OWN), lambda r: r.config["steps"])
    labels: list[tuple[str, Role]] = []
    for result in results:
        alone = result.source == OWN
        if result.unlike is None:
            unlike = _unlike(result.fields, fields[result.algorithm])
            words, role = _words(result, unlike, _unlike(pool_of(result), pools[result.algorithm, alone]))
        else:
            words, role = _words_of_row(result.unlike)
        if result.config["steps"] != steps[result.domain, alone]:
            words, role = [*words, f"{result.config['steps']:,} steps"], "apart"
        labels.append((" · ".join([result.algorithm, ", ".join(words)]) if words else result.algorithm, role))
    return labels


def _usual(results: Iterable[Result], key: Callable[[Result], Hashable], value: Callable[[Result], Any]) -> Any:
    """By key, the value that comes up most often, the first of equals."""
    groups: dict[Hashable, list[Any]] = defaultdict(list)
    for result in results:
        groups[key(result)].append(value(result))
    found = {}
    for name, values in groups.items():
        texts = [json.dumps(one, sort_keys=True) for one in values]
        found[name] = values[texts.index(Counter(texts).most_common(1)[0][0])]
    return found


def _unlike(values: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in usual or usual[name] != value}


def _words(result: Result, unlike: dict[str, Any], pool: dict[str, Any]) -> tuple[list[str], Role]:
    words = [f"{name}={value}" for name, value in unlike.items()]
    ablation = bool(unlike) and set(unlike) <= set(BETA) and not pool
    if len(words) > 1 and not ablation:
        preset, differences = algorithms.nearest_preset(result.algorithm, result.fields)
        words = words if differences else [preset]
    return words + [f"{name}={value}" for name, value in pool.items()], "ablation" if ablation else "figure"


def _words_of_row(unlike: str) -> tuple[list[str], Role]:
    """As its CSV has it; a schedule of β2 can't be compared with others without the fields themselves."""
    words = [word for word in unlike.split(", ") if word]
    return words, "apart" if any(word.partition("=")[0] in BETA for word in words) else "figure"


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
