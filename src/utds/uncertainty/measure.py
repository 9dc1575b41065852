"""What runs know of the same state-actions: the data's own, the shared data's, and those that the policies choose.

Two measures of uncertainty:

common    Γ at a common target. The Γ of a run's critics has the unit of its values, and sharing changes the values.
          What the data of a run can teach is measured with a target that no run can change: a random network's response
          to state-actions, with standard deviation 1 over all data at hand. For each run an ensemble of five networks
          learns it from the transitions that the run was trained on. The ensembles have the same sizes, initial weights
          and number of steps, so Γ, their standard deviation, differs by the data alone: this is what can be compared.
          It is the paper's toy (`toy.py`) on a robot's data.
relative  Γ of the run's own critics over σ_Q, the standard deviation of their mean Q over the recorded state-actions of
          all sources. Γ itself has the unit of the values, and a run whose values have grown has room for a larger one.
          σ_Q takes out the unit, not what pessimism does to values: critics that are held at a floor agree because they
          are held.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from utds import networks, terminal
from utds.algorithms import Policy
from utds.algorithms.utds import uncertainty
from utds.data.dataset import Dataset
from utds.errors import ConfigError
from utds.evaluation.rollout import act
from utds.networks import MLP, Normalizer, ensemble, init_ensemble, q_values
from utds.training import run_files
from utds.training.run import Run

SAMPLE = 4000  # transitions per source
NETWORKS = 5  # of an ensemble that learns the common target
HIDDEN = (128, 128)  # their hidden layers
STEPS = 2000  # of Adam
BATCH = 256  # transitions per step
LEARNING_RATE = 1e-3  # at the start; falls to 0 along a cosine
ROWS = 200_000  # transitions of all datasets together that are read at most, evenly spaced
BLOCK = 1 << 14  # state-actions judged at once

MEASURES = {  # name -> what a table, a figure and a sentence call it
    "common": "Γ at a common target",
    "relative": "Γ of the critics relative to σ_Q",
}
DEFINITIONS = {
    "common": "standard deviation of five networks that learnt one fixed random function of (s, a) from the run's data "
    "(unit: that function's)",
    "relative": "standard deviation of the critics' Q(s, a) over σ_Q, that of their mean Q over all recorded "
    "state-actions compared",
}


class Ensemble(NamedTuple):
    """Networks that learnt the common target from some data."""

    params: MLP
    normalizer: Normalizer  # of state-actions

    def gamma(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Γ(s, a) [n], in standard deviations of the target."""
        blocks = range(0, len(observations), BLOCK)
        parts = [_pairs(observations[i : i + BLOCK], actions[i : i + BLOCK]) for i in blocks]
        return np.concatenate([np.asarray(_gamma(self.params, self.normalizer(part))) for part in parts])


def fit_common(datasets: Sequence[Dataset], choices: Sequence[Sequence[int]], seed: int = 0) -> list[Ensemble]:
    """An ensemble for each choice of datasets, counted from 0: the transitions of those that it may learn from."""
    stride = -(-sum(data.size for data in datasets) // ROWS)
    rows = [data.rows[::stride] for data in datasets]
    parts = [_pairs(data.observations[r], data.actions[::stride]) for data, r in zip(datasets, rows, strict=True)]
    joined, bounds = np.concatenate(parts), np.cumsum([0, *map(len, parts)])
    normalizer = Normalizer.fit(joined)
    inputs = jnp.asarray(normalizer(joined), jnp.float32)
    targets = jnp.asarray(response(np.random.default_rng(seed), inputs), jnp.float32)
    key = jax.random.key(seed)
    start = init_ensemble(key, NETWORKS, (inputs.shape[1], *HIDDEN, 1), layer_norm=False)
    found = []
    with terminal.bar("learning the common target", len(choices), "ensembles") as advance:
        for choice in choices:
            known = np.concatenate([np.arange(bounds[i], bounds[i + 1]) for i in choice])
            index = jnp.asarray(np.resize(known, len(joined)))  # of one length for all: one program
            data = inputs, targets, index, jnp.asarray(len(known))
            params = networks.fit(start, Loss(BATCH), data, jax.random.split(key, STEPS), LEARNING_RATE)
            found.append(Ensemble(jax.block_until_ready(params), normalizer))
            advance()
    return found


def response(random: np.random.Generator, x: np.ndarray | Array, width: int = 64) -> np.ndarray:
    """A network with two hidden layers and random weights, [B, D] -> [B], scaled to mean 0 and standard deviation 1."""
    hidden = np.asarray(x, np.float64)
    for inputs in (hidden.shape[1], width):
        hidden = np.tanh(hidden @ random.normal(size=(inputs, width)) / np.sqrt(inputs) + random.normal(size=width))
    y = hidden @ random.normal(size=width)
    return (y - y.mean()) / y.std()


@dataclass(frozen=True)
class Loss:
    """The models' squared errors on a batch from rows `index[:count]` of inputs [n, D] and targets [n]."""

    batch_size: int

    def __call__(self, params: MLP, data: tuple[Array, Array, Array, Array], key: Array) -> Array:
        inputs, targets, index, count = data
        rows = index[jax.random.randint(key, (self.batch_size,), 0, count)]
        return jnp.sum(jnp.mean((ensemble(params, inputs[rows]) - targets[rows]) ** 2, axis=1))


@jax.jit
def _gamma(params: MLP, pairs: Array) -> Array:
    return uncertainty(ensemble(params, pairs))


def _pairs(observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """State-actions [n, O + A]."""
    return np.concatenate([observations, actions], axis=1).astype(np.float32)


class Points(NamedTuple):
    """State-actions of one source."""

    name: str  # the dataset's id
    observations: np.ndarray  # [n, O]
    actions: np.ndarray  # [n, A]


class Part(NamedTuple):
    """Both measures, the critics' Γ itself and their mean Q at the state-actions of one part, [n] each."""

    common: np.ndarray
    relative: np.ndarray
    gamma: np.ndarray
    q: np.ndarray


@dataclass(frozen=True)
class Judgement:
    """One run, a row per source: own data first, then what was shared. Means over the run's seeds."""

    label: str
    run: Run
    data: Part  # [K, n] each, at the recorded actions
    policy: Part  # [K, n] each, at the actions of the run's own policy, in the same states
    sigma: float  # σ_Q
    fitted: Ensemble  # that learnt the common target from its data

    @cached_property
    def parts(self) -> dict[str, Part]:
        """Own data, shared data, and the policy's actions in the states of both."""
        parts = {"own data": Part(*(values[0] for values in self.data))}
        if len(self.data.common) > 1:
            parts["shared data"] = Part(*(values[1:].ravel() for values in self.data))
        return parts | {"policy actions": Part(*(values.ravel() for values in self.policy))}


@dataclass(frozen=True)
class Comparison:
    """One run, or a run against another on the same task, judged on the same points."""

    task: str
    points: list[Points]
    judgements: list[Judgement]  # the run asked for last, what it is compared against before it

    def rows(self) -> list[dict[str, Any]]:
        """The table: means by run and part."""
        return [
            {"run": j.label, "part": name, **{field: float(values.mean()) for field, values in part._asdict().items()}}
            for j in self.judgements
            for name, part in j.parts.items()
        ]

    @property
    def changes(self) -> dict[str, dict[str, float]]:
        """By measure and part: how many times as large its mean is in the run as in what it is compared against."""
        if len(self.judgements) < 2:
            return {}
        before, after = (judgement.parts for judgement in self.judgements)
        return {
            measure: {
                part: float(getattr(after[part], measure).mean() / getattr(before[part], measure).mean())
                for part in after
            }
            for measure in MEASURES
        }

    def sentence(self, measure: str) -> str:
        """What sharing, or whatever sets the runs apart, did to a measure, in words; empty for a single run."""
        if not self.changes:
            return ""
        before, after = (judgement.label for judgement in self.judgements)
        order = [part for part in ("shared data", "policy actions", "own data") if part in self.changes[measure]]
        found = ", ".join(f"{times(self.changes[measure][part])} on {part}" for part in order)
        return f"{MEASURES[measure]}, {after} against {before}: {found}."


def times(change: float) -> str:
    """A ratio in words."""
    if 0.95 < change < 1.05:
        return "about the same"
    return f"{change:.1f} times larger" if change > 1 else f"{1 / change:.1f} times smaller"


def compare(run: Run, against: Run | None = None, sample: int = SAMPLE) -> Comparison:
    """Judge a run, and what it is compared against, on the stored data of both."""
    both = [run] if against is None else [against, run]
    return compare_on(_sources(both), both, sample)


def compare_on(sources: Sequence[Dataset], runs: Sequence[Run], sample: int = SAMPLE) -> Comparison:
    """Judge runs on these datasets, the main data first: all that any of them was trained on."""
    ensembles = fit_common(sources, [_read(run, sources) for run in runs])
    points = [_points(dataset, sample) for dataset in sources]
    with terminal.bar("judging state-actions", sum(len(r.seeds) for r in runs) * len(points), "sources") as advance:
        judgements = [
            _judge(run, label, points, fitted, advance)
            for run, label, fitted in zip(runs, _labels(runs), ensembles, strict=True)
        ]
    return Comparison(runs[-1].config["task"], points, judgements)


def _read(run: Run, sources: Sequence[Dataset]) -> list[int]:
    """Which of the datasets a run learnt from: all of its pool, or the main data where it reads nothing else."""
    names = [dataset.name for dataset in sources]
    pool = [names.index(source["id"]) for source in run.config["sources"]]
    return pool if run_files.shares(run.config) else pool[:1]


def _judge(run: Run, label: str, points: Sequence[Points], fitted: Ensemble, advance: terminal.Advance) -> Judgement:
    # Of each seed at recorded actions and at the policy's: common Γ, the critics' Γ, their mean Q.
    found = np.zeros((len(run.seeds), 2, 3, len(points), len(points[0].actions)))
    for i, seed in enumerate(run.seeds):
        policy = _ensemble(run, seed)
        for k, (_, observations, actions) in enumerate(points):
            chosen = act(run.algorithm, policy, observations)
            for which, at in enumerate((actions, chosen)):
                found[i, which, :, k] = fitted.gamma(observations, at), *of_critics(policy, observations, at)
            advance()
    sigma = float(found[:, 0, 2].std(axis=(1, 2)).mean())
    common, critics, q = np.moveaxis(found.mean(axis=0), 1, 0)  # [2, K, n] each
    data, policy_part = (Part(common[i], critics[i] / max(sigma, 1e-12), critics[i], q[i]) for i in (0, 1))
    return Judgement(label, run, data, policy_part, sigma, fitted)


def of_critics(policy: Policy, observations: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Γ(s, a) [n] of a policy's critics and their mean Q(s, a) [n]."""
    blocks = [slice(i, i + BLOCK) for i in range(0, len(observations), BLOCK)]
    found = [_gamma_and_q(policy, observations[rows], actions[rows]) for rows in blocks]
    gammas, values = zip(*found, strict=True)
    return np.concatenate(gammas), np.concatenate(values)


@jax.jit
def _gamma_and_q(policy: Policy, observations: Array, actions: Array) -> tuple[Array, Array]:
    q = q_values(policy.critic, policy.normalizer(observations), actions)
    return uncertainty(q), jnp.mean(q, axis=0)


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
    for run in both:
        _ensemble(run, run.seeds[0])
    common = {
        "the task": [run.config["task"] for run in both],
        "main data": [run.config["sources"][0]["id"] for run in both],
    }
    for what, names in common.items():
        if len(set(names)) > 1:
            paths = " and ".join(str(run.path) for run in both)
            raise ConfigError(f"{paths} differ in {what} ({' and '.join(names)}): compare like with like")
    found = {dataset.name: dataset for run in both for dataset in run.datasets()}
    return list(found.values())


def _points(dataset: Dataset, count: int) -> Points:
    """`count` state-actions evenly spaced over the data, some twice where there are fewer."""
    chosen = np.linspace(0, dataset.size - 1, count).round().astype(int)
    return Points(dataset.name, dataset.observations[dataset.rows[chosen]], dataset.actions[chosen])


def _labels(both: Sequence[Run]) -> list[str]:
    """What tells the runs apart: whether they share; where that doesn't, their folders."""
    words = ["with sharing" if run_files.shares(run.config) else "own data alone" for run in both]
    return words if len(set(words)) == len(words) else [str(run.path) for run in both]
