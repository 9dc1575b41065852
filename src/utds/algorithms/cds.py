"""CDS (Yu et al., 2021): CQL that shares only transitions of high conservative value; CDS-Zero does without rewards.

At every step the shared data offers ten times the transitions that are wanted; the tenth with the highest conservative
Q joins the main task's own data. Layer norm, as the UTDS paper found CDS to need it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import Array

from utds.algorithms.cql import CQL, State, unrewarded
from utds.algorithms.networks import q_values

if TYPE_CHECKING:
    from utds.data.pool import Batch, Pool


@dataclass(frozen=True)
class CDS(CQL):
    layer_norm: bool = True  # normalise hidden layers before their ReLU
    candidates: int = 10  # shared transitions drawn for each one kept
    shared_share: float = 0.5  # share of the batch that is selected from shared data

    def draw(self, state: State, pool: Pool, key: Array) -> Batch:
        """Own data, and the best of the shared data; own data alone where nothing is shared."""
        if pool.shared_size == 0:
            return pool.sample_own(key, self.batch)
        own_key, shared_key = jax.random.split(key)
        kept = round(self.batch * self.shared_share)
        offered = pool.sample_shared(shared_key, kept * self.candidates)
        own = pool.sample_own(own_key, self.batch - kept)
        return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), own, self.best(state, offered, kept))

    def best(self, state: State, batch: Batch, count: int) -> Batch:
        """The `count` transitions with the highest min_n Q_n(s, a)."""
        q = jnp.min(q_values(state.critic, state.normal(batch.observations), batch.actions), axis=0)
        chosen = jax.lax.top_k(q, count)[1]
        return jax.tree.map(lambda column: column[chosen], batch)


@dataclass(frozen=True)
class CDSZero(CDS):
    """CDS whose shared data carries reward 0."""

    def draw(self, state: State, pool: Pool, key: Array) -> Batch:
        """As CDS; shared transitions with reward 0."""
        return unrewarded(super().draw(state, pool, key))
