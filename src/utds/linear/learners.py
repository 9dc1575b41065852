"""Least-squares value iteration, plain and pessimistic, on one task's data or on shared data (paper, Appendix A).

Below the learners stand the quantities that Theorem 2 and Corollary 1 compare: β, T̂V's error, the bound under π*, the
true suboptimality.

At every step, from the last to the first:

    w̃ = Λ̃⁻¹(Σ φ·(r + V(s')) + Σ_ood φ·y_ood)      T̂V = φᵀw̃
    Q̂ = T̂V − Γ, clipped to [0, T − t]              V = max_a Q̂

The learners differ only in Γ: none (`lsvi`), β[φᵀΛ̃⁻¹φ]^½ (`pevi`), β times the standard deviation of an ensemble
(`ensemble_pevi`). Sharing is not their concern: they take any `Transitions`, for instance what `data.share` returns.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from utds.errors import ConfigError, DataError
from utds.linear.data import Counts, Transitions, count
from utds.linear.models import Array, Booleans, LinearMDP, greedy, occupancy, performance, plan
from utds.linear.regression import covariance, inverse_root

Fit = Callable[[int, Array], tuple[Array, Array]]  # step, V [B, S] -> T̂V and Γ, both [B, S·A]


@dataclass(frozen=True, eq=False)
class Ood:
    """Out-of-distribution rows: which pairs, and what they are regressed to."""

    visits: Array  # [B, T, S, A] how often each pair was drawn, see `data.draw_ood`
    # "exact": 𝒯V(s, a), as Theorem 2 supposes; it needs the true dynamics. "pessimistic": φᵀŵ − Γ with ŵ fitted to
    # the data alone, what a learner has in practice (§3.2); Theorem 2 promises nothing for it.
    target: Literal["exact", "pessimistic"] = "exact"


@dataclass(frozen=True, eq=False)
class Problem:
    """What stays while V changes: counts, and for every step the features whitened by Λ̃, RΦᵀ with RᵀR = Λ̃⁻¹."""

    mdp: LinearMDP  # its features and shape; learners look at P only for exact OOD targets
    counts: Counts
    ridge: float
    ood: Ood | None
    root: Array  # [B, T, d, d] R
    whitened: Array  # [B, T, d, S·A] RΦᵀ
    alone: Array  # the same for the data without OOD rows; `whitened` itself if there are none

    @property
    def width(self) -> Array:
        """[φᵀΛ̃⁻¹φ]^½, Γ_lcb at β = 1: [B, T, S, A]."""
        return np.linalg.norm(self.whitened, axis=-2).reshape(self.counts.visits.shape)


@dataclass(frozen=True, eq=False)
class Solution:
    """What value iteration learned from each of B datasets."""

    backups: Array  # [B, T, S, A] T̂V_{t+1}, before penalty and clipping
    gamma: Array  # [B, T, S, A] the penalty
    q: Array  # [B, T, S, A] Q̂
    values: Array  # [B, T + 1, S] V̂, zero at the end
    policy: Array  # [B, T, S, A] greedy for Q̂, one-hot


def prepare(mdp: LinearMDP, data: Transitions, ridge: float = 1.0, ood: Ood | None = None) -> Problem:
    """Count the data and factor Λ̃ = Λ + Λ_ood + λI for every dataset and step."""
    counts = count(mdp, data)
    if ood is not None and ood.visits.shape != counts.visits.shape:
        raise DataError(f"OOD visits have shape {ood.visits.shape}, the data needs {counts.visits.shape}")
    flat = mdp.features.reshape(-1, mdp.width)

    def factor(visits: Array) -> Array:
        return inverse_root(covariance(flat, ridge, visits.reshape(*visits.shape[:2], -1)))

    root = factor(counts.visits if ood is None else counts.visits + ood.visits)
    whitened = root @ flat.T
    alone = factor(counts.visits) @ flat.T if ood is not None and ood.target == "pessimistic" else whitened
    return Problem(mdp, counts, ridge, ood, root, whitened, alone)


def lsvi(problem: Problem) -> Solution:
    """Least-squares value iteration without any penalty."""
    return pevi(problem, beta=0.0)


def pevi(problem: Problem, beta: float) -> Solution:
    """Pessimistic value iteration with Γ = β[φᵀΛ̃⁻¹φ]^½."""
    targets = _targets(problem, beta)

    def fit(t: int, values: Array) -> tuple[Array, Array]:
        return _smooth(problem.whitened[:, t], targets(t, values)), beta * np.linalg.norm(
            problem.whitened[:, t], axis=-2
        )

    return _iterate(problem, fit)


def ensemble_pevi(
    problem: Problem,
    beta: float,
    members: int,
    rng: np.random.Generator,
    kind: Literal["perturbed", "bootstrapped"] = "perturbed",
) -> Solution:
    """Pessimistic value iteration with Γ = β times the standard deviation (ddof 1) of N regressions; T̂V is their mean.

    "perturbed" members are draws from Lemma 1's posterior. "bootstrapped" ones refit transitions drawn with
    replacement, each with its own draw of the prior (`regression.bootstrapped`), and take no OOD rows.
    """
    if members < 2:
        raise ConfigError(f"an ensemble of {members} has no standard deviation; use at least 2 members")
    if kind == "bootstrapped" and problem.ood is not None:
        raise ConfigError(
            "bootstrapped ensembles resample observed transitions; OOD rows have none: use kind='perturbed'"
        )
    targets = _targets(problem, beta)

    def fit(t: int, values: Array) -> tuple[Array, Array]:
        if kind == "perturbed":
            predictions = _perturb(problem, t, targets(t, values), members, rng)
        else:
            predictions = _bootstrap(problem, t, values, members, rng)
        return predictions.mean(axis=0), beta * predictions.std(axis=0, ddof=1)

    return _iterate(problem, fit)


def _iterate(problem: Problem, fit: Fit) -> Solution:
    """The backward recursion shared by every learner."""
    shape = problem.counts.visits.shape
    datasets, horizon, states, _ = shape
    backups, gamma, q = np.empty(shape), np.empty(shape), np.empty(shape)
    values = np.zeros((datasets, horizon + 1, states))
    for t in reversed(range(horizon)):
        fitted, penalty = fit(t, values[:, t + 1])
        backups[:, t] = fitted.reshape(datasets, *shape[2:])
        gamma[:, t] = penalty.reshape(datasets, *shape[2:])
        # Rewards in [0, 1] bound every true value, and clipping keeps 0 ≤ 𝒯V − Q̂ ≤ 2Γ wherever |T̂V − 𝒯V| ≤ Γ.
        q[:, t] = np.clip(backups[:, t] - gamma[:, t], 0, horizon - t)
        values[:, t] = q[:, t].max(axis=-1)
    return Solution(backups, gamma, q, values, greedy(q))


def _smooth(whitened: Array, totals: Array) -> Array:
    """ΦΛ̃⁻¹Φᵀ·totals: predictions [..., B, S·A] of the regression whose targets sum to `totals` [..., B, S·A] a pair."""
    return np.einsum("bkp,...bk->...bp", whitened, np.einsum("bkp,...bp->...bk", whitened, totals))


def _targets(problem: Problem, beta: float) -> Callable[[int, Array], Array]:
    """The function that sums a step's regression targets for each pair, [B, S·A], given V_{t+1} [B, S]."""
    mdp, counts, ood = problem.mdp, problem.counts, problem.ood

    def sums(t: int, values: Array) -> Array:
        datasets = len(values)
        seen = (counts.rewards[:, t] + np.einsum("bsan,bn->bsa", counts.next_states[:, t], values)).reshape(
            datasets, -1
        )
        if ood is None:
            return seen
        if ood.target == "exact":
            target = mdp.backup(values).reshape(datasets, -1)
        else:
            target = _smooth(problem.alone[:, t], seen) - beta * np.linalg.norm(problem.whitened[:, t], axis=-2)
        return seen + ood.visits[:, t].reshape(datasets, -1) * target

    return sums


def _perturb(problem: Problem, t: int, totals: Array, members: int, rng: np.random.Generator) -> Array:
    """Predictions [N, B, S·A] of N perturbed regressions; unit noise on each of n rows adds up to √n times one draw."""
    visits = (
        problem.counts.visits[:, t] if problem.ood is None else problem.counts.visits[:, t] + problem.ood.visits[:, t]
    )
    datasets, width = len(visits), problem.mdp.width
    noise = rng.standard_normal((members, *totals.shape)) * np.sqrt(visits.reshape(datasets, -1))
    prior = np.sqrt(problem.ridge) * rng.standard_normal((members, datasets, width))
    shift = np.einsum("bkp,nbk->nbp", problem.whitened[:, t], np.einsum("bkd,nbd->nbk", problem.root[:, t], prior))
    return _smooth(problem.whitened[:, t], totals + noise) + shift


def _bootstrap(problem: Problem, t: int, values: Array, members: int, rng: np.random.Generator) -> Array:
    """Predictions [N, B, S·A] of N regressions, each on as many transitions as the data has, drawn with replacement."""
    counts, mdp = problem.counts, problem.mdp
    observed = counts.next_states[:, t].reshape(len(values), -1)  # [B, S·A·S]
    size = observed.sum(axis=-1).astype(np.int64)
    drawn = rng.multinomial(size, observed / size[:, None], size=(members, len(values)))
    drawn = drawn.reshape(members, len(values), mdp.states * mdp.actions, mdp.states).astype(np.float64)
    visits = drawn.sum(axis=-1)
    seen = counts.visits[:, t].reshape(len(values), -1)
    reward = counts.rewards[:, t].reshape(len(values), -1) / np.maximum(seen, 1)  # unseen pairs are never drawn
    flat = mdp.features.reshape(-1, mdp.width)
    right = (visits * reward + np.einsum("nbps,bs->nbp", drawn, values)) @ flat
    right += np.sqrt(problem.ridge) * rng.standard_normal(right.shape)
    weights = np.linalg.solve(covariance(flat, problem.ridge, visits), right[..., None])[..., 0]
    return weights @ flat.T


def beta(width: int, horizon: int, xi: float, c: float = 1.0) -> float:
    """β = c·T·√d·log(T/ξ). The theorem's O(·) hides c and a logarithm of the number of rows."""
    _check_level(xi)
    if c < 0:
        raise ConfigError(f"c is {c}; a penalty needs c ≥ 0")
    return c * horizon * math.sqrt(width) * math.log(horizon / xi)


def explicit_beta(problem: Problem, xi: float) -> Array:
    """β_t [B, T] with every constant in place: by it, Theorem 2 holds at level ξ over all steps.

    V_{t+1} ∈ [0, T − t − 1], so its noise is sub-Gaussian with half that scale, and the self-normalised bound of
    Abbasi-Yadkori et al. (2011, Theorem 1), with ξ/T for each step, gives

        β_t = (T − t − 1)/2 · √(log det(Λ/λ) + 2 log(T/ξ)) + √λ·(T − t)·√d

    where the last term is the ridge's bias, ‖θ + Σ ψ(s')V(s')‖ ≤ (T − t)·√d. It needs V_{t+1} to be independent of step
    t's draws given their pairs: true for data collected afresh at each step (`data.collect`), not for whole episodes.
    Exact OOD rows carry no noise and only shrink the norm, so Λ is the data's own.
    """
    _check_level(xi)
    if problem.ridge <= 0:
        raise ConfigError("the explicit β needs a ridge λ > 0: it measures det Λ against λ")
    mdp, visits = problem.mdp, problem.counts.visits
    data = covariance(mdp.features.reshape(-1, mdp.width), problem.ridge, visits.reshape(*visits.shape[:2], -1))
    growth = np.linalg.slogdet(data / problem.ridge).logabsdet  # [B, T]
    left = mdp.horizon - np.arange(mdp.horizon)  # T − t, steps still to go
    noise = (left - 1) / 2 * np.sqrt(growth + 2 * math.log(mdp.horizon / xi))
    return noise + math.sqrt(problem.ridge * mdp.width) * left


def error(mdp: LinearMDP, solution: Solution) -> Array:
    """|T̂V_{t+1} − 𝒯V_{t+1}| [B, T, S, A], at the V that the algorithm itself used."""
    return np.abs(solution.backups - mdp.backup(solution.values[:, 1:]))


def quantifies(mdp: LinearMDP, solution: Solution) -> Booleans:
    """Whether |T̂V − 𝒯V| ≤ Γ at every step and pair (Definition 1): one truth per dataset, [B]."""
    return np.all(error(mdp, solution) <= solution.gamma, axis=(1, 2, 3))


def underestimates(mdp: LinearMDP, solution: Solution) -> Booleans:
    """Whether T̂V − Γ ≤ 𝒯V at every step and pair, the half of Definition 1 that keeps a learner safe: [B]."""
    return np.all(solution.backups - solution.gamma <= mdp.backup(solution.values[:, 1:]), axis=(1, 2, 3))


def expected_penalty(mdp: LinearMDP, gamma: Array) -> Array:
    """Σ_t E_π*[Γ(s_t, a_t)] [B], the right-hand side of Corollary 1, for `gamma` [B, T, S, A] and exact π*."""
    return np.einsum("btsa,tsa->b", gamma, occupancy(mdp, plan(mdp).policy))


def suboptimality(mdp: LinearMDP, policy: Array) -> Array:
    """V*(s_0) − V^π(s_0) [...] over the initial distribution, by exact evaluation of `policy` [..., T, S, A]."""
    return plan(mdp).values[0] @ mdp.initial - performance(mdp, policy)


def _check_level(xi: float) -> None:
    if not 0 < xi < 1:
        raise ConfigError(f"ξ is {xi}; a failure probability lies strictly between 0 and 1")
