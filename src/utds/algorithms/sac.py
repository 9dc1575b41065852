"""Soft actor-critic (Haarnoja et al., 2018): a stochastic policy that is paid for its entropy.

    y        = r + γ·d·(min_n Q⁻_n(s', a') − α·log π(a'|s'))                     a' ~ π(s')
    critics  Σ_n mean (y − Q_n(s, a))²
    policy   min_π mean (α·log π(a|s) − min_n Q_n(s, a))                         a ~ π(s)

CQL, SAC-N and EDAC are this file with another loss or more critics. Alone it has nothing that holds it in the data, so
it isn't offered as an offline algorithm of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from utds.algorithms import base
from utds.algorithms.base import ActorCritic, CriticInputs, Metrics, Spec
from utds.data.pool import Batch
from utds.networks import MLP, Layer, Normalizer, gaussian, init_ensemble, init_mlp, q_values, squash

Kinds = tuple[type[Layer], ...]


class State(NamedTuple):
    """Everything that training changes, and the normalisation that the policy needs."""

    step: Array  # gradient steps taken
    normalizer: Normalizer
    actor: MLP  # mean and log standard deviation: 2A outputs
    critic: MLP  # [E, …]
    target_critic: MLP  # [E, …]
    log_temperature: Array  # log α of the entropy term
    actor_opt_state: Any  # Adam's
    critic_opt_state: Any
    temperature_opt_state: Any


@dataclass(frozen=True)
class SAC(ActorCritic):
    layers: int = 3  # hidden layers
    target_entropy: float | None = None  # of the policy, in nats; none: −A
    backup_entropy: bool = True  # count the entropy at the next state in the critics' target

    def init(self, key: Array, spec: Spec) -> State:
        """Fresh networks; the target critics start as copies, the temperature at 1."""
        actor_key, critic_key = jax.random.split(key)
        norms, actor_kinds, critic_kinds = self.hidden_layers()
        actor_sizes = self.layer_sizes(spec.observation_size, 2 * spec.action_size)
        actor = init_mlp(actor_key, actor_sizes, norms, actor_kinds)
        critic_sizes = self.layer_sizes(spec.observation_size + spec.action_size, 1)
        critic = init_ensemble(critic_key, self.num_critics, critic_sizes, norms, critic_kinds)
        return State(
            **self.fresh_state(spec, actor=actor, critic=critic),
            target_critic=jax.tree.map(jnp.copy, critic),
            log_temperature=jnp.zeros(()),
            temperature_opt_state=base.adam_init(jnp.zeros(())),
        )

    def hidden_layers(self) -> tuple[bool | tuple[bool, ...], Kinds | None, Kinds | None]:
        """Which of them are normalised, and their classes in the policy and in the critics, as `init_mlp` has them."""
        return self.layer_norm, None, None

    def act(self, state: State, observations: Array) -> Array:
        """The policy's mode before the tanh: [B, O] -> [B, A]."""
        return jnp.tanh(gaussian(state.actor, state.normalizer(observations))[0])

    def update(self, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        """One step of the critics, then of the policy and its temperature, then the targets' move."""
        inputs_key, actor_key = jax.random.split(key)
        batch = state.normalizer.batch(batch)
        state, metrics = self.critic_step(state, self.critic_loss, self.critic_inputs(state, batch, inputs_key))
        state, actor_metrics = self.policy_step(state, batch, actor_key)
        target_critic = optax.incremental_update(state.critic, state.target_critic, self.tau)
        state = state._replace(step=state.step + 1, target_critic=target_critic)
        return state, metrics | actor_metrics | {"own_share": jnp.mean(batch.own)}

    def critic_inputs(self, state: State, batch: Batch, key: Array) -> CriticInputs:
        """What the critic's loss reads, without gradient."""
        noise = jax.random.normal(key, batch.actions.shape)
        there = gaussian(state.actor, batch.next_observations)
        return self.bellman_inputs(batch, self.next_values(state, batch, there, noise))

    def next_values(self, state: State, batch: Batch, there: tuple[Array, Array], noise: Array) -> Array:
        """V(s') [B], from the policy's Gaussian there and standard normal noise [B, A]."""
        actions, log_density = squash(*there, noise)
        values = jnp.min(q_values(state.target_critic, batch.next_observations, actions), axis=0)
        if self.backup_entropy:
            values -= jnp.exp(state.log_temperature) * log_density
        return values

    def critic_loss(self, critic: MLP, inputs: CriticInputs) -> tuple[Array, Metrics]:
        """Σ_n mean (Q_n(s, a) − y)²."""
        return self.bellman_loss(critic, inputs, "bellman_loss")

    def policy_step(self, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        """One step of the policy and of the entropy's temperature."""
        noise = jax.random.normal(key, batch.actions.shape)
        state, metrics = self.actor_step(state, self.actor_loss, state, batch, noise)
        lr = base.annealed_lr(self.actor_lr, state.step, self.anneal_steps)
        target = -batch.actions.shape[1] if self.target_entropy is None else self.target_entropy
        slope = metrics["entropy"] - target  # of α's loss in log α: too much entropy lowers α
        metrics["temperature"] = jnp.exp(state.log_temperature)
        log_temperature, opt_state = base.adam_step(slope, state.log_temperature, state.temperature_opt_state, lr)
        return state._replace(log_temperature=log_temperature, temperature_opt_state=opt_state), metrics

    def actor_loss(self, actor: MLP, state: State, batch: Batch, noise: Array) -> tuple[Array, Metrics]:
        """mean (α·log π(a|s) − min_n Q_n(s, a)), a ~ π(s)."""
        actions, log_density = squash(*gaussian(actor, batch.observations), noise)
        q = jnp.min(q_values(state.critic, batch.observations, actions), axis=0)
        loss = jnp.mean(jnp.exp(state.log_temperature) * log_density - q)
        return loss, {"actor_loss": loss, "entropy": -jnp.mean(log_density)}
