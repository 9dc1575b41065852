"""CQL(H) (Kumar et al., 2020): soft actor-critic whose critics value no action above the data's without evidence.

    critics  Σ_n mean (y − Q_n(s, a))² + w·mean (log Σ_a exp Q_n(s, a) − Q_n(s, a))

The sum over actions is estimated by importance sampling from uniform actions, π(s) and π(s'). On a pool with shared
data it is Direct Sharing; UDS (Yu et al., 2022) is this with shared rewards set to zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from utds.algorithms.base import Count, CriticInputs, Metrics, NonNegative
from utds.algorithms.registry import Preset, register_algorithm, usual_presets
from utds.algorithms.sac import SAC, Kinds, State
from utds.data.pool import Batch, Pool
from utds.errors import ConfigError
from utds.networks import MLP, LeakyLayer, TanhLayer, gaussian, q_values, squash

Architecture = Literal["relu", "released"]
RELEASED_ACTOR = (TanhLayer, TanhLayer, LeakyLayer)
RELEASED_CRITIC = (TanhLayer, LeakyLayer, LeakyLayer)


@dataclass(frozen=True)
class CQL(SAC):
    architecture: Architecture = "relu"  # of hidden layers; released: three of tanh and leaky ReLU, the last not normed
    layer_norm: bool = True  # normalise hidden layers before their activation
    batch_size: int = 1024  # transitions per gradient step
    microbatch: int = 16  # transitions whose gradient is computed at once; changes speed, not results
    actor_lr: float = 1e-4  # Adam's learning rate of the policy and of the temperature
    backup_entropy: bool = False  # count the entropy at the next state in the critics' target
    cql_alpha: NonNegative = 5.0  # w, weight of the conservative term
    num_actions: Count = 10  # actions drawn from each of the three proposals
    importance_weights: bool = True  # weigh the proposed actions by 1 / their density in the sum
    data_action: bool = False  # count the data's action in the sum; its density is unknown, so without weights only

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.architecture == "released" and self.layers != 3:
            raise ConfigError(f"architecture='released' has 3 hidden layers, not layers={self.layers}")
        if self.data_action and self.importance_weights:
            raise ConfigError("data_action=True needs importance_weights=False: the data's action has no known density")

    def hidden_layers(self) -> tuple[bool | tuple[bool, ...], Kinds | None, Kinds | None]:
        """SAC's, or those of the authors' code."""
        if self.architecture == "relu":
            return super().hidden_layers()
        return (self.layer_norm, self.layer_norm, False), RELEASED_ACTOR, RELEASED_CRITIC

    def critic_inputs(self, state: State, batch: Batch, key: Array) -> CriticInputs:
        """What the critic's loss reads, without gradient: targets [B], 3n proposed actions and their log densities."""
        normal_key, uniform_key = jax.random.split(key)
        size, width = batch.actions.shape
        noise = jax.random.normal(normal_key, (size, 2 * self.num_actions + 1, width))
        here, there = gaussian(state.actor, batch.observations), gaussian(state.actor, batch.next_observations)
        uniform = jax.random.uniform(uniform_key, (size, self.num_actions, width), minval=-1, maxval=1)
        proposals = [
            (uniform, jnp.full((size, self.num_actions), -width * jnp.log(2.0))),
            sample_actions(*here, noise[:, : self.num_actions]),
            sample_actions(*there, noise[:, self.num_actions : -1]),
        ]
        actions, log_densities = (jnp.concatenate(parts, axis=1) for parts in zip(*proposals, strict=True))
        inputs = self.bellman_inputs(batch, self.next_values(state, batch, there, noise[:, -1]))
        return inputs | {"proposals": actions, "log_densities": log_densities}

    def critic_loss(self, critic: MLP, inputs: CriticInputs) -> tuple[Array, Metrics]:
        """Bellman loss and conservative term, summed over the critics; one pass through the critics for all actions."""
        actions = jnp.concatenate([inputs["actions"][:, None], inputs["proposals"]], axis=1)  # [B, 1 + 3n, A]
        size, count = actions.shape[:2]
        states = jnp.broadcast_to(inputs["observations"][:, None], (size, count, inputs["observations"].shape[1]))
        q = q_values(critic, states.reshape(size * count, -1), actions.reshape(size * count, -1))
        q = q.reshape(self.num_critics, size, count)
        q_data, q_proposed = q[..., 0], q[..., 1:]
        summed = q if self.data_action else q_proposed
        soft_max = jax.nn.logsumexp(summed - inputs["log_densities"] if self.importance_weights else summed, axis=-1)
        bellman_loss = jnp.mean((q_data - inputs["targets"]) ** 2)
        gap = jnp.mean(soft_max - q_data)  # over [E, B]
        return self.num_critics * (bellman_loss + self.cql_alpha * gap), {
            "bellman_loss": bellman_loss,
            "conservative_gap": gap,
            "q_mean": jnp.mean(q_data),
            "q_proposed_mean": jnp.mean(q_proposed),
            "q_abs_max": jnp.max(jnp.abs(q)),
            "target_mean": jnp.mean(inputs["targets"]),
        }


@dataclass(frozen=True)
class UDS(CQL):
    """All shared data, none of its rewards."""

    def draw(self, state: State, pool: Pool, key: Array) -> Batch:
        """Uniform over the pooled transitions; shared ones with reward 0."""
        return unrewarded(super().draw(state, pool, key))


def sample_actions(mean: Array, std: Array, noise: Array) -> tuple[Array, Array]:
    """n actions [B, n, A] and their log densities [B, n], of Gaussians [B, A] under tanh, from noise [B, n, A]."""
    return squash(mean[:, None], std[:, None], noise)


def unrewarded(batch: Batch) -> Batch:
    """The batch with shared rewards set to 0."""
    return batch._replace(rewards=batch.rewards * batch.own)


RELEASED = {
    "architecture": "released",
    "normalise": False,
    "tau": 1e-2,
    "cql_alpha": 50.0,
    "num_actions": 3,
    "importance_weights": False,
    "data_action": True,
}
# Sizes are ours; learning rates, targets and the weight are the best of twelve trials: see docs/results/tuning.md.
FAST = {
    "batch_size": 256,
    "width": 128,
    "layers": 2,
    "num_actions": 4,
    "actor_lr": 1e-3,
    "anneal_steps": "100%",
    "n_step": 5,
    "tau": 1e-2,
    "cql_alpha": 0.6187,
}
PRESETS = usual_presets(FAST)
CQL_PRESETS = PRESETS | {"released": Preset(RELEASED, steps=1_000_000)}
register_algorithm("cql", CQL, label="CQL", presets=CQL_PRESETS, colour="#e69f00", order=10)
register_algorithm("uds", UDS, label="UDS", presets=PRESETS, single_task="cql", colour="#f0e442", order=40)
