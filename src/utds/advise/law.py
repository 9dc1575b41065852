"""A robot's law of motion near a transition, and how much another transition surprises it.

A model of Δs = f(s, a) fails where feet touch the ground: a contact force appears within a millimetre. But the force
acts on many parts of the state at once, so the *other parts of Δs* tell it: given them, each part follows a law that is
smooth, and linear within a neighbourhood. For each transition in question we take the nearest state-actions of the
reference data, fit

    Δs_part ≈ b + B (s, a) + C Δs_other-parts        (weights fall with distance)

and ask how far the transition itself is off, in standard deviations of a prediction:

    surprise = error / (σ √(1 + h)),     h = [(XᵀWX)⁻¹]₀₀, the leverage of the transition itself

A transition far from all reference data has a large h and can't surprise: that is what tells another distribution of
states from other dynamics.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

PARTS = 4  # into which Δs is split; every fourth feature belongs to the same part
RIDGE = 1e-3  # of the local fits, beside unit variances
FLOOR = 0.01  # least σ, in deviations of Δs: below it numbers are rounding
_BLOCK = 200  # transitions fitted at once


class Motion(NamedTuple):
    """Transitions, in units of the reference data's deviations."""

    pairs: Floats  # [n, X] state-actions
    changes: Floats  # [n, O] Δs
    episode: NDArray[np.int64]  # [n]

    def take(self, rows: NDArray[np.int64] | slice) -> "Motion":
        return Motion(self.pairs[rows], self.changes[rows], self.episode[rows])


class Surprise(NamedTuple):
    """How far transitions are off the local law."""

    score: Floats  # [n, O] signed, in standard deviations of a prediction
    leverage: Floats  # [n, O]: h; about k⁻¹ · regressors amid data, large far from it
    spread: Floats  # [n, O]: the standard deviation of a prediction, σ √(1 + h), in deviations of Δs


def surprise(reference: Motion, asked: Motion, neighbours: int, same: bool) -> Surprise:
    """The surprise of each transition asked about; with `same` data, its own episode is no neighbour."""
    squares = (reference.pairs**2).sum(axis=1)
    score = np.empty_like(asked.changes)
    leverage, spread = np.empty_like(score), np.empty_like(score)
    for start in range(0, len(asked.pairs), _BLOCK):
        rows = slice(start, start + _BLOCK)
        block = asked.take(rows)
        distance = squares - 2 * block.pairs @ reference.pairs.T + (block.pairs**2).sum(axis=1)[:, None]
        if same:
            distance[block.episode[:, None] == reference.episode] = np.inf
        near = np.argpartition(distance, neighbours, axis=1)[:, :neighbours]
        near_by = np.take_along_axis(distance, near, axis=1)
        score[rows], leverage[rows], spread[rows] = _fit(reference, block, near, near_by)
    return Surprise(score, leverage, spread)


def _fit(reference: Motion, asked: Motion, near: NDArray[np.int64], distance: Floats) -> Surprise:
    """Local fits [b] on neighbours [b, k] at squared distances [b, k].

    Everything is centred at the transition asked about, so that its prediction is the intercept.
    """
    reach = 1.01 * np.maximum(distance.max(axis=1, keepdims=True), 1e-12)
    root = np.sqrt(np.maximum(1 - np.maximum(distance, 0) / reach, 1e-3)).astype(np.float32)  # of the weights
    columns = np.concatenate(
        [
            np.ones((*near.shape, 1), np.float32),
            reference.pairs[near] - asked.pairs[:, None],
            reference.changes[near] - asked.changes[:, None],
        ],
        axis=2,
    )
    columns *= root[..., None]
    gram = np.matmul(columns.transpose(0, 2, 1), columns).astype(np.float64)  # [b, 1 + X + O, 1 + X + O]
    weight = (root**2).sum(axis=1)[:, None]
    width, size = asked.changes.shape[1], 1 + asked.pairs.shape[1]
    score, leverage, spread = (np.empty_like(asked.changes) for _ in range(3))
    for part in range(min(PARTS, width)):
        own = np.arange(part, width, PARTS)
        kept = np.concatenate([np.arange(size), size + np.setdiff1d(np.arange(width), own)])
        error, deviation, leverage[:, own] = _solve(gram, weight, kept, size + own, near.shape[1])
        spread[:, own] = np.maximum(deviation, FLOOR) * np.sqrt(1 + leverage[:, own])
        score[:, own] = error / spread[:, own]
    return Surprise(score, leverage, spread)


def _solve(
    gram: NDArray[np.float64], weight: Floats, kept: NDArray[np.int64], own: NDArray[np.int64], neighbours: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Errors at the transition itself [b, o], deviations of the fits [b, o] and leverages [b, 1] of one part."""
    inner = gram[:, kept[:, None], kept]
    right = gram[:, kept[:, None], own]
    count = len(kept)
    ridged = inner.copy()
    diagonal = np.arange(1, count)
    ridged[:, diagonal, diagonal] += RIDGE * weight
    unit = np.zeros((len(gram), count, 1))
    unit[:, 0] = 1
    solved = np.linalg.solve(ridged, np.concatenate([right, unit], axis=2))
    slopes, leverage = solved[:, :, :-1], solved[:, 0, -1:]
    squared = gram[:, own, own] - 2 * (slopes * right).sum(axis=1) + (slopes * (inner @ slopes)).sum(axis=1)
    freedom = weight * max(1 - count / neighbours, 0.1)
    return -slopes[:, 0], np.sqrt(np.maximum(squared, 0) / freedom), leverage
