"""The pool: a task and a few ranges into a lake of columns, sampled on the device inside jit.

A `Pool` is a JAX pytree, meant to be an *argument* of jitted functions: nothing of it is closed over, nothing of it
belongs in a scan's carry. Pools of one lake share its columns, so sixty of them cost little more than one.

    columns   | dataset 0 | dataset 1 | dataset 2 | dataset 3 |      held once, for every pool of the lake
    ranges          ^ source 1              ^ source 0 (own)         start, size, reward row: K numbers each

Reward, termination and action n belong to the step from observation row `rows[n]` to `rows[n] + 1`.

Where a pool has weights (see `Weights`), it keeps their running sum as whole numbers: a draw is one random number and
one binary search.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from utds.data.cache import function_identity
from utds.data.columns import KNOWN, first_true
from utds.data.dataset import Dataset
from utds.data.labelling import with_options
from utds.errors import ConfigError, DataError

UNIFORM, RETURNS, DYNAMICS = "uniform", "returns", "dynamics"  # weights that have a name
_TOTAL = 2**31 - 2  # of the running sum: what 32 bits can count

Sampling = Literal["transitions", "episodes"]


class Batch(NamedTuple):
    """What a learner sees: B transitions of the pool, or stretches of up to n steps.

    An n-step row leads from s_t to s_{t+m}, m ≤ n, and never across an episode's end:

        rewards            r_t + γ·r_{t+1} + … + γ^{m−1}·r_{t+m−1}
        terminations       whether the last of these steps ended the episode
        next_observations  s_{t+m}
    """

    observations: Array  # [B, O] float32
    actions: Array  # [B, A] float32, in [-1, 1]
    rewards: Array  # [B] float32, of the pool's task
    terminations: Array  # [B] float32, 1 = the episode truly ended here; 0 also at a time limit
    next_observations: Array  # [B, O] float32
    own: Array  # [B] float32, 1 = the main task's own data
    source: Array  # [B] int32, 0 = own, 1, 2, … = shared, in the order given
    sources: Array | None = None  # [B, K] float32, `source` as one-hot rows, as wide as there are sources
    steps: Array | None = None  # [B] float32, steps from observations to next_observations; None: one each
    next_actions: Array | None = None  # [B, A] the data's action at next_observations, where it goes on; if asked for
    continues: Array | None = None  # [B] float32, 1 = it goes on there: next_actions is known; if asked for


@jax.tree_util.register_dataclass
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
    """Where a pool's K sources lie in the columns. Source 0 is the main task's own data."""

    start: Array  # [K] int32, first transition
    size: Array  # [K] int32, transitions
    episode: Array  # [K] int32, first episode
    episodes: Array  # [K] int32, number of episodes
    reward: Array  # [K] int32, the row of `Columns.rewards` to read


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
    rewards: str = field(default=KNOWN, compare=False)  # identity of the labelling of shared data
    sampling: Sampling = "transitions"
    action_low: tuple[float, ...] = field(default=(), compare=False)  # bounds of actions in the robot's unit; …
    action_high: tuple[float, ...] = field(default=(), compare=False)  # … empty where that is [-1, 1]
    weights: str = field(default=UNIFORM, compare=False)  # where the weights of transitions come from
    datasets: tuple[Dataset, ...] = field(default=(), compare=False, repr=False)  # the sources themselves


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False)
class Pool:
    """Main and shared data of one task, ready to be sampled."""

    columns: Columns
    ranges: Ranges
    mean: Array  # [O] of the observations that transitions leave, over the pool
    std: Array  # [O], likewise; 1 where a feature is constant, so that dividing by it is safe
    reward_min: Array  # [] over the pool, as relabelled
    reward_max: Array  # []
    reward_size: Array  # [] mean absolute reward
    own_mean: Array  # [O] as `mean` and `std`, of the main task's own data
    own_std: Array  # [O]
    info: Info = field(metadata={"static": True})
    weights: Array | None = None  # [size] int32, running sum of how often each transition is drawn; None: all alike

    def __repr__(self) -> str:
        sources = (f"{id} ({size} transitions)" for id, size in zip(self.info.ids, self.info.sizes, strict=True))
        return f"<Pool for {self.info.task}: {', '.join(sources)}>"

    def _repr_html_(self) -> str:
        from utds import html

        head = ("data", "", "transitions", "episodes", f"return as {self.info.task}", "")
        rows = []
        for index, (id, returns) in enumerate(zip(self.info.ids, self.returns(), strict=True)):
            role = "shared" if index else "main"
            numbers = f"{self.info.sizes[index]:,}", f"{len(returns):,}", f"{returns.mean():.4g} ± {returns.std():.3g}"
            rows.append((id, role, *numbers, html.histogram(returns, "returns")))
        note = f"rewards of shared data: {self.info.rewards}; drawn by {self.info.sampling}, {self.info.weights}"
        return html.block(f"Pool for {self.info.task}", html.table(head, rows), html.text(note))

    def returns(self) -> list[np.ndarray]:
        """The return of every episode in the rewards of the pool's task, for each source: [E] float64."""
        bounds, found = np.asarray(self.columns.episodes), []
        for start, size, first, count, row in zip(*map(np.asarray, self.ranges), strict=True):
            rewards = np.asarray(self.columns.rewards[row, start : start + size])
            found.append(np.add.reduceat(rewards, bounds[first : first + count] - start, dtype=np.float64))
        return found

    @property
    def own_rewards(self) -> Array:
        """The rewards of the main task's own data."""
        start, size, row = (int(column[0]) for column in (self.ranges.start, self.ranges.size, self.ranges.reward))
        return self.columns.rewards[row, start : start + size]

    @property
    def observation_size(self) -> int:
        return self.columns.observations.shape[-1]

    @property
    def action_size(self) -> int:
        return self.columns.actions.shape[-1]

    @property
    def size(self) -> int:
        """Transitions of all sources."""
        return sum(self.info.sizes)

    @property
    def shared_size(self) -> int:
        """Transitions of the shared sources alone."""
        return sum(self.info.sizes[1:])

    def sample(
        self, key: Array, size: int, n_step: int = 1, discount: float = 1.0, next_actions: bool = False
    ) -> Batch:
        """`size` transitions, uniform over the pool (or by episode and then step, where `info.sampling` says so).

        With `n_step` > 1 each row is a stretch of that many steps, fewer before an episode's end; see `Batch`.
        """
        index, source = self._pick(key, size, jnp.ones(len(self.ranges.size), bool))
        batch = self._stretch(index, source, n_step, discount)
        return self._with_next_actions(batch, index) if next_actions else batch

    def sample_own(self, key: Array, size: int, n_step: int = 1, discount: float = 1.0) -> Batch:
        """The same of the main task's own data."""
        return self._stretch(*self._pick(key, size, jnp.arange(len(self.ranges.size)) == 0), n_step, discount)

    def sample_shared(self, key: Array, size: int, n_step: int = 1, discount: float = 1.0) -> Batch:
        """The same of the shared data, uniform over all of it."""
        if self.shared_size == 0:
            raise ConfigError(f"the pool of {self.info.task} has no shared data to sample; share at least one dataset")
        return self._stretch(*self._pick(key, size, jnp.arange(len(self.ranges.size)) > 0), n_step, discount)

    def take(self, index: Array) -> Batch:
        """The transitions at positions 0 … size−1 of the pool; the own data comes first."""
        source, offset = _locate(index, self.ranges.size)
        return self._gather(self.ranges.start[source] + offset, source)

    def _pick(self, key: Array, size: int, allowed: Array) -> tuple[Array, Array]:
        """Transitions [size] of the sources that are allowed [K], and the source of each."""
        ranges = self.ranges
        if self.weights is not None:
            return self._weighted(key, size, allowed)
        if self.info.sampling == "transitions":
            sizes = jnp.where(allowed, ranges.size, 0)
            source, offset = _locate(jax.random.randint(key, (size,), 0, sizes.sum()), sizes)
            return ranges.start[source] + offset, source
        pick, walk = jax.random.split(key)
        counts = jnp.where(allowed, ranges.episodes, 0)
        source, offset = _locate(jax.random.randint(pick, (size,), 0, counts.sum()), counts)
        episode = ranges.episode[source] + offset
        bounds = self.columns.episodes
        return jax.random.randint(walk, (size,), bounds[episode], bounds[episode + 1]), source

    def _stretch(self, index: Array, source: Array, n_step: int, discount: float) -> Batch:
        """The steps from transition `index` on, n at most and none beyond the episode."""
        batch = self._gather(index, source)
        if n_step == 1:
            return batch
        columns, row = self.columns, self.columns.rows[index]
        end = self._end(index)
        steps = jnp.minimum(n_step, end - index)
        ahead = jnp.arange(1, n_step)  # the first step's reward is in the batch already
        later = jnp.minimum(index[:, None] + ahead, end[:, None] - 1)  # [B, n − 1], stopping at the episode's last
        rewards = columns.rewards[self.ranges.reward[source][:, None], later]
        rewards = jnp.where(ahead < steps[:, None], rewards * discount**ahead, 0.0)
        return batch._replace(
            rewards=batch.rewards + jnp.sum(rewards, axis=1),
            terminations=columns.terminations[index + steps - 1].astype(jnp.float32),
            next_observations=columns.observations[row + steps],
            steps=steps.astype(jnp.float32),
        )

    def _with_next_actions(self, batch: Batch, index: Array) -> Batch:
        """The batch with the action that follows each stretch from transition `index` on, if its episode goes on."""
        end = self._end(index)
        after = index + (1 if batch.steps is None else batch.steps.astype(index.dtype))
        actions = self.columns.actions[jnp.minimum(after, end - 1)]
        return batch._replace(next_actions=actions, continues=(after < end).astype(jnp.float32))

    def _end(self, index: Array) -> Array:
        """The transition after the last of an episode that a transition belongs to: [B] -> [B]."""
        episode = self.columns.rows[index] - index  # each episode adds one row
        return self.columns.episodes[episode + 1]

    def _weighted(self, key: Array, size: int, allowed: Array) -> tuple[Array, Array]:
        """Transitions [size] of the allowed sources, each as often as its weight says, and their sources."""
        assert self.weights is not None
        ranges, ends = self.ranges, jnp.cumsum(self.ranges.size)
        total = jnp.where(ends > 0, self.weights[ends - 1], 0)  # [K] of all sources up to each
        masses = jnp.diff(total, prepend=0)
        chosen = jnp.where(allowed, masses, 0)
        source, rest = _locate(_below(jax.random.bits(key, (size,), jnp.uint32), chosen.sum()), chosen)
        position = jnp.searchsorted(self.weights, (total - masses)[source] + rest, side="right")
        return ranges.start[source] + position - (ends - ranges.size)[source], source

    def _gather(self, index: Array, source: Array) -> Batch:
        columns, row = self.columns, self.columns.rows[index]
        return Batch(
            observations=columns.observations[row],
            actions=columns.actions[index],
            rewards=columns.rewards[self.ranges.reward[source], index],
            terminations=columns.terminations[index].astype(jnp.float32),
            next_observations=columns.observations[row + 1],
            own=(source == 0).astype(jnp.float32),
            source=source,
            sources=jax.nn.one_hot(source, len(self.ranges.size)),
        )


def _below(bits: Array, limit: Array) -> Array:
    """⌊bits·limit / 2³²⌋: 32 random bits as a number below `limit`.

    Whatever 2³² lacks of being a multiple of the limit is spread over all numbers. `jax.random.randint` puts it on the
    small ones, which is too much for limits of the order of 2³¹.
    """
    limit = limit.astype(jnp.uint32)
    high, low = (bits >> 16) * (limit & 0xFFFF), (bits & 0xFFFF) * (limit >> 16)
    carry = ((bits & 0xFFFF) * (limit & 0xFFFF) >> 16) + (high & 0xFFFF) + (low & 0xFFFF)
    return ((bits >> 16) * (limit >> 16) + (high >> 16) + (low >> 16) + (carry >> 16)).astype(jnp.int32)


def _locate(position: Array, sizes: Array) -> tuple[Array, Array]:
    """The range each position [B] falls in when ranges of these sizes [K] are laid end to end, and the offset there."""
    ends = jnp.cumsum(sizes)
    source = jnp.sum(position[:, None] >= ends[:-1], axis=1, dtype=jnp.int32)  # K is small: no search needed
    return source, position - (ends - sizes)[source]


# How often each transition is drawn


class Source(NamedTuple):
    """A dataset of a pool, as weights see it."""

    dataset: Dataset
    rewards: np.ndarray  # [n] of the pool's task
    own: bool  # whether it is the main task's own data


WeightFunction = Callable[[Sequence[Source]], Sequence[object]]
# What `share` takes: a function or its result, an array [n] of non-negative numbers for each dataset, the main one's
# first; "returns", see `ReturnWeights`; "dynamics", see `utds.adviser.dynamics.DynamicsWeights`; None: all alike.
Weights = WeightFunction | Sequence[object] | str | None


@dataclass(frozen=True)
class ReturnWeights:
    """exp(g / temperature) for the transitions of an episode of return g, returns brought to [0, 1] over the pool.

    Trajectory weighting (Hong et al., 2023): a learner that stays near its data stays near the better part of it.
    """

    temperature: float = 0.2  # the lower, the more the best episodes count

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ConfigError(f"temperature is {self.temperature}; give a positive number")

    @property
    def identity(self) -> str:
        return f"{RETURNS}:temperature={self.temperature}"

    def __call__(self, sources: Sequence[Source]) -> list[np.ndarray]:
        returns = [source.dataset.returns_with(source.rewards) for source in sources]
        low, high = min(g.min() for g in returns), max(g.max() for g in returns)
        width = high - low or 1.0
        return [
            np.repeat(np.exp((g - high) / width / self.temperature), source.dataset.lengths)
            for g, source in zip(returns, sources, strict=True)
        ]


def weigh(weights: Weights, sources: Callable[[], Sequence[Source]]) -> tuple[str, np.ndarray | None]:
    """What a pool notes of its weights, and their running sum [M] int32; none where they are uniform."""
    if weights is None or (isinstance(weights, str) and weights == UNIFORM):
        return UNIFORM, None
    if isinstance(weights, str):
        weights = _named(weights)
    found = sources()
    if callable(weights):
        return getattr(weights, "identity", None) or function_identity(weights), running(weights(found), found)
    content = b"".join(np.ascontiguousarray(part, np.float64).tobytes() for part in weights)
    return f"arrays@{hashlib.sha256(content).hexdigest()[:16]}", running(weights, found)


def running(parts: Sequence[object], sources: Sequence[Source]) -> np.ndarray:
    """The running sum [M] int32 of weights for the transitions of each source, one source after the other.

    Weights are rounded to about a two-billionth of their sum, and none that is positive to 0.
    """
    if len(parts) != len(sources):
        raise DataError(f"weights of {len(parts)} datasets were given for {len(sources)}; give one array for each")
    arrays = []
    for part, source in zip(parts, sources, strict=True):
        array, name, size = np.asarray(part, np.float64), source.dataset.name, source.dataset.size
        if array.shape != (size,):
            raise DataError(f"weights of {name} have shape {list(array.shape)}; [{size}] is needed")
        if (row := first_true(~(np.isfinite(array) & (array >= 0)))) is not None:
            raise DataError(f"weights of {name}, transition {row}: {array[row]}; give numbers from 0 on")
        if not array.any():
            raise DataError(f"all weights of {name} are 0; leave it out")
        arrays.append(array)
    joined = np.concatenate(arrays)
    joined = np.ldexp(joined, -np.frexp(joined.max())[1])  # by a power of two: exact, and no sum overflows
    counts = np.ceil(joined * ((_TOTAL - len(joined)) / joined.sum())).astype(np.int64)
    return np.cumsum(counts).astype(np.int32)


def _named(text: str) -> WeightFunction:
    """Weights from a line such as "returns" or "returns:temperature=0.2"."""
    from utds.adviser.dynamics import DynamicsWeights  # which compares data: more than most pools need

    kinds: dict[str, Callable[..., WeightFunction]] = {RETURNS: ReturnWeights, DYNAMICS: DynamicsWeights}
    name = _name(text)
    if name not in kinds:
        raise ConfigError(f"weights={text!r} is unknown; use {UNIFORM}, {', '.join(kinds)}, or returns:temperature=0.2")
    return with_options(kinds[name], text, "weights")


def can_be_remade(identity: str) -> bool:
    """Whether weights are made again from their identity in no time; functions and arrays aren't stored."""
    return _name(identity) in (UNIFORM, RETURNS)


def weigh_dynamics(identity: str) -> bool:
    """Whether weights draw data that moves otherwise less often, so that it needn't be refused."""
    return _name(identity) == DYNAMICS


def _name(identity: str) -> str:
    return identity.partition("@")[0].partition(":")[0]
