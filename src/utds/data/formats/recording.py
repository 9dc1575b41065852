"""What a file holds, arranged as a dataset but with actions in the robot's unit; and what the readers share."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from utds.data.build import ActionBounds, Builder, Marks, arranged, steps_arranged
from utds.data.columns import COLUMNS, ROUNDING, ZERO, cast
from utds.data.dataset import Dataset
from utds.errors import DataError


@dataclass
class Recording:
    """N transitions in E episodes, as `Dataset` has them, but with actions in the robot's unit."""

    observations: np.ndarray  # [N + E, O]
    actions: np.ndarray  # [N, A]
    rewards: np.ndarray | None  # [N], each of the state reached; None where the file has none
    lengths: np.ndarray  # [E]
    terminations: np.ndarray  # [N]
    physics: np.ndarray | None = None  # [N + E, S]
    task_rewards: np.ndarray | None = None  # [N, tasks]
    tasks: list[str] | None = None  # [E], whose episode each is, where the file says so
    bounds: tuple[Any, Any] | None = None  # low and high of the actions, where the file says so
    metadata: dict[str, Any] = field(default_factory=dict)  # what the file says about itself
    notes: list[str] = field(default_factory=list)  # what was found and what was done with it

    @classmethod
    def of_episodes(cls, episodes: Builder, **more: Any) -> "Recording":
        """From episodes gathered one by one, as folders of files have them."""
        columns, lengths = episodes.columns()
        given: dict[str, Any] = {name: column for name, column in columns.items() if name != "truncations"}
        return cls(**given, lengths=lengths, **more)

    @classmethod
    def of_arrays(cls, given: Mapping[str, object], **more: Any) -> "Recording":
        """From arrays by name, as `Dataset.from_arrays` takes them; without rewards too."""
        filled: dict[str, Any] = dict(given) | {"actions": cast("actions", given["actions"], np.float32, 0)}
        filled.setdefault("rewards", np.zeros(len(filled["actions"]), np.float32))
        columns = arranged(marks=Marks.taken(filled), **filled)
        del columns["truncations"]
        columns["observations"] = cast("observations", columns["observations"], np.float32, 0)
        if "rewards" not in given:
            columns["rewards"] = None
        return cls(**columns, **more)

    @classmethod
    def of_steps(cls, observations: object, actions: object, rewards: object, given: Any, **more: Any) -> "Recording":
        """From a log with as many states as actions; `given` marks its episodes. See `Dataset.from_steps`."""
        made = cls(**steps_arranged(observations, actions, rewards, Marks(**given)), **more)
        dropped = len(np.asarray(actions)) - len(made.actions)
        if dropped:
            made.notes.append(f"{dropped} last steps left out: the log doesn't say what state they reached")
        return made

    def split(self) -> Iterator[tuple[str | None, "Recording"]]:
        """A recording for each task, in order of appearance; the whole where the file names no tasks."""
        if self.tasks is None:
            yield None, self
            return
        names = np.array(self.tasks)
        for task in dict.fromkeys(self.tasks):
            yield task, self._chosen(names == task)

    def _chosen(self, episodes: np.ndarray) -> "Recording":
        """The episodes marked in [E]."""
        kept: dict[str, Any] = {"lengths": self.lengths[episodes], "tasks": None}
        for name, column in COLUMNS.items():
            values = getattr(self, name, None)
            if values is not None:
                kept[name] = values[np.repeat(episodes, self.lengths + column.per_episode)]
        return replace(self, **kept)

    def dataset(self, bounds: ActionBounds = None, **metadata: Any) -> Dataset:
        """A checked dataset; `bounds` of the actions come before those that the file names."""
        bounds = self.bounds if bounds is None else bounds
        least, most = (float(found(self.actions)) if len(self.actions) else 0.0 for found in (np.min, np.max))
        beyond = 0.0 if bounds is not None else max(-least, most) - 1
        if beyond > ROUNDING:
            raise DataError(
                f"its actions lie between {least:g} and {most:g}, not in [-1, 1]; say what the robot takes with "
                f"--actions LOW:HIGH, or find it in the data with --actions auto"
            )
        rewards, labelling = self.rewards, {}
        if rewards is None:
            rewards, labelling = np.zeros(len(self.actions), np.float32), {"labelling": ZERO}
        described = _of_domain(metadata["task"], self) if "task" in metadata else {}
        return Dataset.from_arrays(
            self.observations,
            np.clip(self.actions, -1, 1) if beyond > 0 else self.actions,
            rewards,
            terminations=self.terminations,
            lengths=self.lengths,
            physics=self.physics,
            task_rewards=self.task_rewards,
            action_bounds=bounds,
            **labelling | self.metadata | described | metadata,
        )


def _of_domain(task: str, found: Recording) -> dict[str, Any]:
    """What the domain of a known task says about its data; refuses data that can't be of that robot."""
    from utds import domains

    name = task.partition("-")[0]
    if name not in domains.names():
        return {"task": task}
    domain, known = domains.task(task)
    sizes = {"observations": domain.observation_size, "actions": domain.action_size, "physics": domain.state_size}
    for column, size in sizes.items():
        values = getattr(found, column)
        if values is not None and values.shape[-1] != size:
            raise DataError(f"{column} have {values.shape[-1]} numbers per row, but {name} has {size}; check the task")
    return {"task": task, "domain": name, "random_return": known.lowest, "expert_return": known.reference}


@contextlib.contextmanager
def readable(path: Path, kind: str, *damage: type[Exception]) -> Iterator[None]:
    """Turn what a library raises at a missing or damaged file into one clear line."""
    damaged: tuple[type[Exception], ...] = (OSError, *damage)
    try:
        yield
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise DataError(f"could not read {path}: {error.strerror}") from error
    except damaged as error:
        raise DataError(f"{path} is damaged or no {kind} file: {str(error).splitlines()[0]}; fetch it again") from error


def check_arrays(
    path: Path, found: Mapping[str, Any], needed: Sequence[str], optional: Sequence[str], has: str
) -> list[str]:
    """Refuse missing arrays and differing numbers of rows; a note on arrays that are neither needed nor optional."""
    for name in needed:
        if name not in found:
            raise DataError(f"{path} holds no {name}; {has}")
    rows = {name: np.shape(found[name])[:1] for name in (*needed, *optional) if name in found}
    for name, count in rows.items():
        if count != rows[needed[0]]:
            counts = ["".join(map(str, each)) or "no" for each in (count, rows[needed[0]])]
            raise DataError(f"{path}: {name} has {counts[0]} rows, but {needed[0]} has {counts[1]}")
    left = sorted(set(found) - set(rows))
    return [f"left out: {', '.join(left)}"] if left else []


def steps_between(path: Path, last: np.ndarray, what: str) -> np.ndarray:
    """Steps [E] of the episodes whose last states are marked in [N + E]; each needs one."""
    lengths = np.diff(np.flatnonzero(last), prepend=-1) - 1
    if (lengths < 1).any():
        raise DataError(f"{path}: {what} {int(np.argmax(lengths < 1))} has a single state; there is no step in it")
    return lengths


def refuse_pictures(name: str, array: np.ndarray) -> None:
    """Pixels in a row would be taken for a vector of thousands of features."""
    if array.dtype == np.uint8 and array.ndim > 2:
        raise DataError(f"{name} holds pictures; only vectors of numbers can be imported: leave it out")


def flat(name: str, values: Any, dtype: type = np.float32) -> np.ndarray:
    """[N, d] from an array [N, …] of numbers."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        raise DataError(f"{name} has dtype {array.dtype} and shape {list(array.shape)}; only numbers can be imported")
    refuse_pictures(name, array)
    if len(array) == 0:
        raise DataError(f"{name} is empty; a dataset needs at least one step")
    return cast(name, array.reshape(len(array), -1), dtype, 0)
