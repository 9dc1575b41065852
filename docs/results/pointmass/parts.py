"""Which of the adviser's numbers choose well on the point mass: python docs/results/pointmass/parts.py

Reads what training brought from adviser.csv and asks `utds advise` for its numbers, on the data of `--seed 3` that
docs/guides/advise.md generates. Regret: the gain of the best of three sources less that of the one chosen, in points of
return.
"""

import csv
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import numpy as np

from utds import load, progress
from utds.adviser import advise
from utds.adviser.advice import Candidate
from utds.errors import DataError

TABLE = Path(__file__).with_name("adviser.csv")
WAYS: dict[str, Callable[[Candidate], float]] = {
    "the adviser's first choice": lambda c: c.score or 0.0,
    "the source with the best plan": lambda c: c.plan or 0.0,
    "the source with the lowest bound": lambda c: -c.after,
    "the source that the own data covers least": lambda c: -c.overlap,
    "the source with the best tenth of episodes": lambda c: c.worth.best,
}
RENAMED = {"random": "uniform"}  # what the kind was called when the runs were made, and is called today


def stored(id: str) -> str:
    task, _, kind = id.partition("/")
    return f"{task}/{RENAMED.get(kind, kind)}"


def main() -> None:
    with open(TABLE, newline="", encoding="utf-8") as file:
        settings = {main: list(rows) for main, rows in groupby(csv.DictReader(file), key=lambda row: row["main"])}
    regret: dict[str, list[float]] = {way: [] for way in (*WAYS, "one source at random")}
    with progress.bar("asking the adviser", len(settings), "datasets") as advance:
        for name, rows in settings.items():
            gains = {row["source"]: float(row["gain"]) for row in rows}
            candidates = advise(load(stored(name)), [load(id) for id in gains], trust_dynamics=True).candidates
            best = max(gains.values())
            for way, rank in WAYS.items():
                regret[way].append(best - gains[max(candidates, key=rank).name])
            regret["one source at random"].append(best - float(np.mean(list(gains.values()))))
            advance()
    print(f"| what is shared | regret, points of return, over {len(settings)} datasets | best of all |\n|---|---|---|")
    for way, found in regret.items():
        print(f"| {way} | {np.mean(found):.1f} | {sum(value == 0 for value in found)} |")


if __name__ == "__main__":
    try:
        main()
    except DataError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
