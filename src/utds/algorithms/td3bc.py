"""TD3+BC (Fujimoto and Gu, 2021): TD3 whose policy is also drawn to the data's actions.

policy  max_π mean λ·Q_1(s, π(s)) − |π(s) − a|²,   λ = α / mean |Q_1(s, π(s))|
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from utds.algorithms.base import Metrics, NonNegative
from utds.algorithms.registry import register_algorithm, usual_presets
from utds.algorithms.td3 import TD3, State, first_q
from utds.data.pool import Batch
from utds.networks import MLP, deterministic


@dataclass(frozen=True)
class TD3BC(TD3):
    alpha: NonNegative = 2.5  # α, weight of the critic against the cloning term

    def actor_loss(self, actor: MLP, state: State, batch: Batch) -> tuple[Array, Metrics]:
        """−λ·mean Q_1(s, π(s)) + mean |π(s) − a|²; λ carries no gradient."""
        actions = deterministic(actor, batch.observations)
        q = first_q(state.critic, batch.observations, actions)
        scale = self.alpha / jnp.maximum(jax.lax.stop_gradient(jnp.mean(jnp.abs(q))), 1e-6)
        cloning_loss = jnp.mean((actions - batch.actions) ** 2)
        loss = cloning_loss - scale * jnp.mean(q)
        return loss, {"actor_loss": loss, "cloning_loss": cloning_loss}


# The best of twelve trials: docs/results/tuning.md.
FAST = {
    "layers": 3,
    "layer_norm": True,
    "n_step": 5,
    "tau": 0.01,
    "actor_lr": 1e-3,
    "critic_lr": 1e-3,
    "anneal_steps": "100%",
    "alpha": 5.764,
}
register_algorithm("td3bc", TD3BC, label="TD3+BC", presets=usual_presets(FAST), colour="#cc79a7", order=60)
