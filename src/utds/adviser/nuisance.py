"""Robinson's nuisance functions, m(s, a) = E[Δs | s, a] and e(s, a), the chance of each dataset, by networks.

Two networks of (s, a) are fitted to all datasets together: one tells E[Δs] and the expected |Δs − E[Δs]|, the other the
probability of every dataset. Episodes are halved, and each half is told by networks that saw the other one alone: what
a network says of a transition never depends on that transition (cross-fitting).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import NDArray

from utds.algorithms.base import jit
from utds.networks import MLP, init_mlp, mlp

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

WIDTH = 256  # units of the two hidden layers
BURSTS = 12  # of gradient steps, after each of which the progress bar moves; with fewer, genuine data is refused
BURST = 250  # gradient steps
BATCH = 256  # transitions of each
LEARNING_RATE = 2e-3  # of Adam at the start; falls to 0 along a cosine
LOG_SPREAD = (-4.0, 2.0)  # bounds of the expected error's logarithm
BLOCK = 1 << 14  # transitions predicted at once


class Motion(NamedTuple):
    """Transitions of D datasets, one after the other."""

    pairs: Floats  # [n, X] state-actions, at unit deviation
    changes: Floats  # [n, O] Δs, at unit deviation
    whose: Ints  # [n] 0 … D − 1, in ascending order
    episode: Ints  # [n] counted over all datasets

    def take(self, rows: NDArray[Any]) -> "Motion":
        return Motion(*(column[rows] for column in self))


class Nuisance(NamedTuple):
    """What networks say that never saw the transition."""

    mean: Floats  # [n, O] E[Δs | s, a]
    spread: Floats  # [n, O] E[|Δs − E[Δs]| | s, a]
    propensity: Floats  # [n, D] chance of each dataset, given (s, a), if all were equally large


class Networks(NamedTuple):
    motion: MLP  # [X] -> [2 O]: the change, and the logarithm of the spread
    origin: MLP  # [X] -> [D]: logits


def fit_nuisance(motion: Motion, seed: int, advance: Callable[[], None]) -> Nuisance:
    """Tell each half of the episodes by what the other half taught; `advance` hears of each burst, of both halves."""
    half = motion.episode % 2 == 0
    with ThreadPoolExecutor(2) as pool:  # compiled steps release the interpreter: a core for each half
        halves = list(pool.map(lambda part: _fit(motion.take(half == part), seed + part, advance), (0, 1)))
    told = Nuisance(
        np.empty_like(motion.changes),
        np.empty_like(motion.changes),
        np.empty((len(half), int(motion.whose[-1]) + 1), np.float32),
    )
    for part, networks in enumerate(halves):
        rows = np.flatnonzero(half != part)
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            for column, values in zip(told, _predict(networks, motion.pairs[block]), strict=True):
                column[block] = values
    return told


def _fit(motion: Motion, seed: int, advance: Callable[[], None]) -> Networks:
    """Both networks, from batches in which every dataset counts alike."""
    first = np.searchsorted(motion.whose, np.arange(int(motion.whose[-1]) + 2))  # [D + 1]
    data = jax.tree.map(jnp.asarray, (motion.pairs, motion.changes, first))
    key = jax.random.key(seed)
    sizes = motion.pairs.shape[1], motion.changes.shape[1], len(first) - 1
    networks, opt_state = _start(key, *sizes)
    for burst in range(BURSTS):
        progress = (BURST * burst + np.arange(BURST)) / (BURST * BURSTS)
        rates = LEARNING_RATE * (1 + np.cos(np.pi * progress)) / 2
        networks, opt_state = _advance(networks, opt_state, data, rates, jax.random.fold_in(key, burst))
        jax.block_until_ready(networks)
        advance()
    return networks


@partial(jax.jit, static_argnums=(1, 2, 3))
def _start(key: Array, inputs: int, changes: int, datasets: int) -> tuple[Networks, Any]:
    motion, origin = jax.random.split(key)
    networks = Networks(
        init_mlp(motion, (inputs, WIDTH, WIDTH, 2 * changes), layer_norm=False),
        init_mlp(origin, (inputs, WIDTH, WIDTH, datasets), layer_norm=False),
    )
    return networks, optax.scale_by_adam().init(networks)


@partial(jit, donate_argnums=(0, 1))
def _advance(
    networks: Networks, opt_state: Any, data: tuple[Array, Array, Array], rates: Array, key: Array
) -> tuple[Networks, Any]:
    """A gradient step for each of the rates."""
    pairs, changes, first = data

    def step(carry: tuple[Networks, Any], inputs: tuple[Array, Array]) -> tuple[tuple[Networks, Any], None]:
        (networks, opt_state), (rate, key) = carry, inputs
        which, where = jax.random.split(key)
        whose = jax.random.randint(which, (BATCH,), 0, len(first) - 1)
        size = first[whose + 1] - first[whose]
        rows = first[whose] + (jax.random.uniform(where, (BATCH,)) * size).astype(int)
        grads = jax.grad(_loss)(networks, pairs[rows], changes[rows], whose)
        steps, opt_state = optax.scale_by_adam().update(grads, opt_state)
        return (jax.tree.map(lambda old, change: old - rate * change, networks, steps), opt_state), None

    return jax.lax.scan(step, (networks, opt_state), (rates, jax.random.split(key, len(rates))))[0]


def _loss(networks: Networks, pairs: Array, changes: Array, whose: Array) -> Array:
    """Huber's loss of the change, Laplace's likelihood of the spread about it, and the cross-entropy of the origin."""
    change, log_spread = _split(mlp(networks.motion, pairs))
    error = jnp.abs(jax.lax.stop_gradient(changes - change))
    spread = jnp.mean(error * jnp.exp(-log_spread) + log_spread)
    origin = optax.softmax_cross_entropy_with_integer_labels(mlp(networks.origin, pairs), whose)
    return jnp.mean(optax.huber_loss(change, changes)) + 0.1 * spread + jnp.mean(origin)


@jax.jit
def _predict(networks: Networks, pairs: Array) -> tuple[Array, Array, Array]:
    """The columns of `Nuisance`."""
    change, log_spread = _split(mlp(networks.motion, pairs))
    return change, jnp.exp(log_spread), jax.nn.softmax(mlp(networks.origin, pairs))


def _split(outputs: Array) -> tuple[Array, Array]:
    change, log_spread = jnp.split(outputs, 2, axis=-1)
    return change, jnp.clip(log_spread, *LOG_SPREAD)
