"""Behaviour policies, datasets of transitions per step, and sharing by relabelling.

Row k of step t is one transition:

    states[b, t, k] ──actions[b, t, k]──> next_states[b, t, k],   rewards[b, t, k] = r_i(states, actions)

A finite linear MDP needs no more of a dataset than how often each (s, a, s') occurred, so learners read `Counts`.
"""

from dataclasses import dataclass, replace

import numpy as np

from utds.errors import ConfigError, DataError
from utds.linear.models import Array, Integers, LinearMDP, occupancy, plan


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
            raise DataError(
                f"an empty dataset: [datasets, steps, samples] = {self.states.shape}; collect at least 1 sample a step"
            )
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
        raise DataError(f"an empty dataset: {datasets} datasets of {samples} samples a step; both must be at least 1")
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
    shape = (*data.states.shape[:2], mdp.states, mdp.actions)
    rows = np.arange(shape[0] * shape[1]).reshape(*shape[:2], 1)  # one a (dataset, step)
    pairs = ((rows * mdp.states + data.states) * mdp.actions + data.actions).ravel()
    size = int(np.prod(shape))
    triples = np.bincount(pairs * mdp.states + data.next_states.ravel(), minlength=size * mdp.states)
    next_states = triples.reshape(*shape, mdp.states).astype(np.float64)
    rewards = np.bincount(pairs, weights=data.rewards.ravel(), minlength=size).reshape(shape)
    return Counts(next_states.sum(axis=-1), rewards, next_states)


def draw_ood(mdp: LinearMDP, data: Transitions, policy: Array, draws: int, rng: np.random.Generator) -> Array:
    """Visits [B, T, S, A] of D^ood: states of `data`, with `draws` actions each from `policy` [T, S, A]."""
    _check_range(mdp, data)
    steps = np.arange(mdp.horizon)[:, None]
    states = np.repeat(data.states, draws, axis=2)
    actions = _Categorical(policy.reshape(-1, mdp.actions)).draw(steps * mdp.states + states, rng)
    pairs = states * mdp.actions + actions
    datasets, size = states.shape[0], mdp.states * mdp.actions
    rows = np.arange(datasets * mdp.horizon).reshape(datasets, mdp.horizon, 1)
    visits = np.bincount((rows * size + pairs).ravel(), minlength=datasets * mdp.horizon * size)
    return visits.reshape(datasets, mdp.horizon, mdp.states, mdp.actions).astype(np.float64)


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
