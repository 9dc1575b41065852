"""AWAC (Nair et al., 2020): TD3's critics, and a policy that regresses the better of the data's actions.

policy  min_π mean w·|π(s) − a|²,   w ∝ exp((min_n Q_n(s, a) − min_n Q_n(s, π(s))) / λ),   mean w = 1
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from utds.algorithms.base import Metrics, Positive
from utds.algorithms.registry import register_algorithm, usual_presets
from utds.algorithms.td3 import TD3, State
from utds.data.pool import Batch
from utds.networks import MLP, deterministic, q_values


@dataclass(frozen=True)
class AWAC(TD3):
    lam: Positive = 1.0  # λ, the advantage that is worth a factor e in weight; in units of the values

    def actor_loss(self, actor: MLP, state: State, batch: Batch) -> tuple[Array, Metrics]:
        """mean w·|π(s) − a|²; w carries no gradient."""
        actions = deterministic(actor, batch.observations)
        weights = self.weights(state, batch, jax.lax.stop_gradient(actions))
        loss = jnp.mean(weights[:, None] * (actions - batch.actions) ** 2)
        return loss, {"actor_loss": loss, "effective_share": 1 / jnp.mean(weights**2)}

    def weights(self, state: State, batch: Batch, actions: Array) -> Array:
        """w [B], normalised over the batch: no advantage is too large for it."""
        value = jnp.min(q_values(state.critic, batch.observations, actions), axis=0)
        advantage = jnp.min(q_values(state.critic, batch.observations, batch.actions), axis=0) - value
        return advantage.size * jax.nn.softmax(advantage / self.lam)


# The best of twelve trials: see docs/results/tuning.md.
FAST = {"layers": 3, "critic_lr": 1e-3, "anneal_steps": "100%", "n_step": 5, "layer_norm": True, "lam": 0.6767}
register_algorithm("awac", AWAC, label="AWAC", presets=usual_presets(FAST), colour="#999933", order=65)
