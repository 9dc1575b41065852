"""Where the rewards of shared data come from: a `Labelling` gives data of one task the rewards of another.

| labelling        | where the reward comes from                                                                      |
|------------------|--------------------------------------------------------------------------------------------------|
| `Known`          | facts: the stored column of that task, or else a pass over the physics                           |
| `LearnedReward`  | an ensemble regressed on the main task's own data, minus k standard deviations                   |
| `FunctionReward` | the user's `reward(observations, actions, next_observations)` on blocks of transitions           |
| `GoalReward`     | the distance of the state reached from a goal, in chosen observation features                    |
| `Zero`           | nowhere: every reward is 0                                                                       |

A labelling is known by its identity, one line that says all it depends on beside the data: "learned:penalty=2.0". The
line stands in dataset metadata, in `pool.info`, in config.json and in the keys of caches. Data that carries rewards of
the main task already, from the same labelling as the main data's, keeps them whatever the labelling; main data that was
recorded without rewards is labelled like the rest.
"""

import hashlib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from utds import files
from utds.data.cache import DIGITS, OWN, cached, code_digest, function_identity
from utds.data.columns import KNOWN, ZERO, first_true, to_raw
from utds.data.dataset import Dataset
from utds.data.reward_model import FORMER_NAMES, LearnedReward, current_identity
from utds.errors import ConfigError, DataError
from utds.version import __version__

T = TypeVar("T")
Function = Callable[[np.ndarray, np.ndarray, np.ndarray], object]

_STATES = 1 << 18  # per pass: physics is the widest column, so it is never read whole
_OTHERS = "learned, zero, a goal such as goal:0=0.5,1=-0.2, or a function of your own as file.py:name"
_FORMS = f"known, {_OTHERS}"


class Labelling(Protocol):
    """Gives the transitions of a dataset the rewards of another task."""

    @property
    def identity(self) -> str:
        """All that the labels depend on beside the data, in one line; equal lines are equal labellings."""

    @property
    def uses_main(self) -> bool:
        """Whether the labels depend on the main task's own data."""
        return False

    def label(self, dataset: Dataset, task: str, main: Dataset | None) -> np.ndarray:
        """Rewards [N] float32 of `task` for every transition of `dataset`."""

    def notes(self, dataset: Dataset, main: Dataset | None, truth: np.ndarray | None) -> list[str]:
        """What a user should know about the labels of this dataset, one per line; `truth` are the facts, if known."""
        return []


Rewards = Labelling | Function | str  # what `share` takes: see `make`


def make(rewards: Rewards) -> Labelling:
    """A labelling from what people write: a labelling, a function, or a line such as "known" or "learned:penalty=2".

    A line "file.py:name" stands for a function in a file, which is run. With the digest of its code behind it,
    "file.py:name@1f2e…", as configurations have it, the function must still be the same.
    """
    if not isinstance(rewards, str):
        if hasattr(rewards, "identity") and hasattr(rewards, "label"):
            return rewards  # type: ignore[return-value]
        if callable(rewards):
            return FunctionReward(rewards)
        raise ConfigError(f"rewards={rewards!r} is unknown; use {_FORMS}")
    name = rewards.partition(":")[0]
    kinds: dict[str, Callable[..., Labelling]] = {KNOWN: Known, ZERO: Zero, LearnedReward.name: LearnedReward}
    if name in kinds:
        return with_options(kinds[name], rewards, "rewards")
    if name == GoalReward.name:
        return _goal(rewards)
    if ".py:" in rewards:
        return _from_file(rewards)
    if name == FunctionReward.name:
        raise ConfigError(f"{rewards} is a function given in Python, which is not stored; give it again in Python")
    raise ConfigError(f"rewards={rewards!r} is unknown; use {_FORMS}")


def is_function(identity: str) -> bool:
    """Whether it is a user's function, whose code is not stored: "function:reach@1f2e…" or "rewards.py:reach@1f2e…"."""
    return "@" in identity or identity == FunctionReward.name  # the name alone stands in runs of earlier versions


def relabel(dataset: Dataset, task: str, rewards: Rewards = KNOWN, *, main: Dataset | None = None) -> Dataset:
    """The same data with the rewards of `task`, and in its metadata where they come from.

    `main` is the data of `task` that a learned reward is regressed on.
    """
    labelling = make(rewards)
    labels, source = labelling.label(dataset, task, main), labelling.identity
    if labelling.uses_main and main is not None:
        source += f" from {main.digest[:16]}"
    return dataset.with_rewards(task, labels, source)


def rewards_for(dataset: Dataset, main: Dataset, labelling: Labelling) -> np.ndarray:
    """Rewards [N] of main's task for `dataset`: those it carries where they are main's, else the labelling's."""
    if carries(dataset, main):
        return dataset.read("rewards")
    return labelling.label(dataset, main.metadata.task, main)


def carries(dataset: Dataset, main: Dataset) -> bool:
    """Whether the rewards column of `dataset` holds what main's holds: the same task's, from the same labelling.

    Data that was recorded without rewards, main data too, carries none.
    """
    if not main.metadata.has_rewards:
        return False
    ours, theirs = main.metadata, dataset.metadata
    same = ours.task == theirs.task and current_identity(ours.labelling) == current_identity(theirs.labelling)
    return dataset is main or (same and ours.task != "custom")  # two unnamed tasks need not be the same


@dataclass(frozen=True)
class Known(Labelling):
    """Rewards that are facts: recorded for the task, or recomputed from physics."""

    identity = KNOWN

    def label(self, dataset: Dataset, task: str, main: Dataset | None = None) -> np.ndarray:
        meta = dataset.metadata
        if main is not None and main is not dataset and task == meta.task == "custom":
            raise DataError(
                "both datasets are of an unnamed task: whether they share a reward can't be known; "
                "name them with task=…"
            )
        column = _column_with(dataset, task)
        if column == "rewards":
            return dataset.read("rewards")
        if column == "task_rewards":
            return np.ascontiguousarray(dataset.read(column)[:, meta.task_names.index(task)])
        if column == "physics":
            names, table = from_physics(dataset)
            return np.ascontiguousarray(table[:, names.index(task)])
        if not meta.has_rewards:
            raise DataError(
                f"{dataset.name} holds no rewards of {task}; choose a function as file.py:name, a goal, or zero for "
                f"methods that need none"
            )
        if task == meta.task:
            raise DataError(
                f"the rewards of {dataset.name} are no facts but labels ({meta.labelling}), unlike the main data's; "
                f"label both alike, or choose other rewards: {_OTHERS}"
            )
        raise DataError(
            f"{dataset.name} holds neither rewards of {task} nor physics to compute them from; "
            f"choose other rewards: {_OTHERS}"
        )


def is_known(dataset: Dataset, task: str) -> bool:
    """Whether `Known` can label, without computing anything."""
    return _column_with(dataset, task) is not None


def _column_with(dataset: Dataset, task: str) -> str | None:
    """The column that holds the true rewards of a task, or that they can be computed from: physics."""
    meta = dataset.metadata
    if task == meta.task and meta.labelling == KNOWN:
        return "rewards"
    if "task_rewards" in dataset and task in meta.task_names:
        return "task_rewards"
    return "physics" if "physics" in dataset and task in _task_ids(meta.domain) else None


def from_physics(dataset: Dataset) -> tuple[tuple[str, ...], np.ndarray]:
    """Ids of the domain's tasks and the rewards [N, tasks] float32 of all of them, from the stored physics."""
    import mujoco

    from utds import domains

    assert dataset.metadata.domain is not None
    domain = domains.get(dataset.metadata.domain)
    names = domains.task_ids(domain)
    key: dict[str, object] = {
        "from": "physics",
        "data": dataset.digest,
        "tasks": names,
        "code": code_digest(domain.reward, domain.spec),
        "utds": __version__,
        "mujoco": mujoco.__version__,
    }
    if domain not in domains.BUILT_IN:  # whose code may read its model from a file
        model = np.empty(mujoco.mj_sizeModel(domain.model), np.uint8)
        mujoco.mj_saveModel(domain.model, None, model)
        key["model"] = hashlib.sha256(model.data).hexdigest()

    def compute() -> dict[str, np.ndarray]:
        return {"values": np.concatenate([block.astype(np.float32) for _, block, _ in physics_passes(dataset)])}

    return names, cached(dataset, key, (dataset.size, len(names)), compute)["values"]


def physics_passes(dataset: Dataset, threads: int | None = None) -> Iterator[tuple[tuple[str, ...], np.ndarray, slice]]:
    """Task ids, rewards [m, tasks] float64 and the transitions they belong to, pass after pass over the physics."""
    from utds import domains

    assert dataset.metadata.domain is not None
    domain = domains.get(dataset.metadata.domain)
    for where, _, actions, reached in dataset.blocks(_STATES, "physics"):  # rewards belong to the states reached
        yield domains.task_ids(domain), domain.rewards(reached, actions, threads), where


def _task_ids(domain: str | None) -> tuple[str, ...]:
    from utds import domains

    return () if domain is None or domain not in domains.names() else domains.task_ids(domains.get(domain))


@dataclass(frozen=True)
class Zero(Labelling):
    """No rewards: UDS (Yu et al., 2022) shares other tasks' data with reward 0."""

    identity = ZERO

    def label(self, dataset: Dataset, task: str, main: Dataset | None = None) -> np.ndarray:
        return np.zeros(dataset.size, np.float32)


@dataclass(frozen=True, eq=False)
class FunctionReward(Labelling):
    """A user's function of observations [b, O], actions [b, A] in the robot's unit, and next observations [b, O]."""

    function: Function
    source: str = ""  # such as rewards.py:reach; by default the function's own name
    name = "function"

    @cached_property
    def identity(self) -> str:
        return function_identity(self.function, self.source)

    def label(self, dataset: Dataset, task: str, main: Dataset | None = None) -> np.ndarray:
        meta, rewards = dataset.metadata, np.empty(dataset.size, np.float32)
        for where, observations, actions, next_observations in dataset.blocks():
            raw = to_raw(actions, meta.action_low, meta.action_high)
            given = self._called(observations, raw, next_observations)
            if given.shape != (len(actions),):
                raise DataError(
                    f"the reward function gave shape {list(given.shape)} for {len(actions)} transitions; "
                    f"it must give one number per transition: [{len(actions)}]"
                )
            if not np.can_cast(given.dtype, np.float32, "same_kind"):
                raise DataError(f"the reward function gave numbers of dtype {given.dtype}; it must give real ones")
            rewards[where] = given
            if (bad := first_true(~np.isfinite(rewards[where]))) is not None:
                row = where.start + bad
                raise DataError(f"the reward function gave {rewards[row]} for transition {row} of {dataset.name}")
        return rewards

    def _called(self, *given: np.ndarray) -> np.ndarray:
        try:
            return np.asarray(self.function(*given))
        except Exception as error:
            code = getattr(self.function, "__code__", None) or getattr(type(self.function).__call__, "__code__", None)
            line = "" if code is None else files.line_in(code.co_filename, error)
            raise DataError(f"the reward function {self.identity}{line} failed: {files.said(error)}") from error


@dataclass(frozen=True)
class GoalReward(Labelling):
    """How near the state reached is to a goal: −distance, or 1 within a radius and 0 beyond.

    Written "goal:0=0.5,1=-0.2" (features 0 and 1 of the observation, counted from 0) or "goal:0=0.5,radius=0.05".
    """

    goal: tuple[tuple[int, float], ...]  # (feature of the observation, value there)
    radius: float | None = None
    name = "goal"

    @property
    def identity(self) -> str:
        parts = [f"{feature}={value!r}" for feature, value in self.goal]
        return "goal:" + ",".join(parts + ([] if self.radius is None else [f"radius={self.radius!r}"]))

    def label(self, dataset: Dataset, task: str, main: Dataset | None = None) -> np.ndarray:
        features = [feature for feature, _ in self.goal]
        if max(features) >= dataset.observation_size:
            raise DataError(
                f"the goal names feature {max(features)}, but observations of {dataset.name} have features "
                f"0 to {dataset.observation_size - 1}"
            )
        target = np.array([value for _, value in self.goal])
        rewards = np.empty(dataset.size, np.float32)
        for where, _, _, reached in dataset.blocks():
            distance = np.linalg.norm(reached[:, features].astype(np.float64) - target, axis=1)
            rewards[where] = -distance if self.radius is None else distance <= self.radius
        return rewards


def _from_file(text: str) -> FunctionReward:
    """The function of a line "file.py:name" or "file.py:name@digest"; the file is run."""
    source = re.sub(rf"@[0-9a-f]{{{DIGITS}}}\Z", "", text)  # a folder may have an @ in its name too
    path, _, name = source.rpartition(":")
    try:
        found = getattr(files.run_python(path, OWN), name, None)
    except ConfigError as error:
        raise DataError(f"reward function: {error}") from error
    if not callable(found):
        raise DataError(f"{path} has no function {name!r}")
    made = FunctionReward(found, source)
    if source != text and made.identity != text:
        raise DataError(f"{source} changed: it is {made.identity} now, not {text}; restore it, or label anew")
    return made


def _goal(text: str) -> GoalReward:
    goal: dict[int, float] = {}
    radius = None
    for name, value in split_options(text, "rewards")[1].items():
        try:
            if name == "radius":
                radius = float(value)
                continue
            feature, position = int(name), float(value)
        except ValueError:
            raise ConfigError(f"rewards={text!r}: {name}={value} is no feature=number; write goal:0=0.5") from None
        if feature in goal:
            raise ConfigError(f"rewards={text!r} gives feature {feature} twice; leave one of them out")
        goal[feature] = position
    near = radius is None or 0 < radius < math.inf
    if not goal or min(goal) < 0 or not all(map(math.isfinite, goal.values())) or not near:
        raise ConfigError(f"rewards={text!r}: name features from 0 on and a positive radius, such as goal:0=0.5")
    return GoalReward(tuple(sorted(goal.items())), radius)


# A choice and its options in one line, as command lines and config.json have them: "learned:penalty=2,hidden=64"


def split_options(text: str, argument: str) -> tuple[str, dict[str, str]]:
    """The name and the options of a line; `argument` is what messages call it, such as rewards."""
    name, colon, rest = text.partition(":")
    pairs = [pair.partition("=") for pair in rest.split(",")] if colon else []
    if not all(key and equals and value for key, equals, value in pairs):
        raise ConfigError(f"{argument}={text!r}: write options as name:option=value,option=value")
    options = {key.strip(): value.strip() for key, _, value in pairs}
    if len(options) < len(pairs):
        raise ConfigError(f"{argument}={text!r} gives an option twice; leave one of them out")
    return name, options


def with_options(kind: Callable[..., T], text: str, argument: str) -> T:
    """A dataclass from a line whose options name its fields, all of which have defaults."""
    name, options = split_options(text, argument)
    types: dict[str, Any] = {item.name: type(item.default) for item in fields(kind)}  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for key, value in options.items():
        field = FORMER_NAMES.get(key, key)
        if field not in types:
            has = f"it has {', '.join(types)}" if types else "it takes none"
            raise ConfigError(f"{argument}={text!r}: {name} has no option {key!r}; {has}")
        try:
            given[field] = tuple(map(int, value.split("-"))) if types[field] is tuple else types[field](value)
        except ValueError:
            raise ConfigError(f"{argument}={text!r}: {value!r} is no value of {key}") from None
    return kind(**given)
