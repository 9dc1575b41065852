"""A watch on over-estimation: what the critics promise at the start states, against what the data can support.

    q_start       mean over the main data's start states of mean_n Q_n(s, π(s)): what the critics expect of the policy
    best_return   the best discounted return of any recorded episode, in the rewards of the pool's task

A policy may join stretches of several episodes and do better than the best of them, but not by much. Values far above
it come from actions that nobody has tried. Critics look beyond a time limit, though: an episode that was cut after T
steps, Σ_{t<T} γᵗ r_t = R, supports what it would be worth had it gone on as it did, R / (1 − γᵀ).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from utds.algorithms import Algorithm
from utds.data.columns import spaced
from utds.data.pool import Pool
from utds.networks import q_values

MARGIN = 1.5  # promised over supported: above this, users are warned
CAUTIOUS = ("bc_weight_end", "beta_in", "beta_ood", "cql_alpha", "actor_bc", "critic_bc")  # fields against it
MOST_STARTS = 256  # start states that are looked at, evenly spaced over the main data's episodes


class Watch:
    """The start states of a pool and what its episodes support; `row` compares a state's critics with them."""

    def __init__(self, algorithm: Algorithm, pool: Pool) -> None:
        self.algorithm, self.discount = algorithm, getattr(algorithm, "discount", 0.0)
        self.starts = start_observations(pool)
        self.best_return = self.supported = 0.0
        if self.discount:
            returns, supported = episode_values(pool, self.discount)
            self.best_return, self.supported = float(returns.max()), float(supported.max())

    def row(self, state: Any) -> dict[str, float]:
        """What is logged; nothing for an algorithm without critics or without a horizon."""
        if getattr(state, "critic", None) is None or not self.discount:
            return {}
        return {"q_start": float(_q_start(self.algorithm, state, self.starts)), "best_return": self.best_return}

    def warning(self, row: dict[str, float]) -> str | None:
        """In words, where the critics promise more than the data can support."""
        promised, best = row.get("q_start"), self.supported
        if promised is None or best <= 0 or promised <= MARGIN * best:
            return None
        fields = [name for name in CAUTIOUS if hasattr(self.algorithm, name)]
        return (
            f"the critics promise {promised:.3g} from the start states, {promised / best:.1f} times what the best "
            f"recorded episode supports ({best:.3g}, discounted): values are over-estimated"
            + (f"; raise {' or '.join(fields)}" if fields else "")
        )


def start_observations(pool: Pool) -> Array:
    """Observations [n, O] at which the main data's episodes begin, evenly spaced if there are many."""
    first, count = (int(x[0]) for x in (pool.ranges.episode, pool.ranges.episodes))
    chosen = first + spaced(count, MOST_STARTS)
    return pool.columns.observations[pool.columns.rows[pool.columns.episodes[chosen]]]


def episode_values(pool: Pool, discount: float) -> tuple[np.ndarray, np.ndarray]:
    """Of every episode of the pool, as relabelled: Σ γᵗ r_t [E], and what it supports [E]."""
    rewards, terminations = jax.device_get((pool.columns.rewards, pool.columns.terminations))
    bounds, found = np.asarray(pool.columns.episodes), []
    for start, size, first, count, row in zip(*map(np.asarray, pool.ranges), strict=True):
        if size == 0:
            continue
        starts = bounds[first : first + count] - start
        lengths = np.diff([*starts, size])
        position = np.arange(size) - np.repeat(starts, lengths)
        returns = np.add.reduceat(rewards[row, start : start + size] * discount**position, starts)
        cut = ~terminations[start + starts + lengths - 1] & (discount < 1)
        found.append((returns, np.divide(returns, 1 - discount**lengths, out=returns.copy(), where=cut)))
    returns, supported = map(np.concatenate, zip(*found, strict=True))
    return returns, supported


@partial(jax.jit, static_argnums=0)
def _q_start(algorithm: Algorithm, state: Any, observations: Array) -> Array:
    actions = algorithm.act(state, observations)
    return jnp.mean(q_values(state.critic, state.normalizer(observations), actions))
