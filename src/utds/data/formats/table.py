"""Tables: `.csv` or `.parquet`, one row per step, the columns named by patterns.

    observations='q*,dq*' actions='u*' episode=ep reward=r

A pattern takes columns in the file's order; a parquet column of lists counts as several numbers. Reward t is of the
state that action t reached. Without `next_observations` the state after an episode's last action is unknown; see
`Dataset.from_steps`.
"""

import csv
import fnmatch
import itertools
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from utds import files
from utds.data.columns import BLOCK
from utds.data.dataset import Dataset
from utds.data.formats import parquet
from utds.data.formats.recording import Recording
from utds.errors import ConfigError, DataError

COLUMNS = {  # what `write` writes, and what is looked for where nothing else is said
    "observations": "observation_*",
    "next_observations": "next_observation_*",
    "actions": "action_*",
    "reward": "reward",
    "episode": "episode",
    "time": "step",
    "termination": "terminated",
    "truncation": "truncated",
}
_VECTORS = ("observations", "next_observations", "actions")


def read(path: Path, columns: Mapping[str, str] | None = None, task_from: str | None = None) -> Recording:
    """The recording of a file; `task_from` is a column that tells each episode's task."""
    for role in columns or ():
        if role not in COLUMNS:
            raise ConfigError(f"--columns {role}=… is unknown; it may name {', '.join(COLUMNS)}")
    names = header(path)
    chosen = _chosen(path, names, columns)
    if task_from is not None and task_from not in names:
        raise DataError(f"{path} has no column {task_from!r}; it has {', '.join(names)}")
    text = _text(path, task_from) if task_from else None
    parts = _parquet(path, chosen) if path.suffix == ".parquet" else _csv(path, names, chosen)
    if path.suffix != ".parquet" and "episode" in parts and np.abs(parts["episode"]).max() >= 2**53:
        parts["episode"] = _text(path, chosen["episode"][0])[:, None]  # numbers that float64 can't tell apart
    for role, found in parts.items():
        if role not in (*_VECTORS, "episode"):
            parquet.check_numbers(path, chosen[role], [found.shape[1]], found)
    return _recording(path, parts, chosen, text)


def header(path: Path) -> list[str]:
    """The names of the columns."""
    if path.suffix == ".parquet":
        return parquet.names(path)
    with files.explained(f"read {path}"), open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        names = next(csv.reader(file), [])
    if not names:
        raise DataError(f"{path} is empty; its first line must name the columns")
    return [name.strip() for name in names]


def write(dataset: Dataset, path: Path) -> None:
    """Write a parquet file, one row per step, actions in the robot's unit; `read` takes it as it is."""
    pyarrow = parquet.library()
    states, rows = dataset.read("observations"), dataset.rows
    vectors = {"observation": states[rows], "next_observation": states[rows + 1], "action": dataset.raw_actions}
    table = {f"{name}_{i}": values[:, i] for name, values in vectors.items() for i in range(values.shape[1])}
    episode = np.repeat(np.arange(dataset.episodes), dataset.lengths)
    if dataset.metadata.has_rewards:  # else zeros would be read as facts
        table["reward"] = dataset.read("rewards")
    table["episode"] = episode
    table |= {"step": np.arange(dataset.size) - dataset.starts[:-1][episode]}
    table |= {"terminated": dataset.read("terminations"), "truncated": dataset.read("truncations")}
    with files.atomic(path) as part:
        pyarrow.parquet.write_table(pyarrow.table(table), part)


def _chosen(path: Path, names: list[str], columns: Mapping[str, str] | None) -> dict[str, list[str]]:
    """The columns of each role."""
    if columns is None and not fnmatch.filter(names, COLUMNS["observations"]):
        raise ConfigError(
            f"say which columns of {path} are what, such as --columns observations='q*,dq*' actions='u*' episode=ep; "
            f"it has {', '.join(names)}"
        )
    chosen = {}
    for role, patterns in (COLUMNS if columns is None else columns).items():
        found: list[str] = []
        for pattern in patterns.split(","):
            pattern = pattern.strip()
            # A name is meant as it stands, also one such as q[0], which as a pattern would stand for q0.
            fitting = [name for name in names if name == pattern] or fnmatch.filter(names, pattern)
            matches = [name for name in fitting if name not in found]
            if not matches and columns is not None:
                raise DataError(f"{path} has no column {pattern!r} ({role}); it has {', '.join(names)}")
            found += matches
        for name in found:
            if names.count(name) > 1:
                raise DataError(
                    f"{path} has {names.count(name)} columns named {name!r} ({role}); give each its own name"
                )
        if len(found) > 1 and role not in _VECTORS:
            raise DataError(f"{role}={patterns} stands for {len(found)} columns of {path}; name one")
        if found:
            chosen[role] = found
    for role in ("observations", "actions"):
        if role not in chosen:
            raise ConfigError(f"--columns names no {role}; {path} has {', '.join(names)}")
    return chosen


def _parquet(path: Path, chosen: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """[N, d] of each role; states are read later, when it is known where the episodes end."""
    parts: dict[str, Any] = {}
    for role, names in chosen.items():
        parts[role] = parquet.Stream([path], names) if role in _VECTORS else parquet.column(path, names[0])
    parts["actions"] = parts["actions"].array()
    if "next_observations" in parts and parts["next_observations"].widths != parts["observations"].widths:
        parts |= {role: parts[role].array() for role in ("observations", "next_observations")}
    return parts


def _csv(path: Path, names: list[str], chosen: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """[N, d] of each role, read some rows at a time: text is parsed in float64, and kept in float32 where that does."""
    wanted = [names.index(name) for found in chosen.values() for name in found]
    ends = np.cumsum([len(found) for found in chosen.values()])
    parts: dict[str, list[np.ndarray]] = {role: [] for role in chosen}
    seen = 0
    for values in _rows(path, wanted):
        for (role, found), part in zip(chosen.items(), np.split(values, ends[:-1], axis=1), strict=True):
            if role in _VECTORS:
                with np.errstate(over="ignore"):  # what leaves float32's range becomes infinite, and is reported
                    part = part.astype(np.float32)
                parquet.check_numbers(path, found, [1] * len(found), part, seen)
            parts[role].append(part)
        seen += len(values)
    if not seen:
        raise DataError(f"{path} holds no row beneath its header")
    return {role: np.concatenate(parts.pop(role)) for role in chosen}


def _rows(path: Path, columns: Sequence[int]) -> Iterator[np.ndarray]:
    """These columns of a text file as float64, some rows at a time."""
    with files.explained(f"read {path}"), open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        next(file, None)
        seen = 0
        while lines := list(itertools.islice(file, BLOCK)):
            try:
                values = _loadtxt(lines, columns)
            except (ValueError, IndexError):  # true or false among the numbers: a call per cell is slow, so only then
                try:
                    values = _loadtxt(lines, columns, converters=_number)
                except (ValueError, IndexError) as error:
                    why = _counted(str(error).splitlines()[0], seen)
                    raise DataError(f"{path} can't be read as a table of numbers: {why}") from None
            seen += len(values)
            if len(values):
                yield values


def _counted(why: str, seen: int) -> str:
    """NumPy's message with the row of the table, from 1 on; NumPy counts text that is no number from 0."""
    first = int(why.startswith("could not convert"))
    return re.sub(r"at row (\d+)", lambda match: f"at row {seen + first + int(match[1])}", why)


def _loadtxt(lines: list[str], columns: Sequence[int], **options: Any) -> np.ndarray:
    with warnings.catch_warnings(action="ignore"):  # NumPy warns of a table without rows, which is told apart
        return np.loadtxt(
            lines, np.float64, delimiter=",", usecols=columns, ndmin=2, quotechar='"', comments=None, **options
        )


def _number(text: str) -> float:
    """Numbers, and what tables write for true and false."""
    text = text.strip()
    return float({"true": 1, "false": 0}.get(text.lower(), text))


def _text(path: Path, name: str) -> np.ndarray:
    """[N] of a column of words."""
    if path.suffix == ".parquet":
        return np.array([str(value) for value in parquet.table(path, [name]).column(name).to_pylist()])
    with files.explained(f"read {path}"), open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        rows = csv.reader(file)
        at = [column.strip() for column in next(rows)].index(name)
        found: list[str] = []
        for row in filter(None, rows):
            if len(row) <= at:
                raise DataError(
                    f"{path}: row {len(found) + 1} has no column {name!r}; it was cut short: fetch it again"
                )
            found.append(row[at].strip())
    return np.array(found)


def _recording(path: Path, parts: dict[str, Any], chosen: dict[str, list[str]], text: np.ndarray | None) -> Recording:
    marks = {"termination": "terminations", "truncation": "truncations", "episode": "episode_index"}
    given = {marks[role]: parts[role][:, 0] for role in marks if role in parts}
    if "terminations" in given and "truncations" in given:
        given["truncations"] = given["truncations"] * (given["terminations"] == 0)
    notes = [f"{role}: {' '.join(found)}" for role, found in chosen.items()]
    if not given:
        notes.append("no episodes are told apart: the whole file is one")
    rewards = parts["reward"][:, 0] if "reward" in parts else None
    if "next_observations" in parts:
        pairs = {name: parts[name] for name in _VECTORS} | given
        made = Recording.of_arrays(pairs | ({} if rewards is None else {"rewards": rewards}), notes=notes)
        logged = made.lengths
    else:
        made = Recording.of_steps(parts["observations"], parts["actions"], rewards, given, notes=notes)
        logged = made.lengths + 1 - made.terminations[np.cumsum(made.lengths) - 1]
    first = np.cumsum(logged) - logged
    if "time" in parts:
        ahead = parts["time"][1:, 0] <= parts["time"][:-1, 0]
        ahead[first[1:] - 1] = False
        if ahead.any():
            row = int(np.argmax(ahead)) + 2
            raise DataError(f"{path}: row {row} is not later than the row before it: the rows are shuffled; sort them")
    if text is not None:
        mixed = text != np.repeat(text[first], logged)
        if mixed.any():
            raise DataError(f"{path}: row {int(np.argmax(mixed)) + 1} changes its task in the middle of an episode")
        made.tasks = text[first].tolist()
    return made
