"""UTDS (Bai et al., 2023): share all data, and be pessimistic where the pooled data is thin.

N critics with independent initialisations and targets. Their standard deviation Γ(s, a) is the uncertainty: small where
the pool has data, whichever task it came from, and large elsewhere.

    Bellman target    y_n   = r + γ·d·(Q⁻_n(s', a') − β1·Γ⁻(s', a'))            a' = smoothed π⁻(s')
    OOD pseudo-target ŷ_n   = stop_gradient(Q_n(s, â) − β2·Γ(s, â))             â = π(s) + noise, K per state
    critic loss       Σ_n  mean (y_n − Q_n(s, a))² + mean (ŷ_n − Q_n(s, â))²
    policy            max_π mean min_n Q_n(s, π(s))

The fast preset adds a behaviour term to the policy's loss: it starts in the data, and leaves it only where the critics
prefer another action.

    policy            max_π mean min_n Q_n(s, π(s))/q − λ·mean w·|π(s) − a|²    q = mean |min_n Q_n(s, π(s))|
                      w ∝ exp(c·A/σ_A), clipped, with mean 1                    A = min_n Q_n(s, a) − min_n Q_n(s, π(s))

It also gives every critic a fixed random function to start from (a prior), which it unlearns where there is data, and
lets all critics learn one target, so that Γ is large where they had nothing to learn from and small elsewhere.

On one task's data alone this is PBRL (Bai et al., 2022). What the released code does otherwise is an option here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from jax import Array

from utds.algorithms.base import Mean, Metrics, NonNegative, Spec, Steps, at_least, interval, remaining
from utds.algorithms.registry import Preset, register_algorithm
from utds.algorithms.td3 import TD3, CriticInputs, Floor, State, floored
from utds.data.pool import Batch, Pool
from utds.errors import ConfigError
from utds.networks import MLP, deterministic, init_priors, q_values

Bootstrap = Literal["target", "online"]
Sampling = Literal["pool", "transitions", "episodes"]
OODSource = Literal["policy", "uniform", "mixed"]

LOG_WEIGHT = (-5.0, 3.0)  # bounds of the logarithm of a recorded action's weight
LEAST_DISTANCE = 1e-3  # of policy and data, squared: what is closer doesn't bind any more


@dataclass(frozen=True)
class UTDS(TD3):
    num_critics: int = 5  # N critics
    layers: int = 3  # hidden layers
    batch_size: int = 1024  # transitions per gradient step
    microbatch: int = 128  # transitions whose gradient is computed at once; changes speed, not results
    actor_lr: float = 1e-4  # Adam's learning rate of the policy
    critic_lr: float = 1e-4  # Adam's learning rate of the critics
    policy_delay: int = 1  # critic steps per policy step
    target_delay: int = 1  # critic steps per move of the target networks
    beta_in: NonNegative = 1e-3  # β1, penalty on the uncertainty at the next state
    beta_ood: NonNegative = 3.0  # β2 at the start, penalty on the uncertainty of OOD actions
    beta_ood_end: NonNegative = 0.1  # the least β2
    beta_ood_decay: Annotated[float, interval("(0, 1]")] = 0.99995  # α, factor on β2 at each step
    ood_actions: Annotated[int, at_least(0)] = 3  # K, OOD actions per state; 0: no OOD term
    ood_source: OODSource = "policy"  # where they come from: the policy, uniform ones, or each half of the time
    ood_noise: NonNegative = 0.01  # standard deviation of the noise that sets the K actions apart
    ood_next: bool = False  # draw OOD actions at the next states too
    ood_floor: Floor = None  # least value of an OOD pseudo-target: a number, none, or "auto" as for `floor`
    bootstrap: Bootstrap = "target"  # which critics the Bellman target reads
    ensemble_target: bool = False  # all critics learn one target, from their mean, instead of each from its own value
    prior_scale: NonNegative = 0.0  # size of each critic's fixed random function, in mean absolute rewards over 1 − γ
    shared_ratio: NonNegative = 1.0  # factor on both penalties on shared data, at the start
    shared_ratio_steps: Steps = "50%"  # steps, or share of the run, over which that factor goes linearly to 1
    sampling: Sampling = "pool"  # uniform over what; pool: as the pool says
    bc_weight: NonNegative = 0.0  # weight of the behaviour term in the policy's loss at the start; 0: the paper's loss
    bc_weight_end: NonNegative = 0.0  # that weight from `bc_steps` on, where it arrives linearly
    bc_steps: Steps = "30%"  # steps, or share of the run
    bc_temperature: NonNegative = 1.0  # log of an action's weight per standard deviation of the critics' preference
    bc_narrow: NonNegative = 0.0  # data whose weighted mean |π(s) − a|² is smaller than this binds more, inversely

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_critics < 2:
            raise ConfigError("num_critics=1 has no spread to measure uncertainty by; use at least 2")

    def init_critic(self, key: Array, spec: Spec) -> MLP:
        """Fresh critics, each with its prior where there are any."""
        critic = super().init_critic(key, spec)
        if not self.prior_scale:
            return critic
        scale = self.prior_scale * spec.reward_size / (1 - self.discount)
        sizes = (self.num_critics, spec.observation_size, spec.action_size)
        return (*critic, init_priors(jax.random.fold_in(key, 1), *sizes, scale))  # type: ignore[arg-type]

    def draw(self, state: State, pool: Pool, key: Array) -> Batch:
        """Uniform over the pooled transitions, or over its episodes and then their steps."""
        return super().draw(state, self.drawn_from(pool), key)

    def drawn_from(self, pool: Pool) -> Pool:
        """The pool, drawn by transitions or by episodes where this algorithm says so."""
        if self.sampling == "pool":
            return pool
        if pool.weights is not None:
            raise ConfigError(f"sampling={self.sampling!r} would ignore the pool's weights; set sampling='pool'")
        return replace(pool, info=replace(pool.info, sampling=self.sampling))

    def critic_inputs(self, state: State, batch: Batch, key: Array) -> CriticInputs:
        """What the critic's loss reads, without gradient: targets [B, E], OOD actions [B, K, A]."""
        draws = 1 + self.ood_actions * (2 if self.ood_next else 1)
        noise = jax.random.normal(key, (batch.rewards.size, draws, batch.actions.shape[1]))
        smoothing, here, there = jnp.split(noise, (1, 1 + self.ood_actions), axis=1)
        ratio = self.penalty_ratio(state.step, batch.own)
        actions = self.target_actions(state, batch.next_observations, smoothing[:, 0])
        critic = state.target_critic if self.bootstrap == "target" else state.critic
        q = q_values(critic, batch.next_observations, actions)  # [E, B]
        values = jnp.mean(q, axis=0, keepdims=True) if self.ensemble_target else q
        values = jnp.broadcast_to(values - self.beta_in * ratio * uncertainty(q), q.shape)
        inputs = self.bellman_inputs(batch, values)
        inputs |= {
            "targets": floored(inputs["targets"], self.floor, state).T,
            "ood_actions": self.ood_candidates(state.actor, batch.observations, here),
            "ratio": ratio,
            "sources": jnp.stack([batch.own, 1 - batch.own], axis=1) if batch.sources is None else batch.sources,
        }
        if self.ood_next:
            inputs["next_observations"] = batch.next_observations
            inputs["ood_next_actions"] = self.ood_candidates(state.actor, batch.next_observations, there)
        return inputs

    def critic_loss(self, critic: MLP, inputs: CriticInputs, state: State) -> tuple[Array, Metrics]:
        """Bellman and OOD loss, summed over the critics; every action goes through the critics in one pass."""
        q, q_ood = self.split_q(critic, inputs)  # [E, B], [E, B, K]; K counts next states' actions too
        beta = self.beta_ood_at(state.step)
        gamma, gamma_ood = uncertainty(q), uncertainty(q_ood)
        ood_targets = floored(q_ood - beta * inputs["ratio"][:, None] * gamma_ood, self.ood_floor, state)
        bellman_loss = jnp.mean((q - inputs["targets"].T) ** 2)
        ood_loss = _mean((q_ood - jax.lax.stop_gradient(ood_targets)) ** 2)
        return self.num_critics * (bellman_loss + ood_loss), {
            "bellman_loss": bellman_loss,
            "ood_loss": ood_loss,
            "uncertainty": jnp.mean(gamma),
            **by_source(gamma, inputs["sources"]),
            "uncertainty_ood": _mean(gamma_ood),
            "beta_ood": beta,
            "penalty_ratio": jnp.mean(inputs["ratio"]),
            "q_mean": jnp.mean(q),
            "q_ood_mean": _mean(q_ood),
            "q_abs_max": jnp.maximum(jnp.max(jnp.abs(q)), jnp.max(jnp.abs(q_ood), initial=0)),
            "target_mean": jnp.mean(inputs["targets"]),
        }

    def actor_loss(self, actor: MLP, state: State, batch: Batch) -> tuple[Array, Metrics]:
        """−mean min_n Q_n(s, π(s)); with a behaviour term, divided by its size and drawn to the data's actions."""
        actions = deterministic(actor, batch.observations)
        q = jnp.min(q_values(state.critic, batch.observations, actions), axis=0)
        if not (self.bc_weight or self.bc_weight_end):
            loss = -jnp.mean(q)
            return loss, {"actor_loss": loss}
        scale = jnp.maximum(jax.lax.stop_gradient(jnp.mean(jnp.abs(q))), 1e-3)
        distance = jnp.mean((actions - batch.actions) ** 2, axis=1)
        bc_loss = jnp.mean(self.advantage_weights(state, batch, q) * distance)
        weight = self.bc_weight_at(state.step) * self.precision(bc_loss)
        loss = weight * bc_loss - jnp.mean(q) / scale
        return loss, {"actor_loss": loss, "bc_loss": bc_loss, "bc_weight": weight, "bc_distance": jnp.mean(distance)}

    def advantage_weights(self, state: State, batch: Batch, q: Array) -> Array:
        """What each recorded action counts, by how much the critics prefer it to the policy's: [B], with mean 1."""
        recorded = jnp.min(q_values(state.critic, batch.observations, batch.actions), axis=0)
        advantage = jax.lax.stop_gradient(recorded - q)
        advantage /= jnp.maximum(jnp.std(advantage), 1e-6)
        weights = jnp.exp(jnp.clip(self.bc_temperature * advantage, *LOG_WEIGHT))
        return weights / jnp.mean(weights)

    def precision(self, distance: Array) -> Array:
        """1, and more where the data's actions are told better than `bc_narrow` by their state, as in a likelihood."""
        close = jnp.maximum(jax.lax.stop_gradient(distance), LEAST_DISTANCE)
        return jnp.maximum(self.bc_narrow / close, 1)

    def bc_weight_at(self, step: Array) -> Array:
        """From `bc_weight` linearly to `bc_weight_end`, and staying there."""
        return self.bc_weight_end + (self.bc_weight - self.bc_weight_end) * remaining(step, self.bc_steps)

    def beta_ood_at(self, step: Array) -> Array:
        """β2(t) = max(β2·αᵗ, β2_end)."""
        decay = jnp.exp(step * math.log(self.beta_ood_decay))  # α itself is too close to 1 for float32
        return jnp.maximum(self.beta_ood * decay, self.beta_ood_end)

    def penalty_ratio(self, step: Array, own: Array) -> Array:
        """1 on own data; on shared data, `shared_ratio` going linearly to 1: [B]."""
        if self.shared_ratio == 1:
            return jnp.ones_like(own)
        return 1 + (1 - own) * (self.shared_ratio - 1) * remaining(step, self.shared_ratio_steps)

    def ood_candidates(self, actor: MLP, observations: Array, noise: Array) -> Array:
        """K actions that may be out of distribution: [B, O], standard normal [B, K, A] -> [B, K, A]."""
        near = jnp.clip(deterministic(actor, observations)[:, None] + self.ood_noise * noise, -1, 1)
        if self.ood_source == "policy":
            return near
        uniform = jax.lax.erf(noise / math.sqrt(2))  # a normal's distribution function makes it uniform
        if self.ood_source == "uniform":
            return uniform
        return jnp.where(jnp.arange(len(noise))[:, None, None] % 2 == 0, near, uniform)

    def split_q(self, critic: MLP, inputs: CriticInputs) -> tuple[Array, Array]:
        """Q at the data's actions [E, B] and at the OOD actions [E, B, K or 2K]."""
        actions = jnp.concatenate([inputs["actions"][:, None], inputs["ood_actions"]], axis=1)  # [B, 1 + K, A]
        states = _repeat(inputs["observations"], 1 + self.ood_actions)
        if self.ood_next:
            actions = jnp.concatenate([actions, inputs["ood_next_actions"]], axis=1)
            states = jnp.concatenate([states, _repeat(inputs["next_observations"], self.ood_actions)], axis=1)
        size, count = actions.shape[:2]
        q = q_values(critic, states.reshape(size * count, -1), actions.reshape(size * count, -1))
        q = q.reshape(self.num_critics, size, count)
        return q[..., 0], q[..., 1:]


@dataclass(frozen=True)
class PBRL(UTDS):
    """UTDS with no shared data (m = 1): whatever the pool holds, only the main task's own is read."""

    def draw(self, state: State, pool: Pool, key: Array) -> Batch:
        """Uniform over the main task's own transitions."""
        return self.drawn_from(pool).sample_own(key, self.batch_size, self.n_step, self.discount)


def uncertainty(q: Array) -> Array:
    """Γ: the unbiased standard deviation over the critics, [E, …] -> […]."""
    return jnp.std(q, axis=0, ddof=1)


def by_source(gamma: Array, sources: Array) -> Metrics:
    """Γ [B] over own rows and over shared rows, and over each shared source where there are several: one-hot [B, K]."""
    own = sources[:, 0]
    metrics = {"uncertainty_own": Mean.of(gamma, own), "uncertainty_shared": Mean.of(gamma, 1 - own)}
    if sources.shape[1] > 2:
        metrics |= {f"uncertainty_shared_{k}": Mean.of(gamma, sources[:, k]) for k in range(1, sources.shape[1])}
    return metrics


def _mean(x: Array) -> Array:
    """The mean, and 0 of nothing at all: where there are no OOD actions."""
    return jnp.mean(x) if x.size else jnp.zeros(())


def _repeat(x: Array, times: int) -> Array:
    """[B, O] -> [B, times, O]."""
    return jnp.broadcast_to(x[:, None], (x.shape[0], times, x.shape[1]))


RELEASED = {
    "layers": 2,
    "normalise": False,
    "policy_delay": 2,
    "bootstrap": "online",
    "ood_next": True,
    "ood_floor": 0.0,
    "shared_ratio": 1.5,
    "sampling": "episodes",
}
# One setting for every robot, found on data that no result reports: see docs/algorithms/utds.md.
FAST = {
    "num_critics": 3,  # three critics of three layers cost as much as five of two, and teach more
    "batch_size": 256,
    "width": 128,
    "actor_width": 256,
    "layer_norm": True,
    "actor_lr": 1e-3,
    "critic_lr": 1e-3,
    "anneal_steps": "100%",
    "tau": 1e-2,
    "n_step": 5,
    "beta_in": 0.3,
    "ensemble_target": True,
    "prior_scale": 0.04,
    "ood_actions": 0,  # within thousands of steps it keeps values at the floor where rewards are rare
    "bc_weight": 2.0,
    "bc_weight_end": 0.6,
    "bc_narrow": 0.15,
    "floor": "auto",
}
PRESETS = {
    "paper": Preset(steps=1_000_000),
    "released": Preset(RELEASED, steps=1_000_000),
    "fast": Preset(FAST),
}
register_algorithm("utds", UTDS, label="UTDS", presets=PRESETS, single_task="pbrl", colour="#d55e00", order=0)
register_algorithm("pbrl", PBRL, label="PBRL", presets=PRESETS, reads_shared=False, colour="#0072b2", order=1)
