"""TD3 (Fujimoto et al., 2018): twin critics, smoothed targets, a policy that moves every second step.

Online it collects the datasets; offline, with no pessimism at all, it is the control that shows why pessimism is
needed. TD3+BC and UTDS are this file with another loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from utds.algorithms import base
from utds.algorithms.base import Metrics, Normal, Spec
from utds.algorithms.networks import MLP, deterministic, init_ensemble, init_mlp, mlp, q_values

if TYPE_CHECKING:
    from utds.data.pool import Batch, Pool

Floor = float | Literal["auto"] | None
Rows = dict[str, Array]  # every array [B, …], so that a batch can be cut into microbatches


class State(NamedTuple):
    """Everything that training changes, and the normalisation that the policy needs."""

    step: Array  # gradient steps taken
    normal: Normal
    actor: MLP
    critic: MLP  # [E, …]
    target_actor: MLP
    target_critic: MLP  # [E, …]
    actor_moments: Any  # Adam's
    critic_moments: Any
    worst_value: Array  # min(r_min, 0)/(1 − γ): no policy is worth less


@dataclass(frozen=True)
class TD3:
    members: int = 2  # critics in the ensemble, E
    width: int = 256  # units of a hidden layer
    layers: int = 2  # hidden layers
    layer_norm: bool = False  # normalise hidden layers before their ReLU
    normalise: bool = True  # scale observations by the data's mean and standard deviation
    batch: int = 256  # transitions a gradient step
    microbatch: int = 256  # transitions whose gradient is computed at once; changes speed, not results
    discount: float = 0.99  # γ
    tau: float = 5e-3  # share of the online network mixed into the target network at each move
    actor_rate: float = 3e-4  # Adam's learning rate of the policy
    critic_rate: float = 3e-4  # Adam's learning rate of the critics
    anneal_steps: int | None = None  # steps over which the learning rates fall linearly to nothing; none: constant
    smoothing: float = 0.2  # standard deviation of the noise on target actions
    smoothing_clip: float = 0.5  # bound of that noise
    saturation: float = 0.0  # weight of the squared outputs before the policy's tanh, which has no slope at large ones
    policy_delay: int = 2  # critic steps a policy step; the target networks move with the policy
    floor: Floor = None  # least value of a Bellman target: a number, none, or "auto" for min(r_min, 0)/(1 − γ)

    def __post_init__(self) -> None:
        base.check(self)

    def init(self, key: Array, spec: Spec) -> State:
        """Fresh networks; the targets start as copies."""
        actor_key, critic_key = jax.random.split(key)
        hidden = (self.width,) * self.layers
        actor = init_mlp(actor_key, (spec.observation_size, *hidden, spec.action_size), self.layer_norm)
        inputs = spec.observation_size + spec.action_size
        critic = init_ensemble(critic_key, self.members, (inputs, *hidden, 1), self.layer_norm)
        return State(
            step=jnp.zeros((), jnp.int32),
            normal=Normal.of(spec, self.normalise),
            actor=actor,
            critic=critic,
            target_actor=jax.tree.map(jnp.copy, actor),  # copies, so that buffers can be donated
            target_critic=jax.tree.map(jnp.copy, critic),
            actor_moments=base.start(actor, self.actor_rate),
            critic_moments=base.start(critic, self.critic_rate),
            worst_value=jnp.asarray(jnp.minimum(spec.reward_min, 0.0) / (1 - self.discount), jnp.float32),
        )

    def draw(self, state: State, pool: Pool, key: Array) -> Batch:
        """Uniform over the pooled transitions."""
        return pool.sample(key, self.batch)

    def act(self, state: State, observations: Array) -> Array:
        """The policy without noise: [B, O] -> [B, A]."""
        return deterministic(state.actor, state.normal(observations))

    def update(self, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        """One critic step and, every `policy_delay`-th time, a policy step and a move of the targets."""
        batch = state.normal.batch(batch)
        rows = self.critic_rows(state, batch, key)
        loss = partial(self.critic_loss, state=state)
        grads, metrics = base.gradient(loss, state.critic, rows, self.microbatch)
        rate = base.annealed(self.critic_rate, state.step, self.anneal_steps)
        critic, moments = base.descend(grads, state.critic, state.critic_moments, rate)
        state = state._replace(step=state.step + 1, critic=critic, critic_moments=moments)
        state, actor_metrics = self.delayed_policy_step(state, batch)
        return state, metrics | actor_metrics | {"own_share": jnp.mean(batch.own)}

    def target_actions(self, state: State, next_observations: Array, noise: Array) -> Array:
        """π⁻(s') with clipped noise: [B, O], standard normal [B, A] -> [B, A]."""
        noise = jnp.clip(self.smoothing * noise, -self.smoothing_clip, self.smoothing_clip)
        return jnp.clip(deterministic(state.target_actor, next_observations) + noise, -1, 1)

    def critic_rows(self, state: State, batch: Batch, key: Array) -> Rows:
        """What the critic's loss reads, without gradient: y = r + γ·d·min_n Q⁻_n(s', a')  [B]."""
        noise = jax.random.normal(key, batch.actions.shape)
        actions = self.target_actions(state, batch.next_observations, noise)
        values = jnp.min(q_values(state.target_critic, batch.next_observations, actions), axis=0)
        targets = batch.rewards + self.discount * (1 - batch.terminations) * values
        targets = floored(targets, self.floor, state)
        return {"observations": batch.observations, "actions": batch.actions, "targets": targets}

    def critic_loss(self, critic: MLP, rows: Rows, state: State) -> tuple[Array, Metrics]:
        """Σ_n mean (Q_n(s, a) − y)²; its metric is the mean over the members."""
        q = q_values(critic, rows["observations"], rows["actions"])  # [E, B]
        loss = jnp.mean((q - rows["targets"]) ** 2)
        return self.members * loss, {
            "critic_loss": loss,
            "q_mean": jnp.mean(q),
            "q_abs_max": jnp.max(jnp.abs(q)),
            "target_mean": jnp.mean(rows["targets"]),
        }

    def actor_loss(self, actor: MLP, state: State, batch: Batch) -> tuple[Array, Metrics]:
        """−mean Q_1(s, π(s))."""
        first = jax.tree.map(lambda x: x[:1], state.critic)
        loss = -jnp.mean(q_values(first, batch.observations, deterministic(actor, batch.observations)))
        return loss, {"actor_loss": loss}

    def policy_loss(self, actor: MLP, state: State, batch: Batch) -> tuple[Array, Metrics]:
        """The algorithm's own loss, and what keeps the policy where it can still turn round."""
        loss, metrics = self.actor_loss(actor, state, batch)
        if self.saturation:
            loss += self.saturation * jnp.mean(mlp(actor, batch.observations) ** 2)
        return loss, metrics

    def policy_step(self, state: State, batch: Batch) -> tuple[State, Metrics]:
        """One ascent of the policy, then the targets' move."""
        grads, metrics = jax.grad(self.policy_loss, has_aux=True)(state.actor, state, batch)
        rate = base.annealed(self.actor_rate, state.step, self.anneal_steps)
        actor, moments = base.descend(grads, state.actor, state.actor_moments, rate)
        return state._replace(
            actor=actor,
            actor_moments=moments,
            target_actor=base.polyak(state.target_actor, actor, self.tau),
            target_critic=base.polyak(state.target_critic, state.critic, self.tau),
        ), metrics

    def delayed_policy_step(self, state: State, batch: Batch) -> tuple[State, Metrics]:
        """`policy_step` at every `policy_delay`-th step.

        Its metrics are scaled by the delay when it happens and 0 when not: their mean over steps is that over policy
        steps.
        """
        if self.policy_delay == 1:
            return self.policy_step(state, batch)

        def step(state: State) -> tuple[State, Metrics]:
            state, metrics = self.policy_step(state, batch)
            return state, {k: v * self.policy_delay for k, v in metrics.items()}

        def skip(state: State) -> tuple[State, Metrics]:
            shapes = jax.eval_shape(self.policy_step, state, batch)[1]
            return state, {k: jnp.zeros(v.shape, v.dtype) for k, v in shapes.items()}

        return jax.lax.cond(state.step % self.policy_delay == 0, step, skip, state)


def floored(values: Array, floor: Floor, state: State) -> Array:
    """Values no smaller than the floor, if there is one."""
    if floor is None:
        return values
    return jnp.maximum(values, state.worst_value if floor == "auto" else floor)
