"""ReBRAC (Tarasov et al., 2023): TD3 that is penalised for leaving the data in the policy's loss and in the target.

    y       = r + γ·d·(min_n Q⁻_n(s', a') − β2·|a' − a'_data|²)                  a' = smoothed π⁻(s')
    policy  min_π mean β1·|π(s) − a|² − λ·min_n Q_n(s, π(s)),                    λ = 1 / mean |min_n Q_n(s, π(s))|

a'_data is the data's action at s'. Where an episode stops there is none, and no penalty. Only critics have layer norm.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from utds.algorithms.base import Metrics, NonNegative
from utds.algorithms.registry import register_algorithm, usual_presets
from utds.algorithms.td3 import TD3, State
from utds.data.pool import Batch, Pool
from utds.errors import ConfigError
from utds.networks import MLP, deterministic, q_values


@dataclass(frozen=True)
class ReBRAC(TD3):
    layers: int = 3  # hidden layers
    layer_norm: bool = True  # normalise the critics' hidden layers before their ReLU
    actor_layer_norm: bool = False  # normalise the policy's hidden layers too
    batch_size: int = 1024  # transitions per gradient step
    actor_lr: float = 1e-3  # Adam's learning rate of the policy
    critic_lr: float = 1e-3  # Adam's learning rate of the critics
    actor_bc: NonNegative = 0.05  # β1, weight of the squared distance to the data's action in the policy's loss
    critic_bc: NonNegative = 0.01  # β2, weight of that distance at the next state in the critics' target

    def norm_actor(self) -> bool:
        """Whether the policy's hidden layers are normalised."""
        return self.actor_layer_norm

    def draw(self, state: State, pool: Pool, key: Array) -> Batch:
        """Uniform over the pooled transitions, each with the data's next action."""
        return pool.sample(key, self.batch_size, self.n_step, self.discount, next_actions=True)

    def next_values(self, state: State, batch: Batch, actions: Array) -> Array:
        """min_n Q⁻_n(s', a') − β2·|a' − a'_data|²  [B]."""
        return super().next_values(state, batch, actions) - self.critic_bc * next_distance(actions, batch)

    def actor_loss(self, actor: MLP, state: State, batch: Batch) -> tuple[Array, Metrics]:
        """β1·mean |π(s) − a|² − λ·mean min_n Q_n(s, π(s)); λ carries no gradient."""
        actions = deterministic(actor, batch.observations)
        q = jnp.min(q_values(state.critic, batch.observations, actions), axis=0)
        scale = 1 / jnp.maximum(jax.lax.stop_gradient(jnp.mean(jnp.abs(q))), 1e-6)
        distance = jnp.mean(squared_distance(actions, batch.actions))
        loss = self.actor_bc * distance - scale * jnp.mean(q)
        return loss, {"actor_loss": loss, "behaviour_distance": distance}


def squared_distance(actions: Array, others: Array) -> Array:
    """|a − b|²: [B, A], [B, A] -> [B]."""
    return jnp.sum((actions - others) ** 2, axis=-1)


def next_distance(actions: Array, batch: Batch) -> Array:
    """Squared distance [B] of actions at the next states to the data's, 0 where the data has none."""
    if batch.next_actions is None or batch.continues is None:
        raise ConfigError("rebrac needs the data's next actions; sample with next_actions=True")
    return batch.continues * squared_distance(actions, batch.next_actions)


# Smaller than the paper's, and the best of twelve trials: docs/results/tuning.md.
FAST = {
    "batch_size": 256,
    "n_step": 3,
    "tau": 0.01,
    "anneal_steps": "100%",
    "actor_bc": 0.04095,
    "critic_bc": 0.03765,
}
register_algorithm("rebrac", ReBRAC, label="ReBRAC", presets=usual_presets(FAST), colour="#44aa99", order=52)
