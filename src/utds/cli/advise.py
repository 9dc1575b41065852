"""`utds advise`: which datasets to share, before training."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from rich.table import Table

    from utds.adviser import Advice

Id = Annotated[str, tyro.conf.arg(metavar="ID")]


def advise(
    main: Id,
    /,
    from_: Annotated[tuple[str, ...], tyro.conf.arg(name="from", metavar="ID …")],
    rewards: str = "known",
    seed: int = 0,
    trust_dynamics: bool = False,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Rank datasets by what sharing them promises, before any policy is trained.

    Example: utds advise walker-flip/medium-replay --from walker-stand/replay walker-walk/replay walker-run/replay

    Args:
        main: dataset of the task to learn, such as walker-flip/medium-replay
        from_: datasets of other tasks of the same robot that might be shared
        rewards: of the candidates, as in `utds train`: known, learned, zero, goal:0=0.5 or file.py:function
        seed: of the random features and of the model of the dynamics
        trust_dynamics: leave out the check of dynamics, which takes most of the time
        out: folder for advice.json and the figure, as SVG and PNG
        json: print the advice as JSON in place of the table
    """
    from rich.console import Console

    from utds import adviser, figures, files, terminal
    from utds.adviser.advice import LEGEND, RELIABILITY, draw
    from utds.data import store

    if out is not None:
        files.check_folder(out)
    candidates = [store.load(name) for name in from_]
    found = adviser.advise(store.load(main), candidates, rewards=rewards, seed=seed, trust_dynamics=trust_dynamics)
    if out is not None:
        files.write_json(out / "advice.json", found.to_json())
        figures.write(draw(found), out / "advice")
    if json:
        terminal.print_json(found.to_json())
        return
    console = Console(markup=False, emoji=False)  # a path may hold brackets
    console.print(_table(found))
    console.print(LEGEND, style="dim", highlight=False)
    console.print(found.recommendation, style="bold", highlight=False)
    console.print(RELIABILITY, style="dim", highlight=False)
    if out is not None:
        console.print(f"written to {out}: advice.json, advice.svg, advice.png", highlight=False)


def _table(advice: "Advice") -> "Table":
    """A row for each candidate: on 80 columns its name takes two lines where it must."""
    from utds import terminal
    from utds.adviser.advice import number

    title = f"{advice.main}: best tenth {number(advice.worth.best)}, plan {number(advice.plan)}"
    shown = terminal.table("share", numbers=("best tenth", "dynamics", "plan", "score"), title=title)
    for candidate in advice.candidates:
        shown.add_row(
            terminal.Name(candidate.name),
            advice.best_tenth(candidate),
            candidate.dynamics.says,
            "–" if candidate.plan is None else number(candidate.plan),
            "refused" if candidate.score is None else number(candidate.score, "+"),
        )
    return shown
