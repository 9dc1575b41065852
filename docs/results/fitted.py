"""Does fitted Q evaluation rank policies of known return? Tries it on the policies that ship with the package.

    python docs/results/fitted.py --out docs/results/fitted.md

Rolls out the medium-replay data of a task anew for every seed, estimates the value of every policy of the task's ladder
from that data alone, and holds the order of the estimates against that of the known returns: once over the policies
that the data covers, which are those that made it and the next one, and once over all.
"""

from pathlib import Path
from typing import Any

import numpy as np
import tyro
from scipy.stats import spearmanr

from utds import files
from utds.collection import kinds, ladder
from utds.data.lake import share
from utds.evaluation import fqe


def estimates(task: str, episodes: int, seed: int, options: dict[str, Any]) -> tuple[list[fqe.Estimate], float]:
    """The estimate of every rung from one dataset, and the mean return of the data."""
    rungs = ladder.load(task)
    data = kinds.generate(rungs, "medium-replay", episodes, seed)
    pool = share(data)
    found = []
    for rung in range(len(rungs)):
        found.append(fqe.evaluate(rungs.act(rung), pool, seed, **options))
        print(f"seed {seed}, return {rungs.returns[rung]:.0f}: {found[-1]}", flush=True)
    return found, float(data.returns.mean())


def page(task: str, values: np.ndarray, episodes: int, worth: float) -> str:
    """The markdown table of values [seeds, rungs], with rank correlations."""
    rungs = ladder.load(task)
    returns, covered = np.array(rungs.returns), rungs.medium + 2
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(len(returns))
    lines = [
        f"{task}/medium-replay, {episodes} episodes (mean return {worth:.0f}), {len(values)} seeds.",
        "",
        "| return | " + " | ".join(f"{value:.0f}" for value in returns) + " |",
        "|---" * (len(returns) + 1) + "|",
        "| estimated value | " + " | ".join(f"{mean:.1f}" for mean in values.mean(axis=0)) + " |",
        "| deviation over seeds | " + " | ".join(f"{deviation:.1f}" for deviation in spread) + " |",
        "",
    ]
    for words, count in (
        (f"the first {covered}, which the data covers", covered),
        (f"all {len(returns)}", len(returns)),
    ):
        each = [float(spearmanr(returns[:count], row[:count]).statistic) for row in values]
        lines.append(f"- Spearman over {words}: {', '.join(f'{found:.2f}' for found in each)}")
    return "\n".join(lines) + "\n"


def main(
    task: str = "walker-walk",
    episodes: int = 200,
    seeds: int = 3,
    out: Path | None = None,
    steps: int = fqe.FQE.steps,
    width: int = fqe.FQE.width,
    num_critics: int = fqe.FQE.num_critics,
) -> None:
    """Rank a ladder's policies from data alone.

    Args:
        task: whose ladder and data
        episodes: of medium-replay data
        seeds: how often, each with data of its own
        out: markdown file to write
        steps: gradient steps of the fit
        width: units of the critics' hidden layers
        num_critics: critics
    """
    options = {"steps": steps, "width": width, "num_critics": num_critics}
    found = [estimates(task, episodes, seed, options) for seed in range(seeds)]
    values = np.array([[estimate.mean for estimate in row] for row, _ in found])
    text = page(task, values, episodes, float(np.mean([worth for _, worth in found])))
    print(text)
    if out is not None:
        with files.atomic(out) as part:
            part.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    tyro.cli(main)
