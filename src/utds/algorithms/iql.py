"""IQL (Kostrikov et al., 2022): no value is ever asked of an action that the data doesn't have.

    value    min_V mean |τ − 1[u < 0]|·u²,   u = min_n Q⁻_n(s, a) − V(s)           an expectile
    critics  Σ_n mean (r + γ·d·V(s') − Q_n(s, a))²
    policy   min_π mean min(exp(β·u), 100)·|π(s) − a|²

With τ = ½ V is the mean over the data's actions, with τ → 1 their best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from utds.algorithms.base import ActorCritic, CriticInputs, Metrics, NonNegative, Spec, interval
from utds.algorithms.registry import register_algorithm, usual_presets
from utds.data.pool import Batch
from utds.networks import MLP, Normalizer, deterministic, init_ensemble, init_mlp, mlp, q_values

WEIGHT_MAX = 100.0  # bound of a transition's weight in the policy's loss


class State(NamedTuple):
    """Everything that training changes, and the normalisation that the policy needs."""

    step: Array  # gradient steps taken
    normalizer: Normalizer
    actor: MLP
    critic: MLP  # [E, …]
    target_critic: MLP  # [E, …]
    value: MLP  # V, one output
    actor_opt_state: Any  # Adam's
    critic_opt_state: Any
    value_opt_state: Any


@dataclass(frozen=True)
class IQL(ActorCritic):
    expectile: Annotated[float, interval("(0, 1)")] = 0.7  # τ, which expectile of the data's action values V is
    beta: NonNegative = 3.0  # β, inverse temperature of the advantages; in units of 1 / values

    def init(self, key: Array, spec: Spec) -> State:
        """Fresh networks; the target critics start as copies."""
        actor_key, critic_key, value_key = jax.random.split(key, 3)
        observation, action = spec.observation_size, spec.action_size
        actor = init_mlp(actor_key, self.layer_sizes(observation, action), self.layer_norm)
        critic = init_ensemble(critic_key, self.num_critics, self.layer_sizes(observation + action, 1), self.layer_norm)
        value = init_mlp(value_key, self.layer_sizes(observation, 1), self.layer_norm)
        return State(
            **self.fresh_state(spec, actor=actor, critic=critic, value=value),
            target_critic=jax.tree.map(jnp.copy, critic),
        )

    def update(self, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        """A step of the value, then of the policy, then of the critics, then the targets' move; nothing is random."""
        batch = state.normalizer.batch(batch)
        q = jnp.min(q_values(state.target_critic, batch.observations, batch.actions), axis=0)  # [B]
        grads, value_metrics = jax.grad(self.value_loss, has_aux=True)(state.value, batch, q)
        state = self.gradient_step(state, "value", grads, self.critic_lr)
        state, actor_metrics = self.actor_step(state, self.actor_loss, state, batch, q)
        state, metrics = self.critic_step(state, self.bellman_loss, self.critic_inputs(state, batch))
        target_critic = optax.incremental_update(state.critic, state.target_critic, self.tau)
        state = state._replace(step=state.step + 1, target_critic=target_critic)
        return state, metrics | value_metrics | actor_metrics | {"own_share": jnp.mean(batch.own)}

    def value_loss(self, value: MLP, batch: Batch, q: Array) -> tuple[Array, Metrics]:
        """mean |τ − 1[u < 0]|·u², u = q − V(s)."""
        v = state_values(value, batch.observations)
        error = q - v
        loss = jnp.mean(jnp.where(error < 0, 1 - self.expectile, self.expectile) * error**2)
        return loss, {"value_loss": loss, "value_mean": jnp.mean(v)}

    def actor_loss(self, actor: MLP, state: State, batch: Batch, q: Array) -> tuple[Array, Metrics]:
        """mean w·|π(s) − a|², also over the action's coordinates; w = min(exp(β·(q − V(s))), 100)."""
        advantage = q - state_values(state.value, batch.observations)
        weights = jnp.minimum(jnp.exp(self.beta * advantage), WEIGHT_MAX)
        loss = jnp.mean(weights[:, None] * (deterministic(actor, batch.observations) - batch.actions) ** 2)
        return loss, {"actor_loss": loss, "advantage_mean": jnp.mean(advantage), "weight_max": jnp.max(weights)}

    def critic_inputs(self, state: State, batch: Batch) -> CriticInputs:
        """What the critic's loss reads, without gradient: y = r + γ·d·V(s')  [B]."""
        return self.bellman_inputs(batch, state_values(state.value, batch.next_observations))


def state_values(value: MLP, observations: Array) -> Array:
    """V(s): [B, O] -> [B]."""
    return mlp(value, observations)[..., 0]


# The best of twelve trials: docs/results/tuning.md.
FAST = {
    "layer_norm": True,
    "n_step": 5,
    "actor_lr": 1e-3,
    "critic_lr": 1e-3,
    "anneal_steps": "100%",
    "expectile": 0.705,
    "beta": 7.592,
}
register_algorithm("iql", IQL, label="IQL", presets=usual_presets(FAST), colour="#332288", order=51)
