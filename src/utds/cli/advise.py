"""`utds advise`: which datasets to share, before training."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from rich.table import Table

    from utds.advise import Advice, Candidate

Id = Annotated[str, tyro.conf.arg(metavar="ID")]


def advise(
    main: Id,
    /,
    from_: Annotated[tuple[str, ...], tyro.conf.arg(name="from", metavar="ID …")],
    rewards: Literal["known", "learned", "zero"] = "known",
    seed: int = 0,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Rank datasets by what sharing them with a task's own data promises; no policy is trained.

    Example: utds advise walker-flip/medium-replay --from walker-stand/replay walker-walk/replay walker-run/replay

    Args:
        main: dataset of the task to learn, such as walker-flip/medium-replay
        from_: datasets of other tasks of the same robot that might be shared
        rewards: of the candidates: known (stored or from physics), learned from the main data, or zero
        seed: of the random features and of the model of the dynamics
        out: folder for advice.json and the figure, as SVG and PNG
        json: print the advice as JSON in place of the table
    """
    import json as notation

    from rich.console import Console

    from utds import advise as adviser
    from utds import figures, files
    from utds.advise import figure
    from utds.data import store

    found = adviser.advise(store.load(main), [store.load(name) for name in from_], rewards=rewards, seed=seed)
    if out is not None:
        files.write_json(out / "advice.json", found.to_json())
        figures.write(figure.draw(found), out / "advice")
    if json:
        print(notation.dumps(found.to_json(), indent=2, ensure_ascii=False, allow_nan=False))
        return
    console = Console()
    console.print(_table(found))
    for option in found.options[:3]:
        if len(option.names) > 1:
            console.print(f"together {' + '.join(option.names)}: bound shrinks by {option.shrinkage:.0%}")
    console.print(found.recommendation, style="bold", highlight=False)
    if out is not None:
        console.print(f"written to {out}: advice.json, advice.svg, advice.png", highlight=False)


def _table(advice: "Advice") -> "Table":
    from rich.table import Table

    shown = Table(
        "share", "best tenth", "better", "covered", "dynamics", "bound", "score",
        title=f"{advice.main}: own best tenth returns {advice.worth.best:.0f}, bound {advice.before:.3f}",
        caption="best tenth: mean return of its best episodes under the main task; better: episodes beyond the main "
        "data's best tenth; covered: share of it that the main data knows already; dynamics: how likely so large a "
        "difference is by chance; bound: E[Γ] under good behaviour after sharing; score: by how much it falls",
    )  # fmt: skip
    for column in shown.columns[1:]:
        column.justify = "right"
    for candidate in advice.candidates:
        refused = candidate.dynamics.verdict == "different"
        shown.add_row(
            candidate.name,
            f"{candidate.worth.best:.0f}",
            f"{candidate.worth.beyond:.0%}",
            f"{candidate.overlap:.0%}",
            _dynamics(candidate),
            "–" if refused else f"{advice.before - candidate.score:.3f}",
            "refused" if refused else f"{candidate.score:.4f}",
        )
    return shown


def _dynamics(candidate: "Candidate") -> str:
    found = candidate.dynamics
    words = {"same": "same", "different": "other", "unknown": "untested"}
    return f"{words[found.verdict]} (p = {found.p:.2g})"
