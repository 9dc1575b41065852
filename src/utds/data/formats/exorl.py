"""ExORL: a folder of `episode_<index>_<length>.npz`, as ExORL and the released UTDS data come.

Row 0 of an episode is the start state with a dummy action and reward; row t holds the action that led to observation t
and the reward of that state:

    observation  0    1    2   …   T      kept as they are
    action       –    1    2   …   T      shifted: transition t−1 takes action t
    reward       –    1    2   …   T      and gets reward t
    discount     –    1    1   …   d      d = 0: a true termination; d = 1: a time limit
"""

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np

from utds import files, terminal
from utds.data.build import Builder
from utds.data.columns import Episode, cast
from utds.data.dataset import Dataset
from utds.data.formats import arrays
from utds.data.formats.recording import Recording, check_arrays
from utds.errors import DataError

_EPISODE = re.compile(r"episode_(\d+)_(\d+)\.npz")
_NEEDED = ("observation", "action", "reward", "discount")


def read(folder: Path) -> Recording:
    """The episodes of a folder, by index."""
    found = _episode_files(folder)
    builder = Builder()
    with terminal.bar(f"importing {folder.name}", len(found), "episodes") as advance:
        for _, steps, path in found:
            builder.add(_episode(path, steps), path)
            advance()
    return Recording.of_episodes(builder, notes=["rewards and actions of row t belong to the step that reaches it"])


def write(dataset: Dataset, folder: Path) -> None:
    """Write `episode_<index>_<length>.npz` files, actions in the robot's unit."""
    raw = dataset.raw_actions
    with (
        files.atomic(folder) as part,
        terminal.bar(f"exporting {dataset.name}", dataset.episodes, "episodes") as advance,
    ):
        part.mkdir()
        for index, steps in enumerate(dataset.lengths.tolist()):
            episode = dataset.episode(index)
            dummy = np.zeros((1, dataset.action_size), np.float32)
            discount = np.ones((steps + 1, 1), np.float32)
            discount[-1] = 0.0 if episode.terminated else 1.0
            rows: dict[str, Any] = {
                "observation": episode.observations,
                "action": np.concatenate([dummy, raw[dataset.starts[index] : dataset.starts[index + 1]]]),
                "reward": np.concatenate([[0], episode.rewards]).astype(np.float32)[:, None],
                "discount": discount,
            }
            if episode.physics is not None:
                rows["physics"] = episode.physics
            np.savez(part / f"episode_{index:06d}_{steps}.npz", **rows)
            advance()


def _episode_files(folder: Path) -> list[tuple[int, int, Path]]:
    """Index, length and path of each episode, by index."""
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; give the one that holds the episode_<index>_<length>.npz files")
    matches = [(_EPISODE.fullmatch(path.name), path) for path in folder.iterdir()]
    found = sorted((int(match[1]), int(match[2]), path) for match, path in matches if match)
    if not found:
        raise DataError(
            f"{folder} holds no episode_<index>_<length>.npz file; ExORL keeps them in a folder called buffer"
        )
    for (index, _, path), (following, _, twin) in itertools.pairwise(found):
        if index == following:
            raise DataError(f"{path.name} and {twin.name} have the same index; remove one of them")
    return found


def _episode(path: Path, steps: int) -> Episode:
    found = arrays.load(path)
    check_arrays(path, found, _NEEDED, ("physics",), "an episode has observation, action, reward and discount")
    rows = found["observation"].shape[:1]
    if rows != (steps + 1,):
        counts = f"{''.join(map(str, rows)) or 'no'} rows; by its name the episode has {steps} steps, so {steps + 1}"
        raise DataError(f"{path}: observation has {counts}")
    if steps < 1:
        raise DataError(f"{path} holds a start state and no step; remove it")
    discount, rewards = (cast(f"{path}: {name}", found[name], np.float32, None)[1:] for name in ("discount", "reward"))
    if (discount[:-1] == 0).any():
        raise DataError(f"{path}: discount is 0 at row {int(np.argmin(discount)) + 1}, but the episode continues")
    return Episode(
        observations=found["observation"],
        actions=found["action"][1:],
        rewards=rewards,
        terminated=bool(discount[-1] == 0),
        physics=found.get("physics"),
    )
