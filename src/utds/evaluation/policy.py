"""What a trained policy does in given states, and how far its critics agree there."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from utds.algorithms import Algorithm, Policy
from utds.algorithms.utds import uncertainty
from utds.networks import q_values

BLOCK = 4096  # state-actions that critics judge at once


def act(algorithm: Algorithm, policy: Any, observations: NDArray[np.floating]) -> NDArray[np.float32]:
    """Actions [B, A] at observations [B, O]; compiled once an algorithm and shape."""
    return np.asarray(_act(algorithm, policy, np.asarray(observations, np.float32)))


def gamma(policy: Policy, observations: NDArray[np.floating], actions: NDArray[np.floating]) -> tuple[Any, Any]:
    """The critics' Γ(s, a) [B] and their mean Q(s, a) [B], by blocks that are compiled once."""
    blocks = range(0, len(observations), BLOCK)
    found = [_gamma(policy, observations[i : i + BLOCK], actions[i : i + BLOCK]) for i in blocks]
    return np.concatenate([g for g, _ in found]), np.concatenate([q for _, q in found])


@functools.partial(jax.jit, static_argnums=0)
def _act(algorithm: Algorithm, policy: Any, observations: jax.Array) -> jax.Array:
    return algorithm.act(policy, observations)


@jax.jit
def _gamma(policy: Policy, observations: jax.Array, actions: jax.Array) -> tuple[jax.Array, jax.Array]:
    q = q_values(policy.critic, policy.normalizer(observations), actions)
    return uncertainty(q), jnp.mean(q, axis=0)
