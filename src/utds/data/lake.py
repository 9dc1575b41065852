"""The lake: every dataset of a robot, loaded once into prepared columns; pools are cut from it without copying.

Columns are read from disk straight into aligned memory that JAX then uses in place (on the CPU; a GPU gets one copy).

    columns.rewards    row 0   | what each dataset carries: rewards of its own task  |
                       row 1   | labels of walker-walk | …                           |     added when a pool needs them
                       row 2   | 0 0 0 0 …                                           |

A pool reads a row for each of its sources: row 0 for the main data, and the row of its labelling for what is shared.
"""

import contextlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from utds import terminal
from utds.data import ids
from utds.data.columns import COLUMNS, KNOWN, bounds_text, checked_column
from utds.data.dataset import Dataset
from utds.data.labelling import Known, Labelling, Rewards, carries, is_known, make
from utds.data.pool import Columns, Info, Pool, Ranges, Sampling, Source, Weights, weigh
from utds.errors import ConfigError, DataError
from utds.networks import divisor

_ALIGNMENT = 64  # bytes; what XLA wants of memory that it is to use in place


def share(
    main: Dataset,
    *others: Dataset,
    rewards: Rewards = KNOWN,
    sampling: Sampling = "transitions",
    weights: Weights = None,
) -> Pool:
    """Pool a task's own data with other tasks' data, relabelled for it.

    Each dataset is loaded once, into a lake of its own; to make several pools of the same data without loading it
    again, cut them from one `Lake`.

    Args:
        main: data of the task to learn; keeps its rewards.
        others: data to share. What carries rewards of the same task, from the same labelling, keeps them too.
        rewards: how the rest is labelled: "known" (recorded, or recomputed from physics), "learned" (or a
            `LearnedReward`), "zero", "goal:0=0.5" (the distance from a goal in these features), or a function
            `reward(observations, actions, next_observations) -> [b]`, actions in the robot's unit.
        sampling: uniform over "transitions", or over "episodes" and then their steps.
        weights: how often each transition is drawn, where they aren't all alike: "returns" (good episodes more often),
            "dynamics" (data that seems to follow other dynamics less often), an array for each dataset, or a
            function; see `utds.data.pool`.

    Returns:
        The pool, for `utds.train`.
    """
    return Lake([main, *others]).pool(main, *others, rewards=rewards, sampling=sampling, weights=weights)


@dataclass(frozen=True)
class _Span:
    """Where a dataset lies in the lake; mean and squared deviations of the observations that its transitions leave."""

    transitions: slice
    episode: int  # first episode
    mean: np.ndarray  # [O] float64
    square: np.ndarray  # [O] float64, sum of squared distances from the mean


class Lake:
    """Datasets of one robot in one set of columns; `pool` cuts any number of pools from it.

    Rewards are labelled when a pool first needs them. `tasks` are labelled at once: pools of those tasks then share one
    table of rewards, and with it one compilation.
    """

    def __init__(self, datasets: Sequence[Dataset], tasks: Iterable[str] = ()):
        self.datasets = tuple(datasets)
        check_compatible(self.datasets)
        size, episodes = (sum(getattr(data, name) for data in self.datasets) for name in ("size", "episodes"))
        if size + episodes >= 2**31:
            raise DataError(f"{size} transitions are more than 32-bit indices can count; share fewer datasets")
        columns = {
            "observations": _aligned((size + episodes, self.datasets[0].observation_size), np.float32),
            "actions": _aligned((size, self.datasets[0].action_size), np.float32),
            "terminations": _aligned((size,), np.bool_),
            "rows": _aligned((size,), np.int32),
            "rewards": _aligned((1, size), np.float32),
            "episodes": _aligned((episodes + 1,), np.int32),
        }
        self._spans: list[_Span] = []
        start = episode = 0
        with terminal.bar("loading", size, "transitions") as advance:
            for data in self.datasets:
                self._spans.append(_load(data, columns, start, episode))
                start, episode = start + data.size, episode + data.episodes
                advance(data.size, note=data.name)
        columns["episodes"][-1] = size
        self.columns = Columns(**jax.device_put(columns))
        # For each row of `columns.rewards` from 1 on: labelling, task and, where it matters, the main dataset; and
        # which datasets are labelled in it.
        self._labels: list[tuple[Hashable, frozenset[int]]] = []
        # (row, dataset) -> least, greatest, Σ |r|
        self._rewards: dict[tuple[int, int], tuple[float, float, float]] = {}
        self._measure(0, columns["rewards"][0], range(len(self.datasets)))
        for task in tasks:
            known = [i for i, data in enumerate(self.datasets) if data.metadata.task != task and is_known(data, task)]
            if known:
                self._labelled((KNOWN, task, None), known, partial(Known().label, task=task))

    def pool(
        self,
        main: Dataset | str,
        *others: Dataset | str,
        rewards: Rewards = KNOWN,
        sampling: Sampling = "transitions",
        weights: Weights = None,
    ) -> Pool:
        """A pool of datasets of this lake, given themselves or by id; see `share`."""
        if sampling not in ("transitions", "episodes"):
            raise ConfigError(f"sampling={sampling!r} is unknown; use transitions or episodes")
        sources = [self._index(dataset) for dataset in (main, *others)]
        data, spans = [self.datasets[i] for i in sources], [self._spans[i] for i in sources]
        labelling = make(rewards)
        rows = self._rows(sources, labelling)
        weighing, running = weigh(weights, lambda: self._weighed(sources, rows))
        if running is not None and sampling != "transitions":
            raise ConfigError("weights are of transitions: leave out sampling='episodes'")
        mean, std = _statistics(data, spans)
        own_mean, own_std = _statistics(data[:1], spans[:1])
        least, greatest, total = np.array([self._rewards[row, i] for row, i in zip(rows, sources, strict=True)]).T
        own, sizes = data[0].metadata, tuple(dataset.size for dataset in data)
        return Pool(
            columns=self.columns,
            ranges=Ranges(
                start=_ints(span.transitions.start for span in spans),
                size=_ints(sizes),
                episode=_ints(span.episode for span in spans),
                episodes=_ints(dataset.episodes for dataset in data),
                reward=_ints(rows),
            ),
            mean=jnp.array(mean, jnp.float32),
            std=jnp.array(std, jnp.float32),
            reward_min=jnp.float32(least.min()),
            reward_max=jnp.float32(greatest.max()),
            reward_size=jnp.float32(total.sum() / sum(sizes)),
            own_mean=jnp.array(own_mean, jnp.float32),
            own_std=jnp.array(own_std, jnp.float32),
            info=Info(
                task=own.task,
                domain=own.domain,
                ids=tuple(dataset.name for dataset in data),
                digests=tuple(dataset.digest for dataset in data),
                sizes=sizes,
                rewards=labelling.identity,
                sampling=sampling,
                action_low=own.action_low,
                action_high=own.action_high,
                weights=weighing,
                datasets=tuple(data),
            ),
            weights=None if running is None else jnp.asarray(running),
        )

    def _index(self, wanted: Dataset | str) -> int:
        for index, data in enumerate(self.datasets):
            if data is wanted or data.name == wanted:
                return index
        if isinstance(wanted, str):
            with contextlib.suppress(DataError):  # as loading does: without a version, the newest
                newest = ids.short(ids.find(wanted)[0])
                if newest != wanted:
                    return self._index(newest)
        name = wanted if isinstance(wanted, str) else wanted.name
        raise DataError(f"{name} is not in this lake; it holds {', '.join(data.name for data in self.datasets)}")

    def _rows(self, sources: Sequence[int], labelling: Labelling) -> list[int]:
        """The row of `columns.rewards` that each source reads; labels are made at their first use."""
        own, main = sources[0], self.datasets[sources[0]]
        lacking = list(dict.fromkeys(i for i in sources if not carries(self.datasets[i], main)))
        if not lacking:
            return [0] * len(sources)
        key = (labelling.identity, main.metadata.task, own if labelling.uses_main else None)
        row = self._labelled(key, lacking, lambda data: labelling.label(data, main.metadata.task, main))
        return [row if i in lacking else 0 for i in sources]

    def _weighed(self, sources: Sequence[int], rows: Sequence[int]) -> list[Source]:
        """The sources as weights see them."""
        table = np.asarray(self.columns.rewards)
        return [
            Source(self.datasets[i], table[row, self._spans[i].transitions], i == sources[0])
            for i, row in zip(sources, rows, strict=True)
        ]

    def _labelled(self, key: Hashable, wanted: Sequence[int], label: Callable[[Dataset], np.ndarray]) -> int:
        """The row with these labels of the wanted datasets. Rows are only ever added: earlier pools stay right."""
        for row, (known, labelled) in enumerate(self._labels, start=1):
            if known == key and labelled.issuperset(wanted):
                return row
        old = self.columns.rewards
        row = len(old)
        table = _aligned((row + 1, old.shape[1]), np.float32)
        table[:row], table[row] = old, 0
        for i in wanted:
            data = self.datasets[i]
            labels = checked_column(f"labels of {data.name}", label(data), COLUMNS["rewards"], data.lengths)
            table[row, self._spans[i].transitions] = labels
        self._measure(row, table[row], wanted)
        self.columns = replace(self.columns, rewards=jax.device_put(table))
        self._labels.append((key, frozenset(wanted)))
        return row

    def _measure(self, row: int, rewards: np.ndarray, datasets: Iterable[int]) -> None:
        for i in datasets:
            part = rewards[self._spans[i].transitions]
            self._rewards[row, i] = float(part.min()), float(part.max()), float(np.abs(part).sum(dtype=float))


def _load(data: Dataset, columns: dict[str, np.ndarray], start: int, episode: int) -> _Span:
    """Read a dataset into the columns, from this transition and this episode on."""
    part = slice(start, start + data.size)
    states = slice(start + episode, start + episode + data.size + data.episodes)
    data.read("observations", out=columns["observations"][states])
    data.read("actions", out=columns["actions"][part])
    data.read("terminations", out=columns["terminations"][part])
    data.read("rewards", out=columns["rewards"][0, part])
    columns["rows"][part] = data.rows + states.start
    columns["episodes"][episode : episode + data.episodes] = start + data.starts[:-1]
    return _Span(part, episode, *_moments(columns["observations"][states], data))


def _moments(observations: np.ndarray, data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Mean [O] of the rows that transitions leave (all but episodes' last), and sum of squared distances from it."""
    origin = observations[0].astype(np.float64)  # sums about a value of the data lose no digits to a large mean

    def sums(rows: np.ndarray) -> np.ndarray:
        distance = rows - origin
        return np.stack([distance.sum(axis=0), np.einsum("no,no->o", distance, distance)])

    total = sum(sums(observations[i : i + (1 << 14)]) for i in range(0, len(observations), 1 << 14))
    first, second = total - sums(observations[np.cumsum(data.lengths + 1) - 1])
    return origin + first / data.size, np.maximum(second - first**2 / data.size, 0)


def _statistics(data: Sequence[Dataset], spans: Sequence[_Span]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation [O] over several datasets, from those of each."""
    sizes = np.array([dataset.size for dataset in data], np.float64)[:, None]
    means = np.stack([span.mean for span in spans])
    mean = (sizes * means).sum(axis=0) / sizes.sum()
    square = sum(span.square for span in spans) + (sizes * (means - mean) ** 2).sum(axis=0)
    std = np.sqrt(square / sizes.sum())
    return mean, divisor(std)


def check_compatible(datasets: Sequence[Dataset]) -> None:
    """Only data of one robot can be pooled."""
    if not datasets:
        raise DataError("there is no dataset to load; give at least one")
    first, *others = datasets
    for other in others:
        mine, its = first.metadata, other.metadata
        if mine.domain != its.domain:
            ours, theirs = (meta.domain or "an unnamed domain" for meta in (mine, its))
            raise DataError(
                f"{first.name} is of {ours} and {other.name} of {theirs}; only data of one robot can be shared"
            )
        for what in ("observation", "action"):
            sizes = [getattr(data, f"{what}_size") for data in (first, other)]
            if sizes[0] != sizes[1]:
                raise DataError(
                    f"{first.name} has {what}s of {sizes[0]} numbers and {other.name} of {sizes[1]}; "
                    f"they can't be pooled"
                )
        bounds = [(meta.action_low, meta.action_high) for meta in (mine, its)]
        if bounds[0] != bounds[1]:
            ours, theirs = (bounds_text(*pair) for pair in bounds)
            raise DataError(
                f"{first.name} has actions in {ours} and {other.name} in {theirs}: one number means different actions; "
                f"import both with the same bounds (--actions LOW:HIGH)"
            )


def _aligned(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Uninitialised memory that JAX can take over in place."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    skip = -raw.ctypes.data % _ALIGNMENT
    return raw[skip : skip + size].view(dtype).reshape(shape)


def _ints(values: Iterable[int]) -> Array:
    return jnp.array(list(values), jnp.int32)
