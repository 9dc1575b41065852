"""What the runs say: gains over training alone, aggregates, profiles, costs, ablations. Numbers only, no markup."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from utds.report import aggregate
from utds.report.aggregate import Interval, Scores
from utds.report.load import BETA, OWN, Array, pool_of, shown
from utds.report.table import Measure, Outcome, Setting, Study

EVERYTHING = "all domains"
WHICH = ("final", "best")  # the score after the last step; the highest along the way
TAUS = 61  # points of a performance profile
PROFILE_RESAMPLES = 2_000  # of each of its points
TARGETS = (50.0, 100.0)  # of optimality gaps: the paper's, and the reference expert
MARGIN = 0.01  # of the scale of scores, or of the returns alone, that a clear gain must exceed
LEAST_MAINS = 5  # main datasets, for an interval over them where no setting has repeats
SHOWN = 0.05  # gains have one decimal: a smaller one is shown as 0.0, however sure it is
Over = Literal["seeds", "data"]  # what intervals are over: repeats, or main datasets where there are none


@dataclass(frozen=True)
class Gain:
    """What sharing adds for one algorithm, over all settings that ran both with and without it."""

    algorithm: str
    single: str  # the algorithm of the runs without sharing
    settings: int
    gain: Interval
    over: Over  # of the gain's interval
    probability: Interval  # that a run with sharing beats one without
    up: int  # settings whose own interval lies above zero
    down: int
    seeds: tuple[int, int]  # fewest and most of a setting
    steps: tuple[int, ...]  # how long the runs were trained
    margin: float  # a gain whose interval reaches below this is no clear one
    losses: tuple[tuple[str, float], ...]  # settings whose mean is lower with sharing, and by how much; the worst first

    @property
    def verdict(self) -> str:
        """helps, hurts, unclear, or unknown where there are neither repeats nor many main datasets to judge by."""
        if math.isnan(self.gain.low):
            return "unknown"
        return "helps" if self.gain.low > self.margin else "hurts" if self.gain.high < -self.margin else "unclear"


class Row(NamedTuple):
    """A line of the aggregates."""

    algorithm: str
    alone: bool  # with nothing shared
    settings: int
    statistics: dict[str, Interval]
    profile: Interval  # [T]
    mean_profile: Interval  # [T]

    @property
    def name(self) -> str:
        return shown(self.algorithm) + ", own data" * self.alone


@dataclass(frozen=True)
class Aggregates:
    """Algorithms compared on the very same settings."""

    settings: tuple[Setting, ...]
    rows: tuple[Row, ...]
    left_out: tuple[str, ...]  # algorithms that ran on less than half of the settings
    taus: Array
    over: Over  # main datasets where a row has no repeats


class Ablation(NamedTuple):
    """One field of β2's schedule varied, all else equal."""

    field: str
    values: tuple[float, ...]
    lines: dict[tuple[Setting, str], list[Outcome | None]]  # by label without the field: an outcome for each value


def scopes(study: Study) -> tuple[str, ...]:
    """Everything, then each domain where there are several. Returns are averaged within a domain alone."""
    several = study.domains if len(study.domains) > 1 else ()
    return several if several and study.measure == "return" else (EVERYTHING, *several)


def paired(study: Study, algorithm: str, scope: str) -> list[tuple[Outcome, Outcome]]:
    """(with sharing, without) for every setting that has both: of one source, or of several where no other ran."""
    both = [
        (outcome, alone)
        for (setting, label), outcome in study.compared.items()
        if label == algorithm and setting.source != OWN and scope in (EVERYTHING, setting.domain)
        if (alone := study.single(setting, algorithm))
    ]
    return [pair for pair in both if pair[0].setting.pairs] or both


def gain(study: Study, algorithm: str, which: str = "final", scope: str | None = None) -> Gain | None:
    """Of the first scope if none is given; None where no setting ran both with and without sharing."""
    pairs = paired(study, algorithm, scope or scopes(study)[0]) if study.domains else []
    if not pairs:
        return None
    alone = {single.setting: single.runs(which) for _, single in pairs}
    index = [list(alone).index(single.setting) for _, single in pairs]
    tables = Scores.of([outcome.runs(which) for outcome, _ in pairs]), Scores.of(list(alone.values()))

    # One run alone stands against several settings: it is drawn once for all of them.
    def both(shared: Scores, single: Scores) -> Array:
        single = single.take(index)
        values = aggregate.gain(shared, single), aggregate.probability_of_improvement(shared, single)
        return np.stack(values, axis=-1)

    weights = np.ones(len(pairs)), np.bincount(index)
    found = aggregate.bootstrap(both, *tables, weights=weights)
    difference, probability = (Interval(*(float(x[i]) for x in found)) for i in (0, 1))
    probability = Interval(probability.value, *np.clip(probability[1:], 0, 1).tolist())
    each = [aggregate.welch(outcome.runs(which), single.runs(which)) for outcome, single in pairs]
    over: Over = "seeds"
    if math.isnan(difference.low) and len(alone) >= LEAST_MAINS:
        changes = [np.mean([x.value for x, i in zip(each, index, strict=True) if i == k]) for k in range(len(alone))]
        difference, over = aggregate.student(changes, center=difference.value), "data"
    lower = [(outcome.setting, x.value) for (outcome, _), x in zip(pairs, each, strict=True) if x.value <= -SHOWN]
    seeds = [len(outcome.seeds) for outcome, _ in pairs]
    return Gain(
        algorithm=algorithm,
        single=pairs[0][1].algorithm,
        settings=len(pairs),
        gain=difference,
        over=over,
        probability=probability,
        up=sum(x.value > 0 and clear(x) for x in each),
        down=sum(x.value < 0 and clear(x) for x in each),
        seeds=(min(seeds), max(seeds)),
        steps=tuple(sorted({result.config["steps"] for outcome, _ in pairs for result in outcome.results})),
        margin=MARGIN * (100 if study.measure == "score" else max(abs(runs.mean()) for runs in alone.values())),
        losses=tuple((f"{s.main} with {s.source}", x) for s, x in sorted(lower, key=lambda loss: loss[1])),
    )


def clear(gain: Interval) -> bool:
    """Whether a gain is sure, its interval on one side of zero, and large enough to be seen."""
    return (gain.low > 0 or gain.high < 0) and abs(gain.value) >= SHOWN


def aggregates(study: Study, which: str, scope: str) -> Aggregates | None:
    """Every algorithm on the settings that all of them have, and what each reduces to when nothing is shared."""
    shared = [s for s in study.settings if s.source != OWN and scope in (EVERYTHING, s.domain)]
    shared = [s for s in shared if s.pairs] or shared
    has = {label: {s for s in shared if (s, label) in study.compared} for label in study.sharing}
    compared = [label for label in study.sharing if 2 * len(has[label]) >= len(shared)]
    common = tuple(s for s in shared if all(s in has[label] for label in compared))
    if not compared or not common:
        return None
    mains = list(dict.fromkeys(setting.main for setting in common))
    rows = [(label, False, [study.outcomes[s, label] for s in common]) for label in compared]
    whole: dict[str, list[Outcome]] = {}
    for label in compared:
        singles = [
            single for main in mains if (single := study.single(main, label)) and single.measure == study.measure
        ]
        if len(singles) == len(mains):
            whole[singles[0].algorithm] = singles
    rows += [(label, True, singles) for label, singles in whole.items()]
    taus = _taus([run for _, _, outcomes in rows for outcome in outcomes for run in outcome.runs(which)], study.measure)
    once = any(all(len(outcome.seeds) == 1 for outcome in outcomes) for _, _, outcomes in rows)
    over: Over = "data" if once and len(mains) >= LEAST_MAINS else "seeds"
    return Aggregates(
        settings=common,
        rows=tuple(_row(*each, which, taus, over, study.measure) for each in rows),
        left_out=tuple(label for label in study.sharing if label not in compared),
        taus=taus,
        over=over,
    )


def _row(
    label: str, alone: bool, outcomes: list[Outcome], which: str, taus: Array, over: Over, measure: Measure
) -> Row:
    scores = Scores.of([outcome.runs(which) for outcome in outcomes])
    mains = [outcome.setting.main for outcome in outcomes]
    statistics: dict[str, aggregate.Statistic] = {
        "median": aggregate.median,
        "IQM": aggregate.iqm,
        "mean": aggregate.mean,
    }
    if measure == "score":  # returns have no common target to fall short of
        for target in TARGETS:
            statistics[f"gap to {target:.0f}"] = functools.partial(aggregate.optimality_gap, target=target)

    def interval(statistic: aggregate.Statistic, **options: Any) -> Interval:
        if over == "seeds":
            return aggregate.bootstrap(statistic, scores, **options)
        return aggregate.bootstrap_settings(statistic, scores, [mains.index(main) for main in mains], **options)

    found = interval(lambda s: np.stack([f(s) for f in statistics.values()], axis=-1))
    profiles = (
        interval(lambda s, f=f: f(s, taus), resamples=PROFILE_RESAMPLES, bounds=(0, 1))
        for f in (aggregate.profile, aggregate.mean_profile)
    )
    each = {name: Interval(*(float(x[i]) for x in found)) for i, name in enumerate(statistics)}
    for name in (name for name in each if name.startswith("gap")):
        each[name] = each[name]._replace(low=np.maximum(each[name].low, 0.0).item())  # NaN stays NaN
    return Row(label, alone, scores.counts.size, each, *profiles)


def _taus(runs: list[float], measure: Measure) -> Array:
    """From 0 to 100, further where scores lie further; for returns from the lowest to the highest."""
    low, high = (min(0, *runs), max(100, *runs)) if measure == "score" else (min(runs), max(runs))
    return np.linspace(low, high, TAUS)


def costs(study: Study) -> Iterator[dict[str, object]]:
    """Time per million steps of a seed (median over runs), memory and parameters (the largest), by algorithm."""
    groups: dict[str, list[dict[str, float]]] = defaultdict(list)
    for outcome in study.outcomes.values():
        if outcome.role != "ablation":
            groups[outcome.algorithm.partition(" · ")[0]] += [result.cost for result in outcome.results]
    for name in dict.fromkeys(label.partition(" · ")[0] for label in (*study.algorithms, *groups)):
        hours, memory, parameters = (
            [cost[key] for cost in groups[name] if key in cost]
            for key in ("hours_per_million", "peak_memory_mb", "parameters")
        )
        yield {
            "algorithm": name,
            "runs": len(groups[name]),
            "hours": float(np.median(hours)) if hours else None,
            "memory": max(memory, default=None),
            "parameters": max(parameters, default=None),
        }


def ablations(study: Study) -> list[Ablation]:
    """Runs that differ in one field of β2's schedule alone: a line over its values for each setting and all else."""
    found = []
    for field in BETA:
        groups: dict[tuple[Setting, str], dict[float, Outcome]] = defaultdict(dict)
        for (setting, _), outcome in study.outcomes.items():
            result = outcome.results[0]
            if outcome.role == "apart" or field not in result.fields:
                continue
            rest = {k: v for k, v in (result.fields | pool_of(result)).items() if k != field}
            groups[setting, f"{result.algorithm} {sorted(rest.items())}"][result.fields[field]] = outcome
        varied = {(s, _without(field, group)): group for (s, _), group in groups.items() if len(group) > 1}
        if varied:
            values = tuple(sorted(set().union(*varied.values())))
            found.append(Ablation(field, values, {key: [g.get(v) for v in values] for key, g in varied.items()}))
    return found


def _without(field: str, group: dict[float, Outcome]) -> str:
    """What the labels of outcomes that differ in the field alone have in common."""
    name, _, rest = next(iter(group.values())).algorithm.partition(" · ")
    words = ", ".join(word for word in rest.split(", ") if not word.startswith(f"{field}="))
    return f"{name} · {words}" if words else name
