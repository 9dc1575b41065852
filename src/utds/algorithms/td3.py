"""TD3 (Fujimoto et al., 2018): twin critics, smoothed targets, a policy that moves every second step.

Online it collects the datasets; offline, with no pessimism at all, it is the control that shows why pessimism is
needed. TD3+BC and UTDS are this file with another loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from utds.algorithms.base import ActorCritic, Count, CriticInputs, Metrics, NonNegative, Spec, at_least, at_most
from utds.algorithms.registry import register_algorithm
from utds.data.pool import Batch
from utds.networks import MLP, Normalizer, deterministic, init_ensemble, init_mlp, mlp, q_values

Floor = float | Literal["auto"] | None


class State(NamedTuple):
    """Everything that training changes, and the normalisation that the policy needs."""

    step: Array  # gradient steps taken
    normalizer: Normalizer
    actor: MLP
    critic: MLP  # [E, …]
    target_actor: MLP
    target_critic: MLP  # [E, …]
    actor_opt_state: Any  # Adam's
    critic_opt_state: Any
    worst_value: Array  # min(r_min, 0)/(1 − γ): no policy is worth less


@dataclass(frozen=True)
class TD3(ActorCritic):
    actor_width: Annotated[int, at_least(0), at_most(100_000)] = 0  # units of a layer of the policy; 0: as the critics
    smoothing: NonNegative = 0.2  # standard deviation of the noise on target actions
    smoothing_clip: NonNegative = 0.5  # bound of that noise
    pretanh_l2: NonNegative = 0.0  # weight of the squared outputs before the policy's tanh, which is flat at large ones
    policy_delay: Count = 2  # critic steps per policy step, which comes with the first, third, … of them
    target_delay: Count = 2  # critic steps per move of the target networks
    floor: Floor = None  # least value of a Bellman target: a number, none, or "auto" for min(r_min, 0)/(1 − γ)

    def init(self, key: Array, spec: Spec) -> State:
        """Fresh networks; the targets start as copies."""
        actor_key, critic_key = jax.random.split(key)
        sizes = self.layer_sizes(spec.observation_size, spec.action_size, self.actor_width)
        actor = init_mlp(actor_key, sizes, self.norm_actor())
        critic = self.init_critic(critic_key, spec)
        return State(
            **self.fresh_state(spec, actor=actor, critic=critic),
            target_actor=jax.tree.map(jnp.copy, actor),  # copies, so that buffers can be donated
            target_critic=jax.tree.map(jnp.copy, critic),
            worst_value=jnp.asarray(jnp.minimum(spec.reward_min, 0.0) / (1 - self.discount), jnp.float32),
        )

    def init_critic(self, key: Array, spec: Spec) -> MLP:
        """Fresh critics."""
        sizes = self.layer_sizes(spec.observation_size + spec.action_size, 1)
        return init_ensemble(key, self.num_critics, sizes, self.layer_norm)

    def norm_actor(self) -> bool:
        """Whether the policy's hidden layers are normalised: as the critics', if a subclass doesn't say otherwise."""
        return self.layer_norm

    def update(self, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        """One critic step and, at their own pace, a policy step and a move of the target networks."""
        batch = state.normalizer.batch(batch)
        inputs = self.critic_inputs(state, batch, key)
        state, metrics = self.critic_step(state, partial(self.critic_loss, state=state), inputs)
        state, actor_metrics = self.delayed_policy_step(state._replace(step=state.step + 1), batch)
        state = self.move_targets(state)
        return state, metrics | actor_metrics | {"own_share": jnp.mean(batch.own)}

    def target_actions(self, state: State, next_observations: Array, noise: Array) -> Array:
        """π⁻(s') with clipped noise: [B, O], standard normal [B, A] -> [B, A]."""
        noise = jnp.clip(self.smoothing * noise, -self.smoothing_clip, self.smoothing_clip)
        return jnp.clip(deterministic(state.target_actor, next_observations) + noise, -1, 1)

    def critic_inputs(self, state: State, batch: Batch, key: Array) -> CriticInputs:
        """What the critic's loss reads, without gradient; y [B] is no smaller than the floor."""
        noise = jax.random.normal(key, batch.actions.shape)
        actions = self.target_actions(state, batch.next_observations, noise)
        inputs = self.bellman_inputs(batch, self.next_values(state, batch, actions))
        return inputs | {"targets": floored(inputs["targets"], self.floor, state)}

    def next_values(self, state: State, batch: Batch, actions: Array) -> Array:
        """min_n Q⁻_n(s', a')  [B]."""
        return jnp.min(q_values(state.target_critic, batch.next_observations, actions), axis=0)

    def critic_loss(self, critic: MLP, inputs: CriticInputs, state: State) -> tuple[Array, Metrics]:
        """Σ_n mean (Q_n(s, a) − y)²."""
        return self.bellman_loss(critic, inputs)

    def actor_loss(self, actor: MLP, state: State, batch: Batch) -> tuple[Array, Metrics]:
        """−mean Q_1(s, π(s))."""
        loss = -jnp.mean(first_q(state.critic, batch.observations, deterministic(actor, batch.observations)))
        return loss, {"actor_loss": loss}

    def policy_loss(self, actor: MLP, state: State, batch: Batch) -> tuple[Array, Metrics]:
        """The algorithm's own loss, and what keeps the policy where it can still turn round."""
        loss, metrics = self.actor_loss(actor, state, batch)
        if self.pretanh_l2:
            loss += self.pretanh_l2 * jnp.mean(mlp(actor, batch.observations) ** 2)
        return loss, metrics

    def policy_step(self, state: State, batch: Batch) -> tuple[State, Metrics]:
        """One ascent of the policy."""
        return self.actor_step(state, self.policy_loss, state, batch)

    def delayed_policy_step(self, state: State, batch: Batch) -> tuple[State, Metrics]:
        """`policy_step` at the first of every `policy_delay` critic steps.

        Its metrics are scaled by the delay when it happens and 0 when not: their mean over steps is that over policy
        steps. Of those named `…_max` the largest over steps counts: they stay as they are.
        """
        if self.policy_delay == 1:
            return self.policy_step(state, batch)

        def step(state: State) -> tuple[State, Metrics]:
            state, metrics = self.policy_step(state, batch)
            return state, {
                name: value if name.endswith("_max") else jax.tree.map(lambda part: part * self.policy_delay, value)
                for name, value in metrics.items()
            }

        def skip(state: State) -> tuple[State, Metrics]:
            shapes = jax.eval_shape(self.policy_step, state, batch)[1]
            return state, jax.tree.map(lambda value: jnp.zeros(value.shape, value.dtype), shapes)

        return jax.lax.cond((state.step - 1) % self.policy_delay == 0, step, skip, state)

    def move_targets(self, state: State) -> State:
        """Both target networks τ of the way to the online ones, at the first of every `target_delay` critic steps."""

        def move(state: State) -> State:
            return state._replace(
                target_actor=optax.incremental_update(state.actor, state.target_actor, self.tau),
                target_critic=optax.incremental_update(state.critic, state.target_critic, self.tau),
            )

        if self.target_delay == 1:
            return move(state)
        return jax.lax.cond((state.step - 1) % self.target_delay == 0, move, lambda state: state, state)


def first_q(critic: MLP, observations: Array, actions: Array) -> Array:
    """Q_1(s, a): [B, O], [B, A] -> [1, B]."""
    return q_values(jax.tree.map(lambda x: x[:1], critic), observations, actions)


def floored(values: Array, floor: Floor, state: State) -> Array:
    """Values no smaller than the floor, if there is one."""
    if floor is None:
        return values
    return jnp.maximum(values, state.worst_value if floor == "auto" else floor)


register_algorithm("td3", TD3, label="TD3", colour="#999999", order=90)
