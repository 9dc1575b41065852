"""`utds uncertainty`: what sharing changed about what the critics know."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro

from utds.errors import ConfigError

Place = Annotated[Path, tyro.conf.arg(metavar="RUN|toy")]


def uncertainty(
    run: Place,
    /,
    out: Path,
    against: Path | None = None,
    seed: int = 0,
    networks: bool = False,
    json: bool = False,
) -> None:
    """Draw a run's uncertainty Γ over its data and over training, alone or against another run; or a toy.

    The toy ends with exit code 1 if it does not show what it must.

    Example: utds uncertainty runs/walker-walk-utds --against runs/walker-walk-pbrl --out out/uncertainty

    Args:
        run: the directory that training wrote; or the word toy, for the experiment with clusters in the plane
        out: folder for the figures, each as SVG and PNG
        against: a run on the same task and main data to compare with, such as one without sharing
        seed: of the toy
        networks: the toy with an ensemble of small networks, as in the paper, in place of linear regressions
        json: print the numbers as JSON
    """
    import sys

    from utds import files

    files.check_folder(out)
    holds = True
    if str(run) == "toy":
        if against is not None:
            raise ConfigError("the toy has no run to compare against: leave out --against")
        holds, figures = _toy(out, seed, "networks" if networks else "linear", json)
    elif networks:
        raise ConfigError("--networks is an option of the toy; a run's critics are networks anyway: leave it out")
    else:
        figures = _run(run, against, out, json)
    for path in figures:
        print(f"figure: {path}", file=sys.stderr if json else sys.stdout)
    if not holds:
        sys.exit(1)


def _toy(out: Path, seed: int, kind: Literal["linear", "networks"], json: bool) -> tuple[bool, Sequence[Path]]:
    """Whether it shows what it must, and the figures."""
    from utds import terminal
    from utds.uncertainty import toy

    found = toy.run(seed, kind)
    holds = all(found.requirements.values())
    if json:
        numbers = {"fall": found.fall, "rise": found.rise, "left": found.left}
        terminal.print_json({"kind": kind, "seed": seed, **numbers, "holds": holds})
    else:
        for what, held in found.requirements.items():
            print(f"{'✓' if held else '✗'} {what}")
    return holds, toy.draw(found, out)


def _run(run: Path, against: Path | None, out: Path, json: bool) -> Sequence[Path]:
    from utds import terminal
    from utds.training.run import Run
    from utds.uncertainty import measure, pictures
    from utds.uncertainty.measure import DEFINITIONS

    found = measure.compare(Run(run), None if against is None else Run(against))
    if json:
        terminal.print_json(
            {"task": found.task, "changes": found.changes, "means": found.rows(), "definitions": DEFINITIONS}
        )
    else:
        _print_table(found)
    return list(pictures.draw(found, out))


def _print_table(found) -> None:
    from rich.console import Console

    from utds import terminal
    from utds.uncertainty.measure import DEFINITIONS, MEASURES

    heads = ("common Γ", "Γ/σ_Q", "Γ", "Q")
    table = terminal.table("run", "state-actions", numbers=heads, title=f"{found.task}: uncertainty, means")
    for row in found.rows():
        values = (row[name] for name in ("common", "relative", "gamma", "q"))
        table.add_row(row["run"], row["part"], *(f"{value:.3g}" for value in values))
    console = Console()
    console.print(table)
    for measure in MEASURES:
        if sentence := found.sentence(measure):
            console.print(sentence, highlight=False)
    for column, measure in (("common Γ", "common"), ("Γ/σ_Q", "relative")):
        console.print(f"{column}: {DEFINITIONS[measure]}", style="dim", highlight=False)
    console.print("Γ, Q: the critics' own, in the unit of values: not comparable between runs", style="dim")
