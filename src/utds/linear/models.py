"""Finite linear MDPs (paper, Appendix A.1), tabular and low-rank, planned exactly; and datasets of their transitions.

    P(s' | s, a) = ⟨φ(s, a), ψ(s')⟩        r(s, a) = ⟨φ(s, a), θ⟩        ‖φ‖₂ ≤ 1,  r ∈ [0, 1]

Axes, everywhere in `utds.linear`: B datasets, T steps, S states, A actions, d features. Steps count from 0 here and
from 1 in the paper. A policy is an array of probabilities [..., T, S, A]; leading axes are evaluated at once.

Row k of step t of a dataset is one transition:

    states[b, t, k] ──actions[b, t, k]──> next_states[b, t, k],   rewards[b, t, k] = r_i(states, actions)

A finite linear MDP needs no more of a dataset than how often each (s, a, s') occurred, so learners read `Counts`.
"""

from dataclasses import dataclass, replace
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
    psi: Array  # [d, S] ψ(s'), one column per next state
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

    @property
    def pairs(self) -> Array:
        """φ as rows, one per pair: [S·A, d]."""
        return self.features.reshape(-1, self.width)

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
    """A random MDP of rank `width`: φ on the simplex, ψ one distribution over next states per feature, θ in [0, 1].

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
    return replace(mdp, theta=share * towards + (1 - share) * rng.random(mdp.width))


def family(mdp: LinearMDP, similarities: tuple[float, ...], rng: np.random.Generator) -> tuple[LinearMDP, ...]:
    """The main task first, then one task per similarity to it: same φ and ψ, different θ."""
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


@dataclass(frozen=True, eq=False)
class Transitions:
    """B independent datasets with K transitions for each of T steps."""

    states: Integers  # [B, T, K]
    actions: Integers  # [B, T, K]
    rewards: Array  # [B, T, K]
    next_states: Integers  # [B, T, K]

    def __post_init__(self) -> None:
        shapes = {array.shape for array in (self.states, self.actions, self.rewards, self.next_states)}
        if len(shapes) > 1 or self.states.ndim != 3:
            raise DataError(f"columns have shapes {sorted(shapes)}; all must be the same [datasets, steps, samples]")
        if self.states.size == 0:
            shape = f"[datasets, steps, samples] = {self.states.shape}"
            raise DataError(f"an empty dataset: {shape}; collect at least 1 sample per step")
        if not np.isfinite(self.rewards).all():
            raise DataError("rewards hold NaN or infinite values")

    def rows(self, first: int, last: int) -> "Transitions":
        """Rows `first` to `last` (exclusive) of every step."""
        part = np.s_[:, :, first:last]
        return Transitions(self.states[part], self.actions[part], self.rewards[part], self.next_states[part])


@dataclass(frozen=True, eq=False)
class Counts:
    """Sufficient statistics of a dataset for least squares on a finite MDP."""

    visits: Array  # [B, T, S, A] N_t(s, a)
    rewards: Array  # [B, T, S, A] sum of rewards seen at the pair
    next_states: Array  # [B, T, S, A, S] N_t(s, a, s')


def behaviour(mdp: LinearMDP, quality: float, coverage: float, rng: np.random.Generator) -> Array:
    """A policy [T, S, A] of chosen quality and coverage.

    It plays the optimal action with probability `quality` (0 to 1) and otherwise one of a random subset of the actions,
    uniformly; the subset, drawn anew for each (t, s), holds the share `coverage` (0 to 1) of all actions, at least one.
    """
    for name, value in (("quality", quality), ("coverage", coverage)):
        if not 0 <= value <= 1:
            raise ConfigError(f"{name} is {value}; it must lie in [0, 1]")
    kept = max(1, round(coverage * mdp.actions))
    rank = rng.random((mdp.horizon, mdp.states, mdp.actions)).argsort(axis=-1).argsort(axis=-1)
    return quality * plan(mdp).policy + (1 - quality) * (rank < kept) / kept


def avoiding(policy: Array) -> Array:
    """The uniform policy over the actions that `policy` [T, S, A] never plays: data irrelevant to it, exactly."""
    unplayed = policy == 0
    if not unplayed.any(axis=-1).all():
        raise ConfigError("the policy plays every action of some state; nothing is left to avoid it with")
    return unplayed / unplayed.sum(axis=-1, keepdims=True)


def collect(
    mdp: LinearMDP,
    policy: Array,
    samples: int,
    rng: np.random.Generator,
    datasets: int = 1,
    episodes: bool = False,
) -> Transitions:
    """Draw `datasets` datasets of `samples` transitions for each step, with `policy` [T, S, A] as behaviour.

    By default every step has draws of its own from the behaviour's occupancy: what follows step t is then independent
    of step t's noise, which the √d in β needs (see `learners.explicit_beta`). With `episodes`, rows are trajectories.
    """
    if samples < 1 or datasets < 1:
        raise DataError(f"an empty dataset: {datasets} datasets of {samples} samples per step; both must be at least 1")
    next_state = _Categorical(mdp.transitions.reshape(-1, mdp.states))
    pair_of_step = _Categorical(occupancy(mdp, policy).reshape(mdp.horizon, -1))
    action_of_state = _Categorical(policy.reshape(-1, mdp.actions))
    pairs = np.empty((datasets, mdp.horizon, samples), dtype=np.int64)
    following = np.empty_like(pairs)
    for t in range(mdp.horizon):
        if episodes and t > 0:
            states = following[:, t - 1]
            pairs[:, t] = states * mdp.actions + action_of_state.draw(t * mdp.states + states, rng)
        else:
            pairs[:, t] = pair_of_step.draw(np.full((datasets, samples), t), rng)
        following[:, t] = next_state.draw(pairs[:, t], rng)
    states, actions = np.divmod(pairs, mdp.actions)
    return Transitions(states, actions, mdp.rewards[states, actions], following)


def relabel(mdp: LinearMDP, data: Transitions) -> Transitions:
    """D_{j→i}: another task's transitions with the rewards of `mdp`'s task."""
    _check_range(mdp, data)
    return replace(data, rewards=mdp.rewards[data.states, data.actions])


def share(mdp: LinearMDP, own: Transitions, *others: Transitions) -> Transitions:
    """D̂_i = D_i ∪ D_{j→i} ∪ …: the others relabelled for `mdp`'s task and joined, step by step, to its own data."""
    parts = [own, *(relabel(mdp, other) for other in others)]
    if len({part.states.shape[:2] for part in parts}) > 1:
        raise DataError(f"[datasets, steps] differ between sources: {[part.states.shape[:2] for part in parts]}")
    columns = ("states", "actions", "rewards", "next_states")
    return Transitions(*(np.concatenate([getattr(part, column) for part in parts], axis=2) for column in columns))


def count(mdp: LinearMDP, data: Transitions) -> Counts:
    """The `Counts` of `data`."""
    _check_range(mdp, data)
    pairs = data.states * mdp.actions + data.actions
    next_states = _tally(pairs * mdp.states + data.next_states, (mdp.states, mdp.actions, mdp.states))
    rewards = _tally(pairs, (mdp.states, mdp.actions), data.rewards)
    return Counts(next_states.sum(axis=-1), rewards, next_states)


def draw_ood(mdp: LinearMDP, data: Transitions, policy: Array, draws: int, rng: np.random.Generator) -> Array:
    """Visits [B, T, S, A] of D^ood: states of `data`, with `draws` actions each from `policy` [T, S, A]."""
    _check_range(mdp, data)
    steps = np.arange(mdp.horizon)[:, None]
    states = np.repeat(data.states, draws, axis=2)
    actions = _Categorical(policy.reshape(-1, mdp.actions)).draw(steps * mdp.states + states, rng)
    return _tally(states * mdp.actions + actions, (mdp.states, mdp.actions))


def _tally(cells: Integers, shape: tuple[int, ...], weights: Array | None = None) -> Array:
    """How often each cell of an array of this shape occurs in every dataset and step, or the sum of its weights.

    Cells and their weights are [B, T, K], the result [B, T, *shape].
    """
    datasets, horizon, _ = cells.shape
    size = int(np.prod(shape))
    first = size * np.arange(datasets * horizon).reshape(datasets, horizon, 1)  # cell of every dataset and step
    found = np.bincount(
        (first + cells).ravel(), None if weights is None else weights.ravel(), datasets * horizon * size
    )
    return found.reshape(datasets, horizon, *shape).astype(np.float64)


class _Categorical:
    """Many categorical distributions [rows, n], drawn from by inverting all their distribution functions at once."""

    def __init__(self, probabilities: Array) -> None:
        cumulative = probabilities.cumsum(axis=-1)
        cumulative /= cumulative[:, -1:]
        self.size = cumulative.shape[1]
        # Row i occupies (i, i + 1] of one sorted array, so a single binary search serves draws from any mix of rows.
        self.sorted = (cumulative + np.arange(len(cumulative))[:, None]).ravel()

    def draw(self, rows: Integers, rng: np.random.Generator) -> Integers:
        """One draw for each entry of `rows`."""
        found = np.searchsorted(self.sorted, rng.random(rows.shape) + rows, side="right")
        return np.minimum(found - rows * self.size, self.size - 1)  # the sum may round up into the next row


def _check_range(mdp: LinearMDP, data: Transitions) -> None:
    if data.states.shape[1] != mdp.horizon:
        raise DataError(f"the data has {data.states.shape[1]} steps, the MDP {mdp.horizon}")
    for name, column, size in (
        ("states", data.states, mdp.states),
        ("actions", data.actions, mdp.actions),
        ("next_states", data.next_states, mdp.states),
    ):
        if column.min() < 0 or column.max() >= size:
            raise DataError(f"{name} span [{column.min()}, {column.max()}], but the MDP has {size}: 0 to {size - 1}")


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
