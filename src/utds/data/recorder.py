"""Recording: episodes come in one by one, a dataset goes out."""

from typing import Any

import numpy as np

from utds.data import arrays
from utds.data.columns import Episode, Metadata
from utds.data.dataset import Dataset
from utds.errors import DataError


class Recorder:
    """Gathers episodes as they are collected and makes one dataset of them."""

    def __init__(self) -> None:
        self._episodes: list[Episode] = []

    def __len__(self) -> int:
        return len(self._episodes)

    def add(self, episode: Episode) -> None:
        if len(episode.rewards) == 0:
            raise DataError(f"episode {len(self)} has no step; record at least one")
        self._episodes.append(episode)

    def dataset(self, **metadata: Any) -> Dataset:
        """Everything recorded so far; `metadata` are the fields of `Metadata`."""
        if not self._episodes:
            raise DataError("nothing was recorded: a dataset needs at least one episode")
        given = {
            name: arrays.joined(name, [getattr(episode, name) for episode in self._episodes])
            for name in ("observations", "actions", "rewards", "physics", "task_rewards")
            if any(getattr(episode, name) is not None for episode in self._episodes)
        }
        lengths = np.array([len(episode.rewards) for episode in self._episodes])
        ended = np.array([bool(episode.terminated) for episode in self._episodes])
        given["terminations"], given["truncations"] = arrays.flags(lengths, ended)
        return Dataset.checked(given, lengths, Metadata(**metadata))
