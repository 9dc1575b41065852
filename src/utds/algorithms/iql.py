"""IQL (Kostrikov et al., 2022): no value is ever asked of an action that the data doesn't have.

    value    min_V mean |τ − 1[u < 0]|·u²,   u = min_n Q⁻_n(s, a) − V(s)           an expectile
    critics  Σ_n mean (r + γ·d·V(s') − Q_n(s, a))²
    policy   min_π mean min(exp(β·u), 100)·|π(s) − a|²

With τ = ½ V is the mean over the data's actions, with τ → 1 their best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from utds.algorithms import base
from utds.algorithms.base import Metrics, Spec, Steps
from utds.algorithms.registry import Preset, register_algorithm
from utds.errors import ConfigError
from utds.networks import MLP, deterministic, init_ensemble, init_mlp, mlp, q_values
from utds.normalizer import Normalizer

if TYPE_CHECKING:
    from utds.data.pool import Batch, Pool

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
class IQL:
    num_critics: int = 2  # critics in the ensemble, E
    width: int = 256  # units of a hidden layer
    layers: int = 2  # hidden layers
    layer_norm: bool = False  # normalise hidden layers before their ReLU
    normalise: bool = True  # scale observations by the data's mean and standard deviation
    batch_size: int = 256  # transitions per gradient step
    microbatch: int = 256  # transitions whose critic gradient is computed at once; changes speed, not results
    discount: float = 0.99  # γ
    n_step: int = 1  # rewards summed before the target bootstraps; fewer before an episode's end
    tau: float = 5e-3  # share of the online critics mixed into the target critics at each step
    actor_lr: float = 3e-4  # Adam's learning rate of the policy
    critic_lr: float = 3e-4  # Adam's learning rate of the critics and of the value
    anneal_steps: Steps = None  # steps, or "100%" of the run, over which learning rates fall to 0; none: constant
    expectile: float = 0.7  # τ, which expectile of the data's action values V is
    beta: float = 3.0  # β, inverse temperature of the advantages; in units of 1 / values

    def __post_init__(self) -> None:
        base.validate(self)
        if not 0 < self.expectile < 1:
            raise ConfigError(f"expectile={self.expectile} must lie in (0, 1)")
        if self.beta < 0:
            raise ConfigError(f"beta={self.beta} must be at least 0")

    def init(self, key: Array, spec: Spec) -> State:
        """Fresh networks; the target critics start as copies."""
        actor_key, critic_key, value_key = jax.random.split(key, 3)
        hidden = (self.width,) * self.layers
        actor = init_mlp(actor_key, (spec.observation_size, *hidden, spec.action_size), self.layer_norm)
        inputs = spec.observation_size + spec.action_size
        critic = init_ensemble(critic_key, self.num_critics, (inputs, *hidden, 1), self.layer_norm)
        value = init_mlp(value_key, (spec.observation_size, *hidden, 1), self.layer_norm)
        return State(
            step=jnp.zeros((), jnp.int32),
            normalizer=spec.normalizer(self.normalise),
            actor=actor,
            critic=critic,
            target_critic=jax.tree.map(jnp.copy, critic),
            value=value,
            actor_opt_state=base.adam_init(actor, self.actor_lr),
            critic_opt_state=base.adam_init(critic, self.critic_lr),
            value_opt_state=base.adam_init(value, self.critic_lr),
        )

    def draw(self, state: State, pool: Pool, key: Array) -> Batch:
        """Uniform over the pooled transitions."""
        return pool.sample(key, self.batch_size, self.n_step, self.discount)

    def act(self, state: State, observations: Array) -> Array:
        """[B, O] -> [B, A]."""
        return deterministic(state.actor, state.normalizer(observations))

    def update(self, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        """A step of the value, then of the policy, then of the critics, then the targets' move; nothing is random."""
        batch = state.normalizer.batch(batch)
        q = jnp.min(q_values(state.target_critic, batch.observations, batch.actions), axis=0)  # [B]
        lr = base.annealed_lr(self.critic_lr, state.step, self.anneal_steps)
        grads, value_metrics = jax.grad(self.value_loss, has_aux=True)(state.value, batch, q)
        value, opt_state = base.adam_step(grads, state.value, state.value_opt_state, lr)
        state = state._replace(value=value, value_opt_state=opt_state)

        grads, actor_metrics = jax.grad(self.actor_loss, has_aux=True)(state.actor, state, batch, q)
        actor_lr = base.annealed_lr(self.actor_lr, state.step, self.anneal_steps)
        actor, opt_state = base.adam_step(grads, state.actor, state.actor_opt_state, actor_lr)
        state = state._replace(actor=actor, actor_opt_state=opt_state)

        inputs = self.critic_inputs(state, batch)
        grads, metrics = base.accumulated_gradient(self.critic_loss, state.critic, inputs, self.microbatch)
        critic, opt_state = base.adam_step(grads, state.critic, state.critic_opt_state, lr)
        target_critic = optax.incremental_update(critic, state.target_critic, self.tau)
        state = state._replace(
            step=state.step + 1, critic=critic, critic_opt_state=opt_state, target_critic=target_critic
        )
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

    def critic_inputs(self, state: State, batch: Batch) -> dict[str, Array]:
        """What the critic's loss reads, without gradient: y = r + γ·d·V(s')  [B]."""
        values = state_values(state.value, batch.next_observations)
        targets = batch.rewards + base.discounts(batch, self.discount) * values
        return {"observations": batch.observations, "actions": batch.actions, "targets": targets}

    def critic_loss(self, critic: MLP, inputs: dict[str, Array]) -> tuple[Array, Metrics]:
        """Σ_n mean (Q_n(s, a) − y)²; its metric is the mean over the critics."""
        q = q_values(critic, inputs["observations"], inputs["actions"])  # [E, B]
        loss = jnp.mean((q - inputs["targets"]) ** 2)
        return self.num_critics * loss, {
            "critic_loss": loss,
            "q_mean": jnp.mean(q),
            "q_abs_max": jnp.max(jnp.abs(q)),
            "target_mean": jnp.mean(inputs["targets"]),
        }


def state_values(value: MLP, observations: Array) -> Array:
    """V(s): [B, O] -> [B]."""
    return mlp(value, observations)[..., 0]


PRESETS = {"paper": Preset(steps=1_000_000), "fast": Preset({"anneal_steps": "100%"})}
register_algorithm("iql", IQL, label="IQL", presets=PRESETS, colour="#332288", order=51)
