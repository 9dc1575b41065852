"""Robinson's nuisance functions, m(s, a) = E[Δs | s, a] and e(s, a), the chance of each dataset, by networks.

Two networks of (s, a) are fitted to all datasets together: one tells E[Δs] and the expected |Δs − E[Δs]|, the other the
probability of every dataset. Episodes are halved, and each half is told by networks that saw the other one alone: what
a network says of a transition never depends on that transition (cross-fitting).
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import NDArray

from utds.networks import MLP, fit, init_mlp, mlp
from utds.progress import Advance

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

WIDTH = 256  # units of the two hidden layers
STEPS = 3000  # gradient steps; with fewer, genuine data is refused
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


def fit_nuisance(motion: Motion, seed: int, advance: Advance) -> Nuisance:
    """Tell each half of the episodes by what the other half taught; `advance` hears of the steps of both halves."""
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


def _fit(motion: Motion, seed: int, advance: Advance) -> Networks:
    """Both networks, from batches in which every dataset counts alike."""
    first = np.searchsorted(motion.whose, np.arange(int(motion.whose[-1]) + 2))  # [D + 1]
    data = jax.tree.map(jnp.asarray, (motion.pairs, motion.changes, first))
    motion_key, origin_key, key = jax.random.split(jax.random.key(seed), 3)
    inputs, outputs = motion.pairs.shape[1], motion.changes.shape[1]
    networks = Networks(
        init_mlp(motion_key, (inputs, WIDTH, WIDTH, 2 * outputs), layer_norm=False),
        init_mlp(origin_key, (inputs, WIDTH, WIDTH, len(first) - 1), layer_norm=False),
    )
    return fit(networks, _loss, data, jax.random.split(key, STEPS), LEARNING_RATE, advance)


def _loss(networks: Networks, data: tuple[Array, Array, Array], key: Array) -> Array:
    """Huber's loss of the change, Laplace's likelihood of the spread about it, and the cross-entropy of the origin.

    `first` [D + 1] tells where each dataset begins; a batch draws a dataset first, then a transition of it.
    """
    pairs, changes, first = data
    which, where = jax.random.split(key)
    whose = jax.random.randint(which, (BATCH,), 0, len(first) - 1)
    size = first[whose + 1] - first[whose]
    rows = first[whose] + (jax.random.uniform(where, (BATCH,)) * size).astype(int)
    change, log_spread = _split(mlp(networks.motion, pairs[rows]))
    error = jnp.abs(jax.lax.stop_gradient(changes[rows] - change))
    spread = jnp.mean(error * jnp.exp(-log_spread) + log_spread)
    origin = optax.softmax_cross_entropy_with_integer_labels(mlp(networks.origin, pairs[rows]), whose)
    return jnp.mean(optax.huber_loss(change, changes[rows])) + 0.1 * spread + jnp.mean(origin)


@jax.jit
def _predict(networks: Networks, pairs: Array) -> tuple[Array, Array, Array]:
    """The columns of `Nuisance`."""
    change, log_spread = _split(mlp(networks.motion, pairs))
    return change, jnp.exp(log_spread), jax.nn.softmax(mlp(networks.origin, pairs))


def _split(outputs: Array) -> tuple[Array, Array]:
    change, log_spread = jnp.split(outputs, 2, axis=-1)
    return change, jnp.clip(log_spread, *LOG_SPREAD)
