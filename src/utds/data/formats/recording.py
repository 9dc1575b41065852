"""What a file holds, arranged as a dataset is but in the units of its maker."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from utds.data.build import ActionBounds, Builder, Marks, arranged, steps_arranged
from utds.data.columns import ZERO, bounds_text, cast
from utds.data.dataset import Dataset
from utds.errors import DataError

NO_REWARDS = "no rewards in the file: all are 0 until it is relabelled"


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
        made = cls(**columns, **more)
        if "rewards" not in given:
            made.rewards = None
            made.notes.append(NO_REWARDS)
        return made

    @classmethod
    def of_steps(cls, observations: object, actions: object, rewards: object, given: Any, **more: Any) -> "Recording":
        """From a log with as many states as actions; `given` marks its episodes. See `Dataset.from_steps`."""
        made = cls(**steps_arranged(observations, actions, rewards, Marks(**given)), **more)
        dropped = len(np.asarray(actions)) - len(made.actions)
        if dropped:
            made.notes.append(f"{dropped} last steps left out: the log doesn't say what state they reached")
        if rewards is None:
            made.notes.append(NO_REWARDS)
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
        step, state = np.repeat(episodes, self.lengths), np.repeat(episodes, self.lengths + 1)

        def part(values: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
            return None if values is None else values[rows]

        return replace(
            self,
            observations=self.observations[state],
            actions=self.actions[step],
            rewards=part(self.rewards, step),
            lengths=self.lengths[episodes],
            terminations=self.terminations[step],
            physics=part(self.physics, state),
            task_rewards=part(self.task_rewards, step),
            tasks=None,
        )

    def dataset(self, bounds: ActionBounds = None, **metadata: Any) -> Dataset:
        """A checked dataset; `bounds` of the actions come before those that the file names."""
        bounds = self.bounds if bounds is None else bounds
        least, most = (float(found(self.actions)) if len(self.actions) else 0.0 for found in (np.min, np.max))
        if bounds is None and (least < -1 or most > 1):
            raise DataError(
                f"its actions lie between {least:g} and {most:g}, not in [-1, 1]; say what the robot takes with "
                f"--actions LOW:HIGH, or find it in the data with --actions auto"
            )
        rewards, labelling = self.rewards, {}
        if rewards is None:
            rewards, labelling = np.zeros(len(self.actions), np.float32), {"labelling": ZERO}
        described = of_task(metadata["task"], self) if "task" in metadata else {}
        return Dataset.from_arrays(
            self.observations,
            self.actions,
            rewards,
            terminations=self.terminations,
            lengths=self.lengths,
            physics=self.physics,
            task_rewards=self.task_rewards,
            action_bounds=bounds,
            **labelling | self.metadata | described | metadata,
        )


def of_task(task: str, found: Recording) -> dict[str, Any]:
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
            raise DataError(f"{column} have {values.shape[-1]} numbers a row, but {name} has {size}; check the task")
    return {"task": task, "domain": name, "random_return": known.random, "expert_return": known.reference}


def flat(name: str, values: Any) -> np.ndarray:
    """[N, d] float32 from an array [N, …] of numbers, or from a dictionary of such arrays in the order of its names."""
    if isinstance(values, Mapping):
        return np.concatenate([flat(f"{name}/{key}", values[key]) for key in sorted(values)], axis=1)
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        raise DataError(f"{name} has dtype {array.dtype} and shape {list(array.shape)}; only numbers can be imported")
    if len(array) == 0:
        raise DataError(f"{name} is empty; a dataset needs at least one step")
    return cast(name, array.reshape(len(array), -1), np.float32, 0)


def clipped(actions: np.ndarray, low: np.ndarray, high: np.ndarray, notes: list[str]) -> np.ndarray:
    """Actions [N, A] within bounds that an environment clips to; says how many were beyond."""
    beyond = int(((actions < low) | (actions > high)).any(axis=1).sum())
    if beyond:
        notes.append(f"{beyond} actions beyond {bounds_text(tuple(low), tuple(high))} clipped, as the environment does")
        return np.clip(actions, low, high)
    return actions
