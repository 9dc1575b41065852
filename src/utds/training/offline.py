"""Which policy to deploy, and whether sharing helped, from data alone: several runs judged on one common pool.

The pool is the union of the runs' data, labelled for their task; the judge is fitted Q evaluation over episodes as long
as the recorded ones (`utds.evaluation.fqe`). What came out is kept in each run directory as offline.json, for reports.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from utds import files
from utds.data import lake
from utds.data.columns import KNOWN, ZERO
from utds.data.labelling import is_function, make
from utds.errors import ConfigError, hint
from utds.evaluation import fqe
from utds.evaluation.fqe import FQE, Estimate, Recorded
from utds.evaluation.rollout import act
from utds.training import run_files
from utds.training.run import Run

if TYPE_CHECKING:
    from utds.data.labelling import Rewards
    from utds.data.pool import Pool

THIN = 0.3  # share of states outside the data from which on coverage is called thin
FEW = 10  # recorded episodes below which an interval says little


@dataclass(frozen=True)
class Candidate:
    """A policy that could be deployed."""

    run: Path
    shares: bool  # whether it was trained on other tasks' data too
    seed: int
    step: int
    last: bool  # the run's final policy
    estimate: Estimate
    outside: float  # share of states at which it does what nobody in the data does

    @property
    def name(self) -> str:
        return f"{self.run}, seed {self.seed}" + ("" if self.last else f", step {self.step}")

    @property
    def thin(self) -> bool:
        return self.outside > THIN


@dataclass(frozen=True)
class Gain:
    """How much more a run with shared data is worth than those without, over their final policies."""

    run: Path
    mean: float
    low: float  # 95 %
    high: float

    def __str__(self) -> str:
        word = "helped" if self.low > 0 else "hurt" if self.high < 0 else "made no clear difference"
        return f"Sharing {word}: {self.run} is worth {fqe.text(self.mean, self.low, self.high)} more than without."


@dataclass(frozen=True)
class Comparison:
    """Policies judged on one pool."""

    task: str
    sources: tuple[str, ...]  # ids of the pool's datasets, the main one first
    discount: float
    horizon: int
    recorded: Recorded
    candidates: tuple[Candidate, ...]  # in the order of their lower ends, the best first
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Candidate:
        """The one whose interval's lower end is highest: a robot is no place for optimism."""
        return self.candidates[0]

    @cached_property
    def gains(self) -> tuple[Gain, ...]:
        """Of each run with shared data over the runs without, where there are both."""
        last = [candidate for candidate in self.candidates if candidate.last]
        alone = [candidate for candidate in last if not candidate.shares]
        runs = dict.fromkeys(candidate.run for candidate in last if candidate.shares)
        return tuple(_gain(run, [c for c in last if c.run == run], alone) for run in runs) if alone else ()

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        found = list(self.notes)
        if self.recorded.episodes < FEW:
            found.append(
                f"the main data has {self.recorded.episodes} episodes: intervals from so few say little; record more"
            )
        thin = [candidate for candidate in self.candidates if candidate.thin]
        for candidate in thin[:3]:
            found.append(
                f"coverage is thin for {candidate.name}: at {candidate.outside:.0%} of the states its action is unlike "
                f"any in the data, and its value is a guess; try it with care"
            )
        if len(thin) > 3:
            found.append(f"coverage is thin for {len(thin) - 3} more")
        return tuple(found)

    @cached_property
    def verdict(self) -> tuple[str, ...]:
        """Which policy to deploy, and whether sharing helped, in sentences."""
        best = self.best
        low, _ = best.estimate.interval
        lines = [f"Deploy {best.name}: worth {best.estimate}, where the recorded episodes are worth {self.recorded}."]
        if not low > self.recorded.mean:
            lines.append("Its interval reaches below what was recorded: it isn't surely better.")
        return (*lines, *map(str, self.gains))

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "sources": list(self.sources),
            "discount": self.discount,
            "horizon": self.horizon,
            "recorded": _recorded_json(self.recorded),
            "policies": [
                {
                    "run": str(candidate.run),
                    "shares": candidate.shares,
                    "seed": candidate.seed,
                    "step": candidate.step,
                    "value": candidate.estimate.mean,
                    "low": _number(candidate.estimate.interval[0]),
                    "high": _number(candidate.estimate.interval[1]),
                    "outside": candidate.outside,
                }
                for candidate in self.candidates
            ],
            "gains": [
                {"run": str(gain.run), "value": gain.mean, "low": _number(gain.low), "high": _number(gain.high)}
                for gain in self.gains
            ],
            "verdict": list(self.verdict),
            "warnings": list(self.warnings),
        }


def evaluate_offline(
    runs: Sequence[Run | str | os.PathLike[str]],
    *,
    all_steps: bool = False,
    rewards: Rewards | None = None,
    seed: int = 0,
    **options: Any,
) -> Comparison:
    """Judge the policies of several runs of one task without an environment, on the union of their data.

    The result is also kept in each run directory, as offline.json; `utds report` shows it.

    Args:
        runs: runs, or their directories; their datasets must be stored.
        all_steps: also the policies that the runs kept along training, to choose one of them.
        rewards: how shared data is labelled; as the runs were trained if not given.
        seed: of the estimate's bootstrap samples and critics.
        options: fields of `utds.evaluation.fqe.FQE`, such as `steps`, `discount` or `horizon`.

    Returns:
        The comparison: `best`, `gains`, `verdict`, `warnings`, and every candidate with its interval.
    """
    check_options(options)
    opened = [run if isinstance(run, Run) else Run(run) for run in runs]
    found = list({run.path.resolve(): run for run in opened}.values())  # one named twice is no second sample
    if not found:
        raise ConfigError("name at least one run to judge")
    for run in found:
        if not run.finished:
            raise ConfigError(f"{run.path} is unfinished: resume it with --resume before it is judged")
    discounts = [getattr(run.algorithm, "discount", FQE.discount) for run in found]
    chosen: dict[str, Any] = {"discount": max(discounts)} | options
    judge = FQE(**chosen)
    pool, notes = common_pool(found, rewards)
    horizon = judge.horizon or fqe.horizon_of(pool)
    recorded = fqe.recorded(pool, judge.discount, horizon)  # refuses a horizon that no episode has, before any work
    policies = {}
    for run in found:
        last = run.config["steps"]
        for trained, step in itertools.product(run.seeds, sorted({*run.kept_steps, last} if all_steps else {last})):
            policy = run.policy(trained, None if step == last else step)
            policies[run.path, trained, step] = partial(act, run.algorithm, policy)
    named = {f"{path}, seed {trained}, step {step}": policies[path, trained, step] for path, trained, step in policies}
    estimates = dict(zip(policies, judge.evaluate(named, pool, seed).values(), strict=True))
    common = {
        "task": pool.info.task,
        "sources": list(pool.info.ids),
        "discount": judge.discount,
        "horizon": horizon,
        "possible": list(fqe.possible(pool, judge.discount, horizon)),
        "recorded": _recorded_json(recorded),
        **({"notes": notes} if notes else {}),
    }
    content = [common, pool.info.digests, pool.info.rewards, repr(judge), seed]
    common["comparison"] = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    kept = []
    for run in found:
        rows = [
            {
                "seed": trained,
                "step": step,
                "values": list(estimates[path, trained, step].values),
                "outside": fqe.outside(policy, pool, seed),
            }
            for (path, trained, step), policy in policies.items()
            if path == run.path
        ]
        judged = common | {"policies": rows}
        files.write_json(run.path / run_files.OFFLINE_FILE, judged)
        kept.append((run.path, run.config, judged))
    return comparison(kept)


def check_options(names: Iterable[str]) -> None:
    """Refuse options that no estimate has."""
    known = [field.name for field in fields(FQE)]
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no option of the estimate called {name!r}{hint(name, known)}")


def comparison(kept: Iterable[tuple[Path, Mapping[str, Any], Mapping[str, Any]]]) -> Comparison:
    """From run directories, their configurations and their offline.json, all of one comparison."""
    found: list[Candidate] = []
    outdated: list[str] = []
    common: Mapping[str, Any] = {}
    for path, config, common in kept:
        shares = run_files.shares(config)
        for row in common["policies"]:
            least, greatest = common.get("possible") or (-math.inf, math.inf)
            estimate, last = Estimate(tuple(row["values"]), (least, greatest)), row["step"] == config["steps"]
            found.append(Candidate(path, shares, row["seed"], row["step"], last, estimate, row["outside"]))
        if not any(candidate.last for candidate in found if candidate.run == path):
            outdated.append(f"{path} was trained further since it was judged, and counts for no gain: judge it again")
    recorded = {name: math.nan if value is None else value for name, value in common["recorded"].items()}
    return Comparison(
        task=common["task"],
        sources=tuple(common["sources"]),
        discount=common["discount"],
        horizon=common["horizon"],
        recorded=Recorded(**{"low": math.nan, "high": math.nan} | recorded),
        candidates=tuple(sorted(found, key=lambda candidate: _pessimistic(candidate.estimate), reverse=True)),
        notes=(*(common.get("notes") or ()), *outdated),
    )


def common_pool(runs: Sequence[Run], rewards: Rewards | None = None) -> tuple[Pool, list[str]]:
    """All data of the runs, labelled for their task, the first run's main data first; and notes about it."""
    tasks = dict.fromkeys(run.config["task"] for run in runs)
    if len(tasks) > 1:
        raise ConfigError(
            f"the runs are of different tasks, {' and '.join(tasks)}; judge the runs of one task together"
        )
    labelling, notes = make(_rewards(runs, rewards)), []
    datasets = {}
    for run in runs:
        own, *others = run.datasets()
        datasets[own.digest] = own
        if labelling.identity != ZERO:
            datasets |= {data.digest: data for data in others if data.digest not in datasets}
        elif others:
            notes = ["shared data has no rewards but 0: judged on the main data alone; --rewards would let it count"]
    mains = [next(iter(run.config["sources"]))["digest"] for run in runs]
    ordered = sorted(datasets.values(), key=lambda data: (data.digest != mains[0], data.digest not in mains))
    pool = lake.share(*ordered, rewards=labelling)
    if float(pool.reward_min) == float(pool.reward_max):
        raise ConfigError(
            f"every reward of the data is {float(pool.reward_min):g}: nothing tells policies apart; give --rewards"
        )
    return pool, notes


def _rewards(runs: Sequence[Run], given: Rewards | None) -> Rewards:
    if given is not None:
        return given
    used = list(dict.fromkeys(run.config["rewards"] for run in runs if len(run.config["sources"]) > 1))
    if not used or KNOWN in used:
        return KNOWN
    if len(used) > 1:
        raise ConfigError(
            f"the runs were trained with rewards {' and '.join(used)}: say with --rewards how to label the shared data"
        )
    if is_function(used[0]):
        raise ConfigError(f"the reward function {used[0]} isn't stored with the run: give it as --rewards FILE.py:NAME")
    return str(used[0])


def _gain(run: Path, shared: Sequence[Candidate], alone: Sequence[Candidate]) -> Gain:
    """Critic by critic, so that what the data does to both cancels; with the seeds' spread where there are several."""
    ours, theirs = ([candidate.estimate for candidate in part] for part in (shared, alone))
    apart = fqe.difference(fqe.mean(ours), fqe.mean(theirs))
    seeds = sum(
        float(np.var([estimate.mean for estimate in part], ddof=1)) / len(part)
        for part in (ours, theirs)
        if len(part) > 1
    )
    half = math.hypot(apart.half_width, 1.96 * math.sqrt(seeds))
    return Gain(run, apart.mean, *fqe.within(apart.mean, half, apart.possible))


def _pessimistic(estimate: Estimate) -> tuple[float, float]:
    """The lower end, then the mean: lower ends that were cut to what is possible are equal."""
    low, _ = estimate.interval
    return estimate.mean if math.isnan(low) else low, estimate.mean


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _recorded_json(recorded: Recorded) -> dict[str, Any]:
    return {name: _number(value) for name, value in recorded._asdict().items()}
