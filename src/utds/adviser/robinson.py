"""How far one dataset's Δs differs from another's, given the same state and action: Robinson's partialling out.

With z = 1 for one dataset's transitions and 0 for the other's, e(x) = P(z = 1 | x) and m(x) = E[Δs | x] at x = (s, a),

    Δs − m(x) = (z − e(x)) · τᵀ(1, x) + noise

is a linear regression, feature by feature: τ is how much more Δs is in one dataset than in the other, by a constant
(gravity), or in proportion to an action (a weak motor) or to a state (damping, a late sensor). Errors of m alone or of
e alone average out, since they are the same for both datasets at the same x; only their product is left (double
machine learning, Chernozhukov et al., 2018). Where no more than one of the datasets has been, z − e is 0: nothing is
compared there.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.floating]
Ints = NDArray[np.int64]

CLIP = 3.0  # errors count as so many spreads at most: collisions are rare and large
RIDGE = 1e-2  # of the regressions, as a share of their regressors' mean square


class Effects(NamedTuple):
    """τ of O features of Δs in K regressors, and what is known of it."""

    effect: Array  # [O, K] in deviations of Δs, per deviation of the regressor
    error: Array  # [O, K] standard error, from leaving out one episode at a time
    episodes: Array  # [O, K] how many tell something of it

    def p(self, margin: float) -> Array:
        """P-values [O, K] of effects that are no larger than the margin."""
        beyond = (np.abs(self.effect) - margin) / np.maximum(self.error, 1e-12)
        return stats.t.sf(beyond, np.maximum(self.episodes - 1, 1))

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

    error: Array  # [n, O] Δs − m, in deviations of Δs
    spread: Array  # [n, O] how large an error is to be expected
    side: Array  # [n] z − e
    weight: Array  # [n] with which both datasets count alike
    episode: Ints  # [n]


def estimate(found: Residuals, regressors: Array, floor: float) -> Effects:
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
    found: Residuals, regressors: Array, starts: Ints, floor: float, feature: int
) -> tuple[Array, Array, Array]:
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
