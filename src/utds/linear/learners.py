"""Ridge regression as the theory uses it, and pessimistic least-squares value iteration on it (paper, Appendix A).

First the regression: Λ, the width Γ, the Gaussian posterior, ensembles of perturbed fits. Then the learner, on one
task's data or on shared data; the quantities that Theorem 2 and Corollary 1 compare: β, T̂V's error, the bound under π*,
the true suboptimality; and the operators of Lemma 2 and of OOD actions.

At every step, from the last to the first, the learner computes

    w̃ = Λ̃⁻¹(Σ φ·(r + V(s')) + Σ_ood φ·y_ood)      T̂V = φᵀw̃
    Q̂ = T̂V − Γ, clipped to [0, T − t]              V = max_a Q̂

with Γ = β[φᵀΛ̃⁻¹φ]^½. Sharing is not its concern: it takes any `Transitions`, for instance what `models.share` returns.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from utds.errors import ConfigError, DataError
from utds.linear.models import (
    Array,
    Booleans,
    Counts,
    Integers,
    LinearMDP,
    Transitions,
    count,
    greedy,
    occupancy,
    performance,
    plan,
)

_EPSILON = float(np.finfo(np.float64).eps)


def covariance(features: Array, ridge: float, weights: Array | None = None) -> Array:
    """Λ = Σ_k φ_k φ_kᵀ + λI.

    `features` [..., K, d] are rows. With `weights` [..., K], row k counts that many times; then `features` is [K, d].
    """
    if ridge < 0:
        raise ConfigError(f"the ridge λ is {ridge}; it must be 0 or more")
    if features.ndim < 2 or features.shape[-2] == 0:
        raise DataError(
            f"features have shape {features.shape}; an empty dataset has no covariance: give [..., rows, d]"
        )
    if not np.isfinite(features).all():
        raise DataError("features hold NaN or infinite values")
    width = features.shape[-1]
    if weights is None:
        total = np.swapaxes(features, -1, -2) @ features
    else:
        outer = features[:, :, None] * features[:, None, :]  # [K, d, d]
        flat = weights.reshape(-1, len(features)) @ outer.reshape(len(features), -1)
        total = flat.reshape(*weights.shape[:-1], width, width)
    return total + ridge * np.eye(width)


def pair_covariance(mdp: LinearMDP, visits: Array, ridge: float) -> Array:
    """Λ [..., d, d] of datasets that hold each pair of `mdp` so often: `visits` [..., S, A]."""
    return covariance(mdp.pairs, ridge, visits.reshape(*visits.shape[:-2], -1))


def inverse_root(covariance: Array) -> Array:
    """R [..., d, d] with RᵀR = Λ⁻¹: the inverse of Λ's Cholesky factor, so that φᵀΛ⁻¹φ = ‖Rφ‖² can't be negative."""
    width = covariance.shape[-1]
    try:
        root = np.linalg.inv(np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError:
        raise _rank_deficient(covariance) from None
    # tr Λ · tr Λ⁻¹ bounds the condition number from above and costs nothing; eigenvalues settle the doubtful cases.
    condition = np.trace(covariance, axis1=-2, axis2=-1) * (root**2).sum(axis=(-2, -1))
    if condition.max() * width * _EPSILON >= 1 and (_ranks(covariance) < width).any():
        raise _rank_deficient(covariance)
    return root


def _ranks(covariance: Array) -> Integers:
    """Numerical rank [...] of each Λ, by its eigenvalues."""
    scale = np.linalg.eigvalsh(covariance)
    return (scale > covariance.shape[-1] * _EPSILON * scale[..., -1:]).sum(axis=-1)


def _rank_deficient(covariance: Array) -> DataError:
    ranks = _ranks(covariance)
    where = tuple(int(i) for i in np.argwhere(ranks == ranks.min())[0])
    place = f" (first at index {where})" if where else ""
    return DataError(
        f"Λ is rank-deficient, rank {ranks.min()} of {covariance.shape[-1]}{place}: use a ridge λ > 0, "
        "or add data or OOD samples that span the missing directions"
    )


def gamma_lcb(features: Array, covariance: Array, beta: float = 1.0) -> Array:
    """Γ_lcb = β·[φᵀΛ⁻¹φ]^½ for `features` [M, d] under `covariance` [..., d, d]: [..., M]."""
    if features.shape[-1] != covariance.shape[-1]:
        raise DataError(
            f"features have width {features.shape[-1]}, but Λ is {covariance.shape[-2]}×{covariance.shape[-1]}: "
            "both must come from the same feature map"
        )
    return beta * np.linalg.norm(inverse_root(covariance) @ features.T, axis=-2)


def posterior(features: Array, targets: Array, ridge: float) -> tuple[Array, Array]:
    """Mean [d] and covariance [d, d] of w given rows [K, d] and targets [K], prior N(0, I/λ), unit noise (Lemma 1)."""
    root = inverse_root(covariance(features, ridge))
    inverse = root.T @ root
    return inverse @ (features.T @ targets), inverse


def perturbed(features: Array, targets: Array, ridge: float, members: int, rng: np.random.Generator) -> Array:
    """N regressions [N, d], each on targets with fresh unit noise and shrunk towards its own draw of the prior.

    Each member is an exact draw of `posterior`: Λ⁻¹(Φᵀε + √λ ζ) has covariance Λ⁻¹(ΦᵀΦ + λI)Λ⁻¹ = Λ⁻¹.
    """
    rows, width = features.shape
    root = inverse_root(covariance(features, ridge))
    noisy = targets + rng.standard_normal((members, rows))
    right = noisy @ features + np.sqrt(ridge) * rng.standard_normal((members, width))
    return right @ root.T @ root


def bootstrapped(
    features: Array, targets: Array, ridge: float, members: int, rng: np.random.Generator, prior: bool = True
) -> Array:
    """N regressions [N, d], each on rows drawn with replacement.

    With `prior`, each is shrunk towards its own draw of N(0, I/λ); without it all are shrunk towards zero, and where
    there is no data they agree. Either way the spread only resembles the posterior's: it follows the residuals.
    """
    rows, width = features.shape
    chosen = rng.multinomial(rows, np.full(rows, 1 / rows), size=members).astype(np.float64)  # [N, K]
    right = (chosen * targets) @ features
    if prior:
        right = right + np.sqrt(ridge) * rng.standard_normal((members, width))
    return np.linalg.solve(covariance(features, ridge, chosen), right[..., None])[..., 0]


@dataclass(frozen=True, eq=False)
class Ood:
    """Out-of-distribution rows: which pairs, and what they are regressed to."""

    visits: Array  # [B, T, S, A] how often each pair was drawn, see `models.draw_ood`
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

    def whiten(visits: Array) -> Array:
        return inverse_root(pair_covariance(mdp, visits, ridge)) @ mdp.pairs.T

    whitened = whiten(counts.visits if ood is None else counts.visits + ood.visits)
    alone = whiten(counts.visits) if ood is not None and ood.target == "pessimistic" else whitened
    return Problem(mdp, counts, ridge, ood, whitened, alone)


def pevi(problem: Problem, beta: float) -> Solution:
    """Pessimistic value iteration with Γ = β[φᵀΛ̃⁻¹φ]^½; without any penalty where β is 0."""
    gamma = beta * problem.width
    datasets, horizon, states, _ = gamma.shape
    backups, q = np.empty(gamma.shape), np.empty(gamma.shape)
    values = np.zeros((datasets, horizon + 1, states))
    for t in reversed(range(horizon)):
        totals = _targets(problem, t, values[:, t + 1], gamma[:, t].reshape(datasets, -1))
        backups[:, t] = _smooth(problem.whitened[:, t], totals).reshape(gamma[:, t].shape)
        # Rewards in [0, 1] bound every true value, and clipping keeps 0 ≤ 𝒯V − Q̂ ≤ 2Γ wherever |T̂V − 𝒯V| ≤ Γ.
        q[:, t] = np.clip(backups[:, t] - gamma[:, t], 0, horizon - t)
        values[:, t] = q[:, t].max(axis=-1)
    return Solution(backups, gamma, q, values, greedy(q))


def _smooth(whitened: Array, totals: Array) -> Array:
    """ΦΛ̃⁻¹Φᵀ·totals: predictions [B, S·A] of the regression whose targets sum to `totals` [B, S·A] per pair."""
    return np.einsum("bkp,bk->bp", whitened, np.einsum("bkp,bp->bk", whitened, totals))


def _targets(problem: Problem, t: int, values: Array, gamma: Array) -> Array:
    """Sums of a step's regression targets for each pair, [B, S·A], given V_{t+1} [B, S] and Γ [B, S·A]."""
    counts, ood, datasets = problem.counts, problem.ood, len(values)
    seen = counts.rewards[:, t] + np.einsum("bsan,bn->bsa", counts.next_states[:, t], values)
    seen = seen.reshape(datasets, -1)
    if ood is None:
        return seen
    if ood.target == "exact":
        target = problem.mdp.backup(values).reshape(datasets, -1)
    else:
        target = _smooth(problem.alone[:, t], seen) - gamma
    return seen + ood.visits[:, t].reshape(datasets, -1) * target


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

    where the last term is the ridge's bias, ‖θ + Σ ψ(s')V(s')‖ ≤ (T − t)·√d if neither ‖θ‖ nor ‖Σ|ψ(s')|‖ exceeds √d
    (else the larger one stands for √d). It needs V_{t+1} to be independent of step t's draws given their pairs: true
    for data collected afresh at each step (`models.collect`), not for whole episodes.
    Exact OOD rows carry no noise and only shrink the norm, so Λ is the data's own.
    """
    _check_level(xi)
    if problem.ridge <= 0:
        raise ConfigError("the explicit β needs a ridge λ > 0: it measures det Λ against λ")
    mdp, data = problem.mdp, pair_covariance(problem.mdp, problem.counts.visits, problem.ridge)
    growth = np.linalg.slogdet(data / problem.ridge).logabsdet  # [B, T]
    left = mdp.horizon - np.arange(mdp.horizon)  # T − t, steps still to go
    noise = (left - 1) / 2 * np.sqrt(growth + 2 * math.log(mdp.horizon / xi))
    weights = float(np.linalg.norm(mdp.theta)), float(np.linalg.norm(np.abs(mdp.psi).sum(axis=1)))
    return noise + math.sqrt(problem.ridge) * max(math.sqrt(mdp.width), *weights) * left


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


@dataclass(frozen=True, eq=False)
class Operator:
    """Lemma 2's operator, of one dataset and policy: (𝒯Q)(s, a) = r(s, a) + γ·E[Q(s', a') − β₁Γ(s', a')].

    Next states s' are those of the data, a' ~ π. Pairs without data map to 0: the lemma speaks of those with data only.
    """

    rewards: Array  # [S, A] mean reward in the data
    kernel: Array  # [S, A, S] relative frequencies of next states; zero rows where there is no data
    policy: Array  # [S, A] π(a' | s')
    discount: float  # γ
    beta: float  # β₁

    def __post_init__(self) -> None:
        if not 0 <= self.discount < 1:
            raise ConfigError(f"the discount γ is {self.discount}; a contraction needs 0 ≤ γ < 1")

    def __call__(self, q: Array, gamma: Array) -> Array:
        """Apply it to `q` [..., S, A] with penalty `gamma` [..., S, A]; for Lemma 2, gamma must not depend on q."""
        penalised = ((q - self.beta * gamma) * self.policy).sum(axis=-1)  # [..., S]
        return self.rewards + self.discount * np.einsum("ijk,...k->...ij", self.kernel, penalised)

    def ensemble(self, q: Array) -> Array:
        """Apply it to each of N members, `q` [N, ..., S, A], with Γ = their standard deviation (ddof 1)."""
        return self(q, q.std(axis=0, ddof=1))

    def fixed_point(self, gamma: Array) -> Array:
        """The Q [S, A] that `self` leaves as it is, by solving the linear equation it satisfies."""
        pairs = self.policy.size
        onward = (self.kernel[..., None] * self.policy).reshape(pairs, pairs)  # pair to pair
        constant = self(np.zeros_like(self.rewards), gamma).ravel()
        return np.linalg.solve(np.eye(pairs) - self.discount * onward, constant).reshape(self.rewards.shape)


def operator(counts: Counts, dataset: int, policy: Array, discount: float, beta: float = 1.0) -> Operator:
    """The operator of one of `counts`' datasets, its steps taken together (Lemma 2 is about a stationary problem)."""
    visits = counts.visits[dataset].sum(axis=0)  # [S, A]
    seen = np.maximum(visits, 1)  # unseen pairs have zero sums, so zero rows
    rewards = counts.rewards[dataset].sum(axis=0) / seen
    kernel = counts.next_states[dataset].sum(axis=0) / seen[..., None]
    return Operator(rewards, kernel, policy, discount, beta)


def ood_penalties(steps: int, start: float = 3.0, decay: float = 0.99995, end: float = 0.1) -> Array:
    """β₂ [steps] of every OOD step, max(start·decayᵗ, end); by default as in the paper's table."""
    return np.maximum(start * decay ** np.arange(steps), end)


def ood_steps(q: Array, penalties: Array, floor: float = -np.inf) -> Array:
    """𝒯ᵒᵒᵈQ = Q − β₂Γ (paper, §3.2) applied to an ensemble `q` [N, ...] once for each of K β₂: [K + 1, N, ...].

    Γ is the members' standard deviation (ddof 1); values stay at or above `floor`.
    """
    course = [q]
    for penalty in penalties:
        q = np.maximum(q - penalty * q.std(axis=0, ddof=1), floor)
        course.append(q)
    return np.stack(course)
