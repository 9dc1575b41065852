"""Minari: any dataset of numbers in its store, and our datasets written there in the robot's unit.

Observations of Box, Dict and Tuple spaces are flattened in the space's own order. An end that meets the time limit is
an end.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from utds import files, terminal
from utds.data import ids
from utds.data.build import Builder
from utds.data.columns import Episode, Metadata, bounds_text
from utds.data.dataset import Dataset
from utds.data.formats.recording import Recording, refuse_pictures
from utds.errors import ConfigError, DataError, MissingExtra


def read(id: str, download: bool = False) -> Recording:
    """The Minari dataset of that id; with `download` it is fetched from Minari's server where it isn't stored yet."""
    source = _loaded(id, download)
    bounds = _bounds(id, source.action_space)
    builder, notes = Builder(), ["observations flattened in the order of their space"]
    try:
        with terminal.bar(f"importing {id}", source.total_episodes, "episodes") as advance:
            for episode in source.iterate_episodes():
                actions = np.asarray(episode.actions)
                builder.add(
                    Episode(
                        observations=_flat(id, source.observation_space, episode.observations),
                        actions=actions.reshape(len(actions), -1),
                        rewards=episode.rewards,
                        terminated=bool(episode.terminations[-1]),
                    )
                )
                advance()
    except (OSError, KeyError) as error:
        raise DataError(f"the file of {id} is damaged: {str(error).splitlines()[0]}; download it again") from error
    task = source.env_spec.id if source.env_spec is not None else id  # a namespace may hold several tasks
    about = {"task": task, "description": f"imported from the Minari dataset {id}"}
    found = Recording.of_episodes(builder, bounds=bounds, metadata=about, notes=notes)
    if bounds is not None:
        low, high = bounds
        beyond = int(((found.actions < low) | (found.actions > high)).any(axis=1).sum())
        if beyond:
            notes.append(
                f"{beyond} actions beyond {bounds_text(tuple(low), tuple(high))} clipped, as the environment does"
            )
            found.actions = np.clip(found.actions, low, high)
    return found


def _loaded(id: str, download: bool) -> Any:
    """Minari's own object for the dataset."""
    import minari

    try:
        return minari.load_dataset(id, download=download)
    except ImportError:
        if not download:
            raise
        raise MissingExtra(
            "downloading Minari's datasets needs huggingface_hub: pip install 'utds[download]'"
        ) from None
    except (ValueError, KeyError, AttributeError) as error:
        raise DataError(f"Minari can't load {id}: {str(error).splitlines()[0]}") from error
    except Exception as error:
        if download:  # whatever the library that downloads raises, such as without a network
            raise DataError(
                f"Minari can't download {id} ({files.said(error)}); check the network and the id"
            ) from error
        if not isinstance(error, FileNotFoundError):
            raise
        raise DataError(
            f"Minari can't load {id}: it isn't under {ids.root()}; check the id, or fetch it with --download"
        ) from None


def write(dataset: Dataset, id: str) -> None:
    """Write a dataset into Minari's store, with its environment where it is one of this package's tasks."""
    import minari
    from gymnasium.spaces import Box
    from minari.dataset.minari_dataset import parse_dataset_id

    try:
        parse_dataset_id(id)  # before Minari makes folders for it
    except (ValueError, TypeError):
        raise ConfigError(f"{id!r} is no id of Minari's; write it as NAMESPACE/NAME-v0") from None
    meta = dataset.metadata
    description = meta.description or f"{meta.kind or 'data'} of {meta.task}"
    if not meta.has_rewards:
        description += "; recorded without rewards: all are 0"
    low, high = meta.action_low or (-1.0,) * dataset.action_size, meta.action_high or (1.0,) * dataset.action_size
    try:
        with warnings.catch_warnings(action="ignore"):  # Minari wishes for an author's e-mail, a link to code and so on
            minari.create_dataset_from_buffers(
                id,
                list(_buffers(dataset)),
                env=environment_id(meta),
                observation_space=Box(-np.inf, np.inf, (dataset.observation_size,), np.float32),
                action_space=Box(np.array(low, np.float32), np.array(high, np.float32), dtype=np.float32),
                author="utds",
                description=description,
            )
    except (ValueError, AssertionError) as error:
        raise DataError(f"Minari can't store {id}: {str(error).splitlines()[0]}") from error


def environment_id(metadata: Metadata) -> str | None:
    """The Gymnasium environment of a dataset's task, where this package has one."""
    if metadata.domain is None:
        return None
    from utds import domains
    from utds.domains.gym import env_id

    name, task = metadata.domain, metadata.task
    known = name in domains.names() and task in domains.task_ids(domains.get(name))
    return env_id(*domains.task(task)) if known else None


def _buffers(dataset: Dataset) -> Iterator[Any]:
    from minari.data_collector import EpisodeBuffer

    raw = dataset.raw_actions
    for index in range(dataset.episodes):
        episode, (start, stop) = dataset.episode(index), dataset.starts[index : index + 2].tolist()
        yield EpisodeBuffer(
            id=index,
            observations=episode.observations,
            actions=raw[start:stop],
            rewards=episode.rewards,
            terminations=dataset.read("terminations", start, stop),
            truncations=dataset.read("truncations", start, stop),
            infos={},
        )


def _flat(id: str, space: Any, values: Any) -> np.ndarray:
    """[T + 1, O] from observations of a space of Boxes."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        array = np.asarray(values)
        refuse_pictures(f"{id}: an observation", array)
        return array.reshape(len(array), -1)
    if isinstance(space, spaces.Dict | spaces.Tuple):
        named = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        return np.concatenate([_flat(id, part, values[name]) for name, part in named], axis=1)
    raise DataError(f"{id} has observations in a {type(space).__name__} space; only numbers (Box) can be imported")


def _bounds(id: str, space: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Of the actions, where the space has any."""
    from gymnasium import spaces

    if not isinstance(space, spaces.Box):
        raise DataError(
            f"{id} has actions in a {type(space).__name__} space; only continuous actions (Box) can be used"
        )
    low, high = space.low.reshape(-1).astype(np.float64), space.high.reshape(-1).astype(np.float64)
    return (low, high) if np.isfinite([low, high]).all() else None
