"""The files of a run directory, read back and checked in one place. Whoever reads a run reads it through this module.

config.json      what was asked for        provenance.json  versions and dataset digests
metrics.csv      every `log_every` steps   evaluations.csv  every `eval_every` steps
result.json      what came out             cell.json        of a benchmark: the cell, and the command behind it
offline.json     what its policies are worth, judged from data alone by `utds evaluate --offline`

A damaged file is a `DataError` of one line that names the file and the field. In a log, a last line without an end is
one that was being written, or that a kill cut short: it doesn't count.
"""

import csv
import io
import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from utds import algorithms, files
from utds.errors import DataError
from utds.training.schema import COUNT, POSITIVE, Maybe, Number, Table, Text, read

Row = dict[str, Any]

LOGS = ("metrics.csv", "evaluations.csv")
RECORDED = {"mean": Number(), "best_tenth": Number(), "episodes": POSITIVE}  # returns of a dataset's own episodes
CONFIG = {
    "algorithm": {"name": Text(), "fields": Table()},
    "task": Text(),
    "domain": Maybe(Text()),
    "sources": [{"id": Text(), "digest": Text(), "transitions": COUNT, "recorded": Maybe(RECORDED)}],
    "observation_size": POSITIVE,
    "action_size": POSITIVE,
    "seeds": [COUNT],
    "steps": POSITIVE,
    "eval_every": POSITIVE,
    "log_every": POSITIVE,
    "checkpoint_every": POSITIVE,
    "divergence": Number(0),
}
EARLIER = {"rewards": "known", "sampling": "transitions", "weights": "uniform", "action_low": [], "action_high": []}
RESULT = {
    "steps": COUNT,
    "seconds": Number(0),
    "timed_steps": Maybe(COUNT),
    "peak_memory_mb": Maybe(Number(0)),
    "parameters": Maybe(COUNT),
    "evaluation": Table(),
}
PROVENANCE = {"versions": {"utds": Text()}, "resumed": Maybe([{"utds": Text()}])}
CHECKPOINT = {"step": COUNT, "seeds": [COUNT]}  # beside the arrays
CELL = {"command": Maybe(Text()), "episodes": Maybe(POSITIVE), "trial": Maybe(COUNT), "trials": Maybe(POSITIVE)}
ERROR = {"error": Text()}
OFFLINE_FILE = "offline.json"
OFFLINE = {
    "comparison": Text(),  # equal for runs that were judged on the same data in the same way
    "task": Text(),
    "sources": [Text()],
    "discount": Number(0),
    "horizon": POSITIVE,
    "recorded": {"mean": Number(), "low": Maybe(Number()), "high": Maybe(Number()), "episodes": POSITIVE},
    "notes": Maybe([Text()]),
    "policies": [{"seed": COUNT, "step": POSITIVE, "values": [Number()], "outside": Number(0)}],
}

checked = read  # checked(path, schema)


def is_run(folder: Path) -> bool:
    return (folder / "config.json").exists()


def config(folder: Path) -> dict[str, Any]:
    """A run's config.json, the algorithm's fields under today's names, and what earlier versions didn't know yet."""
    found = read(folder / "config.json", CONFIG)
    return EARLIER | found | {"algorithm": algorithms.current_config(found["algorithm"])}


def result(folder: Path) -> dict[str, Any]:
    """A run's result.json; empty until the run has finished once."""
    path = folder / "result.json"
    return read(path, RESULT) if path.exists() else {}


def version(folder: Path) -> str:
    """Of the package that made the run."""
    return str(read(folder / "provenance.json", PROVENANCE)["versions"]["utds"])


def cell(folder: Path) -> dict[str, Any]:
    """What a benchmark says of the run; empty for a run of `utds train`."""
    path = folder / "cell.json"
    return read(path, CELL) if path.exists() else {}


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
    except FileNotFoundError:
        return 0
    whole = tail[: tail.rfind(b"\n") + 1].splitlines()
    first = whole[-1].partition(b",")[0] if whole else b""
    return int(first) if first.isdigit() and len(first) < 20 else 0


def forget_after(folder: Path, step: int) -> None:
    """Drop rows past `step`, which a killed run logged after its last checkpoint and will log again."""
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
            with files.atomic(path) as part:
                part.write_text("".join(kept), encoding="utf-8")


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
    if shared and rewards != "known":
        words += ["--rewards", rewards]
    if fields:
        words += ["--set", *(f"{name}={_word(value)}" for name, value in fields.items())]
    words += ["--seeds", len(seeds), "--first-seed", min(seeds)]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", value]
    words += ["--trust-dynamics"] if shared and trust_dynamics else []
    return shlex.join(map(str, words))


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


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
