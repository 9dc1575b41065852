"""UTDS (Bai et al., 2023): share all data, and be pessimistic where the pooled data is thin.

N critics with independent initialisations and targets. Their standard deviation Γ(s, a) is the uncertainty: small where
the pool has data, whichever task it came from, and large elsewhere.

    Bellman target    y_n   = r + γ·d·(Q⁻_n(s', a') − β1·Γ⁻(s', a'))            a' = smoothed π⁻(s')
    OOD pseudo-target ŷ_n   = stop_gradient(Q_n(s, â) − β2·Γ(s, â))             â = π(s) + noise, K of them a state
    critic loss       Σ_n  mean (y_n − Q_n(s, a))² + mean (ŷ_n − Q_n(s, â))²
    policy            max_π mean min_n Q_n(s, π(s))

On one task's data alone this is PBRL (Bai et al., 2022). What the released code does otherwise is an option here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import jax
import jax.numpy as jnp
from jax import Array

from utds.algorithms.base import Mean, Metrics
from utds.algorithms.networks import MLP, deterministic, q_values
from utds.algorithms.td3 import TD3, Floor, Rows, State, floored
from utds.errors import ConfigError

if TYPE_CHECKING:
    from utds.data.pool import Batch, Pool

Bootstrap = Literal["target", "online"]
Sampling = Literal["pool", "transitions", "episodes"]


@dataclass(frozen=True)
class UTDS(TD3):
    members: int = 5  # N critics
    layers: int = 3  # hidden layers
    batch: int = 1024  # transitions a gradient step
    microbatch: int = 128  # transitions whose gradient is computed at once; changes speed, not results
    actor_rate: float = 1e-4  # Adam's learning rate of the policy
    critic_rate: float = 1e-4  # Adam's learning rate of the critics
    policy_delay: int = 1  # critic steps a policy step; the target networks move with the policy
    beta_in: float = 1e-3  # β1, penalty on the uncertainty at the next state
    beta_ood: float = 3.0  # β2 at the start, penalty on the uncertainty of OOD actions
    beta_ood_end: float = 0.1  # the least β2
    beta_ood_decay: float = 0.99995  # α, factor on β2 at each step
    ood_actions: int = 3  # K, OOD actions a state
    ood_noise: float = 0.01  # standard deviation of the noise that sets the K actions apart
    ood_next: bool = False  # draw OOD actions at the next states too
    ood_floor: Floor = None  # least value of an OOD pseudo-target: a number, none, or "auto" as for `floor`
    bootstrap: Bootstrap = "target"  # which critics the Bellman target reads
    shared_ratio: float = 1.0  # factor on both penalties on shared data, at the start
    shared_ratio_steps: int = 500_000  # steps over which that factor goes linearly to 1
    sampling: Sampling = "pool"  # uniform over what; pool: as the pool says

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.members < 2:
            raise ConfigError("members=1 has no spread to measure uncertainty by; use at least 2")
        for name, known in (("bootstrap", Bootstrap), ("sampling", Sampling)):
            if getattr(self, name) not in get_args(known):
                raise ConfigError(f"{name}={getattr(self, name)!r} is unknown; use {' or '.join(get_args(known))}")

    def draw(self, state: State, pool: Pool, key: Array) -> Batch:
        """Uniform over the pooled transitions, or over its episodes and then their steps."""
        if self.sampling != "pool":
            pool = replace(pool, info=replace(pool.info, sampling=self.sampling))
        return pool.sample(key, self.batch)

    def critic_rows(self, state: State, batch: Batch, key: Array) -> Rows:
        """What the critic's loss reads, without gradient: targets [B, E], OOD actions [B, K, A]."""
        draws = 1 + self.ood_actions * (2 if self.ood_next else 1)
        noise = jax.random.normal(key, (batch.rewards.size, draws, batch.actions.shape[1]))
        smoothing, here, there = jnp.split(noise, (1, 1 + self.ood_actions), axis=1)
        ratio = self.penalty_ratio(state.step, batch.own)
        actions = self.target_actions(state, batch.next_observations, smoothing[:, 0])
        critic = state.target_critic if self.bootstrap == "target" else state.critic
        q = q_values(critic, batch.next_observations, actions)  # [E, B]
        values = q - self.beta_in * ratio * uncertainty(q)
        targets = batch.rewards + self.discount * (1 - batch.terminations) * values
        rows = {
            "observations": batch.observations,
            "actions": batch.actions,
            "targets": floored(targets, self.floor, state).T,
            "ood_actions": self.near_policy(state.actor, batch.observations, here),
            "ratio": ratio,
            "sources": jnp.stack([batch.own, 1 - batch.own], axis=1) if batch.sources is None else batch.sources,
        }
        if self.ood_next:
            rows["next_observations"] = batch.next_observations
            rows["ood_next_actions"] = self.near_policy(state.actor, batch.next_observations, there)
        return rows

    def critic_loss(self, critic: MLP, rows: Rows, state: State) -> tuple[Array, Metrics]:
        """Bellman and OOD loss, summed over members; every action goes through the critics in one pass."""
        q, q_ood = self.split_q(critic, rows)  # [E, B], [E, B, K]; K counts next states' actions too
        beta = self.beta_ood_at(state.step)
        gamma, gamma_ood = uncertainty(q), uncertainty(q_ood)
        ood_targets = floored(q_ood - beta * rows["ratio"][:, None] * gamma_ood, self.ood_floor, state)
        bellman_loss = jnp.mean((q - rows["targets"].T) ** 2)
        ood_loss = jnp.mean((q_ood - jax.lax.stop_gradient(ood_targets)) ** 2)
        return self.members * (bellman_loss + ood_loss), {
            "bellman_loss": bellman_loss,
            "ood_loss": ood_loss,
            "uncertainty": jnp.mean(gamma),
            **by_source(gamma, rows["sources"]),
            "uncertainty_ood": jnp.mean(gamma_ood),
            "beta_ood": beta,
            "penalty_ratio": jnp.mean(rows["ratio"]),
            "q_mean": jnp.mean(q),
            "q_ood_mean": jnp.mean(q_ood),
            "q_abs_max": jnp.maximum(jnp.max(jnp.abs(q)), jnp.max(jnp.abs(q_ood))),
            "target_mean": jnp.mean(rows["targets"]),
        }

    def actor_loss(self, actor: MLP, state: State, batch: Batch) -> tuple[Array, Metrics]:
        """−mean min_n Q_n(s, π(s))."""
        q = q_values(state.critic, batch.observations, deterministic(actor, batch.observations))
        loss = -jnp.mean(jnp.min(q, axis=0))
        return loss, {"actor_loss": loss}

    def beta_ood_at(self, step: Array) -> Array:
        """β2(t) = max(β2·αᵗ, β2_end)."""
        decay = jnp.exp(step * math.log(self.beta_ood_decay))  # α itself is too close to 1 for float32
        return jnp.maximum(self.beta_ood * decay, self.beta_ood_end)

    def penalty_ratio(self, step: Array, own: Array) -> Array:
        """1 on own data; on shared data, `shared_ratio` going linearly to 1: [B]."""
        left = jnp.maximum(1 - step / self.shared_ratio_steps, 0)
        return 1 + (1 - own) * (self.shared_ratio - 1) * left

    def near_policy(self, actor: MLP, observations: Array, noise: Array) -> Array:
        """K actions about π(s): [B, O], standard normal [B, K, A] -> [B, K, A]."""
        return jnp.clip(deterministic(actor, observations)[:, None] + self.ood_noise * noise, -1, 1)

    def split_q(self, critic: MLP, rows: Rows) -> tuple[Array, Array]:
        """Q at the data's actions [E, B] and at the OOD actions [E, B, K or 2K]."""
        actions = jnp.concatenate([rows["actions"][:, None], rows["ood_actions"]], axis=1)  # [B, 1 + K, A]
        states = _repeat(rows["observations"], 1 + self.ood_actions)
        if self.ood_next:
            actions = jnp.concatenate([actions, rows["ood_next_actions"]], axis=1)
            states = jnp.concatenate([states, _repeat(rows["next_observations"], self.ood_actions)], axis=1)
        size, count = actions.shape[:2]
        q = q_values(critic, states.reshape(size * count, -1), actions.reshape(size * count, -1))
        q = q.reshape(self.members, size, count)
        return q[..., 0], q[..., 1:]


@dataclass(frozen=True)
class PBRL(UTDS):
    """UTDS with no shared data (m = 1): whatever the pool holds, only the main task's own is read."""

    def draw(self, state: State, pool: Pool, key: Array) -> Batch:
        """Uniform over the main task's own transitions."""
        if self.sampling != "pool":
            pool = replace(pool, info=replace(pool.info, sampling=self.sampling))
        return pool.sample_own(key, self.batch)


def uncertainty(q: Array) -> Array:
    """Γ: the unbiased standard deviation over members, [E, …] -> […]."""
    return jnp.std(q, axis=0, ddof=1)


def by_source(gamma: Array, sources: Array) -> Metrics:
    """Γ [B] over own rows and over shared rows, and over each shared source where there are several: one-hot [B, K]."""
    own = sources[:, 0]
    metrics = {"uncertainty_own": Mean.of(gamma, own), "uncertainty_shared": Mean.of(gamma, 1 - own)}
    if sources.shape[1] > 2:
        metrics |= {f"uncertainty_shared_{k}": Mean.of(gamma, sources[:, k]) for k in range(1, sources.shape[1])}
    return metrics


def _repeat(x: Array, times: int) -> Array:
    """[B, O] -> [B, times, O]."""
    return jnp.broadcast_to(x[:, None], (x.shape[0], times, x.shape[1]))
