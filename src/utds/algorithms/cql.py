"""CQL(H) (Kumar et al., 2020) on soft actor-critic; on a pool with shared data it is Direct Sharing.

    y        = r + γ·d·min_n Q⁻_n(s', a')                                        a' ~ π(s')
    critics  Σ_n mean (y − Q_n(s, a))² + w·mean (log Σ_a exp Q_n(s, a) − Q_n(s, a))
    policy   min_π mean (α·log π(a|s) − min_n Q_n(s, a))                         a ~ π(s)

The sum over actions is estimated by importance sampling from uniform actions, π(s) and π(s'). UDS (Yu et al., 2022) is
this with shared rewards set to zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from utds.algorithms import base
from utds.algorithms.base import Metrics, Normal, Spec
from utds.algorithms.networks import MLP, gaussian, init_ensemble, init_mlp, q_values, squash
from utds.algorithms.td3 import Rows

if TYPE_CHECKING:
    from utds.data.pool import Batch, Pool


class State(NamedTuple):
    """Everything that training changes, and the normalisation that the policy needs."""

    step: Array  # gradient steps taken
    normal: Normal
    actor: MLP  # mean and log standard deviation: 2A outputs
    critic: MLP  # [E, …]
    target_critic: MLP  # [E, …]
    log_temperature: Array  # log α of the entropy term
    actor_moments: Any  # Adam's
    critic_moments: Any
    temperature_moments: Any


@dataclass(frozen=True)
class CQL:
    members: int = 2  # critics in the ensemble, E
    width: int = 256  # units of a hidden layer
    layers: int = 3  # hidden layers
    layer_norm: bool = False  # normalise hidden layers before their ReLU
    normalise: bool = True  # scale observations by the data's mean and standard deviation
    batch: int = 1024  # transitions a gradient step
    microbatch: int = 16  # transitions whose gradient is computed at once; changes speed, not results
    discount: float = 0.99  # γ
    tau: float = 5e-3  # share of the online critics mixed into the target critics at each step
    actor_rate: float = 1e-4  # Adam's learning rate of the policy and of the temperature
    critic_rate: float = 3e-4  # Adam's learning rate of the critics
    anneal_steps: int | None = None  # steps over which the learning rates fall linearly to nothing; none: constant
    weight: float = 5.0  # w, of the conservative term
    actions: int = 10  # actions drawn from each of the three proposals
    entropy: float | None = None  # target entropy of the policy in nats; none: −A

    def __post_init__(self) -> None:
        base.check(self)

    def init(self, key: Array, spec: Spec) -> State:
        """Fresh networks; the target critics start as copies, the temperature at 1."""
        actor_key, critic_key = jax.random.split(key)
        hidden = (self.width,) * self.layers
        actor = init_mlp(actor_key, (spec.observation_size, *hidden, 2 * spec.action_size), self.layer_norm)
        inputs = spec.observation_size + spec.action_size
        critic = init_ensemble(critic_key, self.members, (inputs, *hidden, 1), self.layer_norm)
        return State(
            step=jnp.zeros((), jnp.int32),
            normal=Normal.of(spec, self.normalise),
            actor=actor,
            critic=critic,
            target_critic=jax.tree.map(jnp.copy, critic),
            log_temperature=jnp.zeros(()),
            actor_moments=base.start(actor, self.actor_rate),
            critic_moments=base.start(critic, self.critic_rate),
            temperature_moments=base.start(jnp.zeros(()), self.actor_rate),
        )

    def draw(self, state: State, pool: Pool, key: Array) -> Batch:
        """Uniform over the pooled transitions."""
        return pool.sample(key, self.batch)

    def act(self, state: State, observations: Array) -> Array:
        """The policy's mode before the tanh: [B, O] -> [B, A]."""
        return jnp.tanh(gaussian(state.actor, state.normal(observations))[0])

    def update(self, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        """One step of the critics, then of the policy and its temperature, then the targets' move."""
        rows_key, actor_key = jax.random.split(key)
        batch = state.normal.batch(batch)
        rows = self.critic_rows(state, batch, rows_key)
        grads, metrics = base.gradient(self.critic_loss, state.critic, rows, self.microbatch)
        rate = base.annealed(self.critic_rate, state.step, self.anneal_steps)
        critic, moments = base.descend(grads, state.critic, state.critic_moments, rate)
        state = state._replace(critic=critic, critic_moments=moments)
        state, actor_metrics = self.policy_step(state, batch, actor_key)
        target_critic = base.polyak(state.target_critic, critic, self.tau)
        state = state._replace(step=state.step + 1, target_critic=target_critic)
        return state, metrics | actor_metrics | {"own_share": jnp.mean(batch.own)}

    def critic_rows(self, state: State, batch: Batch, key: Array) -> Rows:
        """What the critic's loss reads, without gradient: targets [B], 3n proposed actions and their log densities."""
        normal_key, uniform_key = jax.random.split(key)
        size, width = batch.actions.shape
        noise = jax.random.normal(normal_key, (size, 2 * self.actions + 1, width))
        here, there = gaussian(state.actor, batch.observations), gaussian(state.actor, batch.next_observations)
        next_actions, _ = squash(*there, noise[:, -1])
        values = jnp.min(q_values(state.target_critic, batch.next_observations, next_actions), axis=0)
        uniform = jax.random.uniform(uniform_key, (size, self.actions, width), minval=-1, maxval=1)
        proposals = [
            (uniform, jnp.full((size, self.actions), -width * jnp.log(2.0))),
            several(*here, noise[:, : self.actions]),
            several(*there, noise[:, self.actions : -1]),
        ]
        actions, log_densities = (jnp.concatenate(parts, axis=1) for parts in zip(*proposals, strict=True))
        return {
            "observations": batch.observations,
            "actions": batch.actions,
            "targets": batch.rewards + self.discount * (1 - batch.terminations) * values,
            "proposals": actions,
            "log_densities": log_densities,
        }

    def critic_loss(self, critic: MLP, rows: Rows) -> tuple[Array, Metrics]:
        """Bellman loss and conservative term, summed over members; one pass through the critics for all actions."""
        actions = jnp.concatenate([rows["actions"][:, None], rows["proposals"]], axis=1)  # [B, 1 + 3n, A]
        size, count = actions.shape[:2]
        states = jnp.broadcast_to(rows["observations"][:, None], (size, count, rows["observations"].shape[1]))
        q = q_values(critic, states.reshape(size * count, -1), actions.reshape(size * count, -1))
        q = q.reshape(self.members, size, count)
        q_data, q_proposed = q[..., 0], q[..., 1:]
        soft_max = jax.nn.logsumexp(q_proposed - rows["log_densities"], axis=-1)  # [E, B]
        bellman_loss = jnp.mean((q_data - rows["targets"]) ** 2)
        gap = jnp.mean(soft_max - q_data)
        return self.members * (bellman_loss + self.weight * gap), {
            "bellman_loss": bellman_loss,
            "conservative_gap": gap,
            "q_mean": jnp.mean(q_data),
            "q_proposed_mean": jnp.mean(q_proposed),
            "q_abs_max": jnp.max(jnp.abs(q)),
            "target_mean": jnp.mean(rows["targets"]),
        }

    def policy_step(self, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        """One step of the policy and of the entropy's temperature."""
        noise = jax.random.normal(key, batch.actions.shape)
        loss = partial(self.actor_loss, state=state, batch=batch, noise=noise)
        grads, metrics = jax.grad(loss, has_aux=True)(state.actor)
        rate = base.annealed(self.actor_rate, state.step, self.anneal_steps)
        actor, actor_moments = base.descend(grads, state.actor, state.actor_moments, rate)
        target = -batch.actions.shape[1] if self.entropy is None else self.entropy
        slope = metrics["entropy"] - target  # of α's loss in log α: too much entropy lowers α
        log_temperature, moments = base.descend(slope, state.log_temperature, state.temperature_moments, rate)
        return state._replace(
            actor=actor,
            actor_moments=actor_moments,
            log_temperature=log_temperature,
            temperature_moments=moments,
        ), metrics | {"temperature": jnp.exp(state.log_temperature)}

    def actor_loss(self, actor: MLP, state: State, batch: Batch, noise: Array) -> tuple[Array, Metrics]:
        """mean (α·log π(a|s) − min_n Q_n(s, a)), a ~ π(s)."""
        actions, log_density = squash(*gaussian(actor, batch.observations), noise)
        q = jnp.min(q_values(state.critic, batch.observations, actions), axis=0)
        loss = jnp.mean(jnp.exp(state.log_temperature) * log_density - q)
        return loss, {"actor_loss": loss, "entropy": -jnp.mean(log_density)}


@dataclass(frozen=True)
class UDS(CQL):
    """All shared data, none of its rewards."""

    def draw(self, state: State, pool: Pool, key: Array) -> Batch:
        """Uniform over the pooled transitions; shared ones with reward 0."""
        return unrewarded(super().draw(state, pool, key))


def several(mean: Array, std: Array, noise: Array) -> tuple[Array, Array]:
    """n actions [B, n, A] and their log densities [B, n], of Gaussians [B, A] under tanh, from noise [B, n, A]."""
    return squash(mean[:, None], std[:, None], noise)


def unrewarded(batch: Batch) -> Batch:
    """The batch with shared rewards set to 0."""
    return batch._replace(rewards=batch.rewards * batch.own)
