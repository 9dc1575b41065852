"""Two datasets side by side: where both have been, does one's motion differ from the other's?

The space of state-actions is cut into cells, and only cells where both datasets have been are compared. A model errs
differently from cell to cell; another physics pushes the same way everywhere. So cells, not transitions, are the
sample on which every p-value here rests.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST = 5  # transitions of either dataset in a cell that is compared
MOST = 300  # transitions of the rarer dataset beyond which a cell counts no more
EQUAL = 25  # the so many best-known cells count alike: robots lie still for long, and then tell little
CLIP = 3.0  # unexpected errors count as this many spreads: collisions are rare and large
RIDGE = 1e-2  # of the regressions, as a share of their regressors' mean square


class Matched(NamedTuple):
    """Transitions of both datasets in the cells that they share; n of them in C cells, Δs in O features."""

    errors: Array  # [n, O] Δs − μ, in deviations of Δs
    spread: Array  # [n, O] how large an error is to be expected
    actions: Array  # [n, A] in the main data's deviations
    cell: Ints  # [n] 0 … C − 1
    other: NDArray[np.bool_]  # [n] whose: the candidate's, or the main data's own

    @property
    def cells(self) -> int:
        return int(self.cell.max(initial=-1)) + 1


class Push(NamedTuple):
    """How the candidate's Δs differs from the main data's: τ(a) = τ₀ + Σ τⱼ aⱼ, alike in all cells."""

    effect: Array  # [O, 1 + A] τ, in deviations of Δs
    p: Array  # [O, 1 + A] that the effect isn't beyond the margin


def joined(own: Matched, theirs: Matched) -> Matched:
    return Matched(*(np.concatenate(both) for both in zip(own, theirs, strict=True)))


def shared_only(found: Matched) -> Matched:
    """Without the cells in which either dataset has hardly been; the rest are numbered anew."""
    common = np.min(_counts(found), axis=0) >= LEAST  # [C]
    kept = common[found.cell]
    _, cell = np.unique(found.cell[kept], return_inverse=True)
    return Matched(found.errors[kept], found.spread[kept], found.actions[kept], cell, found.other[kept])


def _counts(found: Matched) -> Ints:
    """Transitions of the main data and of the candidate in each cell, [2, C]."""
    return np.stack([np.bincount(found.cell[found.other == whose], minlength=found.cells) for whose in (False, True)])


def push(found: Matched, margin: float) -> Push:
    """Regress the errors, feature by feature, on whose they are, alone and times each action.

    Either dataset counts alike within a cell, and what both have in common in a cell is taken out first.
    """
    counts = _counts(found)
    rarer = np.minimum(counts.min(axis=0), MOST)
    weight = (rarer / (2 * counts))[found.other.astype(int), found.cell]
    side = np.where(found.other, 0.5, -0.5)
    regressors = side[:, None] * np.concatenate([np.ones((len(side), 1)), found.actions], axis=1)
    fits = [
        _regress(regressors, error, spread, weight, found.cell, margin)
        for error, spread in zip(found.errors.T, found.spread.T, strict=True)
    ]
    return Push(np.array([effect for effect, _ in fits]), np.array([p for _, p in fits]))


def _regress(
    regressors: Array, error: Array, spread: Array, weight: Array, cell: Ints, margin: float
) -> tuple[Array, Array]:
    """Coefficients [K] of one feature's errors [n] and p-values [K], with standard errors that cells' scatter gives."""
    known = np.bincount(cell, weight / spread**2)
    level = np.sort(known)[-min(EQUAL, len(known))]
    root = np.sqrt(weight / np.maximum(known, level)[cell])
    scale = root / spread
    target = _centred(root * np.clip(error / spread, -CLIP, CLIP), scale, cell)
    columns = np.stack([_centred(scale * column, scale, cell) for column in regressors.T], axis=1)
    gram = columns.T @ columns
    inverse = np.linalg.inv(gram + RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram)))
    effect = inverse @ (columns.T @ target)
    left = target - columns @ effect
    scores = np.stack([np.bincount(cell, column * left) for column in columns.T], axis=1)  # [C, K]
    errors = np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse))
    shares = np.stack([np.bincount(cell, column**2) for column in columns.T], axis=1)
    effective = shares.sum(axis=0) ** 2 / np.maximum((shares**2).sum(axis=0), 1e-300)  # number of cells that count
    beyond = (np.abs(effect) - margin) / np.maximum(errors, 1e-12)
    return effect, stats.t.sf(beyond, np.maximum(effective - 1, 1))


def _centred(values: Array, scale: Array, cell: Ints) -> Array:
    """Values [n] without the part in proportion to the scale that all transitions of a cell have in common."""
    shared = np.bincount(cell, values * scale) / np.bincount(cell, scale**2)
    return values - scale * shared[cell]


def scatter(found: Matched, margin: float) -> tuple[Array, Array]:
    """How much farther off each feature is than the middle one, as a ratio to the main data [O], and p-values [O].

    A model that is a little out of its depth errs more in all features; one that is measured late, or with noise,
    errs more in that feature alone.
    """
    size = np.minimum(np.abs(found.errors) / found.spread, CLIP)
    sums = [
        np.stack([np.bincount(found.cell[rows], column[rows], minlength=found.cells) for column in size.T], axis=1)
        / np.bincount(found.cell[rows], minlength=found.cells)[:, None]
        for rows in (~found.other, found.other)
    ]
    ratio = np.log(np.maximum(sums[1], 1e-12)) - np.log(np.maximum(sums[0], 1e-12))  # [C, O]
    ratio -= np.median(ratio, axis=1, keepdims=True)
    error = ratio.std(axis=0, ddof=1) / np.sqrt(len(ratio))
    beyond = (ratio.mean(axis=0) - np.log(margin)) / np.maximum(error, 1e-12)
    return np.exp(ratio.mean(axis=0)), stats.t.sf(beyond, len(ratio) - 1)
