"""Rewards of another task for data that was recorded for this one.

| how       | where the reward comes from                                                                    |
|-----------|------------------------------------------------------------------------------------------------|
| `known`   | the dataset's own rewards, its stored column of that task, or else a pass over its physics      |
| `learned` | an ensemble regressed on the main task's own data (`LearnedReward`), minus k standard deviations |
| function  | the user's `reward(observations, actions, next_observations)` on blocks of rows                  |
| `zero`    | nowhere: every reward is 0                                                                       |

What costs time (physics, learned) is kept beside a stored dataset, under a digest of all that it depends on.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from utds import files
from utds.data import ids, npz
from utds.data.dataset import Dataset
from utds.data.reward_model import LearnedReward
from utds.errors import ConfigError, DataError
from utds.version import __version__

Function = Callable[[np.ndarray, np.ndarray, np.ndarray], object]
Rewards = Literal["known", "learned", "zero"] | LearnedReward | Function

_ROWS = 1 << 18  # states a pass: physics is the widest column, so it is never read whole


def relabel(dataset: Dataset, task: str, rewards: Rewards = "known", *, main: Dataset | None = None) -> Dataset:
    """The same data with the rewards of `task`; `main` is the data that a learned reward is regressed on."""
    return dataset.with_rewards(task, rewards_for(dataset, task, rewards, main=main))


def rewards_for(
    dataset: Dataset, task: str, rewards: Rewards = "known", *, main: Dataset | None = None, threads: int | None = None
) -> np.ndarray:
    """Rewards [N] float32 of `task` for every transition of `dataset`."""
    if rewards == "known":
        return known(dataset, task, threads)
    if rewards == "zero":
        return np.zeros(dataset.size, np.float32)
    if rewards == "learned":
        rewards = LearnedReward()
    if isinstance(rewards, LearnedReward):
        if main is None:
            raise ConfigError("a learned reward needs the main task's own data to learn from")
        return learned(dataset, main, rewards)
    if callable(rewards):
        return from_function(dataset, rewards)
    raise ConfigError(f"rewards={rewards!r} is unknown; use known, learned, zero or a function")


def known(dataset: Dataset, task: str, threads: int | None = None) -> np.ndarray:
    """Rewards [N] that are facts: recorded for this task, or recomputed from physics."""
    if task == dataset.metadata.task:
        return dataset.read("rewards")
    if "task_rewards" in dataset and task in dataset.metadata.task_names:
        return np.ascontiguousarray(dataset.read("task_rewards")[:, dataset.metadata.task_names.index(task)])
    if "physics" in dataset and dataset.metadata.domain is not None:
        names, table = from_physics(dataset, threads)
        if task in names:
            return np.ascontiguousarray(table[:, names.index(task)])
    raise DataError(
        f"{dataset.name} holds neither rewards of {task} nor physics to compute them from; "
        f"share it with rewards='learned', 'zero' or a function"
    )


def is_known(dataset: Dataset, task: str) -> bool:
    """Whether `known` can answer, without computing anything."""
    meta = dataset.metadata
    return task in (meta.task, *meta.task_names) or ("physics" in dataset and task in _task_ids(meta.domain))


def from_physics(dataset: Dataset, threads: int | None = None) -> tuple[tuple[str, ...], np.ndarray]:
    """Ids of the domain's tasks and the rewards [N, tasks] float32 of all of them, from the stored physics."""
    import mujoco

    key = {"from": "physics", "data": dataset.digest, "utds": __version__, "mujoco": mujoco.__version__}

    def compute() -> dict[str, np.ndarray]:
        blocks = [block.astype(np.float32) for _, block, _ in physics_passes(dataset, threads)]
        return {"values": np.concatenate(blocks)}

    names = _task_ids(dataset.metadata.domain)
    return names, _cached(dataset, key, (dataset.size, len(names)), compute)["values"]


def physics_passes(dataset: Dataset, threads: int | None = None) -> Iterator[tuple[tuple[str, ...], np.ndarray, slice]]:
    """Task ids, rewards [m, tasks] float64 and the transitions they belong to, pass after pass over the physics."""
    from utds import domains

    assert dataset.metadata.domain is not None
    domain = domains.get(dataset.metadata.domain)
    rows = dataset.rows
    for start in range(0, dataset.size, _ROWS):
        stop = min(start + _ROWS, dataset.size)
        first = int(rows[start]) + 1  # rewards belong to the states reached
        states = dataset.read("physics", first, int(rows[stop - 1]) + 2)[rows[start:stop] + 1 - first]
        yield (
            domains.task_ids(domain),
            domain.rewards(states, dataset.read("actions", start, stop), threads),
            slice(start, stop),
        )


def from_function(dataset: Dataset, function: Function) -> np.ndarray:
    """Rewards [N] of a user's function of observations [b, O], actions [b, A] and next observations [b, O]."""
    rewards = np.empty(dataset.size, np.float32)
    for where, observations, actions, next_observations in dataset.blocks():
        given = np.asarray(function(observations, actions, next_observations))
        if given.shape != (len(actions),):
            raise DataError(
                f"the reward function gave shape {list(given.shape)} for {len(actions)} transitions; "
                f"it must give one number a transition: [{len(actions)}]"
            )
        rewards[where] = given
        if not np.isfinite(rewards[where]).all():
            row = where.start + int(np.argmin(np.isfinite(rewards[where])))
            raise DataError(f"the reward function gave {rewards[row]} for transition {row} of {dataset.name}")
    return rewards


class Prediction(NamedTuple):
    """What an ensemble says about the rewards of a dataset, and how sure it is."""

    mean: np.ndarray  # [N] float32
    std: np.ndarray  # [N] float32, over the members: the doubt about each transition
    correlation: float  # of the mean with the true rewards, on episodes of the main data kept aside
    error: float  # root mean square on those episodes, in units of reward


def learned(dataset: Dataset, main: Dataset, model: LearnedReward) -> np.ndarray:
    """Rewards [N] of an ensemble regressed on `main`: its mean minus `model.penalty` standard deviations."""
    found = predicted(dataset, main, model)
    return np.ascontiguousarray(found.mean - model.penalty * found.std)


def predicted(dataset: Dataset, main: Dataset, model: LearnedReward) -> Prediction:
    """Regress an ensemble on `main` and predict the rewards of `dataset`; both are kept beside a stored dataset."""
    if (dataset.observation_size, dataset.action_size) != (main.observation_size, main.action_size):
        raise DataError(
            f"{dataset.name} and {main.name} have different dimensions; no reward carries over between them"
        )
    identity = {"from": "learned", "model": model.identity(), "utds": __version__}

    def compute() -> dict[str, np.ndarray]:
        fitted = model.fit(main)
        values = np.stack(fitted.predict(dataset), axis=1)
        return {"values": values, "fit": np.array([fitted.correlation, fitted.error])}

    kept = _cached(dataset, identity | {"data": dataset.digest, "main": main.digest}, (dataset.size, 2), compute)
    mean, std = kept["values"].T
    correlation, error = kept["fit"].tolist()
    return Prediction(mean, std, correlation, error)


def _task_ids(domain: str | None) -> tuple[str, ...]:
    from utds import domains

    return () if domain is None or domain not in domains.names() else domains.task_ids(domains.get(domain))


def _cached(
    dataset: Dataset, key: Mapping[str, object], shape: tuple[int, ...], compute: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The arrays that `compute` gives, `values` [shape] among them, kept beside a stored dataset under their `key`."""
    path = _cache_path(dataset, key)
    if path is None:
        return compute()
    if path.exists():
        with contextlib.suppress(DataError):  # damaged (a zip file carries checksums): computing it again mends it
            arrays = npz.read(path)
            if "values" in arrays and arrays["values"].shape == shape and arrays["values"].dtype == np.float32:
                return arrays
    arrays = compute()
    with files.atomic(path) as part, open(part, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    return arrays


def _cache_path(dataset: Dataset, key: Mapping[str, object]) -> Path | None:
    """Beside the dataset, as long as what is stored there is this dataset."""
    if dataset.metadata.id is None:
        return None
    digest = hashlib.sha256(json.dumps(dict(key), sort_keys=True).encode()).hexdigest()
    folder = ids.folder(dataset.metadata.id)
    return folder / "relabelled" / f"{digest}.npz" if (folder / "data").is_dir() else None
