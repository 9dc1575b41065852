"""What is seen on the terminal: tables, JSON, and one progress bar for everything that takes longer than two seconds.

Ids stand whole on 80 columns. The bar tells what, how far, rate, time left and a last word; it is shown in a notebook
too. Elsewhere, as in files and logs of a cluster, `line` writes lines instead.
"""

import contextlib
import json
import math
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from rich import box
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

INTERVAL = 0.2  # seconds between two pictures of a bar in a notebook


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


class Advance(Protocol):
    """Move the bar by `steps`; `note` replaces the last word at its end."""

    def __call__(self, steps: float = 1, note: str | None = None) -> None: ...


class _What(ProgressColumn):
    """The first word; it is cut where the line is narrow, and nothing else is."""

    def render(self, task: Task) -> Text:
        return Text(task.description, no_wrap=True, overflow="ellipsis")


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{_short(speed)} {task.fields['unit']}/s", style="progress.data.speed")


def _short(value: float) -> str:
    """Three significant digits: 0.123, 12.3, 1.23k, 1.23M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * size:  # 999.7 is 1k, not 1e+03
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


@contextlib.contextmanager
def bar(what: str, total: float, unit: str = "steps", done: float = 0) -> Iterator[Advance]:
    """Show a bar while the block runs, on stderr or in the notebook; silent where stderr is no terminal.

    What was `done` before counts for how far it is, and not for the rate.
    """
    if _in_notebook():
        with _notebook_bar(what, total, unit, done) as advance:
            yield advance
        return
    columns = (
        _What(),
        BarColumn(bar_width=12, table_column=Column(no_wrap=True)),
        TextColumn("{task.percentage:>3.0f}%"),
        _Rate(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[note]}", markup=False),
    )
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as shown:
        task = shown.add_task(what, total=total, completed=done, unit=unit, note="")  # type: ignore[arg-type]

        def advance(steps: float = 1, note: str | None = None) -> None:
            shown.advance(task, steps)
            if note is not None:
                shown.update(task, note=note)

        yield advance


@contextlib.contextmanager
def _notebook_bar(what: str, total: float, unit: str, before: float) -> Iterator[Advance]:
    """The same below a notebook's cell. It is drawn a few times per second at most, and is gone at the end."""
    from IPython.display import HTML, display
    from markupsafe import Markup

    shape = Markup('<span>{} <progress value="{}" max="{}"></progress> {:.0%} {}</span>')
    done, last, begun, drawn = float(before), "", time.monotonic(), -INTERVAL
    handle = display(HTML(""), display_id=True)

    def advance(steps: float = 1, note: str | None = None) -> None:
        nonlocal done, drawn, last
        done, last = done + steps, last if note is None else note
        now = time.monotonic()
        if now - drawn < INTERVAL:
            return
        drawn, taken = now, now - begun
        rate = (done - before) / taken if taken else 0.0
        speed = f"{_short(rate)} {unit}/s, {(total - done) / rate:.0f} s left" if rate else ""
        text = " · ".join(filter(None, (speed, last)))
        handle.update(HTML(str(shape.format(what, min(done, total), total, min(done / (total or 1), 1.0), text))))

    try:
        yield advance
    finally:
        handle.update(HTML(""))


def _in_notebook() -> bool:
    """Whether a kernel of Jupyter runs this code; IPython in a terminal has a terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def line(text: str) -> None:
    """A line on stderr where no bar is shown: logs of a cluster, files."""
    if not sys.stderr.isatty() and not _in_notebook():
        print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """A warning on stderr, bar or not."""
    print(f"warning: {text}", file=sys.stderr, flush=True)
