"""Datasets on disk: Minari datasets under Minari's own root, written atomically, checked by digest."""

import contextlib
import functools
import importlib.metadata
import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from utds import files
from utds.data import ids, layout
from utds.data.columns import COLUMNS, KNOWN, Metadata
from utds.data.dataset import Dataset, column_digest, content_digest
from utds.errors import DataError
from utds.version import __version__

FORMAT = 1
TOLERANCE = 1e-6  # how far stored rewards may lie from those recomputed from physics
_LIBRARIES = ("jax", "numpy", "mujoco", "dm_control", "gymnasium", "minari")


def save(dataset: Dataset, id: str | None = None, *, overwrite: bool = False) -> Dataset:
    """Store a dataset under `id` (or its own); gives it back as loaded from there.

    It appears whole or not at all. An existing dataset is replaced only with `overwrite`.
    """
    id = id or dataset.metadata.id
    if id is None:
        raise DataError("a dataset needs an id to be stored under, such as walker-walk/medium")
    name, folder = ids.full(id), ids.folder(id)
    metadata = replace(dataset.metadata, id=ids.short(name), versions=dataset.metadata.versions or dict(versions()))
    with claim(id, overwrite=overwrite), files.atomic(folder) as part:
        (part / "data").mkdir(parents=True)
        path = part / "data" / layout.FILE
        columns = layout.describe(dataset, layout.write(dataset, path))
        for column in columns:
            columns[column]["sha256"] = column_digest(dataset, column)
        ours = {
            "format": FORMAT,
            "digest": content_digest(dataset, {column: entry["sha256"] for column, entry in columns.items()}),
            "metadata": asdict(metadata),
            "lengths": [[steps, len(list(run))] for steps, run in itertools.groupby(dataset.lengths.tolist())],
            "bytes": path.stat().st_size,
            "columns": columns,
            "returns": {"mean": float(dataset.returns.mean()), "std": float(dataset.returns.std())},
        }
        files.write_json(part / "data" / "metadata.json", _for_minari(dataset, metadata, name, path) | {"utds": ours})
    return load(name)


@contextlib.contextmanager
def claim(id: str, *, overwrite: bool = False) -> Iterator[None]:
    """Be the only process that may store `id` while the block runs; an existing dataset is refused at once.

    Whoever computes long before saving claims the id first.
    """
    name, folder = ids.short(ids.full(id)), ids.folder(id)
    with files.lock(folder.with_name(f".{folder.name}.lock"), f"the dataset {name}"):
        files.restore(folder.parent)
        if (folder / "data").exists() and not overwrite:
            raise DataError(f"{name} exists already; choose another id or version, or pass --overwrite to replace it")
        yield


def load(id: str) -> Dataset:
    """The dataset stored under an id such as walker-walk/medium; its columns are read when asked for.

    Datasets that another tool put under Minari's root are imported on the way.
    """
    files.restore(ids.folder(id).parent)
    name, folder = ids.find(id)
    before = _stamp(folder)
    try:
        found = _load(name, folder)
    except DataError:
        if _stamp(folder) == before:
            raise
    else:
        if _stamp(folder) == before:
            return found
    return load(id)  # it was replaced between its metadata and its data


def _stamp(folder: Path) -> tuple[int, int] | None:
    """What changes when a folder is replaced."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def _load(name: str, folder: Path) -> Dataset:
    described = read_metadata(folder)
    if "utds" not in described:
        from utds.data.formats import minari

        return minari.read(name).dataset()
    path = folder / "data" / layout.FILE
    try:
        return _parsed(name, path, described["utds"], described.get("total_steps"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"the metadata of {ids.short(name)} are damaged ({error!r}); make the dataset again") from error


def read_metadata(folder: Path) -> dict[str, Any]:
    """The metadata file of a stored dataset, as it is."""
    described = files.read_json(folder / "data" / "metadata.json")
    if not isinstance(described, dict):
        raise DataError(f"{folder / 'data' / 'metadata.json'} holds no metadata; make the dataset again")
    return described


def listed() -> Iterator[tuple[str, dict[str, Any]]]:
    """Short id and metadata of every dataset under the root; those of a damaged one are empty."""
    for name, folder in ids.stored():
        described: dict[str, Any] = {}
        with contextlib.suppress(DataError):
            described = read_metadata(folder)
        yield ids.short(name), described


@dataclass(frozen=True)
class Verification:
    """What `verify` found to be right."""

    digest: str
    columns: tuple[str, ...]
    reward_error: float | None  # largest distance of stored rewards from those recomputed; None without physics


def verify(id: str, threads: int | None = None) -> Verification:
    """Check a stored dataset byte by byte, and its rewards against the simulator where physics is stored."""
    dataset = load(id)
    name, folder = ids.find(id)
    described = read_metadata(folder)
    if "utds" not in described:
        raise DataError(f"{name} was not written by utds and carries no digest; import it first: utds data import")
    ours, path = described["utds"], folder / "data" / layout.FILE
    for column in dataset.columns:
        if column_digest(dataset, column) != ours["columns"][column].get("sha256"):
            raise DataError(f"{dataset.name}: column {column} was altered since it was written; restore the dataset")
    sums = {column: ours["columns"][column]["sha256"] for column in dataset.columns}
    if content_digest(dataset, sums) != dataset.digest:
        raise DataError(f"{dataset.name}: the metadata were altered since they were written; restore the dataset")
    try:
        extents = layout.located(dataset, path)
    except (OSError, KeyError, RuntimeError) as error:
        raise DataError(f"{path} is damaged: {str(error).splitlines()[0]}; restore the dataset") from error
    if extents != {column: ours["columns"][column]["runs"] for column in dataset.columns}:
        raise DataError(f"{path}: the columns lie elsewhere than recorded; it was rewritten by another tool")
    return Verification(dataset.digest, dataset.columns, _reward_error(dataset, threads))


@functools.cache
def versions() -> dict[str, str]:
    """The versions of the libraries that data depends on; dm_control may be missing where only own data is used."""
    found = {"utds": __version__}
    for library in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[library] = importlib.metadata.version(library)
    return found


def _parsed(name: str, path: Path, ours: dict[str, Any], steps: int | None) -> Dataset:
    if ours["format"] != FORMAT:
        raise DataError(f"{name} has format {ours['format']}, this version of utds reads {FORMAT}; update utds")
    with files.explained(f"read {path}"):
        size = path.stat().st_size
    if size != ours["bytes"]:
        what = "was cut short" if size < ours["bytes"] else "was changed by another tool"
        raise DataError(f"{path} has {size} bytes instead of {ours['bytes']}: it {what}; restore it or make it again")
    repeated = np.array(ours["lengths"], np.int64).reshape(-1, 2)  # (length, how many episodes in a row have it)
    lengths = np.repeat(repeated[:, 0], repeated[:, 1])
    columns = layout.columns(path, ours["columns"])
    for column, found in columns.items():
        if found.shape[0] != lengths.sum() + COLUMNS[column].per_episode * len(lengths):
            raise ValueError(f"{column} has {found.shape[0]} rows")
    if steps != lengths.sum():
        raise ValueError(f"total_steps is {steps}")
    fields = ours["metadata"] | {"id": ids.short(name), "task_names": tuple(ours["metadata"]["task_names"])}
    return Dataset(columns, lengths, Metadata(**fields), ours["digest"])


def _for_minari(dataset: Dataset, metadata: Metadata, name: str, path: Path) -> dict[str, Any]:
    """What Minari expects in its metadata file; the environment is named where it is one of this package's tasks."""
    import gymnasium
    from gymnasium.spaces import Box
    from minari.serialization import serialize_space

    from utds.data.formats.minari import environment_id

    described: dict[str, Any] = {
        "dataset_id": name,
        "total_episodes": dataset.episodes,
        "total_steps": dataset.size,
        "dataset_size": round(path.stat().st_size / 1e6, 1),
        "data_format": "hdf5",
        "jpeg_encoding": False,
        "observation_space": serialize_space(Box(-np.inf, np.inf, (dataset.observation_size,), np.float32)),
        "action_space": serialize_space(Box(-1, 1, (dataset.action_size,), np.float32)),
        "minari_version": importlib.metadata.version("minari"),
        "author": ["utds"],
        "description": metadata.description or f"{metadata.kind or 'data'} of {metadata.task}",
    }
    environment = environment_id(metadata)
    if environment is not None:
        described["env_spec"] = gymnasium.spec(environment).to_json()
    if metadata.random_return is not None and metadata.expert_return is not None:
        described |= {"ref_min_score": metadata.random_return, "ref_max_score": metadata.expert_return}
    return described


def _reward_error(dataset: Dataset, threads: int | None) -> float | None:
    if "physics" not in dataset or dataset.metadata.domain is None:
        return None
    from utds.data import labelling

    worst = 0.0
    for names, rewards, rows in labelling.physics_passes(dataset, threads):
        stored = []
        if dataset.metadata.labelling == KNOWN:  # labels of another origin are no facts to be checked
            stored.append((dataset.metadata.task, dataset.read("rewards", rows.start, rows.stop)))
        if "task_rewards" in dataset:
            kept = dataset.read("task_rewards", rows.start, rows.stop)
            stored += [(task, kept[:, i]) for i, task in enumerate(dataset.metadata.task_names)]
        for task, values in stored:
            if task not in names:
                continue
            distance = np.abs(values - rewards[:, names.index(task)])
            worst = max(worst, float(distance.max()))
            if worst > TOLERANCE:
                at = rows.start + int(distance.argmax())
                raise DataError(
                    f"{dataset.name}: the reward of {task} at transition {at} is off by {worst:.3g} from what its "
                    f"physics gives; relabel the dataset"
                )
    return worst
