"""Draw kinds.svg and print the table of docs/guides/collection.md: python docs/results/kinds.py

Both come from the policies that ship: the returns of their seven kinds of data, and what the best of them reach.
"""

from pathlib import Path

import numpy as np
from rich.progress import track

from utds import domains, figures
from utds.collection import kinds
from utds.domains import Task

HERE = Path(__file__).parent
EPISODES = 20  # of each kind
GREY = "#999999"
COLOURS = (figures.SKY, figures.ORANGE, figures.PURPLE, figures.BLUE, figures.GREEN, figures.VERMILLION, GREY)


def main() -> None:
    tasks = [(f"{domain}-{task.name}", task) for domain in domains.names() for task in domains.get(domain).tasks]
    tasks = [(name, task) for name, task in tasks if (kinds.FOLDER / f"{name}.safetensors").exists()]
    print("| task | best policy | of reference | medium, of best | run |\n|---|---|---|---|---|")
    for name, task in tasks:
        print(row(name, task))
    draw([name for name, _ in tasks])


def row(name: str, task: Task) -> str:
    """One task's line of the table; the returns are those that the ladder's file tells."""
    rungs = kinds.load_ladder(name)
    best, error = rungs.returns[-1], rungs.errors[-1]
    public = None if task.own_reference else task.reference
    share = f"{best / public:.0%}" if public else "–"
    medium = rungs.returns[rungs.medium] / best
    return f"| {name} | {best:.0f} ± {error:.0f} | {share} | {medium:.0%} | {rungs.total_steps:,} steps |"


def draw(names: list[str]) -> None:
    """A box of returns per kind, a panel per task, a row per domain."""
    with figures.panels(4, 7.2, 0.5 * len(names), rows=len(names) // 4, sharex=True, sharey="row") as (figure, panels):
        for axes, name in track(list(zip(panels, names, strict=True)), description="rolling out"):
            found = kinds.load_ladder(name)
            boxes(axes, [kinds.generate(found, kind, EPISODES, seed=0).returns for kind in kinds.KINDS])
            axes.set_title(name.replace("pointmass", "point mass").replace("-reach-", "\n"))
        for axes in panels[::4]:
            axes.set_ylabel("return")
        figures.write(figure, HERE / "kinds")


def boxes(axes, returns: list[np.ndarray]) -> None:
    """Quartiles, and whiskers to the extremes."""
    drawn = axes.boxplot(returns, whis=(0, 100), widths=0.6, patch_artist=True, medianprops={"color": figures.INK})
    for box, colour in zip(drawn["boxes"], COLOURS, strict=True):
        box.set(facecolor=colour, alpha=0.6)
    axes.set_xticks(range(1, len(kinds.KINDS) + 1), kinds.KINDS, rotation=45, ha="right", rotation_mode="anchor")
    axes.grid(axis="x", visible=False)


if __name__ == "__main__":
    main()
