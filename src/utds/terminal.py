"""Tables and JSON on the terminal: whole ids on 80 columns, and the same numbers for other programs."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


def table(*text: str, numbers: Sequence[str] = (), title: str | None = None) -> Table:
    """A table without vertical lines. Text columns fold where they must, and are never cut; numbers stay whole."""
    found = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left")
    for name in text:
        found.add_column(name, overflow="fold")
    for name in numbers:
        found.add_column(name, justify="right", no_wrap=True)
    return found


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
    print(json.dumps(finite(value), indent=2, ensure_ascii=False, allow_nan=False))


def finite(value: Any) -> Any:
    """The value with null for every number that JSON doesn't have."""
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
