"""Behaviour cloning: the policy that regresses the data's actions, min_π mean |π(s) − a|²."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from utds.algorithms import base
from utds.algorithms.base import Metrics, Normal, Spec
from utds.algorithms.networks import MLP, deterministic, init_mlp

if TYPE_CHECKING:
    from utds.data.pool import Batch, Pool


class State(NamedTuple):
    """Everything that training changes, and the normalisation that the policy needs."""

    step: Array  # gradient steps taken
    normal: Normal
    actor: MLP
    actor_moments: Any  # Adam's


@dataclass(frozen=True)
class BC:
    width: int = 256  # units of a hidden layer
    layers: int = 2  # hidden layers
    layer_norm: bool = False  # normalise hidden layers before their ReLU
    normalise: bool = True  # scale observations by the data's mean and standard deviation
    batch: int = 256  # transitions a gradient step
    actor_rate: float = 3e-4  # Adam's learning rate
    anneal_steps: int | None = None  # steps over which the learning rates fall linearly to nothing; none: constant

    def __post_init__(self) -> None:
        base.check(self)

    def init(self, key: Array, spec: Spec) -> State:
        """A fresh policy."""
        sizes = (spec.observation_size, *(self.width,) * self.layers, spec.action_size)
        actor = init_mlp(key, sizes, self.layer_norm)
        normal = Normal.of(spec, self.normalise)
        return State(jnp.zeros((), jnp.int32), normal, actor, base.start(actor, self.actor_rate))

    def draw(self, state: State, pool: Pool, key: Array) -> Batch:
        """Uniform over the pooled transitions."""
        return pool.sample(key, self.batch)

    def act(self, state: State, observations: Array) -> Array:
        """[B, O] -> [B, A]."""
        return deterministic(state.actor, state.normal(observations))

    def update(self, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        """One step of regression; nothing here is random."""
        loss, grads = jax.value_and_grad(self.actor_loss)(state.actor, state.normal.batch(batch))
        rate = base.annealed(self.actor_rate, state.step, self.anneal_steps)
        actor, moments = base.descend(grads, state.actor, state.actor_moments, rate)
        state = state._replace(step=state.step + 1, actor=actor, actor_moments=moments)
        return state, {"actor_loss": loss, "own_share": jnp.mean(batch.own)}

    def actor_loss(self, actor: MLP, batch: Batch) -> Array:
        """mean |π(s) − a|², also over the action's coordinates."""
        return jnp.mean((deterministic(actor, batch.observations) - batch.actions) ** 2)
