"""One progress bar for everything that takes longer than two seconds: what, how far, rate, time left, a last word."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class Advance(Protocol):
    """Move the bar by `steps`; `note` replaces the last word at its end."""

    def __call__(self, steps: float = 1, note: str | None = None) -> None: ...


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{_short(speed)} {task.fields['unit']}/s", style="progress.data.speed")


def _short(value: float) -> str:
    """Three significant digits: 0.123, 12.3, 1.23k, 1.23M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


@contextlib.contextmanager
def bar(what: str, total: float, unit: str = "steps") -> Iterator[Advance]:
    """Show a bar on stderr while the block runs; silent where stderr is no terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        _Rate(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as shown:
        task = shown.add_task(what, total=total, unit=unit, note="")

        def advance(steps: float = 1, note: str | None = None) -> None:
            shown.advance(task, steps)
            if note is not None:
                shown.update(task, note=note)

        yield advance


def line(text: str) -> None:
    """A line on stderr where no bar is shown: logs of a cluster, files, notebooks."""
    if not sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """A warning on stderr, bar or not."""
    print(f"warning: {text}", file=sys.stderr, flush=True)
