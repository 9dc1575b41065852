"""One progress bar for everything that takes longer than two seconds: what, how far, rate, time left, a last word.

It is shown in a terminal and in a notebook. Elsewhere, as in files and logs of a cluster, `line` writes lines instead.
"""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text


class Advance(Protocol):
    """Move the bar by `steps`; `note` replaces the last word at its end."""

    def __call__(self, steps: float = 1, note: str | None = None) -> None: ...


INTERVAL = 0.2  # seconds between two pictures of a bar in a notebook


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
        words = " · ".join(filter(None, (speed, last)))
        handle.update(HTML(str(shape.format(what, min(done, total), total, min(done / (total or 1), 1.0), words))))

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
