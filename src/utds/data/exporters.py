"""Datasets for other tools: an ExORL folder of episodes, or one file of arrays. (Minari reads the store as it is.)"""

from pathlib import Path
from typing import Any

import numpy as np

from utds import files, progress
from utds.data.dataset import Dataset
from utds.errors import DataError


def to_exorl(dataset: Dataset, folder: str | Path) -> Path:
    """Write `episode_<index>_<length>.npz` files; `utds.data.importers.from_exorl` reads them back."""
    folder = _new(folder)
    with (
        files.atomic(folder) as part,
        progress.bar(f"exporting {dataset.name}", dataset.episodes, "episodes") as advance,
    ):
        part.mkdir()
        for index, steps in enumerate(dataset.lengths.tolist()):
            episode = dataset.episode(index)
            dummy = np.zeros((1, dataset.action_size), np.float32)
            discount = np.ones((steps + 1, 1), np.float32)
            discount[-1] = 0.0 if episode.terminated else 1.0
            rows: dict[str, Any] = {
                "observation": episode.observations,
                "action": np.concatenate([dummy, episode.actions]),
                "reward": np.concatenate([[0], episode.rewards]).astype(np.float32)[:, None],
                "discount": discount,
            }
            if episode.physics is not None:
                rows["physics"] = episode.physics
            np.savez(part / f"episode_{index:06d}_{steps}.npz", **rows)
            advance()
    return folder


def to_npz(dataset: Dataset, path: str | Path) -> Path:
    """Write one `.npz` with the columns by name and the episodes' lengths; `from_npz` reads it back."""
    path = _new(path)
    with files.atomic(path) as part, open(part, "wb") as file:
        columns: dict[str, Any] = {name: dataset.read(name) for name in dataset.columns}
        if dataset.metadata.task_names:
            columns["task_names"] = np.array(dataset.metadata.task_names)  # of fixed width: no object, no pickle
        np.savez(file, lengths=dataset.lengths, **columns)
    return path


def _new(path: str | Path) -> Path:
    path = Path(path)
    if path.exists():
        raise DataError(f"{path} exists already; choose another name or remove it first")
    return path
