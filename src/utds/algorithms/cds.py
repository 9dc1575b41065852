"""CDS (Yu et al., 2021): CQL that shares only transitions of high conservative value; CDS-Zero does without rewards.

At every step the shared data offers ten times the transitions that are wanted; the tenth with the highest conservative
Q joins the main task's own data. Where nothing is shared it is CQL, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from jax import Array

from utds.algorithms.base import MOST, Count, interval
from utds.algorithms.cql import CQL, PRESETS, RELEASED, unrewarded
from utds.algorithms.registry import Preset, register_algorithm
from utds.algorithms.sac import State
from utds.data.pool import Batch, Pool
from utds.errors import ConfigError
from utds.networks import q_values

Ranking = Literal["min", "first"]


@dataclass(frozen=True)
class CDS(CQL):
    ranking: Ranking = "min"  # what shared transitions are ranked by: the least of the critics, or the first of them
    candidates: Count = 10  # shared transitions drawn for each one kept
    shared_share: Annotated[float, interval("(0, 1)")] = 0.5  # share of the batch that is selected from shared data

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.kept < self.batch_size:
            of = f"shared_share={self.shared_share} of batch_size={self.batch_size}"
            raise ConfigError(f"{of} leaves no transition of shared or none of own data; give a larger batch_size")
        if self.kept * self.candidates > MOST:
            raise ConfigError(f"candidates={self.candidates} for each of {self.kept} kept are over {MOST}; give fewer")

    @property
    def kept(self) -> int:
        """Shared transitions in a batch."""
        return round(self.batch_size * self.shared_share)

    def draw(self, state: State, pool: Pool, key: Array) -> Batch:
        """Own data, and the best of the shared data; own data alone where nothing is shared."""
        if pool.shared_size == 0:
            return pool.sample_own(key, self.batch_size, self.n_step, self.discount)
        own_key, shared_key = jax.random.split(key)
        offered = pool.sample_shared(shared_key, self.kept * self.candidates, self.n_step, self.discount)
        own = pool.sample_own(own_key, self.batch_size - self.kept, self.n_step, self.discount)
        return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), own, self.best(state, offered, self.kept))

    def best(self, state: State, batch: Batch, count: int) -> Batch:
        """The `count` transitions with the highest min_n Q_n(s, a), or Q_1(s, a)."""
        q = q_values(state.critic, state.normalizer(batch.observations), batch.actions)  # [E, B]
        chosen = jax.lax.top_k(jnp.min(q, axis=0) if self.ranking == "min" else q[0], count)[1]
        return jax.tree.map(lambda column: column[chosen], batch)


@dataclass(frozen=True)
class CDSZero(CDS):
    """CDS whose shared data carries reward 0."""

    def draw(self, state: State, pool: Pool, key: Array) -> Batch:
        """As CDS; shared transitions with reward 0."""
        return unrewarded(super().draw(state, pool, key))


CDS_PRESETS = PRESETS | {"released": Preset(RELEASED | {"ranking": "first"}, steps=1_000_000)}
register_algorithm("cds", CDS, label="CDS", presets=CDS_PRESETS, single_task="cql", colour="#009e73", order=20)
register_algorithm(
    "cds-zero", CDSZero, label="CDS-Zero", presets=CDS_PRESETS, single_task="cql", colour="#56b4e9", order=30
)
