"""Results as one table: an outcome for every setting and algorithm, with the runs of all its seeds.

A *setting* is a main task, the kind of its own data, and what is shared with it. Runs of one algorithm that were asked
for different things never share an outcome: those unlike the most get a label of their own.
"""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from utds import algorithms, domains
from utds.report.load import OWN, Array, Offline, Result, Role, Seed, command, labels_of, shown
from utds.training.offline import Comparison, comparison

Measure = Literal["score", "return"]

RECORDED = ("recorded data", "recorded data, best tenth")  # beside the algorithms
OF_SHARING = ("rewards=", "weights=dynamics")  # words of labels that change nothing where nothing is shared
ALL = "all others"  # every other task of the domain shared at once
KINDS = ("uniform", "random", "medium", "medium-replay", "replay", "medium-expert", "expert")


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

    @cached_property
    def steps(self) -> Array:
        """Steps at which every seed was evaluated: [T]."""
        shared = [set(seed.returns.steps) for seed in self.seeds.values()]
        return np.array(sorted(set.intersection(*shared)))

    @cached_property
    def curves(self) -> Array:
        """Scores (or returns) at those steps: [N, T]."""
        rows = []
        for seed in self.seeds.values():
            series = seed.returns if self.measure == "return" or seed.scores is None else seed.scores
            rows.append(series.values[np.isin(series.steps, self.steps)])
        return np.array(rows)

    @property
    def final(self) -> Array:
        """After the last step: [N]."""
        return self.curves[:, -1]

    @property
    def best(self) -> Array:
        """The highest of each seed's evaluations: [N]."""
        return self.curves.max(axis=1)

    def runs(self, which: str) -> Array:
        return self.final if which == "final" else self.best

    @property
    def commands(self) -> list[str]:
        return list(dict.fromkeys(line for result in self.results if (line := command(result))))


class Study:
    """All outcomes of a tree of runs, what is missing between them, and what to be wary of."""

    def __init__(self, results: list[Result], problems: Iterable[str] = (), offline: Iterable[Offline] = ()) -> None:
        self.results = results
        self.offline = list(offline)
        self.warnings = list(problems)
        self.measure: Measure = self._choose_measure()
        labels = labels_of(results)
        self.outcomes = self._gather(labels)
        self._warn(labels)

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """What was judged from data alone, those with the most runs first: runs judged together stand together."""
        groups: dict[str, list[Offline]] = defaultdict(list)
        for run in self.offline:
            if run.found:
                groups[run.found["comparison"]].append(run)
        ordered = sorted(groups.values(), key=lambda group: -len(group))
        return tuple(comparison((run.path, run.config, run.found) for run in group) for group in ordered)

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
        """Settings of the figures, in the order of domains, tasks, kinds and sources."""
        return tuple(
            sorted(
                {outcome.setting for outcome in self.outcomes.values() if outcome.role == "figure"}, key=_setting_key
            )
        )

    @property
    def domains(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(setting.domain for setting in self.settings))

    def single(self, setting: Setting, algorithm: str) -> Outcome | None:
        """What a run with sharing is held against: its algorithm, or what that reduces to, with nothing shared."""
        name, _, rest = algorithm.partition(" · ")
        known = algorithms.entries().get(name)  # none where this version doesn't know the algorithm
        own = ", ".join(word for word in rest.split(", ") if not word.startswith(OF_SHARING))
        for words in dict.fromkeys((rest, own)):
            for single in (name, known.single_task if known else name):
                label = f"{single} · {words}" if words else single
                if (setting.main, label) in self.outcomes:
                    return self.outcomes[setting.main, label]
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
                    low, high = result.scale
                    mean, best = (100 * (value - low) / (high - low) for value in result.recorded)
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
        tasks: dict[str, set[str]] = defaultdict(set)
        for result in self.results:
            parts = [] if result.source in (OWN, ALL) else result.source.split(" + ")
            tasks[result.domain] |= {result.task.removeprefix(f"{result.domain}-"), *parts}
        for result, (label, role) in zip(self.results, labels, strict=True):
            setting = Setting(result.domain, result.task, result.kind, result.source)
            others = tasks[result.domain] - {result.task.removeprefix(f"{result.domain}-")}
            if len(others) > 1 and set(result.source.split(" + ")) == others:
                setting = setting._replace(source=ALL)
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
        unscored = self.measure == "score" and any(seed.scores is None for seed in seeds.values())
        role: Role = "apart" if unscored else group[0][1]
        measure: Measure = "return" if unscored else self.measure
        return Outcome(setting, label, role, measure, tuple(kept), dict(sorted(seeds.items())))

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


def _rank(order: tuple[str, ...], name: str) -> int:
    return order.index(name) if name in order else len(order)


def _label_key(label: str) -> tuple[int, str]:
    return _rank(tuple(algorithms.entries()), label.partition(" · ")[0]), label


def _setting_key(setting: Setting) -> tuple[Any, ...]:
    last = {OWN: 0, ALL: 2}.get(setting.source, 1)
    return setting.domain, setting.task, _rank(KINDS, setting.kind), setting.kind, last, setting.source
