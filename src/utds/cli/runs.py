"""`utds runs list | compare | remove`: what was trained, how runs differ, and tidying up."""

import sys
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated, Any

import tyro

from utds.errors import ConfigError

Folder = Annotated[Path, tyro.conf.arg(metavar="FOLDER")]
Runs = Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN …")]


def list_(folder: Folder = Path("runs"), /, json: bool = False) -> None:
    """List the runs below a folder: trained on what, how far, and what they reached.

    Example: utds runs list

    Args:
        folder: where to look, at any depth; links to folders are not followed
        json: print the list as JSON
    """
    from utds import terminal
    from utds.training import overview

    rows = list(overview.find(folder))
    if json:
        terminal.print_json(rows)
        return
    table = terminal.table("run", "algo", "task", numbers=("shared", "seeds", "steps", "return"))  # fits 60 columns
    for row in rows:
        path = str(Path(row["run"]).relative_to(folder)) if Path(row["run"]) != folder else row["run"]
        if row["state"] == "damaged":
            table.add_row(terminal.Name(path), "damaged", *["–"] * 5)
            continue
        reached = _reached(row) if row["state"] == "finished" else row["state"]
        steps = str(row["steps"]) if row["state"] == "finished" else f"{row['step']} of {row['steps']}"
        counts = (str(len(row[name])) for name in ("shared", "seeds"))
        table.add_row(terminal.Name(path), row["algorithm"], terminal.Name(row["task"]), *counts, steps, reached)
    if rows:
        terminal.show(table)
    terminal.show(f"{len(rows)} run{'s' * (len(rows) != 1)} below {folder}; return: mean ± standard error over seeds")


def compare(runs: Runs, /, json: bool = False) -> None:
    """Compare runs: in which options they differ, and by how much their returns do.

    Example: utds runs compare runs/walker-walk-utds runs/walker-walk-pbrl

    Args:
        runs: two or more run directories
        json: print the comparison as JSON
    """
    from utds import terminal
    from utds.training import overview

    if len(runs) < 2:
        raise ConfigError("name at least two runs to compare; see: utds runs list")
    unlike, found = overview.differences(runs), [overview.row(path) for path in runs]
    gains = [_gain(row, found[0]) for row in found]
    if json:
        terminal.print_json({"runs": found, "differences": unlike, "gains": gains})
        return
    letters = [ascii_uppercase[i] if len(runs) <= len(ascii_uppercase) else str(i + 1) for i in range(len(runs))]
    table = terminal.table("", *letters)
    for name, values in unlike.items():
        table.add_row(name, *map(_text, values))
    table.add_section()
    table.add_row("return", *(_reached(row) for row in found))
    table.add_row("return − A's" if letters[0] == "A" else "return − 1's", "", *map(_interval, gains[1:]))
    table.add_row("seconds", *(terminal.number(row.get("seconds")) for row in found))
    terminal.show(*(f"{letter}: {path}" for letter, path in zip(letters, runs, strict=True)), table)
    terminal.show("return: mean ± standard error over seeds; differences with 95 % intervals (Welch) from two seeds on")


def remove(runs: Runs, /, yes: bool = False, json: bool = False) -> None:
    """Remove run directories; without --yes only say what would be removed.

    Example: utds runs remove runs/walker-walk-utds --yes

    Args:
        runs: run directories; anything else is refused
        yes: really remove them
        json: print the runs, their sizes and whether they were removed as JSON
    """
    from utds import terminal
    from utds.training import overview

    if not runs:
        raise ConfigError("name at least one run to remove; see: utds runs list")
    for path in runs:
        overview.check_removable(path)
    sizes = [overview.size(path) for path in runs]
    for path, size in zip(runs, sizes, strict=True):
        if yes:
            overview.remove(path)
        said = f"{'removed' if yes else 'would remove'} {path} ({size / 1e6:.1f} MB)"
        print(said, file=sys.stderr if json else sys.stdout)
    if json:
        rows = zip(runs, sizes, strict=True)
        terminal.print_json([{"run": str(path), "bytes": size, "removed": yes} for path, size in rows])
    elif not yes:
        print("nothing was removed; pass --yes to remove " + ("it" if len(runs) == 1 else "them"))


def _reached(row: dict[str, Any]) -> str:
    from utds import terminal

    mean, error = row.get("return_mean"), row.get("return_standard_error")
    if mean is None:
        return "–" if row["state"] == "finished" else row["state"]
    return terminal.number(mean) + ("" if error is None else f" ± {terminal.number(error)}")


def _gain(row: dict[str, Any], first: dict[str, Any]) -> dict[str, float] | None:
    """By how much a run's mean return exceeds the first one's; none where one of them has no returns."""
    from utds.report import aggregate

    own, others = ([value for value in each.get("returns", []) if value is not None] for each in (row, first))
    return aggregate.welch(own, others)._asdict() if own and others else None


def _interval(gain: dict[str, float] | None) -> str:
    import math

    if gain is None:
        return "–"
    value = f"{gain['value']:+.3g}"
    return value if math.isnan(gain["low"]) else f"{value} [{gain['low']:.3g}, {gain['high']:.3g}]"


def _text(value: Any) -> str:
    return "–" if value is None else ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
