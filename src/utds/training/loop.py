"""The compiled side of training: many gradient steps of each seed in one loop on the device.

A `SeedState` is one seed's training state with its running totals of metrics. Step t draws all its randomness from the
seed and t: a seed that is stopped anywhere and resumed ends with the same bits.

On an accelerator the seeds of a run go side by side under `vmap`. On a CPU they take turns in one executable: each is
bit-identical to the same seed trained alone, and one seed's products already fill the cores.

`Watch` looks for over-estimation: what the critics promise at the start states, against what the data can support.

    q_start       mean over the main data's start states of mean_n Q_n(s, π(s)): what the critics expect of the policy
    best_return   the best discounted return of any recorded episode, in the rewards of the pool's task

A policy may join stretches of several episodes and do better than the best of them, but not by much. Values far above
it come from actions that nobody has tried. Critics look beyond a time limit, though: an episode that was cut after T
steps, Σ_{t<T} γᵗ r_t = R, supports what it would be worth had it gone on as it did, R / (1 − γᵀ).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from utds.algorithms import Algorithm, Spec
from utds.algorithms.base import Mean, Metrics
from utds.data.columns import spaced
from utds.data.pool import Pool
from utds.errors import ConfigError
from utds.networks import is_q_ensemble, jit, q_values

MARGIN = 1.5  # promised over supported: above this, users are warned
CAUTIOUS = ("bc_weight_end", "beta_in", "beta_ood", "cql_alpha", "actor_bc", "critic_bc")  # fields against it
MOST_STARTS = 256  # start states that are looked at, evenly spaced over the main data's episodes


class SeedState(NamedTuple):
    """One seed under way."""

    state: Any
    totals: Metrics  # since the last logged row: sums, or the largest of those named `…_max`
    steps: Array  # in the totals

    def means(self) -> dict[str, float | None]:
        """The totals as a row of metrics, in a fixed order; None for the mean over rows that never came."""
        totals, steps = jax.device_get((self.totals, self.steps))

        def mean(name: str, total: Any) -> float | None:
            if isinstance(total, Mean):
                return total.value()
            return float(total if name.endswith("_max") else total / steps)

        return {name: mean(name, totals[name]) for name in sorted(totals)}

    def cleared(self) -> SeedState:
        """The same state with totals of 0."""
        return self._replace(totals=jax.tree.map(jnp.zeros_like, self.totals), steps=jnp.zeros_like(self.steps))


@partial(jax.jit, static_argnums=0)
def fresh(algorithm: Algorithm, spec: Spec, pool: Pool, key: Array) -> SeedState:
    """A seed at step 0; `pool` only tells which metrics there will be."""
    state = algorithm.init(key, spec)
    _check_critic(algorithm, state, spec)
    shapes = jax.eval_shape(lambda: step(algorithm, state, pool, key)[1])
    return SeedState(state, jax.tree.map(lambda v: jnp.zeros(v.shape, v.dtype), shapes), jnp.zeros((), jnp.int32))


def _check_critic(algorithm: Algorithm, state: Any, spec: Spec) -> None:
    """What is called `critic` is read as Q-functions: for the log, for export and for the uncertainty."""
    critic = getattr(state, "critic", None)
    if critic is not None and not is_q_ensemble(critic, spec.observation_size + spec.action_size):
        raise ConfigError(
            f"the `critic` in the state of {type(algorithm).__name__} is no ensemble of Q(s, a) as "
            "utds.networks.init_ensemble makes it; give networks of another kind another name"
        )


def step(algorithm: Algorithm, state: Any, pool: Pool, key: Array) -> tuple[Any, Metrics]:
    """One gradient step on a fresh batch; its randomness is the seed's key and the step's number."""
    draw, update = jax.random.split(jax.random.fold_in(key, state.step))
    return algorithm.update(state, algorithm.draw(state, pool, draw), update)


def loop(algorithm: Algorithm, seed_state: SeedState, pool: Pool, key: Array, steps: int | Array) -> SeedState:
    """`steps` steps of a seed. Their number is no constant, so one compilation serves every burst."""

    def body(_: int, seed_state: SeedState) -> SeedState:
        state, metrics = step(algorithm, seed_state.state, pool, key)
        totals = {
            name: jax.tree.map(jnp.maximum if name.endswith("_max") else jnp.add, seed_state.totals[name], value)
            for name, value in metrics.items()
        }
        return SeedState(state, totals, seed_state.steps + 1)

    return jax.lax.fori_loop(0, steps, body, seed_state)


@jax.jit
def finite(tree: Any) -> Array:
    """Whether every number of a tree is finite."""
    return jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]))


advance = jit(loop, static_argnums=0, donate_argnums=1)


def advance_in_turn(
    algorithm: Algorithm, states: tuple[SeedState, ...], pool: Pool, keys: tuple[Array, ...], steps: int
) -> tuple[SeedState, ...]:
    """Every seed `steps` further, one after the other."""
    return tuple(advance(algorithm, seed_state, pool, key, steps) for seed_state, key in zip(states, keys, strict=True))


@partial(jit, static_argnums=0, donate_argnums=1)
def advance_together(
    algorithm: Algorithm, states: tuple[SeedState, ...], pool: Pool, keys: tuple[Array, ...], steps: int | Array
) -> tuple[SeedState, ...]:
    """Every seed `steps` further, as one program."""
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    stacked = jax.vmap(partial(loop, algorithm), in_axes=(0, None, 0, None))(stacked, pool, jnp.stack(keys), steps)
    return tuple(jax.tree.map(lambda leaf, i=i: leaf[i], stacked) for i in range(len(states)))


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

    def warning(self, row: Mapping[str, float | None]) -> str | None:
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
