"""Data of other makers as datasets: ExORL/UTDS folders of episodes, array files, any Minari dataset."""

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from utds import progress
from utds.data import arrays, npz
from utds.data.columns import Episode, Metadata
from utds.data.dataset import Dataset
from utds.data.recorder import Recorder
from utds.errors import DataError

_EPISODE = re.compile(r"episode_(\d+)_(\d+)\.npz")
_EXORL = ("observation", "action", "reward", "discount", "physics")
_ARRAYS = (
    "observations",
    "actions",
    "rewards",
    "next_observations",
    "terminations",
    "truncations",
    "lengths",
    "physics",
    "task_rewards",
)


def from_exorl(folder: str | Path, task: str, *, relabel: bool = False, **metadata: Any) -> Dataset:
    """A folder of `episode_<index>_<length>.npz`, as ExORL and the released UTDS data come.

    Row 0 of an episode is the start state with a dummy action and reward; row t holds the action that led to
    observation t and the reward of that state:

        observation  0    1    2   …   T      kept as they are
        action       –    1    2   …   T      shifted: transition t−1 takes action t
        reward       –    1    2   …   T      and gets reward t
        discount     –    1    1   …   d      d = 0: a true termination; d = 1: a time limit

    `task` says whose rewards these are; with `relabel` they are recomputed from physics for that task instead.
    """
    files = _episode_files(Path(folder))
    lengths = np.array([steps for _, steps, _ in files])
    columns: dict[str, np.ndarray] = {}
    ended = np.zeros(len(files), bool)
    row = step = 0
    with progress.bar(f"importing {Path(folder).name}", len(files), "episodes") as advance:
        for index, (_, steps, path) in enumerate(files):
            episode = _exorl_episode(path, steps)
            if not columns:
                columns = _prepared(episode, lengths)
            _place(columns, episode, row, step, path)
            ended[index] = episode.terminated
            row, step = row + steps + 1, step + steps
            advance()
    columns["terminations"], columns["truncations"] = arrays.flags(lengths, ended)
    dataset = Dataset.checked(columns, lengths, Metadata(**(_of_task(task, columns) | metadata | {"task": task})))
    if relabel:
        from utds.data.relabel import from_physics

        if "physics" not in dataset or dataset.metadata.domain is None:
            raise DataError(
                f"{folder} can't be relabelled: it holds no physics, or {task} is no task of a known domain"
            )
        names, table = from_physics(dataset)
        dataset = dataset.with_rewards(task, table[:, names.index(task)])
    return dataset


def from_npz(path: str | Path, **metadata: Any) -> Dataset:
    """One `.npz` file whose arrays are named as the arguments of `Dataset.from_arrays` (and task_names)."""
    found = npz.read(Path(path))
    if "task_names" in found:
        metadata = {"task_names": tuple(str(name) for name in found.pop("task_names"))} | metadata
    unknown = sorted(set(found) - set(_ARRAYS))
    if unknown:
        raise DataError(f"{path} holds an array {unknown[0]!r}; known names are {', '.join(_ARRAYS)}")
    for name in ("observations", "actions", "rewards"):
        if name not in found:
            raise DataError(f"{path} holds no {name}; it has {', '.join(sorted(found)) or 'nothing'}")
    if "task" in metadata:
        metadata = _of_task(metadata["task"], found) | metadata
    return Dataset.from_arrays(**found, **metadata)


def from_minari(id: str, **metadata: Any) -> Dataset:
    """A Minari dataset of numbers: observations of Box, Dict and Tuple spaces laid flat, actions brought to [-1, 1]."""
    import minari

    try:
        source = minari.load_dataset(id)
    except (FileNotFoundError, ValueError) as error:
        raise DataError(f"Minari can't load {id}: {str(error).splitlines()[0]}") from error
    recorder = Recorder()
    scale = _action_scale(id, source.action_space)
    try:
        with progress.bar(f"importing {id}", source.total_episodes, "episodes") as advance:
            for episode in source.iterate_episodes():
                recorder.add(
                    Episode(
                        observations=_flat(id, source.observation_space, episode.observations),
                        actions=scale(np.asarray(episode.actions)),
                        rewards=episode.rewards,
                        terminated=bool(episode.terminations[-1]),  # an end that meets the time limit is an end
                    )
                )
                advance()
    except (OSError, KeyError) as error:
        raise DataError(f"the file of {id} is damaged: {str(error).splitlines()[0]}; download it again") from error
    task = source.env_spec.id if source.env_spec is not None else source.spec.namespace or id
    return recorder.dataset(**({"task": task, "description": f"imported from the Minari dataset {id}"} | metadata))


def _episode_files(folder: Path) -> list[tuple[int, int, Path]]:
    """Index, length and path of each episode, by index."""
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; give the one that holds the episode_<index>_<length>.npz files")
    matches = [(_EPISODE.fullmatch(path.name), path) for path in folder.iterdir()]
    files = sorted((int(match[1]), int(match[2]), path) for match, path in matches if match)
    if not files:
        raise DataError(
            f"{folder} holds no episode_<index>_<length>.npz file; ExORL keeps them in a folder called buffer"
        )
    for (index, _, path), (following, _, twin) in itertools.pairwise(files):
        if index == following:
            raise DataError(f"{path.name} and {twin.name} have the same index; remove one of them")
    return files


def _exorl_episode(path: Path, steps: int) -> Episode:
    found = npz.read(path)
    for name in _EXORL[:4]:
        if name not in found:
            raise DataError(f"{path} has no array {name!r}; an episode needs observation, action, reward and discount")
    for name in _EXORL:
        if name in found and len(found[name]) != steps + 1:
            raise DataError(
                f"{path}: {name} has {len(found[name])} rows; by its name the episode has {steps} steps, so {steps + 1}"
            )
    discount = found["discount"].reshape(-1)[1:]
    if (discount[:-1] == 0).any():
        raise DataError(f"{path}: discount is 0 at row {int(np.argmin(discount)) + 1}, but the episode goes on")
    return Episode(
        observations=found["observation"],
        actions=found["action"][1:],
        rewards=found["reward"].reshape(-1)[1:],
        terminated=bool(discount[-1] == 0),
        physics=found.get("physics"),
    )


def _prepared(episode: Episode, lengths: np.ndarray) -> dict[str, np.ndarray]:
    """Columns for all episodes, as wide as the first one's."""
    steps, rows = int(lengths.sum()), int(lengths.sum()) + len(lengths)
    columns = {
        "observations": np.empty((rows, *episode.observations.shape[1:]), np.float32),
        "actions": np.empty((steps, *episode.actions.shape[1:]), np.float32),
        "rewards": np.empty(steps, np.float32),
    }
    if episode.physics is not None:
        columns["physics"] = np.empty((rows, *episode.physics.shape[1:]), np.float64)
    return columns


def _place(columns: dict[str, np.ndarray], episode: Episode, row: int, step: int, path: Path) -> None:
    for name, column in columns.items():
        values = getattr(episode, name)
        first = row if name in ("observations", "physics") else step
        if values is None or values.shape[1:] != column.shape[1:] or values.dtype.kind not in "biuf":
            found = "nothing" if values is None else f"{values.dtype} of shape {list(values.shape)}"
            raise DataError(f"{path}: {name} is {found}; the first episode has rows of shape {list(column.shape[1:])}")
        column[first : first + len(values)] = values


def _of_task(task: str, columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What the domain of a known task says about its data; refuses data that can't be of that robot."""
    from utds import domains

    name = task.partition("-")[0]
    if name not in domains.names():
        return {"task": task}
    domain, found = domains.task(task)
    sizes = {"observations": domain.observation_size, "actions": domain.action_size, "physics": domain.state_size}
    for column, size in sizes.items():
        if column in columns and columns[column].shape[-1] != size:
            raise DataError(
                f"{column} have {columns[column].shape[-1]} numbers a row, but {name} has {size}; check the task"
            )
    return {"task": task, "domain": name, "random_return": found.random, "expert_return": found.reference}


def _flat(id: str, space: Any, values: Any) -> np.ndarray:
    """[T + 1, O] from observations of a space of Boxes."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        array = np.asarray(values)
        return array.reshape(len(array), -1)
    if isinstance(space, spaces.Dict):
        return np.concatenate([_flat(id, part, values[name]) for name, part in space.spaces.items()], axis=1)
    if isinstance(space, spaces.Tuple):
        return np.concatenate(
            [_flat(id, part, value) for part, value in zip(space.spaces, values, strict=True)], axis=1
        )
    raise DataError(f"{id} has observations in a {type(space).__name__} space; only numbers (Box) can be imported")


def _action_scale(id: str, space: Any) -> Any:
    """A function from actions in the space's bounds to [-1, 1]."""
    from gymnasium import spaces

    if not isinstance(space, spaces.Box):
        raise DataError(
            f"{id} has actions in a {type(space).__name__} space; only continuous actions (Box) can be used"
        )
    low, high = space.low.reshape(-1).astype(np.float64), space.high.reshape(-1).astype(np.float64)
    if not np.isfinite([low, high]).all():
        return lambda actions: actions.reshape(len(actions), -1)  # the check of [-1, 1] follows
    if (low == -1).all() and (high == 1).all():
        return lambda actions: np.clip(actions.reshape(len(actions), -1), -1, 1)
    return lambda actions: np.clip(2 * (actions.reshape(len(actions), -1) - low) / (high - low) - 1, -1, 1)
