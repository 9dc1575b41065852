"""The quantities that Theorem 2 and Corollary 1 compare: β, T̂V's error, the bound under π*, the true suboptimality."""

import math

import numpy as np

from utds.errors import ConfigError
from utds.linear.learners import Problem, Solution
from utds.linear.models import Array, Booleans, LinearMDP, occupancy, performance, plan
from utds.linear.regression import covariance


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
    """Whether |T̂V − 𝒯V| ≤ Γ at every step and pair (Definition 1): one truth a dataset, [B]."""
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
