"""A dataset: what was recorded on one robot for one task, as named columns, episode bounds and metadata.

    observation rows   0    1    2   …   T   |  T+1  …          T + 1 rows per episode, held once
    transitions          0    1    …  T-1    |      T …         n leaves row rows[n] and reaches row rows[n] + 1
    rewards, actions     0    1    …  T-1    |      T …         reward n is of the state *reached* by action n
    physics            0    1    2   …   T   |  T+1  …          beside the observations, row for row

Columns of a stored dataset are read from disk when they are first asked for; `read` gives a part of one, or fills an
array that the caller prepared, without keeping anything.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from utds.data import build
from utds.data.columns import (
    COLUMNS,
    KNOWN,
    OPTIONAL,
    Episode,
    FileColumn,
    Metadata,
    check_actions,
    check_endings,
    checked_column,
    episode_lengths,
    to_raw,
)
from utds.errors import DataError


class Dataset:
    """N transitions in E episodes; R = N + E observation rows.

    Made by `Dataset.from_arrays`, `Dataset.from_episodes`, the importers, or `utds.load`; never changed afterwards.
    """

    def __init__(
        self,
        columns: Mapping[str, np.ndarray | FileColumn],
        lengths: np.ndarray,
        metadata: Metadata,
        digest: str | None = None,  # where it is known already, as from a store
    ):
        self._columns = dict(columns)
        self._digest = digest
        self.lengths = lengths  # [E] int64, steps
        self.metadata = metadata

    @classmethod
    def from_arrays(cls, observations: object, actions: object, rewards: object, **given: Any) -> "Dataset":
        """A dataset from plain arrays; no environment is needed.

        Episodes are told by `lengths`, else by `episode_index`, else by `terminations` and `truncations`; without any
        of these all is one episode. An episode whose end isn't marked is taken as cut there (truncated): its value
        continues beyond the data.

        Args:
            observations: [N + E, O], T + 1 rows per episode; or [N, O] together with `next_observations`.
            actions: [N, A] in [-1, 1], or in the robot's unit together with `action_bounds`.
            rewards: [N], each of the state *reached* by its action.
            given: optional arrays: next_observations [N, O], terminations [N], truncations [N], lengths [E],
                episode_index [N], physics [N + E, S], task_rewards [N, tasks]; `action_bounds`: (low, high) in the
                robot's unit, a number or [A] each, or "auto" to find them in the data; and the fields of `Metadata`.

        Returns:
            The dataset, after every check; the first bad row is named.
        """
        return cls.checked(*build.from_arrays(observations, actions, rewards, **given))

    @classmethod
    def from_steps(cls, observations: object, actions: object, rewards: object = None, **given: Any) -> "Dataset":
        """A dataset from a log with as many states as actions: the state after an episode's last action is unknown.

            states     0    1    2   …   T        kept
            actions    0    1    2   …   T        the last one is dropped: nobody knows what it reached
            rewards    0    1    2   …   T        likewise; reward t is of the state that action t reached

        Where the last step is marked as a termination it is kept, for its reward, and its state stands for the one it
        reached: learners read no value there. Elsewhere the recording counts as cut at the last state.

        Args:
            observations: [N, O].
            actions: [N, A], as in `from_arrays`.
            rewards: [N]; all 0, and marked as such, if not given.
            given: terminations, truncations, lengths, episode_index, action_bounds and the fields of `Metadata`.

        Returns:
            The dataset; every episode that wasn't marked as terminated is one transition shorter than its log.
        """
        return cls.checked(*build.from_steps(observations, actions, rewards, **given))

    @classmethod
    def from_episodes(cls, episodes: Iterable[Episode], **metadata: Any) -> "Dataset":
        """A dataset from recorded episodes, actions in [-1, 1]; `metadata` are the fields of `Metadata`."""
        builder = build.Builder()
        for episode in episodes:
            builder.add(episode)
        return cls.checked(*builder.columns(), Metadata(**metadata))

    @classmethod
    def checked(cls, given: Mapping[str, object], lengths: object, metadata: Metadata) -> "Dataset":
        """A dataset of these columns after every check; the first bad row is named."""
        steps = episode_lengths(lengths)
        columns: dict[str, np.ndarray] = {}
        for name, kind in COLUMNS.items():
            if given.get(name) is not None:
                columns[name] = checked_column(name, given[name], kind, steps).view()
                columns[name].flags.writeable = False
            elif name not in OPTIONAL:
                raise DataError(f"a dataset needs the column {name}")
        check_actions(columns["actions"], steps)
        check_endings(columns["terminations"], columns["truncations"], steps)
        named = len(metadata.task_names)
        if "task_rewards" in columns and columns["task_rewards"].shape[1] != named:
            width = columns["task_rewards"].shape[1]
            raise DataError(f"task_rewards has {width} columns, but {named} task_names are given; name each of them")
        width = columns["actions"].shape[1]
        if metadata.action_low and len(metadata.action_low) != width:
            raise DataError(f"there are bounds of {len(metadata.action_low)} actions, but {width} actions per step")
        return cls(columns, steps, metadata)

    # Columns

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._columns)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._columns[name].shape

    def column(self, name: str) -> np.ndarray:
        """A whole column, read from disk at the first call and kept."""
        column = self._columns[name]
        if not isinstance(column, np.ndarray):
            column = self.read(name)
            column.flags.writeable = False
            self._columns[name] = column
        return column

    def read(self, name: str, start: int = 0, stop: int | None = None, out: np.ndarray | None = None) -> np.ndarray:
        """Rows start … stop−1 of a column, into `out` where given; nothing is kept."""
        column = self._columns[name]
        stop = column.shape[0] if stop is None else stop
        if isinstance(column, np.ndarray):
            if out is None:
                return column[start:stop]
            out[...] = column[start:stop]
            return out
        if out is None:
            out = np.empty((stop - start, *column.shape[1:]), COLUMNS[name].dtype)
        column.read(start, stop, out)
        return out

    def parts(self, name: str) -> Iterator[np.ndarray]:
        """A column in parts of a few megabytes, so that nothing large is kept."""
        count, *width = self.shape(name)
        step = max(1, (1 << 22) // int(np.prod(width)))
        for start in range(0, count, step):
            yield self.read(name, start, min(start + step, count))

    def take(self, name: str, index: np.ndarray) -> np.ndarray:
        """These rows of a column; of one on the disk nothing else is kept."""
        column = self._columns[name]
        if isinstance(column, np.ndarray):
            return column[index]
        found: np.ndarray = np.empty((len(index), *column.shape[1:]), COLUMNS[name].dtype)
        first = 0
        for part in self.parts(name):
            here = (index >= first) & (index < first + len(part))
            found[here] = part[index[here] - first]
            first += len(part)
        return found

    @property
    def observations(self) -> np.ndarray:
        """[R, O] float32, T + 1 rows per episode."""
        return self.column("observations")

    @property
    def actions(self) -> np.ndarray:
        """[N, A] float32, in [-1, 1]."""
        return self.column("actions")

    @property
    def raw_actions(self) -> np.ndarray:
        """[N, A] float32, in the robot's unit."""
        return to_raw(self.actions, self.metadata.action_low, self.metadata.action_high)

    @property
    def rewards(self) -> np.ndarray:
        """[N] float32, of the dataset's own task."""
        return self.column("rewards")

    @property
    def terminations(self) -> np.ndarray:
        """[N] bool: the episode truly ended with this step."""
        return self.column("terminations")

    @property
    def truncations(self) -> np.ndarray:
        """[N] bool: the recording was cut after this step."""
        return self.column("truncations")

    @property
    def physics(self) -> np.ndarray | None:
        """[R, S] float64: the simulator's state (qpos, qvel, act) beside each observation, if recorded."""
        return self.column("physics") if "physics" in self else None

    @property
    def task_rewards(self) -> np.ndarray | None:
        """[N, tasks] float32: rewards of the domain's tasks, in the order of `metadata.task_names`, if recorded."""
        return self.column("task_rewards") if "task_rewards" in self else None

    # Bounds and numbers

    @property
    def size(self) -> int:
        """Transitions, N."""
        return self.shape("rewards")[0]

    def __len__(self) -> int:
        return self.size

    @property
    def episodes(self) -> int:
        return len(self.lengths)

    @property
    def observation_size(self) -> int:
        return self.shape("observations")[1]

    @property
    def action_size(self) -> int:
        return self.shape("actions")[1]

    @cached_property
    def starts(self) -> np.ndarray:
        """[E + 1] int64: the transition at which each episode starts; then N."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @property
    def rows(self) -> np.ndarray:
        """[N] int64: the observation row that each transition leaves; it reaches the next row."""
        return np.arange(self.size) + np.repeat(np.arange(self.episodes), self.lengths)

    def blocks(
        self, size: int = 1 << 16, states: str = "observations"
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
        """All transitions in blocks: which they are, observations [b, O], actions [b, A], next observations [b, O].

        With `states="physics"` it gives the simulator's states [b, S] instead of the observations.
        """
        rows = self.rows
        for start in range(0, self.size, size):
            stop = min(start + size, self.size)
            first, last = int(rows[start]), int(rows[stop - 1]) + 1
            found, local = self.read(states, first, last + 1), rows[start:stop] - first
            yield slice(start, stop), found[local], self.read("actions", start, stop), found[local + 1]

    @cached_property
    def returns(self) -> np.ndarray:
        """[E] float64: the sum of rewards of each episode."""
        return self.returns_with(self.rewards)

    def returns_with(self, rewards: np.ndarray) -> np.ndarray:
        """[E] float64: the returns that the episodes would have with these rewards [N]."""
        return np.add.reduceat(rewards, self.starts[:-1], dtype=np.float64)

    @property
    def name(self) -> str:
        """The id, or the task where it isn't stored: how messages speak of this dataset."""
        return self.metadata.id or self.metadata.task

    @cached_property
    def digest(self) -> str:
        """SHA-256 over columns, bounds and the metadata that belongs to the content; as hexadecimal."""
        return self._digest or content_digest(self, {name: column_digest(self, name) for name in self.columns})

    def __repr__(self) -> str:
        return f"<Dataset {self.name}: {self.size} transitions in {self.episodes} episodes ({', '.join(self.columns)})>"

    def _repr_html_(self) -> str:
        from utds import html, terminal

        meta, returns = self.metadata, self.returns
        mean, std, least, most = map(terminal.number, (returns.mean(), returns.std(), returns.min(), returns.max()))
        about = {
            "task": meta.task,
            "kind": meta.kind,
            "rewards": None if meta.labelling == KNOWN else meta.labelling,
            "transitions": f"{self.size:,} in {self.episodes:,} episodes",
            "observations, actions": f"{self.observation_size}, {self.action_size}",
            "returns": f"{mean} ± {std}, from {least} to {most}",
            "in order": html.sparkline(returns, "returns in order"),
            "how often": html.histogram(returns, "histogram of returns"),
        }
        return html.block(f"Dataset {self.name}", html.facts(about))

    # Deriving and keeping

    def episode(self, index: int) -> Episode:
        """Episode `index`, counted from 0."""
        if not 0 <= index < self.episodes:
            raise DataError(f"{self.name} has episodes 0 to {self.episodes - 1}; there is no episode {index}")
        first, last = (int(bound) for bound in self.starts[index : index + 2])
        parts = {
            name: self.read(name, *((first + index, last + index + 1) if COLUMNS[name].per_episode else (first, last)))
            for name in self.columns
        }
        ended = bool(parts.pop("terminations")[-1])
        del parts["truncations"]
        return Episode(terminated=ended, **parts)

    def select(self, episodes: Sequence[int] | np.ndarray, **metadata: Any) -> "Dataset":
        """A dataset of these episodes, in this order, or of those that a mask [E] marks."""
        if np.asarray(episodes).dtype == np.bool_:
            if len(episodes) != self.episodes:
                raise DataError(f"a mask of {len(episodes)} episodes doesn't fit the {self.episodes} of {self.name}")
            episodes = np.flatnonzero(episodes)
        chosen = replace(self.metadata, **({"id": None} | metadata))
        return Dataset.from_episodes((self.episode(int(index)) for index in episodes), **vars(chosen))

    def named(self, id: str) -> "Dataset":
        """The same data under another name; columns are shared, not copied."""
        return Dataset(self._columns, self.lengths, replace(self.metadata, id=id), self.digest)

    def with_rewards(self, task: str, rewards: np.ndarray, labelling: str = KNOWN) -> "Dataset":
        """The same data labelled for a different task; columns are shared, not copied.

        `labelling` says where the rewards come from, where they are no facts: see `utds.data.labelling`.
        """
        array = checked_column("rewards", rewards, COLUMNS["rewards"], self.lengths)
        metadata = replace(self.metadata, id=None, labelling=labelling)
        if task != metadata.task:
            metadata = replace(metadata, task=task, random_return=None, expert_return=None)
        return Dataset(self._columns | {"rewards": array}, self.lengths, metadata)

    def save(self, id: str | None = None, *, overwrite: bool = False) -> "Dataset":
        """Store under `id` (or its own), atomically; gives back the stored dataset."""
        from utds.data import store

        return store.save(self, id, overwrite=overwrite)


def column_digest(dataset: Dataset, name: str) -> str:
    """SHA-256 of a column's dtype, shape and bytes."""
    digest = hashlib.sha256(f"{name} {np.dtype(COLUMNS[name].dtype).str} {dataset.shape(name)}".encode())
    for part in dataset.parts(name):
        digest.update(part.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def content_digest(dataset: Dataset, columns: Mapping[str, str]) -> str:
    """SHA-256 over the columns' digests, the episode bounds and the metadata that belongs to the content."""
    content = {
        "identity": dataset.metadata.identity(),
        "lengths": dataset.lengths.tolist(),
        "columns": {name: columns[name] for name in COLUMNS if name in columns},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def best_tenth(returns: np.ndarray) -> float:
    """Mean return of the best tenth of the episodes, rounded up to whole ones; returns are [E]."""
    return float(np.sort(returns)[-math.ceil(len(returns) / 10) :].mean())
