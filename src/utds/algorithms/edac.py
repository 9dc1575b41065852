"""SAC-N and EDAC (An et al., 2021): soft actor-critic whose pessimism is the least of many critics.

N critics that agree on the data differ away from it, so their minimum is low there. EDAC needs fewer of them: it drives
apart the directions in which they grow, so that not all can be wrong in the same way.

    critics  Σ_n mean (y − Q_n(s, a))² + η/(N − 1)·mean Σ_{i≠j} cos(∇_a Q_i(s, a), ∇_a Q_j(s, a))
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from utds.algorithms.base import CriticInputs, Metrics, NonNegative
from utds.algorithms.registry import register_algorithm, usual_presets
from utds.algorithms.sac import SAC
from utds.errors import ConfigError
from utds.networks import MLP, action_gradients


@dataclass(frozen=True)
class SACN(SAC):
    """EDAC with η = 0."""

    num_critics: int = 10  # N critics


@dataclass(frozen=True)
class EDAC(SACN):
    eta: NonNegative = 1.0  # η, weight of the critics' gradient diversity

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_critics < 2:
            raise ConfigError("num_critics=1 has no other critic to differ from; use at least 2")

    def critic_loss(self, critic: MLP, inputs: CriticInputs) -> tuple[Array, Metrics]:
        """SAC's, and N·η times the mean cosine between two critics' gradients."""
        loss, metrics = super().critic_loss(critic, inputs)
        similarity = mean_cosine(action_gradients(critic, inputs["observations"], inputs["actions"]))
        return loss + self.num_critics * self.eta * similarity, metrics | {"gradient_similarity": similarity}


def mean_cosine(gradients: Array) -> Array:
    """The mean cosine of the angle between the gradients of two different critics: [E, B, A] -> []."""
    count = gradients.shape[0]
    # The small number stands under the root, whose own gradient at 0 isn't finite.
    directions = gradients / jnp.sqrt(jnp.sum(gradients**2, axis=-1, keepdims=True) + 1e-20)
    squared = jnp.sum(jnp.sum(directions, axis=0) ** 2, axis=-1)  # [B]: |Σ u_i|² = Σ_i |u_i|² + Σ_{i≠j} u_i·u_j
    pairs = squared - jnp.sum(directions**2, axis=(0, 2))
    return jnp.mean(pairs) / (count * (count - 1))


PRESETS = usual_presets({"width": 128, "layers": 2})
register_algorithm("sac-n", SACN, label="SAC-N", presets=PRESETS, colour="#aa4499", order=54)
register_algorithm("edac", EDAC, label="EDAC", presets=PRESETS, colour="#882255", order=53)
