"""Finite linear MDPs (paper, Appendix A.1), tabular and low-rank, in families that share dynamics; planned exactly.

    P(s' | s, a) = ⟨φ(s, a), ψ(s')⟩        r(s, a) = ⟨φ(s, a), θ⟩        ‖φ‖₂ ≤ 1,  r ∈ [0, 1]

Axes, everywhere in `utds.linear`: B datasets, T steps, S states, A actions, d features. Steps count from 0 here and
from 1 in the paper. A policy is an array of probabilities [..., T, S, A]; leading axes are evaluated at once.
"""

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from utds.errors import ConfigError, DataError

Array = NDArray[np.floating[Any]]  # float64 throughout; NumPy's own annotations promise no more
Booleans = NDArray[np.bool_]
Integers = NDArray[np.int64]

_ROUNDING = 1e-9  # how far probabilities and rewards may leave their range by floating point alone


@dataclass(frozen=True, eq=False)
class LinearMDP:
    """One task of an episodic linear MDP with finitely many states and actions; dynamics don't change with the step."""

    features: Array  # [S, A, d] φ(s, a)
    psi: Array  # [d, S] ψ(s'), one column a next state
    theta: Array  # [d] the task's reward weights
    initial: Array  # [S] distribution of the first state
    horizon: int  # T, steps in an episode

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise ConfigError(f"the horizon is {self.horizon}; an episode needs at least one step")
        if self.features.ndim != 3:
            raise DataError(f"features have shape {self.features.shape}; they must be [states, actions, d]")
        states, _, width = self.features.shape
        for name, array, shape in (
            ("psi", self.psi, (width, states)),
            ("theta", self.theta, (width,)),
            ("initial", self.initial, (states,)),
        ):
            if array.shape != shape:
                raise DataError(f"{name} has shape {array.shape}, but features {self.features.shape} need {shape}")
        for name, array in (("features", self.features), ("psi", self.psi), ("theta", self.theta)):
            if not np.isfinite(array).all():
                raise DataError(f"{name} holds NaN or infinite values")
        if np.linalg.norm(self.features, axis=-1).max() > 1 + _ROUNDING:
            raise DataError("a feature is longer than 1; scale φ so that ‖φ(s, a)‖₂ ≤ 1 for every pair")
        _check_distribution("transitions ⟨φ, ψ⟩", self.transitions)
        _check_distribution("initial", self.initial)
        if self.rewards.min() < -_ROUNDING or self.rewards.max() > 1 + _ROUNDING:
            raise DataError(
                f"rewards ⟨φ, θ⟩ span [{self.rewards.min():.3g}, {self.rewards.max():.3g}]; [0, 1] is needed"
            )

    @property
    def states(self) -> int:
        return self.features.shape[0]

    @property
    def actions(self) -> int:
        return self.features.shape[1]

    @property
    def width(self) -> int:
        """d, the number of features."""
        return self.features.shape[2]

    @cached_property
    def transitions(self) -> Array:
        """P(s' | s, a), [S, A, S]."""
        return self.features @ self.psi

    @cached_property
    def rewards(self) -> Array:
        """r(s, a), [S, A]."""
        return self.features @ self.theta

    def backup(self, values: Array) -> Array:
        """The true Bellman target 𝒯V(s, a) = r + E[V(s')] of `values` [..., S]: [..., S, A]."""
        return self.rewards + np.einsum("ijk,...k->...ij", self.transitions, values)


def tabular(states: int, actions: int, horizon: int, rng: np.random.Generator, spread: float = 0.3) -> LinearMDP:
    """A random tabular MDP, φ one-hot with d = S·A. A smaller `spread` concentrates each pair on fewer next states."""
    pairs = states * actions
    return LinearMDP(
        features=np.eye(pairs).reshape(states, actions, pairs),
        psi=rng.dirichlet(np.full(states, spread), size=pairs),
        theta=rng.random(pairs),
        initial=rng.dirichlet(np.ones(states)),
        horizon=horizon,
    )


def low_rank(
    states: int, actions: int, width: int, horizon: int, rng: np.random.Generator, spread: float = 0.3
) -> LinearMDP:
    """A random MDP of rank `width`: φ on the simplex, ψ one distribution over next states a feature, θ in [0, 1].

    Mixtures of distributions are distributions and averages of [0, 1] stay there: P and r are proper by construction.
    """
    return LinearMDP(
        features=rng.dirichlet(np.full(width, spread), size=(states, actions)),
        psi=rng.dirichlet(np.full(states, spread), size=width),
        theta=rng.random(width),
        initial=rng.dirichlet(np.ones(states)),
        horizon=horizon,
    )


def related(mdp: LinearMDP, similarity: float, rng: np.random.Generator) -> LinearMDP:
    """Another task on the same dynamics: 1 is the same reward, 0 an independent one, −1 the opposite, 1 − r.

    The opposite is taken feature by feature (1 − θ), which reverses r wherever φ sums to one.
    """
    if not -1 <= similarity <= 1:
        raise ConfigError(f"similarity is {similarity}; it must lie in [-1, 1]")
    towards = mdp.theta if similarity >= 0 else 1 - mdp.theta
    share = abs(similarity)
    return dataclasses.replace(mdp, theta=share * towards + (1 - share) * rng.random(mdp.width))


def family(mdp: LinearMDP, similarities: tuple[float, ...], rng: np.random.Generator) -> tuple[LinearMDP, ...]:
    """The main task first, then one task a similarity to it: same φ and ψ, different θ."""
    return (mdp, *(related(mdp, similarity, rng) for similarity in similarities))


class Plan(NamedTuple):
    """What exact value iteration finds."""

    policy: Array  # [T, S, A] greedy, one-hot; ties go to the first action
    values: Array  # [T + 1, S] V*, zero at the end


def plan(mdp: LinearMDP) -> Plan:
    """The optimal policy π* and its values, by backward induction."""
    q = np.empty((mdp.horizon, mdp.states, mdp.actions))
    values = np.zeros((mdp.horizon + 1, mdp.states))
    for t in reversed(range(mdp.horizon)):
        q[t] = mdp.backup(values[t + 1])
        values[t] = q[t].max(axis=-1)
    return Plan(greedy(q), values)


def greedy(q: Array) -> Array:
    """One-hot probabilities of the best action of `q` [..., A]; the first one on ties."""
    return np.eye(q.shape[-1])[q.argmax(axis=-1)]


def evaluate(mdp: LinearMDP, policy: Array) -> Array:
    """V^π [..., T + 1, S] of `policy` [..., T, S, A]."""
    _check_policy(mdp, policy)
    values = np.zeros((*policy.shape[:-3], mdp.horizon + 1, mdp.states))
    for t in reversed(range(mdp.horizon)):
        values[..., t, :] = (policy[..., t, :, :] * mdp.backup(values[..., t + 1, :])).sum(axis=-1)
    return values


def occupancy(mdp: LinearMDP, policy: Array) -> Array:
    """Probability [..., T, S, A] that `policy` is at pair (s, a) in step t."""
    _check_policy(mdp, policy)
    visited = np.empty(policy.shape)
    state = np.broadcast_to(mdp.initial, (*policy.shape[:-3], mdp.states))
    for t in range(mdp.horizon):
        visited[..., t, :, :] = state[..., None] * policy[..., t, :, :]
        state = np.einsum("...ij,ijk->...k", visited[..., t, :, :], mdp.transitions)
    return visited


def performance(mdp: LinearMDP, policy: Array) -> Array:
    """Expected return [...] of `policy` from the initial distribution."""
    return evaluate(mdp, policy)[..., 0, :] @ mdp.initial


def _check_distribution(name: str, array: Array) -> None:
    proper = array.min() >= -_ROUNDING and np.abs(array.sum(axis=-1) - 1).max() <= _ROUNDING
    if not proper:  # so asked, NaN is refused too
        raise DataError(f"{name} must be non-negative and sum to 1 over the last axis")


def _check_policy(mdp: LinearMDP, policy: Array) -> None:
    if policy.shape[-3:] != (mdp.horizon, mdp.states, mdp.actions):
        raise DataError(
            f"the policy has shape {policy.shape}; its last axes must be (T, S, A) = "
            f"{(mdp.horizon, mdp.states, mdp.actions)}"
        )
