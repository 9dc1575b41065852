"""Tables and JSON on the terminal: whole ids on 80 columns, and the same numbers for other programs."""

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


def table(*text: str, numbers: Sequence[str] = (), title: str | None = None) -> Table:
    """A table without vertical lines. Text columns fold where they must, and are never cut; numbers stay whole."""
    found = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left")
    for name in text:
        found.add_column(name, overflow="fold")
    for name in numbers:
        found.add_column(name, justify="right", no_wrap=True)
    return found


class Name:
    """An id or a path in a table: where it doesn't fit on a line, it is broken after a slash, a hyphen or else a _."""

    def __init__(self, name: object) -> None:
        self.name = str(name)

    def lines(self, width: int) -> list[str]:
        found = [""]
        for piece in _pieces(self.name, width, "/-_"):
            if found[-1] and len(found[-1]) + len(piece) > width:
                found.append("")
            found[-1] += piece
        return found

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        least = max(map(len, self.lines(1)))
        return Measurement(least, len(self.name)).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield Text("\n".join(self.lines(options.max_width)), overflow="fold")


def _pieces(name: str, width: int, ends: str) -> Iterator[str]:
    """A name in pieces that end after the first of `ends`; those that are too wide in pieces of the next."""
    for piece in re.findall(f"[^{ends[0]}]*{ends[0]}|[^{ends[0]}]+", name):
        if len(piece) > width and len(ends) > 1:
            yield from _pieces(piece, width, ends[1:])
        else:
            yield piece


def number(value: float | None, digits: int = 3) -> str:
    """A number of any size without an exponent where it can be: 0.0123, 12.3, 1234; a dash for none."""
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) < 1e-6:
        return "0"
    rounded = f"{value:.{digits}g}"
    return f"{value:.0f}" if abs(float(rounded)) >= 10**digits else rounded


def show(*parts: Any) -> None:
    """Print tables and lines as they are: square brackets are no markup, and numbers in lines are not coloured."""
    console = Console(markup=False, emoji=False)
    for part in parts:
        console.print(part, highlight=False)


def print_json(value: Any) -> None:
    """Print a value as JSON. What JSON has no number for, such as NaN, becomes null."""
    text = json.dumps(finite(value), indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # the same, in the characters that every encoding has
        text = json.dumps(json.loads(text), indent=2)
    print(text)


def finite(value: Any) -> Any:
    """The value with null for every number that JSON doesn't have."""
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
