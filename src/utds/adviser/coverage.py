"""How well data is known: Γ_lcb of Corollary 1 in a fixed space of features, where good behaviour goes.

The corollary needs the states of π*, which is unknown before training. Its stand-in is the best behaviour on record:
the best episodes, under the main task's reward, of all datasets at hand. It is the same for every candidate.

The features are random Fourier features of normalised state-actions, φ(x) = √(2/d) cos(Wx/ℓ + b) with Gaussian W and
uniform b, so that φ(x)ᵀφ(y) ≈ exp(−‖x − y‖²/2ℓ²) (Rahimi and Recht, 2007). ‖φ‖ ≈ 1: with λ = 1 the width
Γ_lcb = [φᵀΛ⁻¹φ]^½ is 1 where nothing is known and falls as 1/√n near n samples.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from utds import terminal
from utds.data.columns import spaced
from utds.data.dataset import Dataset
from utds.linear.regression import inverse_root
from utds.networks import Normalizer, divisor

Floats = NDArray[np.float32]
Array = NDArray[np.float64]
Subset = tuple[int, ...]  # candidates, counted from 0; () is the main data alone

GOOD = 0.05  # share of all episodes that count as good behaviour
AT_LEAST = 5  # episodes of good behaviour, where there are as many
RIDGE = 1.0  # λ
WIDTH = 1024  # random features
REACH = 0.5  # their length scale, as a share of the median distance between state-actions
LIMIT = 200_000  # transitions of a dataset that are read for Γ
_QUERIES = 4000  # state-actions of good behaviour at which Γ is measured
_ROWS = 1 << 13  # transitions per pass: features of a pass stay in the cache's neighbourhood
_SCALE_ROWS = 20_000  # transitions of a dataset from which the common scale is taken
_PAIRS = 1000  # state-actions of each dataset whose distances give the length scale


def pairs(dataset: Dataset, index: NDArray[np.int64]) -> Floats:
    """State-actions [n, O + A] of these transitions."""
    return np.concatenate([dataset.observations[dataset.rows[index]], dataset.actions[index]], axis=1)


def normalizer_of(datasets: Sequence[Dataset]) -> Normalizer:
    """Of state-actions, common to these datasets: each counts alike, however large."""
    parts = [pairs(data, spaced(data.size, _SCALE_ROWS)).astype(np.float64) for data in datasets]
    mean = np.mean([part.mean(axis=0) for part in parts], axis=0)
    square = np.mean([((part - mean) ** 2).mean(axis=0) for part in parts], axis=0)
    return Normalizer(mean.astype(np.float32), divisor(np.sqrt(square)).astype(np.float32))


class Features(NamedTuple):
    """The feature map, the same for all datasets that are compared."""

    normalizer: Normalizer
    weight: Floats  # [O + A, d], length scale included
    phase: Floats  # [d]

    def __call__(self, pairs: Floats) -> Floats:
        """φ [n, d] of state-actions [n, O + A]."""
        angles = self.normalizer(pairs) @ self.weight
        angles += self.phase
        np.cos(angles, out=angles)
        angles *= np.float32(np.sqrt(2 / len(self.phase)))
        return angles


def make_features(datasets: Sequence[Dataset], width: int, seed: int, reach: float) -> Features:
    """`width` features for these datasets; `reach` is the length scale ℓ as a share of the median distance."""
    random = np.random.default_rng(seed)
    normalizer = normalizer_of(datasets)
    some = np.concatenate([normalizer(pairs(data, spaced(data.size, _PAIRS))) for data in datasets])
    left, right = random.permutation(len(some)), random.permutation(len(some))
    length = reach * float(np.median(np.linalg.norm(some[left] - some[right], axis=1)))
    weight = random.standard_normal((some.shape[1], width)) / max(length, 1e-6)
    return Features(normalizer, weight.astype(np.float32), random.uniform(0, 2 * np.pi, width).astype(np.float32))


def gram(dataset: Dataset, features: Features, limit: int) -> Array:
    """The Gram matrix Σ φφᵀ [d, d] of a dataset: passes in float32, their sum in float64.

    Of a dataset with more than `limit` transitions as many are read, evenly spaced, and counted for all.
    """
    index = spaced(dataset.size, limit)
    total = np.zeros((len(features.phase),) * 2)
    for start in range(0, len(index), _ROWS):
        phi = features(pairs(dataset, index[start : start + _ROWS]))
        total += phi.T @ phi
    return total * (dataset.size / len(index))


class Width(NamedTuple):
    """Γ_lcb for one Λ, its factor computed once."""

    root: Floats  # [d, d] with rootᵀ·root = Λ⁻¹

    @classmethod
    def of(cls, gram: Array) -> "Width":
        """Λ = Σ φφᵀ + λI."""
        return cls(inverse_root(gram + RIDGE * np.eye(len(gram))).astype(np.float32))

    def __call__(self, phi: Floats) -> Floats:
        """Γ_lcb [n] at features [n, d]."""
        return np.linalg.norm(phi @ self.root.T, axis=1)


def good_behaviour(datasets: Sequence[Dataset], returns: Sequence[Array]) -> Floats:
    """State-actions [n, O + A] of the best episodes of all datasets, given the returns [E] of each dataset's episodes
    under the main task."""
    source = np.repeat(np.arange(len(datasets)), [len(found) for found in returns])
    episode = np.concatenate([np.arange(len(found)) for found in returns])
    joined = np.concatenate(returns)
    count = min(len(joined), max(AT_LEAST, round(GOOD * len(joined))))
    best = np.argsort(-joined, kind="stable")[:count]
    parts = []
    for index in best:
        data = datasets[source[index]]
        first, last = data.starts[episode[index] : episode[index] + 2]
        parts.append(pairs(data, first + spaced(last - first, -(-_QUERIES // count))))
    return np.concatenate(parts)


def any_action(pairs: Floats, action_size: int) -> Floats:
    """The same states, each with an action drawn at random: who knows only the good one can't tell why it is good."""
    found = pairs.copy()
    actions = found[:, -action_size:]
    actions[:] = np.random.default_rng(0).uniform(-1, 1, actions.shape)
    return found


class Coverage:
    """Measures Γ_lcb of the main data, the first, joined with any others, in one space of features."""

    def __init__(
        self,
        datasets: Sequence[Dataset],
        seed: int = 0,
        *,
        width: int = WIDTH,
        reach: float = REACH,
        limit: int = LIMIT,
    ) -> None:
        self.features: Features = make_features(datasets, width, seed, reach)
        self._grams: list[Array] = []
        with terminal.bar("measuring coverage", len(datasets), "datasets") as advance:
            for data in datasets:
                self._grams.append(gram(data, self.features, limit))
                advance(note=data.name)

    def width(self, subset: Subset = ()) -> Width:
        """Γ_lcb of the main data and these candidates."""
        return Width.of(self._grams[0] + sum(self._grams[1 + index] for index in subset))

    def gamma(self, pairs: Floats, subset: Subset = ()) -> float:
        """Its mean at state-actions [n, O + A]."""
        return float(self.width(subset)(self.features(pairs)).mean())
