"""Behaviour cloning: the policy that regresses the data's actions, min_π mean |π(s) − a|²."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from utds.algorithms import base
from utds.algorithms.base import Actor, Metrics, Spec
from utds.algorithms.registry import Preset, register_algorithm
from utds.networks import MLP, Normalizer, deterministic, init_mlp

if TYPE_CHECKING:
    from utds.data.pool import Batch


class State(NamedTuple):
    """Everything that training changes, and the normalisation that the policy needs."""

    step: Array  # gradient steps taken
    normalizer: Normalizer
    actor: MLP
    actor_opt_state: Any  # Adam's


@dataclass(frozen=True)
class BC(Actor):
    def init(self, key: Array, spec: Spec) -> State:
        """A fresh policy."""
        sizes = (spec.observation_size, *(self.width,) * self.layers, spec.action_size)
        actor = init_mlp(key, sizes, self.layer_norm)
        normalizer = spec.normalizer(self.normalise, self.normalise_by)
        return State(jnp.zeros((), jnp.int32), normalizer, actor, base.adam_init(actor, self.actor_lr))

    def update(self, state: State, batch: Batch, key: Array) -> tuple[State, Metrics]:
        """One step of regression; nothing here is random."""
        state, metrics = self.actor_step(state, self.actor_loss, state.normalizer.batch(batch))
        return state._replace(step=state.step + 1), metrics | {"own_share": jnp.mean(batch.own)}

    def actor_loss(self, actor: MLP, batch: Batch) -> tuple[Array, Metrics]:
        """mean |π(s) − a|², also over the action's coordinates."""
        loss = jnp.mean((deterministic(actor, batch.observations) - batch.actions) ** 2)
        return loss, {"actor_loss": loss}


# The best of twelve trials: docs/results/tuning.md.
FAST = {"width": 512, "actor_lr": 1e-3, "anneal_steps": "100%"}
PRESETS = {"paper": Preset(steps=1_000_000), "fast": Preset(FAST)}
register_algorithm("bc", BC, label="BC", presets=PRESETS, colour="#000000", order=80)
