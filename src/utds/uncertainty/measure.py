"""Γ and Q of runs on the same state-actions: the data's own, the shared data's, and those that the policies choose.

Γ is a deviation of values and has their unit: a run that has learnt larger values has room for a larger Γ. That is why
the mean Q stands beside every mean Γ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from utds import progress, runs
from utds.algorithms import Policy
from utds.algorithms.networks import q_values
from utds.algorithms.utds import uncertainty
from utds.data.dataset import Dataset
from utds.errors import ConfigError
from utds.runs import Run

SAMPLE = 4000  # transitions a source
BLOCK = 4096  # state-actions judged at once


class Points(NamedTuple):
    """State-actions of one source."""

    name: str  # the dataset's id
    observations: np.ndarray  # [n, O]
    actions: np.ndarray  # [n, A]


@dataclass(frozen=True)
class Judgement:
    """Γ and Q of one run, a row a source: own data first, then what was shared. Means over the run's seeds."""

    label: str
    run: Run
    data: np.ndarray  # [K, n] Γ at the recorded actions
    policy: np.ndarray  # [K, n] Γ at the actions of the run's own policy, in the same states
    data_q: np.ndarray  # [K, n] mean over members
    policy_q: np.ndarray  # [K, n]

    @cached_property
    def parts(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Γ and Q of each part: own data, shared data, and the policy's actions in the states of both."""
        parts = {"own data": (self.data[0], self.data_q[0])}
        if len(self.data) > 1:
            parts["shared data"] = self.data[1:].ravel(), self.data_q[1:].ravel()
        return parts | {"policy actions": (self.policy.ravel(), self.policy_q.ravel())}


@dataclass(frozen=True)
class Comparison:
    """One run, or a run against another on the same task, judged on the same points."""

    task: str
    points: list[Points]
    judgements: list[Judgement]  # the run asked for last, what it is compared against before it

    def rows(self) -> list[dict[str, Any]]:
        """The table: mean Γ and mean Q by run and part."""
        return [
            {"run": j.label, "part": part, "gamma": float(gamma.mean()), "q": float(q.mean())}
            for j in self.judgements
            for part, (gamma, q) in j.parts.items()
        ]

    @property
    def shrinkage(self) -> float | None:
        """How many times smaller the shared data's mean Γ is in the run than in what it is compared against."""
        if len(self.judgements) < 2 or len(self.points) < 2:
            return None
        before, after = (j.parts["shared data"][0].mean() for j in self.judgements)
        return float(before / after)


def compare(run: Run, against: Run | None = None, sample: int = SAMPLE) -> Comparison:
    """Judge a run, and what it is compared against, on the data of both."""
    both = [run] if against is None else [against, run]
    points = [_points(dataset, sample) for dataset in _sources(both)]
    with progress.bar("judging state-actions", sum(len(r.seeds) for r in both) * len(points), "sources") as advance:
        judgements = [_judge(r, label, points, advance) for r, label in zip(both, _labels(both), strict=True)]
    return Comparison(run.config["task"], points, judgements)


def gamma(policy: Policy, observations: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Γ(s, a) [n] and the members' mean Q(s, a) [n]."""
    blocks = range(0, len(observations), BLOCK)
    found = [_gamma(policy, observations[i : i + BLOCK], actions[i : i + BLOCK]) for i in blocks]
    return np.concatenate([g for g, _ in found]), np.concatenate([q for _, q in found])


@jax.jit
def _gamma(policy: Policy, observations: jax.Array, actions: jax.Array) -> tuple[jax.Array, jax.Array]:
    q = q_values(policy.critic, policy.normal(observations), actions)
    return uncertainty(q), jnp.mean(q, axis=0)


def _judge(run: Run, label: str, points: Sequence[Points], advance: progress.Advance) -> Judgement:
    found = np.zeros((len(run.seeds), len(points), 4, len(points[0].actions)))
    for i, seed in enumerate(run.seeds):
        policy = _ensemble(run, seed)
        for k, (_, observations, actions) in enumerate(points):
            chosen = runs.act(run.algorithm, policy, observations)
            data, elsewhere = gamma(policy, observations, actions), gamma(policy, observations, chosen)
            found[i, k] = data[0], elsewhere[0], data[1], elsewhere[1]
            advance()
    return Judgement(label, run, *np.moveaxis(found.mean(axis=0), 1, 0))


def _ensemble(run: Run, seed: int) -> Policy:
    policy = run.policy(seed)
    if policy.critic is None or len(policy.critic[0].weight) < 2:
        raise ConfigError(
            f"{run.path} was trained by {run.config['algorithm']['name']}, which has no ensemble of critics; "
            "give a run of utds or pbrl"
        )
    return policy


def _sources(both: Sequence[Run]) -> list[Dataset]:
    """The main data that the runs have in common, then every dataset that either shares."""
    first, *others = both
    for other in others:
        for what, of in (("the task", "task"), ("main data", "sources")):
            mine, its = (r.config[of] if of == "task" else r.config[of][0]["id"] for r in (first, other))
            if mine != its:
                raise ConfigError(
                    f"{first.path} and {other.path} differ in {what} ({mine} and {its}): compare like with like"
                )
    found = {dataset.name: dataset for run in both for dataset in run.datasets()}
    return list(found.values())


def _points(dataset: Dataset, count: int) -> Points:
    """`count` state-actions evenly spaced over the data, some twice where there are fewer."""
    chosen = np.linspace(0, dataset.size - 1, count).round().astype(int)
    return Points(dataset.name, dataset.observations[dataset.rows[chosen]], dataset.actions[chosen])


def _labels(both: Sequence[Run]) -> list[str]:
    """What tells the runs apart: whether they share; where that doesn't, their folders."""
    words = ["with sharing" if len(run.config["sources"]) > 1 else "own data alone" for run in both]
    return words if len(set(words)) == len(words) else [str(run.path) for run in both]
