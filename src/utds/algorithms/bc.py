"""Behaviour cloning: the policy that regresses the data's actions, min_π mean |π(s) − a|²."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from utds.algorithms import base
from utds.algorithms.base import Metrics, Spec, Steps
from utds.algorithms.registry import register_algorithm
from utds.networks import MLP, deterministic, init_mlp
from utds.normalizer import Normalizer

if TYPE_CHECKING:
    from utds.data.pool import Batch, Pool


class State(NamedTuple):
    """Everything that training changes, and the normalisation that the policy needs."""

    step: Array  # gradient steps taken
    normalizer: Normalizer
    actor: MLP
    actor_opt_state: Any  # Adam's


@dataclass(frozen=True)
class BC:
    width: int = 256  # units of a hidden layer
    layers: int = 2  # hidden layers
    layer_norm: bool = False  # normalise hidden layers before their ReLU
    normalise: bool = True  # scale observations by the data's mean and standard deviation
    batch_size: int = 256  # transitions per gradient step
    actor_lr: float = 3e-4  # Adam's learning rate
    anneal_steps: Steps = None  # steps, or "100%" of the run, over which learning rates fall to 0; none: constant

    def __post_init__(self) -> None:
        base.validate(self)

    def init(self, key: Array, spec: Spec) -> State:
        """A fresh policy."""
        sizes = (spec.observation_size, *(self.width,) * self.layers, spec.action_size)
        actor = init_mlp(key, sizes, self.layer_norm)
        normalizer = spec.normalizer(self.normalise)
        return State(jnp.zeros((), jnp.int32), normalizer, actor, base.adam_init(actor, self.actor_lr))

    def draw(self, state: State, pool: Pool, key: Array) -> Batch:
        """Uniform over the pooled transitions."""
        return pool.sample(key, self.batch_size)

    def act(self, state: State, observations: Array) -> Array:
        """[B, O] -> [B, A]."""
        return deterministic(state.actor, state.normalizer(observations))

    def update(self, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        """One step of regression; nothing here is random."""
        loss, grads = jax.value_and_grad(self.actor_loss)(state.actor, state.normalizer.batch(batch))
        lr = base.annealed_lr(self.actor_lr, state.step, self.anneal_steps)
        actor, opt_state = base.adam_step(grads, state.actor, state.actor_opt_state, lr)
        state = state._replace(step=state.step + 1, actor=actor, actor_opt_state=opt_state)
        return state, {"actor_loss": loss, "own_share": jnp.mean(batch.own)}

    def actor_loss(self, actor: MLP, batch: Batch) -> Array:
        """mean |π(s) − a|², also over the action's coordinates."""
        return jnp.mean((deterministic(actor, batch.observations) - batch.actions) ** 2)


register_algorithm("bc", BC, label="BC", colour="#000000", order=80)
