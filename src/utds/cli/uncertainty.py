"""`utds uncertainty`: what sharing changed about what the critics know."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from utds.errors import ConfigError

Place = Annotated[Path, tyro.conf.arg(metavar="RUN|toy")]


def uncertainty(run: Place, /, out: Path, against: Path | None = None, seed: int = 0, json: bool = False) -> None:
    """Draw a run's uncertainty Γ over its data and over training, alone or against another run; or a toy.

    Example: utds uncertainty runs/walker-walk-utds --against runs/walker-walk-pbrl --out out/uncertainty

    Args:
        run: the directory that training wrote; or the word toy, for the experiment with clusters in the plane
        out: folder for the figures, each as SVG and PNG
        against: a run on the same task and main data to compare with, such as one without sharing
        seed: of the toy
        json: print the numbers as JSON
    """
    import sys

    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file; --out names the folder to write the figures to")
    if str(run) == "toy":
        if against is not None:
            raise ConfigError("the toy has no run to compare against: leave out --against")
        figures = _toy(out, seed, json)
    else:
        figures = _run(run, against, out, json)
    for path in figures:
        print(f"figure: {path}", file=sys.stderr if json else sys.stdout)


def _toy(out: Path, seed: int, json: bool) -> Sequence[Path]:
    from utds.uncertainty import toy

    found = toy.run(seed)
    if json:
        _print_json({"fall": found.fall, "rise": found.rise, "seed": seed})
    else:
        mark = {True: "✓", False: "✗"}
        print(
            f"{mark[found.fall >= 5]} Γ at the shared clusters' centres falls {found.fall:.1f}× or more (required 5×)"
        )
        print(
            f"{mark[found.rise <= 0.2]} Γ near the main cluster rises {100 * found.rise:.1f} % at most (required 20 %)"
        )
    return toy.draw(found, out)


def _run(run: Path, against: Path | None, out: Path, json: bool) -> Sequence[Path]:
    from utds.runs import Run
    from utds.uncertainty import measure, pictures

    found = measure.compare(Run(run), None if against is None else Run(against))
    if json:
        _print_json({"task": found.task, "shrinkage": found.shrinkage, "means": found.rows()})
    else:
        _print_table(found)
    return list(pictures.draw(found, out))


def _print_table(found) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("run", "state-actions", "mean Γ", "mean Q", title=f"{found.task}: uncertainty")
    for row in found.rows():
        table.add_row(row["run"], row["part"], f"{row['gamma']:.3g}", f"{row['q']:.3g}")
    Console().print(table)
    if found.shrinkage is not None:
        before, after = (judgement.label for judgement in found.judgements)
        print(f"on shared data Γ is {found.shrinkage:.2f} times smaller {after} than {before}")


def _print_json(value: object) -> None:
    import json

    print(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))
