"""Does fitted Q evaluation tell what policies are worth? Tries it on the policies that ship with the package.

    python docs/results/fitted.py --out docs/results/fitted.md

Rolls out the medium-replay data of a task anew for every seed, estimates the value of every policy of the task's ladder
from that data alone, and holds estimates and intervals against the truth: episodes on the simulator from the same
distribution of start states, as long and discounted alike.
"""

from pathlib import Path
from typing import Any

import numpy as np
import tyro
from scipy.stats import spearmanr

from utds import domains, files
from utds.collection import kinds
from utds.data.lake import share
from utds.evaluation import fqe, rollout

EXPLORING = ("medium-replay", "replay")  # kinds of data whose episodes start as exploration does


def truth(task: str, rung: int, kind: str, discount: float, episodes: int) -> float:
    """The mean of Σ γᵗ r over episodes of a policy on the simulator."""
    (domain, found), act = domains.task(task), kinds.load_ladder(task).act(rung)
    played = rollout.record(domain, act, episodes, seed=777, exploration_start=kind in EXPLORING)
    return float(np.mean(played.rewards[:, :, domain.tasks.index(found)] @ discount ** np.arange(domain.steps)))


def lines(task: str, kind: str, episodes: int, seed: int, judge: fqe.FQE, true: dict[int, float]) -> list[str]:
    """A table of one dataset: what each policy is worth, its estimate, and how much of it lies outside the data."""
    rungs = kinds.load_ladder(task)
    pool = share(kinds.generate(rungs, kind, episodes, seed))
    found = judge.evaluate({str(rung): rungs.act(rung) for rung in true}, pool, seed)
    recorded = fqe.recorded(pool, judge.discount)
    rows = [
        f"{task}/{kind}, {episodes} episodes of seed {seed}, worth {recorded} as recorded.",
        "",
        "| return | true value | estimate [95 %] | holds it | outside the data |",
        "|---|---|---|---|---|",
    ]
    for rung, value in true.items():
        estimate = found[str(rung)]
        low, high = estimate.interval
        outside = fqe.outside(rungs.act(rung), pool, seed)
        holds = "yes" if low <= value <= high else "no"
        rows.append(f"| {rungs.returns[rung]:.0f} | {value:.1f} | {estimate} | {holds} | {outside:.0%} |")
    if len(true) > 2:
        rank = spearmanr(list(true.values()), [estimate.mean for estimate in found.values()]).statistic
        rows += ["", f"Spearman's rank correlation of estimates with true values: {rank:.2f}"]
    return [*rows, ""]


def main(
    task: str = "walker-walk",
    kind: str = "medium-replay",
    episodes: int = 100,
    seeds: int = 2,
    rungs: tuple[int, ...] = (),
    played: int = 20,
    out: Path | None = None,
    steps: int = fqe.FQE.steps,
    width: int = fqe.FQE.width,
    num_critics: int = fqe.FQE.num_critics,
    discount: float = fqe.FQE.discount,
) -> None:
    """Hold estimates of a ladder's policies against the truth.

    Args:
        task: whose ladder and data
        kind: of the data
        episodes: of the data
        seeds: how often, each with data of its own
        rungs: which policies of the ladder; all if none is named
        played: episodes on the simulator behind a true value
        out: markdown file to write
        steps: gradient steps of the fit
        width: units of the critics' hidden layers
        num_critics: critics
        discount: γ
    """
    options: dict[str, Any] = {"steps": steps, "width": width, "num_critics": num_critics, "discount": discount}
    judge, chosen = fqe.FQE(**options), rungs or range(len(kinds.load_ladder(task)))
    true = {rung: truth(task, rung, kind, discount, played) for rung in chosen}
    text: list[str] = []
    for seed in range(seeds):
        text += lines(task, kind, episodes, seed, judge, true)
        print("\n".join(text[-len(true) - 7 :]), flush=True)
    if out is not None:
        files.write_text(out, "\n".join(text))


if __name__ == "__main__":
    tyro.cli(main)
