"""The operators of UTDS: Lemma 2's, on the pairs that a dataset holds, and the one for OOD actions (paper, §3.2).

(𝒯Q)(s, a)    = r(s, a) + γ·E_{s' ~ D, a' ~ π}[Q(s', a') − β₁Γ(s', a')]
(𝒯ᵒᵒᵈQ)(s, a) = Q(s, a) − β₂Γ(s, a)
"""

from dataclasses import dataclass

import numpy as np

from utds.errors import ConfigError
from utds.linear.data import Counts
from utds.linear.models import Array


@dataclass(frozen=True, eq=False)
class Operator:
    """The operator of one dataset and policy. Pairs without data map to 0: the lemma speaks of those with data only."""

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
    """𝒯ᵒᵒᵈ applied to an ensemble `q` [N, ...] once for each of K penalties β₂: [K + 1, N, ...].

    Γ is the members' standard deviation (ddof 1); values stay at or above `floor`.
    """
    course = [q]
    for penalty in penalties:
        q = np.maximum(q - penalty * q.std(axis=0, ddof=1), floor)
        course.append(q)
    return np.stack(course)
