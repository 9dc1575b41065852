"""The compiled side of training: many gradient steps of each seed in one loop on the device.

A `SeedState` is one seed's training state with its running totals of metrics. Step t draws all its randomness from the
seed and t: a seed that is cut anywhere and taken up again ends with the same bits.

On an accelerator the seeds of a run go side by side under `vmap`. On a CPU they take turns in one executable: each is
bit-identical to the same seed trained alone, and one seed's products already fill the cores.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from utds.algorithms import Algorithm, Spec
from utds.algorithms.base import Mean, Metrics
from utds.data.pool import Pool
from utds.errors import ConfigError
from utds.networks import is_q_ensemble, jit


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
