"""Results as one table: an outcome for every setting and algorithm, with the runs of all its seeds; and as CSV.

A *setting* is a main task, the kind of its own data, and what is shared with it. Runs of one algorithm that were asked
for different things never share an outcome: those unlike the most get a label of their own.

A CSV has a row for every setting, algorithm and seed. It is for other tools, and takes the place of run directories
that are gone or someone else's: `utds report theirs.csv runs/` compares both. It has no networks, costs or
uncertainties.
"""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from utds import algorithms, domains, files
from utds.errors import DataError
from utds.report import load
from utds.report.load import DRAWN, OWN, Array, Offline, Result, Role, Seed, Series, shown
from utds.training.offline import Comparison, comparison
from utds.training.run_files import PLAIN, TEXT, Each, Maybe, check

Measure = Literal["score", "return"]

RECORDED = ("recorded data", "recorded data, best tenth")  # beside the algorithms
OF_SHARING = ("rewards=", "weights=dynamics")  # words of labels that change nothing where nothing is shared
ALL = "all others"  # the replay of every other task of the domain shared at once
KINDS = ("uniform", "random", "medium", "medium-replay", "replay", "medium-expert", "expert")

COLUMNS = (  # of a CSV
    "domain", "task", "kind", "source", "algorithm", "seed", "steps", "final_score", "best_score", "final_return",
    "best_return", "recorded_return", "recorded_best_tenth", "evaluations", "trials", "utds", "run", "command",
    "config",
)  # fmt: skip
NEEDED = ("domain", "task", "kind", "source", "algorithm", "seed", "steps", "final_return")
POOL = ("rewards", *DRAWN)
CONFIG = {"fields": Each(PLAIN), **dict.fromkeys(POOL, Maybe(TEXT))}


class Setting(NamedTuple):
    domain: str
    task: str
    kind: str
    source: str

    @property
    def main(self) -> Setting:
        """The same task and data with nothing shared."""
        return self._replace(source=OWN)

    @property
    def pairs(self) -> bool:
        """Two tasks: one source is shared."""
        return self.source not in (OWN, ALL) and " + " not in self.source

    def __str__(self) -> str:
        return f"{self.task}/{self.kind}" + ("" if self.source == OWN else f" + {self.source}")


@dataclass(frozen=True)
class Outcome:
    """What one algorithm reached in one setting."""

    setting: Setting
    algorithm: str  # its label: the name, and what is unlike the most runs of that name
    role: Role
    measure: Measure
    results: tuple[Result, ...]
    seeds: dict[int, Seed]
    steps: Array  # [T] at which every seed was evaluated
    curves: Array  # [N, T], scores (or returns) at those steps
    best: Array  # the highest of each seed's evaluations, also at steps that others don't have: [N]

    @property
    def final(self) -> Array:
        """After the last step: [N]."""
        return self.curves[:, -1]

    def runs(self, which: str) -> Array:
        return self.final if which == "final" else self.best

    @property
    def commands(self) -> list[str]:
        return list(dict.fromkeys(line for result in self.results if (line := load.command(result))))


class Study:
    """All outcomes of a tree of runs, what is missing between them, and what to be wary of."""

    def __init__(self, results: list[Result], problems: Iterable[str] = (), offline: Iterable[Offline] = ()) -> None:
        self.results = results
        self.offline = list(offline)
        self.warnings = list(problems)
        self.measure: Measure = self._choose_measure()
        labels = load.labels_of(results)
        self.outcomes = self._gather(labels)
        self._warn(labels)

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """What was judged from data alone, those with the most runs first: runs judged together stand together."""
        groups: dict[str, list[Offline]] = defaultdict(list)
        for run in self.offline:
            if run.found:
                groups[run.found["comparison"]].append(run)
        return tuple(map(comparison, sorted(groups.values(), key=lambda group: -len(group))))

    @cached_property
    def unjudged(self) -> dict[str, str]:
        """The command that judges a task's runs together, for tasks with runs that nothing is known of."""
        lacking = dict.fromkeys(run.config["task"] for run in self.offline if not run.found)
        runs = {task: [str(run.path) for run in self.offline if run.config["task"] == task] for task in lacking}
        return {task: shlex.join(["utds", "evaluate", *paths, "--offline"]) for task, paths in runs.items()}

    @cached_property
    def algorithms(self) -> tuple[str, ...]:
        """Labels of what figures compare, UTDS first."""
        found = {outcome.algorithm for outcome in self.outcomes.values() if outcome.role == "figure"}
        return tuple(sorted(found, key=_label_key))

    @cached_property
    def sharing(self) -> tuple[str, ...]:
        """Those of the algorithms that ran with shared data."""
        return tuple(a for a in self.algorithms if any(s.source != OWN for s, label in self.outcomes if label == a))

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """Settings of the figures, in the order of domains, tasks, kinds and sources, as outcomes are."""
        return tuple(dict.fromkeys(c.setting for c in self.outcomes.values() if c.role == "figure"))

    @cached_property
    def compared(self) -> dict[tuple[Setting, str], Outcome]:
        """The outcomes in the study's measure: plain returns beside scores are listed, and never averaged with them."""
        return {key: outcome for key, outcome in self.outcomes.items() if outcome.measure == self.measure}

    @property
    def domains(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(setting.domain for setting in self.settings))

    def single(self, setting: Setting, algorithm: str) -> Outcome | None:
        """What a run with sharing is held against: its algorithm, or what that reduces to, with nothing shared."""
        name, _, rest = algorithm.partition(" · ")
        known = algorithms.entries().get(name)  # none where this version doesn't know the algorithm
        own = ", ".join(word for word in rest.split(", ") if not word.startswith(OF_SHARING))
        shared = self.outcomes.get((setting, algorithm))
        for words in dict.fromkeys((rest, own)):
            for single in (name, known.single_task if known else name):
                label = f"{single} · {words}" if words else single
                found = self.outcomes.get((setting.main, label))
                if found and (shared is None or shared.measure == found.measure):
                    return found
        return None

    @cached_property
    def own_references(self) -> tuple[str, ...]:
        """Tasks whose reference return was measured on the policies that ship, for want of a published one."""
        tasks = dict.fromkeys(result.task for result in self.results if result.scale)
        return tuple(task for task in tasks if domains.task(task)[1].own_reference)

    def recorded(self, setting: Setting) -> tuple[float, float] | None:
        """What the task's own data reached as recorded: mean, and mean of the best tenth of episodes; as shown."""
        return self._recorded.get(setting.main)

    @cached_property
    def _recorded(self) -> dict[Setting, tuple[float, float]]:
        found: dict[Setting, tuple[float, float]] = {}
        for (setting, _), outcome in self.outcomes.items():
            for result in outcome.results:
                if result.recorded and outcome.measure == "return":
                    found.setdefault(setting.main, result.recorded)
                elif result.recorded and result.scale:
                    mean, best = (load.score(value, result.scale) for value in result.recorded)
                    found.setdefault(setting.main, (mean, best))
        return found

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Cells and seeds that the others lead one to expect, by name."""
        lines = []
        shared = [setting for setting in self.settings if setting.source != OWN]
        for label in self.sharing:
            name = shown(label)
            lines += [f"{name} on {setting}" for setting in shared if (setting, label) not in self.outcomes]
            mains = dict.fromkeys(s.main for s in shared if (s, label) in self.outcomes)
            lines += [f"{name} on {main}, nothing shared" for main in mains if self.single(main, label) is None]
        for label in self.algorithms:
            mine = [outcome for (_, name), outcome in self.outcomes.items() if name == label]
            expected = set().union(*(outcome.seeds for outcome in mine))
            for outcome in mine:
                if gone := sorted(expected - set(outcome.seeds)):
                    lines.append(
                        f"{shown(label)} on {outcome.setting}: seed{'s' * (len(gone) > 1)} {', '.join(map(str, gone))}"
                    )
        return tuple(lines)

    def _choose_measure(self) -> Measure:
        """Scores where there are any; returns of unlike ranges are never averaged with them."""
        without = {r.task for r in self.results if any(seed.scores is None for seed in r.seeds.values())}
        if without and any(r.task not in without for r in self.results):
            names = ", ".join(sorted(without))
            self.warnings.append(
                f"{names}: no reference return, so its runs are listed with plain returns, not compared"
            )
            return "score"
        return "return" if without else "score"

    def _gather(self, labels: list[tuple[str, Role]]) -> dict[tuple[Setting, str], Outcome]:
        groups: dict[tuple[Setting, str], list[tuple[Result, Role]]] = defaultdict(list)
        for result, (label, role) in zip(self.results, labels, strict=True):
            setting = Setting(result.domain, result.task, result.kind, _source(result))
            groups[setting, label].append((result, role))
        ordered = sorted(groups, key=lambda key: (_setting_key(key[0]), _label_key(key[1])))
        return {key: self._outcome(*key, groups[key]) for key in ordered}

    def _outcome(self, setting: Setting, label: str, group: list[tuple[Result, Role]]) -> Outcome:
        seeds: dict[int, Seed] = {}
        kept = []
        for result, _ in group:
            if again := sorted(set(seeds) & set(result.seeds)):
                what = f"{shown(label)} on {setting}, seed {again[0]}"
                self.warnings.append(f"{result.path} repeats {what}: the first is shown")
            if new := {k: v for k, v in result.seeds.items() if k not in seeds}:
                seeds |= new
                kept.append(result)
        seeds = dict(sorted(seeds.items()))
        role, measure = group[0][1], self.measure
        scores = [seed.scores for seed in seeds.values() if seed.scores]
        if measure == "score" and len(scores) < len(seeds):
            role, measure = "apart", "return"
        series = scores if measure == "score" else [seed.returns for seed in seeds.values()]
        best = np.array([one.values.max() for one in series])
        return Outcome(setting, label, role, measure, tuple(kept), seeds, *load.together(series), best)

    def _warn(self, labels: list[tuple[str, Role]]) -> None:
        versions = Counter(result.version for result in self.results)
        if len(versions) > 1:
            made_by = ", ".join(f"{version} ({count} runs)" for version, count in sorted(versions.items()))
            self.warnings.append(f"the runs were made by different versions of utds: {made_by}")
        digests: dict[str, set[str]] = defaultdict(set)
        for result in self.results:
            for source in result.config["sources"]:
                digests[source["id"]].add(source["digest"])
        for name, found in sorted(digests.items()):
            if len(found) > 1:
                self.warnings.append(f"{name} stands for {len(found)} different datasets in these runs")
        untold = Counter(result.algorithm for result in self.results if result.unlike is not None)
        for name in sorted({result.algorithm for result in self.results if result.unlike is None} & set(untold)):
            self.warnings.append(
                f"{shown(name)}: {untold[name]} runs of a CSV that an earlier version wrote don't tell their "
                "preset and fields; they are shown as if they had those of most of your runs"
            )
        apart = Counter(label for label, role in labels if role == "apart")
        for label, count in sorted(apart.items()):
            why = "of another number of steps" if label.endswith(" steps") else "of another β2, read from a CSV,"
            self.warnings.append(f"{shown(label)}: {count} runs {why} are listed but not compared")


def _source(result: Result) -> str:
    """ALL where the sources are every other task of a domain that is known here, else their names."""
    tasks = domains.get(result.domain).task_names if result.domain in domains.names() else ()
    others = set(tasks) - {result.task.removeprefix(f"{result.domain}-")}  # as sources are called
    return ALL if len(others) > 1 and set(result.source.split(" + ")) == others else result.source


def _rank(order: tuple[str, ...], name: str) -> int:
    return order.index(name) if name in order else len(order)


def _label_key(label: str) -> tuple[int, str]:
    return _rank(tuple(algorithms.entries()), label.partition(" · ")[0]), label


def _setting_key(setting: Setting) -> tuple[Any, ...]:
    last = {OWN: 0, ALL: 2}.get(setting.source, 1)
    return setting.domain, setting.task, _rank(KINDS, setting.kind), setting.kind, last, setting.source


def to_csv(study: Study) -> str:
    """A row for every setting, algorithm and seed; scores are empty where a task has no reference.

    `evaluations` are returns and scores along training, as "2500:631.2:63.8 5000:812:83.1". `config` is JSON: the
    algorithm's fields and how its pool draws, which tell runs of one algorithm apart.
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, fieldnames=COLUMNS, lineterminator="\n")
    writer.writeheader()
    for outcome in study.outcomes.values():
        for number, seed in outcome.seeds.items():
            result = next(result for result in outcome.results if number in result.seeds)
            logged = {"return": seed.returns.values} | ({"score": seed.scores.values} if seed.scores else {})
            along = zip(seed.returns.steps, *logged.values(), strict=True)
            mean, best_tenth = result.recorded or (None, None)
            row = outcome.setting._asdict() | {
                "source": result.source,  # by name, which `all others` isn't where the domain is unknown
                "algorithm": outcome.algorithm,
                "seed": number,
                "steps": result.config["steps"],
                "recorded_return": mean,
                "recorded_best_tenth": best_tenth,
                "evaluations": " ".join(":".join([f"{step:.0f}", *(f"{x:.6g}" for x in at)]) for step, *at in along),
                "trials": result.trials,
                "utds": result.version,
                "run": result.path,
                "command": load.command(result),
                "config": _config(result),
            }
            for name, values in logged.items():
                row |= {f"final_{name}": values[-1], f"best_{name}": values.max()}
            writer.writerow(row)
    return file.getvalue()


def _config(result: Result) -> str:
    """Nothing where an earlier CSV didn't tell it either."""
    if result.unlike is not None:
        return ""
    pool = {name: result.config[name] for name in POOL if result.config.get(name) is not None}
    return json.dumps({"fields": result.fields} | pool, separators=(",", ":"))


def from_csv(path: Path) -> list[Result]:
    """The results of such a CSV, one per row, in their order."""
    with files.explained(f"read {path}"), open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        found = list(_results(path, csv.DictReader(file, strict=True)))
    if not found:
        raise DataError(f"{path} has no results in it")
    return found


def _results(path: Path, table: csv.DictReader[str]) -> Iterator[Result]:
    try:
        lacking = [f"it lacks the column {name}" for name in NEEDED if name not in (table.fieldnames or ())]
    except csv.Error as error:
        lacking = [f"its first line is no CSV: {error}"]
    if lacking:
        raise DataError(f"{path} is no table of results: {lacking[0]}; `utds report --csv` writes one")
    try:
        yield from map(_result, table)
    except (ValueError, RecursionError, csv.Error, DataError) as error:
        again = "make the file again with `utds report --csv`"
        raise DataError(f"{path}, line {table.line_num}: {error}; {again}") from None


def _result(row: dict[str, str]) -> Result:
    if any(row[name] is None for name in NEEDED):
        raise ValueError("the row is cut short")
    name, _, unlike = row["algorithm"].partition(" · ")
    steps, limits = int(row["steps"]), load.scale(row["task"])
    words = [word for word in unlike.split(", ") if not word.endswith(" steps")]  # found anew among the other results
    mean, best_tenth = (float(row.get(name) or "nan") for name in ("recorded_return", "recorded_best_tenth"))
    config: dict[str, Any] = {"algorithm": {"name": name, "fields": {}}, "steps": steps, "sources": []}
    if told := row.get("config"):  # earlier versions wrote none
        given = json.loads(told)
        check(given, CONFIG, "config")
        config["algorithm"] = algorithms.current_config({"name": name, "fields": given["fields"]})
        config |= {name: given[name] for name in POOL if given.get(name) is not None}
    return Result(
        path=Path(row.get("run") or "unknown"),
        domain=row["domain"],
        task=row["task"],
        kind=row["kind"],
        source=row["source"],
        config=config,
        version=row.get("utds") or "unknown",
        command=row.get("command") or None,
        scale=limits,
        recorded=(mean, best_tenth) if np.isfinite([mean, best_tenth]).all() else None,
        trials=int(row.get("trials") or 0),
        cost={},
        seeds={int(row["seed"]): _seed(row, steps, limits)},
        unlike=None if told else ", ".join(words),
    )


def _seed(row: dict[str, str], steps: int, limits: tuple[float, float] | None) -> Seed:
    """The evaluations, or where an older file doesn't have them the last one."""
    last = f"{steps}:{row['final_return']}" + (f":{row['final_score']}" if row.get("final_score") else "")
    along = np.array([[float(x) for x in one.split(":")] for one in (row.get("evaluations") or last).split()])  # [T, 3]
    sound = along.ndim == 2 and along.shape[1] in (2, 3) and np.isfinite(along).all()
    if not sound or (np.diff(along[:, 0]) <= 0).any() or along[-1, 0] != steps:
        raise ValueError("the evaluations must be numbers, step:return:score, whose steps rise to the last one")
    at, returns, *scores = along.T
    return Seed(Series(at, returns), Series(at, *scores) if scores else load.as_scores(Series(at, returns), limits), {})
