"""Running a matrix from beginning to end, and watching one that runs: what the commands call."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live

from utds.benchmark import places
from utds.benchmark.board import Board
from utds.benchmark.cells import Cell
from utds.benchmark.engines import Engine, execute
from utds.benchmark.places import Place
from utds.benchmark.work import Job

EVERY = 2.0  # seconds between looks at the state of all cells


def run(
    name: str,
    cells: Sequence[Cell],
    out: Path,
    start: Callable[[Sequence[Job]], Engine],
    together: int = 1,
    retry: bool = False,
) -> int:
    """Run what isn't done. Cells that have failed before stay failed unless `retry`. Returns how many have failed."""
    found, console = places.locate(cells, out), Console(stderr=True)
    for moved in places.set_aside(found, out):
        console.print(f"superseded by a changed configuration, data or version: {moved}", highlight=False)
    for place in found:
        if retry and place.error:
            place.forgive()
    board = Board(name, found)
    board.look()
    todo = [place for place in found if board.states[place] not in ("done", "failed")]
    if todo:
        work = jobs(todo, cells, together)
        with _shown(board, console) as show:
            execute(work, start(work), show)
    board.look()
    console.print(board.headline(), highlight=False)
    for place in board.which("failed"):
        console.print(f"failed: {place.folder}: {place.error}", highlight=False, soft_wrap=True)
    return board.count("failed")


def jobs(todo: Sequence[Place], cells: Sequence[Cell], together: int = 1) -> list[Job]:
    """Cells to do, `together` of one program in a job, programs one after the other."""
    programs: dict[object, list[Place]] = {}
    for place in todo:
        programs.setdefault(place.cell.program, []).append(place)
    found = []
    for group in programs.values():
        here = [cell for cell in cells if cell.domain == group[0].cell.domain]
        lake, tasks = places.datasets(here), tuple(dict.fromkeys(cell.task for cell in here))
        found += [Job(tuple(group[i : i + together]), lake, tasks) for i in range(0, len(group), together)]
    return found


def watch(name: str, cells: Sequence[Cell], out: Path, once: bool = False) -> None:
    """Show the state of a matrix, in a terminal again and again until all is done."""
    board, console = Board(name, places.locate(cells, out)), Console()
    board.look()
    if once or not console.is_terminal:
        console.print(board.render())
        return
    with Live(console=console, auto_refresh=False) as live, contextlib.suppress(KeyboardInterrupt):
        while True:
            board.look()
            live.update(board.render(), refresh=True)
            if board.count("done") + board.count("failed") == len(board.places):
                return
            time.sleep(EVERY)


@contextlib.contextmanager
def _shown(board: Board, console: Console) -> Iterator[Callable[[], None]]:
    """A function that shows the board anew: a live table in a terminal, else a line whenever a cell has ended.

    It may be called at any time and looks every `EVERY` seconds: looking at hundreds of folders takes workers' time.
    """
    live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
    ended, looked = board.count("done") + board.count("failed"), time.monotonic()

    def show() -> None:
        nonlocal ended, looked
        if time.monotonic() - looked < EVERY:
            return
        board.look()
        before, ended, looked = ended, board.count("done") + board.count("failed"), time.monotonic()
        if live is not None:
            live.update(board.render(), refresh=True)
        elif ended > before:
            console.print(board.headline(), highlight=False, soft_wrap=True)

    with live or contextlib.nullcontext():
        yield show
