"""How far one dataset's Δs differs from another's, given the same state and action: Robinson's partialling out.

With z = 1 for one dataset's transitions and 0 for the other's, e(x) = P(z = 1 | x) and m(x) = E[Δs | x] at x = (s, a),

    Δs − m(x) = (z − e(x)) · τᵀ(1, x) + noise

is a linear regression, feature by feature: τ is how much more Δs is in one dataset than in the other, by a constant
(gravity), or in proportion to an action (a weak motor) or to a state (damping, a late sensor). Errors of m alone or of
e alone average out, since they are the same for both datasets at the same x; only their product is left (double
machine learning, Chernozhukov et al., 2018). Where no more than one of the datasets has been, z − e is 0: nothing is
compared there.

m and e are networks of (s, a), fitted to all datasets together: one tells E[Δs] and the expected |Δs − E[Δs]|, the
other the probability of every dataset. Episodes are halved, and each half is told by networks that saw the other one
alone: what a network says of a transition never depends on that transition (cross-fitting).
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray
from scipy import special  # its Student's t: scipy.stats takes half a second to load

from utds.networks import MLP, fit, init_mlp, mlp
from utds.terminal import Advance

Floats = NDArray[np.float32]
Reals = NDArray[np.floating]
Ints = NDArray[np.int64]

WIDTH = 256  # units of the two hidden layers
STEPS = 3000  # gradient steps; with fewer, genuine data is refused
BATCH = 256  # transitions of each
LEARNING_RATE = 2e-3  # of Adam at the start; falls to 0 along a cosine
LOG_SPREAD = (-4.0, 2.0)  # bounds of the expected error's logarithm
BLOCK = 1 << 14  # transitions predicted at once
CLIP = 3.0  # errors count as so many spreads at most: collisions are rare and large
RIDGE = 1e-2  # of the regressions, as a share of their regressors' mean square


class Motion(NamedTuple):
    """Transitions of D datasets, one after the other."""

    pairs: Floats  # [n, X] state-actions, at unit deviation
    changes: Floats  # [n, O] Δs, at unit deviation
    whose: Ints  # [n] 0 … D − 1, in ascending order
    episode: Ints  # [n] counted over all datasets


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
    columns = jnp.asarray(motion.pairs), jnp.asarray(motion.changes)
    with ThreadPoolExecutor(2) as pool:  # compiled steps release the interpreter: a core for each half
        rows = [np.flatnonzero(half == part) for part in (0, 1)]
        halves = list(pool.map(lambda part: _fit(columns, rows[part], motion.whose, seed + part, advance), (0, 1)))
    told = Nuisance(
        np.empty_like(motion.changes),
        np.empty_like(motion.changes),
        np.empty((len(half), int(motion.whose[-1]) + 1), np.float32),
    )
    for part, networks in enumerate(halves):
        for start in range(0, len(rows[1 - part]), BLOCK):
            block = rows[1 - part][start : start + BLOCK]
            for column, values in zip(told, _predict(networks, motion.pairs[block]), strict=True):
                column[block] = values
    return told


def _fit(columns: tuple[jax.Array, jax.Array], rows: Ints, whose: Ints, seed: int, advance: Advance) -> Networks:
    """Both networks, from these rows of the pairs and changes; in a batch every dataset counts alike."""
    first = np.searchsorted(whose[rows], np.arange(int(whose[-1]) + 2))  # [D + 1]
    data = (*columns, jnp.asarray(rows), jnp.asarray(first))
    motion_key, origin_key, key = jax.random.split(jax.random.key(seed), 3)
    inputs, outputs = (column.shape[1] for column in columns)
    networks = Networks(
        init_mlp(motion_key, (inputs, WIDTH, WIDTH, 2 * outputs), layer_norm=False),
        init_mlp(origin_key, (inputs, WIDTH, WIDTH, len(first) - 1), layer_norm=False),
    )
    return fit(networks, _loss, data, jax.random.split(key, STEPS), LEARNING_RATE, advance)


def _loss(networks: Networks, data: tuple[jax.Array, jax.Array, jax.Array, jax.Array], key: jax.Array) -> jax.Array:
    """Huber's loss of the change, Laplace's likelihood of the spread about it, and the cross-entropy of the origin.

    `first` [D + 1] tells where each dataset begins among the rows that are fitted; a batch draws a dataset first, then
    a transition of it.
    """
    pairs, changes, chosen, first = data
    which, where = jax.random.split(key)
    whose = jax.random.randint(which, (BATCH,), 0, len(first) - 1)
    size = first[whose + 1] - first[whose]
    rows = chosen[first[whose] + (jax.random.uniform(where, (BATCH,)) * size).astype(int)]
    change, log_spread = _split(mlp(networks.motion, pairs[rows]))
    error = jnp.abs(jax.lax.stop_gradient(changes[rows] - change))
    spread = jnp.mean(error * jnp.exp(-log_spread) + log_spread)
    origin = optax.softmax_cross_entropy_with_integer_labels(mlp(networks.origin, pairs[rows]), whose)
    return jnp.mean(optax.huber_loss(change, changes[rows])) + 0.1 * spread + jnp.mean(origin)


@jax.jit
def _predict(networks: Networks, pairs: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The columns of `Nuisance`."""
    change, log_spread = _split(mlp(networks.motion, pairs))
    return change, jnp.exp(log_spread), jax.nn.softmax(mlp(networks.origin, pairs))


def _split(outputs: jax.Array) -> tuple[jax.Array, jax.Array]:
    change, log_spread = jnp.split(outputs, 2, axis=-1)
    return change, jnp.clip(log_spread, *LOG_SPREAD)


class Effects(NamedTuple):
    """τ of O features of Δs in K regressors, and what is known of it."""

    effect: Reals  # [O, K] in deviations of Δs, per deviation of the regressor
    error: Reals  # [O, K] standard error, from leaving out one episode at a time
    episodes: Reals  # [O, K] how many tell something of it

    def p(self, margin: float) -> Reals:
        """P-values [O, K], two-sided, of effects that are no larger than the margin."""
        size, error, freedom = np.abs(self.effect), np.maximum(self.error, 1e-12), np.maximum(self.episodes - 1, 1)
        above, below = (special.stdtr(freedom, -(size + shift) / error) for shift in (-margin, margin))
        return np.minimum(1.0, above + below)

    def least(self, margin: float) -> float:
        """The least of them, times how many there are."""
        return float(self.p(margin).min() * self.effect.size)

    def most_evident(self, margin: float) -> tuple[int, int]:
        """Feature and regressor of the least of them."""
        feature, regressor = np.unravel_index(self.p(margin).argmin(), self.effect.shape)
        return int(feature), int(regressor)

    def take(self, regressors: Ints) -> "Effects":
        """What is known of some regressors, the others being accounted for."""
        return Effects(*(column[:, regressors] for column in self))


class Residuals(NamedTuple):
    """n transitions of both datasets; those of an episode lie together."""

    error: Reals  # [n, O] Δs − m, in deviations of Δs
    spread: Reals  # [n, O] how large an error is to be expected
    side: Reals  # [n] z − e
    weight: Reals  # [n] with which both datasets count alike
    episode: Ints  # [n]


def estimate(found: Residuals, regressors: Reals, floor: float) -> Effects:
    """Regress every feature's errors on z − e times the regressors [n, K].

    Transitions count by how predictable they are, but no spread is taken for less than the floor: a low one shows a
    small push where the robot moves freely, a high one lets all states count about alike.
    """
    starts = np.flatnonzero(np.diff(found.episode, prepend=-1))
    regress = partial(_regress, found, regressors, starts, floor)
    with ThreadPoolExecutor(2) as pool:
        fits = list(pool.map(regress, range(found.error.shape[1])))
    return Effects(*(np.array(column, np.float64) for column in zip(*fits, strict=True)))


def _regress(
    found: Residuals, regressors: Reals, starts: Ints, floor: float, feature: int
) -> tuple[Reals, Reals, Reals]:
    """One feature: effects, standard errors and numbers of episodes, [K] each."""
    spread = np.maximum(found.spread[:, feature], floor)
    root = np.sqrt(found.weight)
    columns = (root * found.side / spread)[:, None] * regressors
    target = root * np.clip(found.error[:, feature] / spread, -CLIP, CLIP)
    ends = np.append(starts[1:], len(target))
    parts = [slice(*bounds) for bounds in zip(starts, ends, strict=True)]
    grams = np.array([columns[part].T @ columns[part] for part in parts], np.float64)  # [episodes, K, K]
    slopes = np.array([columns[part].T @ target[part] for part in parts], np.float64)  # [episodes, K]
    gram, slope = grams.sum(axis=0), slopes.sum(axis=0)
    gram += RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram))
    effect = np.linalg.solve(gram, slope)
    without = np.linalg.solve(gram - grams, (slope - slopes)[:, :, None])[:, :, 0]  # [episodes, K]
    error = np.sqrt((len(parts) - 1) / len(parts) * ((without - effect) ** 2).sum(axis=0))
    shares = np.diagonal(grams, axis1=1, axis2=2)
    return effect, error, shares.sum(axis=0) ** 2 / np.maximum((shares**2).sum(axis=0), 1e-300)
