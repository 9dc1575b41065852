"""LeRobot: a folder with meta/info.json and parquet files (format v3; v2 too, which has a file per episode).

    observation.state    s0   s1   …   sT        one frame per row, by episode_index and frame_index
    action               a0   a1   …   aT        what aT reached is not recorded: left out
    next.reward          r0   r1   …   rT        where given, of the state reached

`task_index` splits the data by task. A frame's pictures lie in video files and are not read.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from utds import files, terminal
from utds.data.build import lengths_of
from utds.data.formats import parquet
from utds.data.formats.recording import Recording
from utds.errors import DataError

_STATE, _ACTION, _REWARD = "observation.state", "action", "next.reward"
_INDICES = ("episode_index", "frame_index", "task_index")


def read(folder: Path) -> Recording:
    """The recording of a folder."""
    info = files.read_json(folder / "meta" / "info.json")
    version = str(info.get("codebase_version", "")) if isinstance(info, dict) else ""
    if not version.startswith(("v2", "v3")):
        raise DataError(f"{folder} has LeRobot's format {version or 'of no version'}; v2 and v3 can be read")
    features = info.get("features") or {}
    for name in (_STATE, _ACTION):
        if name not in features:
            raise DataError(f"{folder} records no {name}; it has {', '.join(sorted(features)) or 'nothing'}")
    columns = [_STATE, _ACTION, *_INDICES, *([_REWARD] if _REWARD in features else [])]
    found = _frames(folder, columns)
    frames, episodes = len(found[_STATE]), len(np.unique(found["episode_index"]))
    for what, count in (("total_frames", frames), ("total_episodes", episodes)):
        if info.get(what, count) != count:
            unit = what.removeprefix("total_")
            raise DataError(f"{folder} should hold {info[what]} {unit} and holds {count}; fetch what is missing")
    order = np.lexsort((found["frame_index"][:, 0], found["episode_index"][:, 0]))
    if not np.array_equal(order, np.arange(frames)):
        found = {name: values[order] for name, values in found.items()}
    lengths = lengths_of(found["episode_index"])
    first = np.cumsum(lengths) - lengths
    missing = found["frame_index"][:, 0] != np.arange(frames) - np.repeat(first, lengths)
    if missing.any():
        number = int(found["episode_index"][int(np.argmax(missing)), 0])
        raise DataError(f"{folder}: episode {number} lacks frames or has some twice; fetch it again")
    reward = found[_REWARD][:, 0] if _REWARD in found else None
    left = sorted(name for name in features if name.startswith("observation.") and name != _STATE)
    notes = [f"LeRobot {version}", *([f"left out: {', '.join(left)}"] if left else [])]
    made = Recording.of_steps(found[_STATE], found[_ACTION], reward, {"lengths": lengths}, notes=notes)
    names = _tasks(folder)
    mixed = np.add.reduceat(found["task_index"][:, 0] != np.repeat(found["task_index"][first, 0], lengths), first) > 0
    if mixed.any():
        made.notes.append(f"{int(mixed.sum())} episodes change their task: each counts as that of its first frame")
    made.tasks = [names.get(int(index), f"task-{int(index)}") for index in found["task_index"][first, 0]]
    return made


def _frames(folder: Path, columns: list[str]) -> dict[str, Any]:
    """[N, d] of each column, over all data files in the order of their names."""
    paths = sorted((folder / "data").rglob("*.parquet"))
    if not paths:
        raise DataError(f"{folder}/data holds no parquet file; fetch it again")
    for path in paths:
        there = parquet.names(path)
        for name in columns:
            if name not in there:
                raise DataError(f"{path} has no column {name!r}; it has {', '.join(there)}")
    found: dict[str, Any] = {}
    with terminal.bar(f"importing {folder.name}", len(columns), "columns") as advance:
        for name in columns:
            vector = name in (_STATE, _ACTION)
            parts = [] if vector else [_numbers(path, name) for path in paths]
            found[name] = parquet.Stream(paths, [name]).array() if vector else np.concatenate(parts)
            advance()
    return found


def _numbers(path: Path, name: str) -> np.ndarray:
    """[N, 1] of a column that has a number in every row."""
    values = parquet.column(path, name)
    parquet.check_numbers(path, [name], [1], values)
    return values


def _tasks(folder: Path) -> dict[int, str]:
    """The tasks' descriptions by index."""
    path = folder / "meta" / "tasks.parquet"
    if path.exists():
        table = parquet.table(path)
        column = next((name for name in table.column_names if name != "task_index"), None)
        if column is None or "task_index" not in table.column_names:
            raise DataError(f"{path} names no tasks; it has {', '.join(table.column_names)}")
        indices, descriptions = (table.column(name).to_pylist() for name in ("task_index", column))
        return dict(zip(indices, map(str, descriptions), strict=True))
    path = folder / "meta" / "tasks.jsonl"
    if not path.exists():
        return {}
    try:
        rows: list[Any] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        return {int(row["task_index"]): str(row["task"]) for row in rows}
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged ({error}); fetch it again") from None
