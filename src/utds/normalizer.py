"""Features brought to mean 0 and standard deviation 1, of NumPy and of JAX arrays alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from utds.data.pool import Batch

MIN_STD = 1e-6  # standard deviation below which a feature counts as constant


def divisor(std: Any) -> Any:
    """What to divide by: `std` [O], and 1 where a feature is constant, which is centred and left unscaled."""
    return (jnp if isinstance(std, jax.Array) else np).where(std < MIN_STD, 1.0, std)


class Normalizer(NamedTuple):
    """The normalisation of observations. As part of a policy's state it lets the policy stand alone."""

    mean: Any  # [O]
    std: Any  # [O]; 1 where a feature is constant

    @staticmethod
    def of(mean: Any, std: Any) -> Normalizer:
        """From statistics [O] as they were measured, constant features included."""
        return Normalizer(mean, divisor(std))

    @staticmethod
    def fit(rows: np.ndarray) -> Normalizer:
        """From the rows [n, O] themselves."""
        return Normalizer.of(rows.mean(axis=0), rows.std(axis=0))

    def __call__(self, observations: Any) -> Any:
        """[B, O] -> [B, O]."""
        return (observations - self.mean) / self.std

    def batch(self, batch: Batch) -> Batch:
        """The batch with both observations normalised."""
        return batch._replace(observations=self(batch.observations), next_observations=self(batch.next_observations))
