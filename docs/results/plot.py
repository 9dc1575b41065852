"""Draw walker-walk-from-run.svg from the table beside it: python docs/results/plot.py"""

import csv
from collections import defaultdict
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

HERE = Path(__file__).parent
LOOKS = {  # colour, line, label
    "utds": ("#d55e00", "-", "UTDS, shared (3 seeds)"),
    "pbrl": ("#0072b2", "--", "own data alone (PBRL)"),
    "cql": ("#e69f00", ":", "Direct Sharing (CQL)"),
    "cds": ("#009e73", "-.", "CDS"),
    "td3": ("#666666", (0, (1, 3)), "TD3 without pessimism, shared"),
}
BEST = 420.4  # the best episode of the own data


def main() -> None:
    curves: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    with open(HERE / "walker-walk-from-run.csv") as file:
        for row in csv.DictReader(file):
            curves[row["algorithm"], row["seed"]].append((int(row["step"]), float(row["return"])))
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for (name, seed), points in curves.items():
        colour, line, label = LOOKS[name]
        axes.plot(*zip(*points, strict=True), color=colour, linestyle=line, label=label if seed == "0" else None)
    axes.axhline(BEST, color="0.5", linewidth=0.8)
    axes.annotate("best episode of the own data", (0.99, BEST), xycoords=("axes fraction", "data"), ha="right",
                  va="top", fontsize=8, color="0.3")  # fmt: skip
    axes.set(xlabel="gradient steps", ylabel="return", title="walker-walk, cpu preset", ylim=(0, 1000))
    figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=2)
    matplotlib.rcParams["svg.hashsalt"] = "utds"
    figure.savefig(HERE / "walker-walk-from-run.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
