"""Datasets on disk: Minari datasets under Minari's own root, written atomically, checked by digest.

Minari wants `episode_<k>/observations` and so on, a small hdf5 dataset for each column of each episode; reading
thousands of those one by one is slow. Here the small datasets are contiguous and written column by column, with hdf5's
own headers kept apart, so the rows of all episodes follow each other in the file:

    | headers | observations of episode 0, 1, 2, … | actions of episode 0, 1, 2, … | rewards … |

Minari reads the file as any other; utds reads a column with one call at the offset that hdf5 reports, which stands in
the metadata as a list of extents (offset, bytes): normally one, more if hdf5 had to put a header in between.
"""

import contextlib
import errno
import functools
import importlib.metadata
import itertools
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from utds import files, terminal
from utds.data import ids
from utds.data.columns import COLUMNS, KNOWN, OPTIONAL, FileColumn, Metadata, stamp
from utds.data.dataset import Dataset, column_digest, content_digest
from utds.errors import DataError
from utds.version import __version__

FORMAT = 1
FILE = "main_data.hdf5"
TOLERANCE = 1e-6  # how far stored rewards may lie from those recomputed from physics; of those beyond 1, their share
_HEADER = 1000  # bytes that hdf5 needs for a group or a small dataset, measured as 630 and rounded up
_LIBRARIES = ("jax", "numpy", "mujoco", "dm_control", "gymnasium", "minari")

Extents = list[list[int]]


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
        path = part / "data" / FILE
        columns: dict[str, dict[str, Any]] = {
            column: {
                "dtype": np.dtype(COLUMNS[column].dtype).str,
                "shape": list(dataset.shape(column)),
                "runs": extents,
                "sha256": column_digest(dataset, column),
            }
            for column, extents in _write(dataset, path).items()
        }
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
    before = stamp(folder)
    try:
        found = _load(name, folder)
    except DataError:
        if stamp(folder) == before:
            raise
    else:
        if stamp(folder) == before:
            return found
    return load(id)  # it was replaced between its metadata and its data


def _load(name: str, folder: Path) -> Dataset:
    described = read_metadata(folder)
    if "utds" not in described:
        from utds.data.formats import minari

        return minari.read(name).dataset()
    path = folder / "data" / FILE
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
    """Id, as people type it, and metadata of every dataset under the root; those of a damaged one are empty."""
    for name, folder in ids.stored():
        described: dict[str, Any] = {}
        with contextlib.suppress(DataError):
            described = read_metadata(folder)
        yield ids.shown(name), described


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
    ours, path = described["utds"], folder / "data" / FILE
    for column in dataset.columns:
        if column_digest(dataset, column) != ours["columns"][column].get("sha256"):
            raise DataError(f"{dataset.name}: column {column} was altered since it was written; restore the dataset")
    sums = {column: ours["columns"][column]["sha256"] for column in dataset.columns}
    if content_digest(dataset, sums) != dataset.digest:
        raise DataError(f"{dataset.name}: the metadata were altered since they were written; restore the dataset")
    try:
        extents = _located(dataset, path)
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
    columns = _columns(path, ours["columns"], lengths)
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
            right = rewards[:, names.index(task)].astype(values.dtype).astype(np.float64)  # rounded as the stored ones
            distance = np.abs(values - right)
            worst = max(worst, float(distance.max()))
            beyond = distance / np.maximum(1, np.abs(right))
            if beyond.max() > TOLERANCE:
                at = int(beyond.argmax())
                raise DataError(
                    f"{dataset.name}: the reward of {task} at transition {rows.start + at} is off by "
                    f"{distance[at]:.3g} from what its physics gives; relabel the dataset"
                )
    return worst


# The file


def _columns(path: Path, described: dict[str, Any], lengths: np.ndarray) -> dict[str, FileColumn]:
    """The columns of the file at `path`, to be read when asked for."""
    found, written = {}, stamp(path)
    for name, entry in described.items():
        dtype, shape = np.dtype(entry["dtype"]), tuple(int(size) for size in entry["shape"])
        extents = tuple((int(offset), int(size)) for offset, size in entry["runs"])
        if name not in COLUMNS or dtype != COLUMNS[name].dtype:
            raise DataError(f"{path}: column {name} of dtype {dtype} is unknown; the metadata were altered")
        if sum(size for _, size in extents) != COLUMNS[name].bytes(shape):
            raise DataError(f"{path}: the bytes of column {name} don't add up; the metadata were altered")
        if shape[0] != lengths.sum() + COLUMNS[name].per_episode * len(lengths):
            raise ValueError(f"{name} has {shape[0]} rows")
        found[name] = FileColumn(path, dtype, shape, extents, written)
    return found


def _write(dataset: Dataset, path: Path) -> dict[str, Extents]:
    """Write the file; returns the extents of each column.

    hdf5 writes the headers and says where the columns belong; their bytes we write ourselves, because hdf5 can't give
    up cleanly when the disk is full.
    """
    sizes = {name: COLUMNS[name].bytes(dataset.shape(name)) for name in COLUMNS if name in dataset}
    headers = dataset.episodes * (len(sizes) + 2) * _HEADER
    if shutil.disk_usage(path.parent).free < headers + sum(sizes.values()):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    extents = _write_headers(dataset, path, headers)
    with open(path, "rb+", buffering=0) as file, terminal.bar("writing", sum(sizes.values()), "bytes") as advance:
        for name in sizes:
            _write_column(file.fileno(), extents[name], dataset.parts(name))
            advance(sizes[name], note=f"{dataset.name} {name}")
    return extents


def _write_headers(dataset: Dataset, path: Path, reserved: int) -> dict[str, Extents]:
    """Everything of the file but the columns' bytes, for which space is set aside; returns where."""
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    extents: dict[str, Extents] = {name: [] for name in COLUMNS if name in dataset}
    with h5py.File(path, "w", meta_block_size=reserved) as file:
        groups = []
        for index, steps in enumerate(dataset.lengths.tolist()):
            group = file.create_group(f"episode_{index}")
            group.attrs["id"] = index
            group.attrs["total_steps"] = steps
            group.create_group("infos")
            groups.append(group.id)
        for name, found in extents.items():
            kind = h5py.h5t.py_create(np.dtype(COLUMNS[name].dtype), logical=True)
            for group, shape in zip(groups, _episode_shapes(dataset, name), strict=True):
                made = h5py.h5d.create(group, _path_of(name).encode(), kind, h5py.h5s.create_simple(shape), settings)
                _extend(found, made.get_offset(), made.get_storage_size())
    return extents


def _write_column(file: int, extents: Extents, parts: Iterable[np.ndarray]) -> None:
    """Write the parts of a column, one after the other, into its extents."""
    free = iter(extents)
    offset = room = 0
    for part in parts:
        left = part.reshape(-1).view(np.uint8).data
        while len(left):
            if room == 0:
                offset, room = next(free)
            done = os.pwrite(file, left[:room], offset)
            offset, room, left = offset + done, room - done, left[done:]


def _located(dataset: Dataset, path: Path) -> dict[str, Extents]:
    """The extents of each column as the file itself has them, through hdf5; for checking the metadata against."""
    extents: dict[str, Extents] = {name: [] for name in dataset.columns}
    with h5py.File(path, "r") as file:
        for name in dataset.columns:
            for index, shape in enumerate(_episode_shapes(dataset, name)):
                found = file[f"episode_{index}/{_path_of(name)}"]
                if found.shape != shape or found.dtype != COLUMNS[name].dtype:
                    raise DataError(f"{path}: episode {index} holds {name} of another shape or dtype than recorded")
                _extend(extents[name], found.id.get_offset(), found.id.get_storage_size())
    return extents


def _path_of(column: str) -> str:
    """Where Minari keeps a column within an episode."""
    return f"infos/{column}" if column in OPTIONAL else column


def _episode_shapes(dataset: Dataset, name: str) -> list[tuple[int, ...]]:
    """The shape of a column in each episode."""
    return [(rows, *dataset.shape(name)[1:]) for rows in (dataset.lengths + COLUMNS[name].per_episode).tolist()]


def _extend(extents: Extents, offset: int, size: int) -> None:
    if extents and sum(extents[-1]) == offset:
        extents[-1][1] += size
    else:
        extents.append([offset, size])
