"""Datasets that a matrix needs: which are missing, and making them from the policies that ship."""

from collections.abc import Sequence

from utds import progress
from utds.benchmark.cells import Cell
from utds.benchmark.places import datasets, missing
from utds.collection import kinds, ladder
from utds.errors import DataError

NAMED = 4  # missing datasets named in a message


def require(cells: Sequence[Cell]) -> None:
    """Say in one line what is missing and how to make it."""
    absent = missing(datasets(cells))
    if absent:
        raise DataError(
            f"{complaint(absent)}; make them with `--generate 100` (episodes of the policies that ship), "
            f"`utds data generate {_task(absent[0])}` or `utds collect {_task(absent[0])}`"
        )


def complaint(absent: Sequence[str]) -> str:
    more = f" and {len(absent) - NAMED} more" if len(absent) > NAMED else ""
    return f"{len(absent)} datasets of the matrix are not stored: {', '.join(absent[:NAMED])}{more}"


def generate(cells: Sequence[Cell], episodes: int, seed: int = 0) -> None:
    """Make the missing datasets by rolling out the policies that ship, `episodes` of each."""
    absent = missing(datasets(cells))
    ladders = {task: ladder.load(task) for task in dict.fromkeys(map(_task, absent))}
    with progress.bar("generating", len(absent), "datasets") as advance:
        for name in absent:
            kind = name.rpartition("/")[2]
            kinds.generate(ladders[_task(name)], kind, episodes, seed).save(name)
            advance(note=name)


def _task(name: str) -> str:
    return name.partition("/")[0]
