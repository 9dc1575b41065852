"""The pool: a task and a few ranges into a lake of columns, sampled on the device inside jit.

A `Pool` is a JAX pytree, meant to be an *argument* of jitted functions: nothing of it is closed over, nothing of it
belongs in a scan's carry. Pools of one lake share its columns, so sixty of them cost little more than one, and `stack`
puts them on a leading axis for `vmap`.

    columns   | dataset 0 | dataset 1 | dataset 2 | dataset 3 |      held once, for every pool of the lake
    ranges          ^ source 1              ^ source 0 (own)         start, size, reward row: K numbers each

Reward, termination and action n belong to the step from observation row `rows[n]` to `rows[n] + 1`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from utds.errors import ConfigError

Sampling = Literal["transitions", "episodes"]


class Batch(NamedTuple):
    """What a learner sees: B transitions of the pool."""

    observations: Array  # [B, O] float32
    actions: Array  # [B, A] float32, in [-1, 1]
    rewards: Array  # [B] float32, of the pool's task
    terminations: Array  # [B] float32, 1 = the episode truly ended here; 0 also at a time limit
    next_observations: Array  # [B, O] float32
    own: Array  # [B] float32, 1 = the main task's own data
    source: Array  # [B] int32, 0 = own, 1, 2, … = shared, in the order given
    sources: Array | None = None  # [B, K] float32, `source` as one-hot rows, as wide as there are sources


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["observations", "actions", "terminations", "rows", "rewards", "episodes"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Columns:
    """The columns of a lake: N transitions in E episodes, R = N + E observation rows, C reward columns."""

    observations: Array  # [R, O] float32: an episode of T steps has T + 1 rows
    actions: Array  # [N, A] float32
    terminations: Array  # [N] bool
    rows: Array  # [N] int32: the observation row that transition n leaves; it reaches the next row
    rewards: Array  # [C, N] float32: a row for every labelling, such as a task of the domain
    episodes: Array  # [E + 1] int32: the transition at which each episode starts; then N


class Ranges(NamedTuple):
    """Where a pool's K sources lie in the columns. Source 0 is the main task's own data; padding has size 0."""

    start: Array  # [K] int32, first transition
    size: Array  # [K] int32, transitions
    episode: Array  # [K] int32, first episode
    episodes: Array  # [K] int32, number of episodes
    reward: Array  # [K] int32, the row of `Columns.rewards` to read
    scale: Array  # [K] float32, factor of that reward: 1, or 0 for data shared without rewards


@dataclass(frozen=True)
class Info:
    """What a pool is made of; hashable, hence static under jit.

    Two infos are equal when a compiled program can't tell their pools apart: names don't count, so one compilation
    serves every pool of a lake with the same sizes.
    """

    task: str = field(compare=False)  # such as walker-walk
    domain: str | None = field(compare=False)  # None for data of no known domain
    ids: tuple[str, ...] = field(compare=False)  # of the sources, the main dataset first
    digests: tuple[str, ...] = field(compare=False)  # of the sources, in the same order
    sizes: tuple[int, ...]  # transitions of each source
    rewards: str = field(default="known", compare=False)  # how shared data was labelled: known, learned, zero, function
    sampling: Sampling = "transitions"
    members: tuple["Info", ...] = ()  # of a stack: what stands at each place of the leading axis


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["columns", "ranges", "mean", "std", "reward_min", "reward_max"],
    meta_fields=["info"],
)
@dataclass(frozen=True)
class Pool:
    """Main and shared data of one task, ready to be sampled."""

    columns: Columns
    ranges: Ranges
    mean: Array  # [O] of the observations that transitions leave, over the pool
    std: Array  # [O], likewise; 1 where a feature is constant, so that dividing by it is safe
    reward_min: Array  # [] over the pool, as relabelled
    reward_max: Array  # []
    info: Info

    @property
    def observation_size(self) -> int:
        return self.columns.observations.shape[-1]

    @property
    def action_size(self) -> int:
        return self.columns.actions.shape[-1]

    @property
    def size(self) -> int:
        """Transitions of all sources (of a stack: of its smallest member)."""
        return min((sum(info.sizes) for info in self.info.members), default=sum(self.info.sizes))

    @property
    def shared_size(self) -> int:
        """Transitions of the shared sources alone (of a stack: of the member that has fewest)."""
        return min((sum(info.sizes[1:]) for info in self.info.members), default=sum(self.info.sizes[1:]))

    def sample(self, key: Array, size: int) -> Batch:
        """`size` transitions, uniform over the pool (or by episode and then step, where `info.sampling` says so)."""
        return self._draw(key, size, jnp.ones(len(self.ranges.size), bool))

    def sample_own(self, key: Array, size: int) -> Batch:
        """`size` transitions of the main task's own data."""
        return self._draw(key, size, jnp.arange(len(self.ranges.size)) == 0)

    def sample_shared(self, key: Array, size: int) -> Batch:
        """`size` transitions of the shared data, uniform over all of it."""
        if self.shared_size == 0:
            raise ConfigError(f"the pool of {self.info.task} has no shared data to sample; share at least one dataset")
        return self._draw(key, size, jnp.arange(len(self.ranges.size)) > 0)

    def take(self, index: Array) -> Batch:
        """The transitions at positions 0 … size−1 of the pool; the own data comes first."""
        source, offset = _locate(index, self.ranges.size)
        return self._gather(self.ranges.start[source] + offset, source)

    def axes(self) -> "Pool":
        """What `jax.vmap` wants as `in_axes` of a stack: columns shared, everything else on the leading axis."""
        shared = jax.tree.map(lambda _: None, self.columns)
        return replace(jax.tree.map(lambda _: 0, self), columns=shared)

    def _draw(self, key: Array, size: int, allowed: Array) -> Batch:
        ranges = self.ranges
        if self.info.sampling == "transitions":
            sizes = jnp.where(allowed, ranges.size, 0)
            source, offset = _locate(jax.random.randint(key, (size,), 0, sizes.sum()), sizes)
            return self._gather(ranges.start[source] + offset, source)
        pick, walk = jax.random.split(key)
        counts = jnp.where(allowed, ranges.episodes, 0)
        source, offset = _locate(jax.random.randint(pick, (size,), 0, counts.sum()), counts)
        episode = ranges.episode[source] + offset
        bounds = self.columns.episodes
        return self._gather(jax.random.randint(walk, (size,), bounds[episode], bounds[episode + 1]), source)

    def _gather(self, index: Array, source: Array) -> Batch:
        columns, row = self.columns, self.columns.rows[index]
        return Batch(
            observations=columns.observations[row],
            actions=columns.actions[index],
            rewards=columns.rewards[self.ranges.reward[source], index] * self.ranges.scale[source],
            terminations=columns.terminations[index].astype(jnp.float32),
            next_observations=columns.observations[row + 1],
            own=(source == 0).astype(jnp.float32),
            source=source,
            sources=jax.nn.one_hot(source, len(self.ranges.size)),
        )


def _locate(position: Array, sizes: Array) -> tuple[Array, Array]:
    """The range each position [B] falls in when ranges of these sizes [K] are laid end to end, and the offset there."""
    ends = jnp.cumsum(sizes)
    source = jnp.sum(position[:, None] >= ends[:-1], axis=1, dtype=jnp.int32)  # K is small: no search needed
    return source, position - (ends - sizes)[source]


def stack(pools: Sequence[Pool]) -> Pool:
    """Pools of one lake on a leading axis, for `jax.vmap(f, in_axes=(stacked.axes(), …))`; the columns aren't copied.

    Pools with fewer sources are padded with ranges of size 0.
    """
    if not pools:
        raise ConfigError("there is no pool to stack; give at least one")
    # A lake only ever appends reward rows, so the longest table serves every pool made from it.
    columns = max((pool.columns for pool in pools), key=lambda columns: columns.rewards.shape[0])
    if any(pool.columns.observations is not columns.observations for pool in pools):
        raise ConfigError("only pools of one lake can be stacked; cut them from the same Lake")
    if len({pool.info.sampling for pool in pools}) > 1:
        raise ConfigError("pools that sample by transition and by episode can't be stacked; use one sampling")
    width = max(len(pool.ranges.size) for pool in pools)

    def padded(values: Array) -> Array:
        return jnp.pad(values, (0, width - len(values)))

    infos = tuple(pool.info for pool in pools)
    return Pool(
        columns=columns,
        ranges=jax.tree.map(lambda *values: jnp.stack([padded(value) for value in values]), *(p.ranges for p in pools)),
        mean=jnp.stack([pool.mean for pool in pools]),
        std=jnp.stack([pool.std for pool in pools]),
        reward_min=jnp.stack([pool.reward_min for pool in pools]),
        reward_max=jnp.stack([pool.reward_max for pool in pools]),
        info=replace(infos[0], task=" ".join(info.task for info in infos), members=infos),
    )
