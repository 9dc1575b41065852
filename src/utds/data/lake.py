"""The lake: every dataset of a robot, loaded once into prepared columns; pools are cut from it without copying.

Columns are read from disk straight into aligned memory that JAX then uses in place (on the CPU; a GPU gets one copy).
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from utds import progress
from utds.data import relabel
from utds.data.dataset import Dataset
from utds.data.pool import Columns, Info, Pool, Ranges, Sampling
from utds.data.relabel import Rewards
from utds.data.reward_model import LearnedReward
from utds.errors import ConfigError, DataError

_ALIGNMENT = 64  # bytes; what XLA wants of memory that it is to use in place
_CONSTANT = 1e-6  # deviation below which a feature counts as constant


def share(main: Dataset, *others: Dataset, rewards: Rewards = "known", sampling: Sampling = "transitions") -> Pool:
    """Pool a task's own data with other tasks' data, relabelled for it.

    `rewards` says how the shared data is labelled: `known` (recorded, or recomputed from physics), `learned` (or a
    `LearnedReward`), `zero`, or a function `reward(observations, actions, next_observations) -> [b]`.
    `sampling` is uniform over `transitions`, or over `episodes` and then steps.
    """
    return Lake([main, *others]).pool(main, *others, rewards=rewards, sampling=sampling)


@dataclass(frozen=True)
class _Place:
    """Where a dataset lies in the lake, and the moments of the observations that its transitions leave."""

    start: int  # first transition
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
        _check_together(self.datasets)
        size, episodes = (sum(getattr(data, name) for data in self.datasets) for name in ("size", "episodes"))
        if size + episodes >= 2**31:
            raise DataError(f"{size} transitions are more than 32-bit indices can count; share fewer datasets")
        columns = {
            "observations": _aligned((size + episodes, self.datasets[0].observation_size), np.float32),
            "actions": _aligned((size, self.datasets[0].action_size), np.float32),
            "terminations": _aligned((size,), np.bool_),
            "rows": _aligned((size,), np.int32),
            "rewards": _aligned((0, size), np.float32),
            "episodes": _aligned((episodes + 1,), np.int32),
        }
        self._places: list[_Place] = []
        with progress.bar("loading", size, "transitions") as advance:
            for data in self.datasets:
                self._places.append(_load(data, columns, self._places, self.datasets))
                advance(data.size, note=data.name)
        columns["episodes"][-1] = size
        self.columns = Columns(**jax.device_put(columns))
        self._rows: dict[Hashable, int] = {}  # labelling -> row of columns.rewards
        self._bounds: dict[tuple[int, int], tuple[float, float]] = {}  # (row, dataset) -> least and greatest reward
        for task in tasks:
            self._known(task)

    def pool(
        self,
        main: Dataset | str,
        *others: Dataset | str,
        rewards: Rewards = "known",
        sampling: Sampling = "transitions",
    ) -> Pool:
        """A pool of datasets of this lake, given themselves or by id; see `share`."""
        if sampling not in ("transitions", "episodes"):
            raise ConfigError(f"sampling={sampling!r} is unknown; use transitions or episodes")
        sources = [self._index(dataset) for dataset in (main, *others)]
        data, places = [self.datasets[i] for i in sources], [self._places[i] for i in sources]
        for other in data[1:]:
            _check_labels(data[0], other, rewards)
        row = self._row(sources[0], rewards)
        scale = [1.0] + [0.0 if rewards == "zero" else 1.0] * len(others)
        mean, std = _statistics(data, places)
        bounds = np.array([self._bounds[row, i] for i in sources]) * np.array(scale)[:, None]
        return Pool(
            columns=self.columns,
            ranges=Ranges(
                start=_ints(place.start for place in places),
                size=_ints(dataset.size for dataset in data),
                episode=_ints(place.episode for place in places),
                episodes=_ints(dataset.episodes for dataset in data),
                reward=_ints(row for _ in data),
                scale=jnp.array(scale, jnp.float32),
            ),
            mean=jnp.array(mean, jnp.float32),
            std=jnp.array(std, jnp.float32),
            reward_min=jnp.float32(bounds.min()),
            reward_max=jnp.float32(bounds.max()),
            info=Info(
                task=data[0].metadata.task,
                domain=data[0].metadata.domain,
                ids=tuple(dataset.name for dataset in data),
                digests=tuple(dataset.digest for dataset in data),
                sizes=tuple(dataset.size for dataset in data),
                rewards=_word(rewards),
                sampling=sampling,
            ),
        )

    def _index(self, wanted: Dataset | str) -> int:
        for index, data in enumerate(self.datasets):
            if data is wanted or data.name == wanted:
                return index
        name = wanted if isinstance(wanted, str) else wanted.name
        raise DataError(f"{name} is not in this lake; it holds {', '.join(data.name for data in self.datasets)}")

    def _row(self, own: int, rewards: Rewards) -> int:
        """The row of `columns.rewards` that labels the lake for the task of dataset `own`; made at its first use."""
        main = self.datasets[own]
        task = main.metadata.task
        if rewards == "known" or (rewards == "zero" and ("known", task) in self._rows):
            return self._known(task)
        if rewards == "zero":  # shared rewards are multiplied by 0: only those recorded for the task are ever read
            return self._labelled(
                ("recorded", task), lambda data: data.read("rewards") if data.metadata.task == task else 0.0
            )

        def label(data: Dataset) -> np.ndarray:
            return data.read("rewards") if data is main else relabel.rewards_for(data, task, rewards, main=main)

        return self._labelled((_key(rewards), own), label)

    def _known(self, task: str) -> int:
        """The row with the true rewards of a task, 0 for datasets that can't know them: every pool of it reads this."""
        return self._labelled(
            ("known", task), lambda data: relabel.known(data, task) if relabel.is_known(data, task) else 0.0
        )

    def _labelled(self, key: Hashable, label: Callable[[Dataset], np.ndarray | float]) -> int:
        """The row of this labelling. Rows are only ever added, so pools made earlier stay right."""
        if key in self._rows:
            return self._rows[key]
        row, old = len(self._rows), self.columns.rewards
        table = _aligned((row + 1, old.shape[1]), np.float32)
        table[:row] = old
        for index, (data, place) in enumerate(zip(self.datasets, self._places, strict=True)):
            part = table[row, place.start : place.start + data.size]
            part[:] = label(data)
            self._bounds[row, index] = float(part.min()), float(part.max())
        self.columns = replace(self.columns, rewards=jax.device_put(table))
        self._rows[key] = row
        return row


def _load(data: Dataset, columns: dict[str, np.ndarray], places: list[_Place], datasets: Sequence[Dataset]) -> _Place:
    """Read a dataset into its place behind those already loaded."""
    before = datasets[: len(places)]
    start, episode = sum(other.size for other in before), sum(other.episodes for other in before)
    part = slice(start, start + data.size)
    states = slice(start + episode, start + episode + data.size + data.episodes)
    data.read("observations", out=columns["observations"][states])
    data.read("actions", out=columns["actions"][part])
    data.read("terminations", out=columns["terminations"][part])
    columns["rows"][part] = data.rows + states.start
    columns["episodes"][episode : episode + data.episodes] = start + data.starts[:-1]
    mean, square = _moments(columns["observations"][states], data)
    return _Place(start, episode, mean, square)


def _moments(observations: np.ndarray, data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Mean [O] of the rows that transitions leave (all but episodes' last), and sum of squared distances from it."""
    origin = observations[0].astype(np.float64)  # sums about a value of the data lose no digits to a large mean

    def sums(rows: np.ndarray) -> np.ndarray:
        distance = rows - origin
        return np.stack([distance.sum(axis=0), np.einsum("no,no->o", distance, distance)])

    total = sum(sums(observations[i : i + (1 << 14)]) for i in range(0, len(observations), 1 << 14))
    first, second = total - sums(observations[np.cumsum(data.lengths + 1) - 1])
    return origin + first / data.size, np.maximum(second - first**2 / data.size, 0)


def _statistics(data: Sequence[Dataset], places: Sequence[_Place]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation [O] over several datasets, from the moments of each."""
    sizes = np.array([dataset.size for dataset in data], np.float64)[:, None]
    means = np.stack([place.mean for place in places])
    mean = (sizes * means).sum(axis=0) / sizes.sum()
    square = sum(place.square for place in places) + (sizes * (means - mean) ** 2).sum(axis=0)
    std = np.sqrt(square / sizes.sum())
    return mean, np.where(std < _CONSTANT, 1.0, std)


def _check_together(datasets: Sequence[Dataset]) -> None:
    """Only data of one robot can be pooled."""
    if not datasets:
        raise DataError("there is no dataset to load; give at least one")
    first = datasets[0]
    for other in datasets[1:]:
        if other.metadata.domain != first.metadata.domain:
            ours, theirs = (data.metadata.domain or "an unnamed domain" for data in (first, other))
            raise DataError(
                f"{first.name} is of {ours} and {other.name} of {theirs}; only data of one robot can be shared"
            )
        for what in ("observation_size", "action_size"):
            mine, its = getattr(first, what), getattr(other, what)
            if mine != its:
                word = what.removesuffix("_size")
                raise DataError(
                    f"{first.name} has {word}s of {mine} numbers and {other.name} of {its}; they can't be pooled"
                )


def _check_labels(main: Dataset, other: Dataset, rewards: Rewards) -> None:
    if rewards != "known":
        return
    task = main.metadata.task
    if task == other.metadata.task == "custom":
        raise DataError(
            "both datasets are of an unnamed task: whether they share a reward can't be known; name them with task=…"
        )
    if not relabel.is_known(other, task):
        relabel.known(other, task)  # says what is missing and what can be done


def _word(rewards: Rewards) -> str:
    if isinstance(rewards, LearnedReward):
        return "learned"
    return rewards if isinstance(rewards, str) else "function"


def _key(rewards: Rewards) -> Hashable:
    return LearnedReward() if rewards == "learned" else rewards


def _aligned(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Uninitialised memory that JAX can take over in place."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    skip = -raw.ctypes.data % _ALIGNMENT
    return raw[skip : skip + size].view(dtype).reshape(shape)


def _ints(values: Iterable[int]) -> Array:
    return jnp.array(list(values), jnp.int32)
