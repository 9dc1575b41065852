"""Import: recognise a source, read it, and make checked datasets of it, before anything is stored."""

import contextlib
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from utds.data import ids, store
from utds.data.build import ActionBounds
from utds.data.columns import BOUNDS_FOUND, bounds_found, check_finite
from utds.data.dataset import Dataset
from utds.data.formats import arrays, d4rl, exorl, lerobot, minari, ogbench, rlds, table
from utds.data.formats.recording import Recording
from utds.errors import ConfigError, DataError

Reader = Callable[[Path], Recording]
READERS: Mapping[str, Reader] = {
    "arrays": arrays.read,
    "d4rl": d4rl.read,
    "exorl": exorl.read,
    "lerobot": lerobot.read,
    "ogbench": ogbench.read,
    "rlds": rlds.read,
}
FORMATS = (*READERS, "table", "minari")
NO_REWARDS = "no rewards in the file: all are 0 until it is relabelled"
WRITERS: Mapping[str, Callable[[Dataset, Path], None]] = {
    "exorl": exorl.write,
    "arrays": arrays.write,
    "d4rl": d4rl.write,
    "table": table.write,
}


@dataclass(frozen=True)
class Options:
    """How sources are read."""

    format: str = "auto"
    columns: Mapping[str, str] | None = None  # of tables: role -> patterns
    task_from: str | None = None  # of tables: the column that names the task
    actions: ActionBounds = None  # their bounds: given, found in the data ("auto"), or as the source says
    download: bool = False  # Minari datasets that aren't stored yet


@dataclass(frozen=True)
class Imported:
    """A dataset ready to be stored, and what was done for it."""

    source: str
    format: str
    id: str
    dataset: Dataset
    notes: tuple[str, ...]


def recognise(source: str) -> str:
    """The format of a source, from its name and what it holds."""
    path = Path(source)
    if path.is_dir():
        return "lerobot" if (path / "meta" / "info.json").exists() else "exorl"
    known = {".npz": None, ".hdf5": "d4rl", ".h5": "d4rl", ".csv": "table", ".parquet": "table"}
    if path.suffix in known:
        if not path.is_file():
            raise DataError(f"there is no file {source}; check its path")
        return known[path.suffix] or _npz(path)
    if path.exists():
        raise DataError(f"{source} is none of the files that can be imported: {', '.join(known)}")
    if source.startswith((".", "/", "~")) or not re.fullmatch(r"[\w/-]+", source):
        raise DataError(f"there is no file or folder {source}; check its path")
    return "minari"


def read(source: str, options: Options) -> tuple[str, Recording]:
    """The format of a source, and what it holds."""
    format = recognise(source) if options.format == "auto" else options.format
    if format not in FORMATS:
        raise ConfigError(f"format {format!r} is unknown; use auto, {', '.join(FORMATS)}")
    if format != "table" and (options.columns or options.task_from):
        raise ConfigError(f"--columns and --task-from are for tables (.csv, .parquet); {source} is {format}")
    if format == "minari":
        return format, minari.read(source, options.download)
    if format == "table":
        return format, table.read(Path(source), options.columns, options.task_from)
    return format, READERS[format](Path(source))


def load(
    sources: Sequence[tuple[str, str]], options: Options, task: str | None = None, kind: str | None = None
) -> list[Imported]:
    """Datasets from (source, id) pairs, one per task of each source; nothing is stored.

    Bounds that are to be found in the data are found once, over all sources: their data can be shared.
    """
    found = []
    for source, id in sources:
        with _naming(source):
            found.append((source, id, *read(source, options)))
    bounds: ActionBounds = options.actions
    if bounds == "auto":
        actions = [recording.actions for _, _, _, recording in found]
        for (source, _, _, recording), other in zip(found, actions, strict=True):
            with _naming(source):
                check_finite("actions", other, recording.lengths, 0)
            if other.shape[1] != actions[0].shape[1]:
                counts = f"{found[0][0]} has {actions[0].shape[1]} actions per step and {source} has {other.shape[1]}"
                raise DataError(f"{counts}: import them one by one")
        bounds = bounds_found(*actions)
    made = []
    for source, id, format, whole in found:
        parts = list(whole.split())
        slugs = _slugs([name or "" for name, _ in parts]) if len(parts) > 1 else [None]
        for (name, recording), slug in zip(parts, slugs, strict=True):
            target, chosen = _target(id, slug, task)
            about: dict[str, Any] = {"task": chosen, "kind": kind or ids.parts(target)[0].rsplit("/", 1)[-1]}
            if name is not None:
                about["description"] = name
            if options.actions == "auto":
                about["description"] = "; ".join(filter(None, (about.get("description"), BOUNDS_FOUND)))
            with _naming(source):
                dataset = recording.dataset(bounds, **about)
            notes = [*recording.notes, *([NO_REWARDS] if recording.rewards is None else [])]
            made.append(Imported(source, format, target, dataset, tuple(notes)))
    names = [ids.full(each.id) for each in made]
    if len(set(names)) < len(names):
        raise ConfigError(f"two of the datasets would be stored as {max(names, key=names.count)}; give them other ids")
    return made


@contextlib.contextmanager
def _naming(source: str) -> Iterator[None]:
    """What is wrong with a source names it."""
    try:
        yield
    except DataError as error:
        if source in str(error):
            raise
        raise DataError(f"{source}: {error}") from error


def save(made: Sequence[Imported], overwrite: bool = False) -> list[Dataset]:
    """Store all of them; none if one of the ids is taken."""
    with contextlib.ExitStack() as claims:
        for each in made:
            claims.enter_context(store.claim(each.id, overwrite=overwrite))
        return [store.save(each.dataset, each.id, overwrite=overwrite) for each in made]


def export(dataset: Dataset, target: str, format: str = "auto") -> None:
    """Write a dataset for other tools; by default the target's ending tells the format."""
    endings = {".npz": "arrays", ".hdf5": "d4rl", ".h5": "d4rl", ".parquet": "table", "": "exorl"}
    path = Path(target)
    if format == "auto":
        if path.suffix not in endings:
            raise ConfigError(f"{target} doesn't tell its format; end it in .npz, .hdf5 or .parquet, or name a folder")
        format = endings[path.suffix]
    if format == "minari":
        return minari.write(dataset, target)
    if format not in WRITERS:
        raise ConfigError(f"format {format!r} can't be written; use auto, minari, {', '.join(WRITERS)}")
    fitting = [ending for ending in endings if ending and endings[ending] == format]
    if fitting and path.suffix not in fitting:
        raise ConfigError(f"{target} would hold another format than its name says; end it in {' or '.join(fitting)}")
    if path.exists():
        raise DataError(f"{path} exists already; choose another name or remove it first")
    return WRITERS[format](dataset, path)


def _target(id: str, slug: str | None, task: str | None) -> tuple[str, str]:
    """Id and task of a dataset; where a source holds several tasks, both get the task's slug."""
    name, version = ids.parts(id)
    first, slash, rest = name.partition("/")
    if slug is not None:
        first = f"{first}-{slug}"
        task = first if task is None else f"{task}-{slug}"
    return first + slash + rest + version, task or first


def _slugs(tasks: Sequence[str]) -> list[str]:
    """Each task's name as a part of an id, with a number where letters and digits don't tell it from those before."""
    found: list[str] = []
    for number, name in enumerate(tasks, start=1):
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[:100].strip("-")
        found.append(slug if slug and slug not in found else f"{slug or 'task'}-{number}")
    return found


def _npz(path: Path) -> str:
    """Which of the array files it is, by the names of its arrays."""
    with arrays.understood(path), zipfile.ZipFile(path) as file:
        names = {name.removesuffix(".npy").removeprefix("steps/") for name in file.namelist()}
    if {"is_first", "is_last"} <= names:
        return "rlds"
    if "terminals" in names:
        plain = not names & {"timeouts", "next_observations"}
        return "ogbench" if plain and (names & {"qpos", "qvel"} or "rewards" not in names) else "d4rl"
    return "arrays"
