"""The files of a run directory, which `run.py` lists, read back and checked in one place. Whoever reads a run reads it
through this module.

A damaged file is a `DataError` of one line that names the file and the field. In a log, a last line without an end is
one that was being written, or that a kill cut short: it doesn't count.

What a JSON file must hold is a schema: a `Kind` of value, `{name: schema}`, `[schema]` for a list of one or more,
`Each` or `Maybe`. Names that it doesn't mention are not looked at.

    check({"seeds": [0, -1]}, {"seeds": [COUNT], "domain": Maybe(TEXT)}, "config.json")
    # DataError: config.json: seeds[1] is -1, where it must be a whole number of 0 or more; it was altered
"""

import csv
import io
import json
import math
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from utds import files, terminal
from utds.data.columns import KNOWN
from utds.errors import ConfigError, DataError

Row = dict[str, Any]


class Kind(NamedTuple):
    words: str  # what a value must be, such as "a number"
    fits: Callable[[Any], bool]


class Each(NamedTuple):
    """An object of any names, whose values all fit one schema."""

    schema: Any


class Maybe(NamedTuple):
    """It may be null, or missing."""

    schema: Any


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    small = isinstance(value, float) or -(2**63) <= value < 2**63  # as JSON has them, integers know no bound
    return small and math.isfinite(value)


def _is_text(value: Any) -> bool:
    """Half of a surrogate pair can be read from JSON, and written nowhere."""
    return isinstance(value, str) and bool(value) and value == value.encode("utf-8", "replace").decode()


def _is_plain(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(v is None or isinstance(v, bool) or v == "" or _is_number(v) or _is_text(v) for v in values)


def _whole(least: int) -> Kind:
    return Kind(f"a whole number of {least} or more", lambda v: _is_number(v) and isinstance(v, int) and v >= least)


NUMBER = Kind("a number", _is_number)
NON_NEGATIVE = Kind("a number of 0 or more", lambda value: _is_number(value) and value >= 0)
COUNT, POSITIVE = _whole(0), _whole(1)
NUMBERS = Kind("a list of numbers", lambda value: isinstance(value, list) and all(map(_is_number, value)))
TEXT = Kind("text", _is_text)
PLAIN = Kind("a number, text, true, false, null or a list of these", _is_plain)

# Between a run's start and its resumption. How often is logged follows from the steps where it isn't given, and runs of
# earlier versions tell neither what was recorded nor the episodes of an evaluation.
MAY_CHANGE = {"steps", "eval_every", "log_every", "checkpoint_every", "divergence", "recorded", "episodes"}
LOGS = ("metrics.csv", "evaluations.csv")
OWN_FOLDERS = {"policies", "rounds", "tensorboard", "wandb"}  # of a run or a collection: no other run lies in them
RECORDED = {"mean": NUMBER, "best_tenth": NUMBER, "episodes": POSITIVE}  # returns of a dataset's own episodes
CONFIG = {
    "algorithm": {"name": TEXT, "fields": Each(PLAIN)},
    "task": TEXT,
    "domain": Maybe(TEXT),
    "sources": [{"id": TEXT, "digest": TEXT, "transitions": COUNT, "recorded": Maybe(RECORDED)}],
    **dict.fromkeys(("rewards", "sampling", "weights"), Maybe(TEXT)),
    **dict.fromkeys(("action_low", "action_high"), Maybe(NUMBERS)),
    "episodes": Maybe(POSITIVE),
    "observation_size": POSITIVE,
    "action_size": POSITIVE,
    "seeds": [COUNT],
    "steps": POSITIVE,
    "eval_every": POSITIVE,
    "log_every": POSITIVE,
    "checkpoint_every": POSITIVE,
    "divergence": NON_NEGATIVE,
}
SCORES = {"mean": Maybe(NUMBER), "standard_error": Maybe(NUMBER), "seeds": Maybe([Maybe(NUMBER)])}
EARLIER: dict[str, Any] = {
    "domain": None,
    "rewards": KNOWN,
    "sampling": "transitions",
    "weights": "uniform",
    "action_low": [],
    "action_high": [],
}
RESULT = {
    "steps": COUNT,
    "seconds": NON_NEGATIVE,
    "timed_steps": Maybe(COUNT),
    "peak_memory_mb": Maybe(NON_NEGATIVE),
    "parameters": Maybe(COUNT),
    "evaluation": Each(SCORES),
}
PROVENANCE = {"versions": {"utds": TEXT}, "resumed": Maybe([{"utds": TEXT}])}
CHECKPOINT = {"step": COUNT, "seeds": [COUNT]}  # of checkpoint.safetensors, beside the arrays
CELL = {"command": Maybe(TEXT), "episodes": Maybe(POSITIVE), "trial": Maybe(COUNT), "trials": Maybe(POSITIVE)}
ERROR = {"error": TEXT}
OFFLINE_FILE = "offline.json"
OFFLINE = {
    "comparison": TEXT,  # equal for runs that were judged on the same data in the same way
    "task": TEXT,
    "sources": [TEXT],
    "discount": NON_NEGATIVE,
    "horizon": POSITIVE,
    "possible": Maybe([NUMBER]),  # the least and the greatest value; absent in files of earlier versions
    "recorded": {"mean": NUMBER, "low": Maybe(NUMBER), "high": Maybe(NUMBER), "episodes": POSITIVE},
    "notes": Maybe([TEXT]),
    "policies": [{"seed": COUNT, "step": POSITIVE, "values": [NUMBER], "outside": NON_NEGATIVE}],
}


def read(path: Path, schema: Any) -> Any:
    """A JSON file that fits the schema; anything else is a `DataError` that names file and field."""
    value = files.read_json(path)
    check(value, schema, str(path))
    return value


def check(value: Any, schema: Any, path: str, where: str = "") -> None:
    """Raise a `DataError` where the value doesn't fit the schema; `where` is the field's dotted name."""
    if isinstance(schema, Maybe):
        if value is not None:
            check(value, schema.schema, path, where)
    elif isinstance(schema, Each):
        if not isinstance(value, dict) or not all(map(_is_text, value)):
            raise _wrong(path, where, value, "an object of named values")
        for name, item in value.items():
            check(item, schema.schema, path, f"{where}.{name}")
    elif isinstance(schema, Mapping):
        if not isinstance(value, dict):
            raise _wrong(path, where, value, "an object")
        for name, inner in schema.items():
            field = f"{where}.{name}" if where else name
            if name in value:
                check(value[name], inner, path, field)
            elif not isinstance(inner, Maybe):
                raise DataError(f"{path} lacks the field {field}; it was altered: restore it, or train again")
    elif isinstance(schema, list):
        if not isinstance(value, list) or not value:
            raise _wrong(path, where, value, "a list of one or more")
        for index, item in enumerate(value):
            check(item, schema[0], path, f"{where}[{index}]")
    elif not schema.fits(value):
        raise _wrong(path, where, value, schema.words)


def _wrong(path: str, where: str, value: Any, expected: str) -> DataError:
    shown = repr(value) if isinstance(value, int | float | str | bool | None) else f"of type {type(value).__name__}"
    shown = shown if len(shown) < 60 else f"{shown[:57]}…"
    return DataError(f"{path}: {where or 'the whole'} is {shown}, where it must be {expected}; it was altered")


def is_run(folder: Path) -> bool:
    return (folder / "config.json").exists()


def check_run(folder: Path) -> Path:
    """The folder; refused if it is no run's."""
    if not is_run(folder):
        raise ConfigError(f"{folder} holds no run (no config.json); give the folder that `train` wrote")
    return folder


def is_collection(folder: Path) -> bool:
    """Whether `utds collect` works in the folder: its config.json has another shape."""
    return "warmup" in read(folder / "config.json", {})


def folders(root: Path) -> Iterator[Path]:
    """Folders below `root` that hold files of a run, half-written and failed ones too, in order of their paths.

    A run may lie in another's folder, as with `--out runs` and then `--out runs/walk`. Links to folders are not
    followed, so that a run that has a second name counts once. A folder that can't be read is named on stderr.
    """
    if not root.is_dir():
        raise DataError(f"{root} is no folder; give the one that `utds train` or `utds benchmark run` wrote")
    for current, inner, names in os.walk(root, onerror=_warn):
        if {"config.json", "result.json", "evaluations.csv", "error.json"} & set(names):
            yield Path(current)
            inner[:] = set(inner) - OWN_FOLDERS
        inner[:] = sorted(name for name in inner if not name.startswith("."))


def _warn(error: OSError) -> None:
    terminal.warn(f"could not look for runs in {error.filename}: {error.strerror}")


def config_as_written(folder: Path) -> dict[str, Any]:
    """A run's config.json under the names of the version that wrote it: all that can be told without JAX."""
    return dict(read(folder / "config.json", CONFIG))


def config(folder: Path) -> dict[str, Any]:
    """A run's config.json under today's names, with what earlier versions didn't know yet."""
    from utds import algorithms
    from utds.data.reward_model import current_identity

    read_back = config_as_written(folder)
    found = EARLIER | {name: value for name, value in read_back.items() if value is not None}
    algorithm, rewards = algorithms.current_config(found["algorithm"]), current_identity(found["rewards"])
    return found | {"algorithm": algorithm, "rewards": rewards}


def result(folder: Path) -> dict[str, Any]:
    """A run's result.json; empty until the run has finished once."""
    path = folder / "result.json"
    return read(path, RESULT) if path.exists() else {}


def is_finished(config: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    """Whether a run has done all the steps that it was asked for."""
    return bool(result.get("steps") == config["steps"])


def shares(config: Mapping[str, Any]) -> bool:
    """Whether a run learnt from other data than its task's own."""
    from utds import algorithms

    known = algorithms.entries().get(config["algorithm"]["name"])  # none where it is of a file that isn't loaded
    return len(config["sources"]) > 1 and (known is None or known.reads_shared)


def version(folder: Path) -> str:
    """Of the package that made the run."""
    return str(read(folder / "provenance.json", PROVENANCE)["versions"]["utds"])


def cell(folder: Path) -> dict[str, Any]:
    """What a benchmark says of the run; empty for a run of `utds train`."""
    path = folder / "cell.json"
    return read(path, CELL) if path.exists() else {}


def error(folder: Path) -> str:
    """Why a benchmark's cell failed for good; empty where none did."""
    path = folder / "error.json"
    return str(read(path, ERROR)["error"]) if path.exists() else ""


def offline(folder: Path) -> dict[str, Any]:
    """What the run's policies are worth by data alone; empty until `utds evaluate --offline` judged them."""
    path = folder / OFFLINE_FILE
    return read(path, OFFLINE) if path.exists() else {}


def rows(path: Path, wanted: Callable[[str], bool] = lambda name: True) -> list[Row]:
    """The rows of a log, numbers as numbers; what there was nothing to average of is left out.

    `wanted` says which columns to read beside the step and the seed.
    """
    header, *lines = _table(path) or [[]]
    names = [name if name in ("step", "seed") or wanted(name) else None for name in header]
    return [_row(path, number, names, line) for number, line in enumerate(lines, 2)]


def last_step(folder: Path) -> int:
    """The last step in metrics.csv, found from its end: for those who look at many runs again and again."""
    try:
        with open(folder / "metrics.csv", "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            tail = file.read()
    except OSError:  # no rows yet, or nothing that can be read: `rows` says what is wrong with it
        return 0
    whole = tail[: tail.rfind(b"\n") + 1].splitlines()
    first = whole[-1].partition(b",")[0] if whole else b""
    return int(first) if first.isdigit() and len(first) < 20 else 0


def forget_after(folder: Path, step: int) -> None:
    """Drop rows and kept policies past `step`, which a killed run wrote after its last checkpoint and may write again.

    With other options it evaluates at other steps: a policy that is left there is not one of this run.
    """
    for path in (folder / "policies").glob("*-*.safetensors"):
        seed, _, kept_at = path.stem.partition("-")
        if seed.isdecimal() and kept_at.isdecimal() and int(kept_at) > step:  # others are a user's own
            path.unlink()
    for name in LOGS:
        path = folder / name
        if not path.exists():
            continue
        found = rows(path)
        lines = io.StringIO(_text(path), newline="\n").readlines()
        kept = lines[:1] + [line for line, row in zip(lines[1:], found, strict=False) if row["step"] <= step]
        if not kept or not kept[0].endswith("\n"):  # killed while the header was written
            path.unlink()
        elif kept != lines:
            files.write_text(path, "".join(kept))


def check_same(folder: Path, theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> None:
    """Refuse to resume a run that was asked for something else."""
    for name, before, now in _differences(theirs, mine):
        raise ConfigError(f"{folder} holds a run with {name}={before!r}, not {now!r}; resume with the same options")


def _differences(
    theirs: Mapping[str, Any], mine: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """(dotted name, theirs, mine) of everything that differs and may not."""
    for name in sorted({*theirs, *mine} - MAY_CHANGE):
        before, now = theirs.get(name), mine.get(name)
        if isinstance(before, dict) and isinstance(now, dict):
            yield from _differences(before, now, f"{prefix}{name}.")
        elif name == "sources" and isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
            for index, (theirs_, mine_) in enumerate(zip(before, now, strict=True)):
                yield from _differences(theirs_, mine_, f"{prefix}{name}[{index}].")
        elif before != now:
            yield f"{prefix}{name}", before, now


def command(
    datasets: Sequence[str],
    algorithm: str,
    preset: str,
    fields: Mapping[str, Any],
    rewards: Any,
    seeds: Sequence[int],
    options: Mapping[str, Any],  # steps, eval_every, episodes
    trust_dynamics: bool = False,
) -> str:
    """The `utds train` command of a run; its seeds must follow each other, or the first alone counts."""
    main, *shared = datasets
    words: list[Any] = ["utds", "train", main, *(["--share", *shared] if shared else [])]
    words += ["--algo", algorithm, "--preset", preset]
    if shared and rewards != KNOWN:
        words += ["--rewards", rewards]
    if fields:
        words += ["--set", *(f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in fields.items())]
    words += ["--seeds", len(seeds), "--first-seed", min(seeds)]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", value]
    words += ["--trust-dynamics"] if shared and trust_dynamics else []
    return shlex.join(map(str, words))


def _text(path: Path) -> str:
    with files.explained(f"read {path}"):
        try:
            return path.read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{path} holds bytes that are no text (at {error.start}); it was altered") from None


def _table(path: Path) -> list[list[str]]:
    """A log's lines that were written to their end, as lists of cells, the header first."""
    if not path.exists():
        return []
    text = _text(path)
    try:
        return list(csv.reader(io.StringIO(text[: text.rfind("\n") + 1], newline=""), strict=True))
    except csv.Error as error:
        raise DataError(f"{path} is no valid CSV ({error}); it was altered") from None


def _row(path: Path, number: int, names: Sequence[str | None], line: Sequence[str]) -> Row:
    where = f"{path}, line {number}"
    if len(line) != len(names):
        raise DataError(f"{where}: {len(line)} cells under {len(names)} headings; it was altered")
    row = {name: _number(text, name, where) for name, text in zip(names, line, strict=True) if name and text}
    for name in ("step", "seed"):
        if not isinstance(row.get(name), int) or row[name] < 0:
            raise DataError(f"{where}: {name} is {row.get(name)!r}, where it must be a whole number; it was altered")
    return row


def _number(text: str, name: str, where: str) -> float | int:
    try:
        return int(text) if text.isdecimal() and len(text) < 20 else float(text)
    except ValueError:
        raise DataError(f"{where}: {name} is {text[:40]!r}, where it must be a number; it was altered") from None
