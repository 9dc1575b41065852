"""The fixed space in which the adviser measures uncertainty: random Fourier features of normalised state-actions.

φ(x) = √(2/d) cos(Wx/ℓ + b) with Gaussian W and uniform b, so that φ(x)ᵀφ(y) ≈ exp(−‖x − y‖²/2ℓ²) (Rahimi and Recht,
2007). ‖φ‖ ≈ 1: with λ = 1 the width Γ_lcb = [φᵀΛ⁻¹φ]^½ is 1 where nothing is known and falls as 1/√n near n samples.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from utds.advise.transitions import Floats, Scale, pairs, scale_of, spaced
from utds.data.dataset import Dataset
from utds.linear.regression import inverse_root

Array = NDArray[np.float64]

RIDGE = 1.0  # λ
_ROWS = 1 << 13  # transitions a pass: features of a pass stay in the cache's neighbourhood
_PAIRS = 1000  # state-actions of each dataset whose distances give the length scale


class Features(NamedTuple):
    """The feature map, the same for all datasets that are compared."""

    scale: Scale
    weight: Floats  # [O + A, d], length scale included
    phase: Floats  # [d]

    def __call__(self, pairs: Floats) -> Floats:
        """φ [n, d] of state-actions [n, O + A]."""
        angles = self.scale(pairs) @ self.weight
        angles += self.phase
        np.cos(angles, out=angles)
        angles *= np.float32(np.sqrt(2 / len(self.phase)))
        return angles


def make(datasets: Sequence[Dataset], width: int, seed: int, reach: float) -> Features:
    """`width` features for these datasets; `reach` is the length scale ℓ as a share of the median distance."""
    random = np.random.default_rng(seed)
    scale = scale_of(datasets)
    some = np.concatenate([scale(pairs(data, spaced(data.size, _PAIRS))) for data in datasets])
    left, right = random.permutation(len(some)), random.permutation(len(some))
    length = reach * float(np.median(np.linalg.norm(some[left] - some[right], axis=1)))
    weight = random.standard_normal((some.shape[1], width)) / max(length, 1e-6)
    return Features(scale, weight.astype(np.float32), random.uniform(0, 2 * np.pi, width).astype(np.float32))


def moments(dataset: Dataset, features: Features, limit: int) -> Array:
    """Σ φφᵀ [d, d] over a dataset: passes in float32, their sum in float64.

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
    def of(cls, moments: Array) -> "Width":
        """Λ = Σ φφᵀ + λI."""
        return cls(inverse_root(moments + RIDGE * np.eye(len(moments))).astype(np.float32))

    def __call__(self, phi: Floats) -> Floats:
        """Γ_lcb [n] at features [n, d]."""
        return np.linalg.norm(phi @ self.root.T, axis=1)

    def left_out(self, phi: Floats) -> Floats:
        """Γ_lcb [n] at features that are themselves in Λ, as it would be without them: γ²/(1 − γ²), by Sherman and
        Morrison."""
        square = self(phi) ** 2
        return np.sqrt(square / np.maximum(1 - square, 1e-6))
