"""UTDS's presets on one setting of the walker: python docs/results/robots/presets.py runs/presets/*

Adds the evaluations of these runs to presets.csv beside this file, which has those of before, and draws them as
presets.svg: return against gradient steps, against FLOPs and against seconds. What a step costs is measured now, with
`benchmarks/update.py`: the presets take turns, so leave the machine to them. Prints what is on the page.
"""

import csv
import sys
from pathlib import Path

import numpy as np

from utds import Run, algorithms, figures, files

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[2] / "benchmarks"))
import common  # noqa: E402
import update  # noqa: E402

TABLE = HERE / "presets.csv"
COLUMNS = ("preset", "seed", "step", "return", "GFLOP per step", "ms per step")
STYLES = {"fast": (figures.VERMILLION, "-"), "paper": (figures.BLUE, "--"), "released": (figures.GREEN, ":")}
ROUNDS = 8

Curve = dict[tuple[int, int], float]  # seed and step -> return


def curves(runs: list[Path]) -> dict[str, Curve]:
    """Returns by preset, of presets.csv and of these runs."""
    found: dict[str, Curve] = {}
    if TABLE.exists():
        with open(TABLE, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                found.setdefault(row["preset"], {})[int(row["seed"]), int(row["step"])] = float(row["return"])
    for run in map(Run, runs):
        chosen = run.config["algorithm"]
        preset, changed = algorithms.nearest_preset(chosen["name"], chosen["fields"])
        if changed:
            raise SystemExit(f"{run.path} is none of the presets: it changes {', '.join(changed)}")
        curve = found.setdefault(preset, {})
        curve |= {(int(row["seed"]), int(row["step"])): row["return"] for row in run.evaluations}
    return {name: dict(sorted(found[name].items())) for name in STYLES if name in found}


def costs(presets: list[str]) -> dict[str, tuple[float, float]]:
    """GFLOP and milliseconds of a step, by preset."""
    made = {name: algorithms.resolve(algorithms.make("utds", name), steps=5_000) for name in presets}
    pool = update.walker_like()
    times = common.rounds({name: update.Stepper(algo, pool, False) for name, algo in made.items()}, repeats=ROUNDS)
    return {
        name: (update.flops(algo) / 1e9, 1e3 * float(np.median(times[name])) / update.STEPS)
        for name, algo in made.items()
    }


def draw(found: dict[str, Curve], cost: dict[str, tuple[float, float]]) -> None:
    """A panel for each of steps, FLOPs and seconds; the last two differ by orders of magnitude."""
    with figures.panels(3, 9.0, 2.8, sharey=True) as (figure, panels):
        for name, curve in found.items():
            colour, dashes = STYLES[name]
            gflop, ms = cost[name]
            steps = np.array(sorted({step for _, step in curve}))
            values = [np.mean([v for (_, step), v in curve.items() if step == at]) for at in steps]
            for axes, each in zip(panels, (1, gflop * 1e9, ms / 1e3), strict=True):
                axes.plot(steps * each, values, dashes, color=colour, marker="o", markersize=3, label=name)
        for axes, words in zip(panels, ("gradient steps", "FLOPs", "seconds of training"), strict=True):
            axes.set(xscale="linear" if axes is panels[0] else "log", xlabel=words)
        panels[0].set_ylabel("return")
        panels[0].legend(loc="best")
    files.write_text(HERE / "presets.svg", figures.svg(figure))


def show(found: dict[str, Curve], cost: dict[str, tuple[float, float]]) -> None:
    print("| preset | GFLOP per step | time per step, fast = 1 | steps | best return | last return |")
    print("|---|---|---|---|---|---|")
    for name, curve in found.items():
        gflop, ms = cost[name]
        end = max(step for _, step in curve)
        last = np.mean([value for (_, step), value in curve.items() if step == end])
        ratio = ms / cost["fast"][1]
        print(f"| {name} | {gflop:.1f} | {ratio:.1f} | {end:,} | {max(curve.values()):.0f} | {last:.0f} |")


def main(runs: list[Path]) -> None:
    found = curves(runs)
    if not found:
        raise SystemExit("no run: name those of `utds train --preset`")
    cost = costs(list(found))
    with files.atomic(TABLE) as part, open(part, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name, curve in found.items():
            price = [round(value, 2) for value in cost[name]]
            writer.writerows((name, *key, round(value, 2), *price) for key, value in curve.items())
    draw(found, cost)
    show(found, cost)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
