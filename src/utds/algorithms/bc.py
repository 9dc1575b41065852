"""Behaviour cloning: the policy that regresses the data's actions, min_π mean |π(s) − a|²."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from utds.algorithms.base import Actor, Metrics, Spec
from utds.algorithms.registry import register_algorithm, usual_presets
from utds.data.pool import Batch
from utds.networks import MLP, Normalizer, deterministic, init_mlp


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
        actor = init_mlp(key, self.layer_sizes(spec.observation_size, spec.action_size), self.layer_norm)
        return State(**self.fresh_state(spec, actor=actor))

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
register_algorithm("bc", BC, label="BC", presets=usual_presets(FAST), colour="#000000", order=80)
