"""Ids of stored datasets, and the folders they stand for.

    walker-walk/medium          what people type: the newest version of utds/walker-walk/medium
    walker-walk/medium-v1       that version
    utds/walker-walk/medium-v0  the full id, as Minari writes it
    D4RL/pen/human-v2           a dataset that another tool put under Minari's root

Every part is letters, digits, underscores and dashes, so no id can lead out of the root.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from utds.errors import DataError

NAMESPACE = "utds"
# What `utds data generate` makes.
KINDS = ("random", "medium", "medium-replay", "replay", "expert", "medium-expert", "uniform")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_VERSION = re.compile(r"-v(\d+)$")


def root() -> Path:
    """Minari's folder of datasets: the environment variable MINARI_DATASETS_PATH, or ~/.minari/datasets."""
    return Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")


def full(id: str) -> str:
    """The full id under which utds stores `id`: with its namespace, and with version 0 where none is given."""
    return exact(_in_namespace(id))


def exact(id: str) -> str:
    """An id with its version; one without, as runs and datasets keep it, means version 0 whatever is stored later."""
    return id if _VERSION.search(id) else f"{id}-v0"


def parts(id: str) -> tuple[str, str]:
    """An id without its namespace and version, and the version, such as -v1; empty where none is given."""
    name = id.removeprefix(f"{NAMESPACE}/")
    found = _VERSION.search(name)
    return (name[: found.start()], found[0]) if found else (name, "")


def short(id: str) -> str:
    """What people type for a full id."""
    return id.removeprefix(f"{NAMESPACE}/").removesuffix("-v0")


def shown(id: str) -> str:
    """What people type for a stored dataset: its short id, and version 0 where a newer one would be found without."""
    with contextlib.suppress(DataError):  # another tool's folder may have a name that is no id
        if find(short(id))[0] != id:
            return id.removeprefix(f"{NAMESPACE}/")
    return short(id)


def folder(id: str) -> Path:
    """Where utds stores `id`, whether it exists or not."""
    return root() / full(id)


def find(id: str) -> tuple[str, Path]:
    """The full id and the folder of an existing dataset; without a version, its newest one."""
    for name in (_in_namespace(id), id):
        if _VERSION.search(name):
            if _is_dataset(root() / name):
                return name, root() / name
            continue
        folder = root() / name
        found = [path for path in folder.parent.glob(f"{folder.name}-v*") if _is_dataset(path)]
        versions = [path.name.removeprefix(f"{folder.name}-v") for path in found]
        newest = max((version for version in versions if re.fullmatch(r"\d+", version)), key=int, default=None)
        if newest is not None:
            return f"{name}-v{newest}", folder.with_name(f"{folder.name}-v{newest}")
    raise DataError(f"there is no dataset {id} under {root()}; {_how_to_get(id)}")


def _how_to_get(id: str) -> str:
    """The command that makes a dataset, where it can be generated; else the one that lists what there is."""
    from utds import domains

    task, _, kind = short(id).partition("/")
    tasks = (name for domain in domains.BUILT_IN for name in domains.task_ids(domain))
    if kind in KINDS and task in tasks:
        return f"make it with: utds data generate {task} --kinds {kind}"
    return "see: utds data list"


def stored() -> Iterator[tuple[str, Path]]:
    """Full id and folder of every dataset under the root, sorted."""
    for current, folders, _ in os.walk(root()):
        if _is_dataset(Path(current)):
            yield Path(current).relative_to(root()).as_posix(), Path(current)
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))


def _is_dataset(path: Path) -> bool:
    return (path / "data").is_dir()


def check_name(name: str, what: str) -> None:
    """Refuse a task's or a kind's name that could be no part of an id."""
    if not _PART.fullmatch(name) or len(name) > 200:
        shown = name if len(name) <= 40 else f"{name[:40]}…"
        raise DataError(f"{shown!r} can't be the name of a {what}: letters, digits, '-' and '_', 200 of them at most")


def _in_namespace(id: str) -> str:
    """An id with its namespace; refuses what can't be an id."""
    parts = id.split("/")
    if not all(_PART.fullmatch(part) for part in parts):
        raise DataError(
            f"{id!r} is no dataset id; an id looks like walker-walk/medium: parts of letters, digits, '-' and '_'"
        )
    if "data" in parts:  # Minari takes any folder that holds a folder `data` for a dataset
        raise DataError(f"{id!r} can't be a dataset id: no part of it may be called data")
    return id if id.startswith(f"{NAMESPACE}/") else f"{NAMESPACE}/{id}"
