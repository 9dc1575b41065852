"""The tables and curves of ../learner.md from finished matrices: python docs/results/learner/page.py runs/*

Writes returns.csv and curves.svg beside this file and prints the tables.
"""

import csv
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from utds import figures
from utds.training import run_files

HERE = Path(__file__).parent


class Setting(NamedTuple):
    """What a run learnt from."""

    task: str
    kind: str  # of its own data
    shared: str  # task, or nothing


def read(roots: list[Path]) -> tuple[dict[Setting, dict[int, list[tuple[int, float]]]], dict[str, dict[str, float]]]:
    """Returns by setting, seed and step; and what each dataset of a task's own reached as recorded."""
    found: dict[Setting, dict[int, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    recorded = {}
    for folder in (path for root in roots for path in run_files.folders(root)):
        config = run_files.config(folder)
        own, *others = config["sources"]
        recorded[own["id"]] = own["recorded"]
        shared = ", ".join(other["id"].partition("/")[0] for other in others)
        setting = Setting(config["task"], own["id"].rpartition("/")[2], shared)
        for row in run_files.rows(folder / "evaluations.csv"):
            found[setting][int(row["seed"])].append((int(row["step"]), float(row["return"])))
    return found, recorded


def table(found: dict[Setting, dict[int, list[tuple[int, float]]]], recorded: dict[str, dict[str, float]]) -> None:
    names = ("task", "own data", "shared", "last return, per seed", "mean", "half-way", "last over best")
    print(f"| {' | '.join(names)} | own data: mean, best tenth |")
    print("|---" * (len(names) + 1) + "|")
    for setting, seeds in sorted(found.items()):
        returns = np.array([[value for _, value in sorted(points)] for _, points in sorted(seeds.items())])  # [S, T]
        last, half = returns[:, -1], returns[:, (returns.shape[1] - 1) // 2].mean()
        kept = np.mean(last / np.maximum(returns.max(axis=1), 1e-9))
        own = recorded[f"{setting.task}/{setting.kind}"]
        listed = ", ".join(f"{value:.0f}" for value in last)
        print(
            f"| {setting.task} | {setting.kind} | {setting.shared or '–'} "
            f"| {listed} | {last.mean():.0f} | {half:.0f} | {kept:.2f} "
            f"| {own['mean']:.0f}, {own['best_tenth']:.0f} |"
        )


def draw(found: dict[Setting, dict[int, list[tuple[int, float]]]], recorded: dict[str, dict[str, float]]) -> Figure:
    tasks = sorted(name.removesuffix("/medium-replay") for name in recorded if name.endswith("/medium-replay"))
    figure = Figure(figsize=(3 * len(tasks), 2.8), layout="constrained")
    for axes, task in zip(np.ravel(figure.subplots(1, len(tasks))), tasks, strict=True):
        for setting, seeds in sorted(found.items()):
            if (setting.task, setting.kind) != (task, "medium-replay"):
                continue
            colour, label = ("#d55e00", "with sharing") if setting.shared else ("#0072b2", "own data alone")
            for seed, points in sorted(seeds.items()):
                axes.plot(*zip(*sorted(points), strict=True), color=colour, label=label if seed == 0 else None)
        axes.axhline(
            recorded[f"{task}/medium-replay"]["best_tenth"],
            color="#999999",
            linestyle=":",
            label="own data's best tenth",
        )
        axes.set_title(task, fontsize="small")
        axes.set_xlabel("gradient steps")
        axes.set_ylim(bottom=0)
    figure.axes[0].set_ylabel("return")
    figure.axes[0].legend(frameon=False, fontsize="x-small")
    return figure


def main(roots: list[Path]) -> None:
    found, recorded = read(roots)
    with open(HERE / "returns.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*Setting._fields, "seed", "step", "return"])
        for setting, seeds in sorted(found.items()):
            writer.writerows(
                [*setting, seed, step, round(value, 2)]
                for seed, points in sorted(seeds.items())
                for step, value in sorted(points)
            )
    figures.write(draw(found, recorded), HERE / "curves")
    table(found, recorded)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
