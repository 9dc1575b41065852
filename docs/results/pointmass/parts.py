"""Which of the adviser's numbers choose well on the point mass: python docs/results/pointmass/parts.py

Reads what training brought from adviser.csv and asks `utds advise` for its numbers, on the data of `--seed 3` that
docs/guides/advise.md generates. Regret: the gain of the best of three sources less that of the one chosen, in points of
return. It also counts the sources that raised the return, by whose best tenth of episodes returns more.
"""

import csv
import sys
from itertools import groupby
from pathlib import Path

import numpy as np

from utds import load, terminal
from utds.adviser import advise
from utds.errors import DataError

sys.path.append(str(Path(__file__).resolve().parents[1] / "robots"))
from regret import WAYS, tried

TABLE = Path(__file__).with_name("adviser.csv")
RENAMED = {"random": "uniform"}  # what the kind was called when the runs were made, and is called today


def stored(id: str) -> str:
    task, _, kind = id.partition("/")
    return f"{task}/{RENAMED.get(kind, kind)}"


def main() -> None:
    with open(TABLE, newline="", encoding="utf-8") as file:
        settings = {main: list(rows) for main, rows in groupby(csv.DictReader(file), key=lambda row: row["main"])}
    recommended, random = "the adviser's choice, nothing where it has none", "one source at random"
    regret: dict[str, list[float]] = {way: [] for way in (recommended, *WAYS, random)}
    by_best: dict[bool, list[float]] = {True: [], False: []}  # gains, by whether the source's best tenth returns more
    with terminal.bar("asking the adviser", len(settings), "datasets") as advance:
        for name, rows in settings.items():
            gains = {row["source"]: float(row["gain"]) for row in rows}
            own, sources = load(stored(name)), [load(id) for id in gains]
            advice, told = advise(own, sources, trust_dynamics=True), tried(own, sources)
            best = max(gains.values())
            for candidate in advice.candidates:
                by_best[advice.is_better(candidate)].append(gains[candidate.name])
            regret[recommended].append(best - (gains[advice.choice.name] if advice.choice else 0.0))
            for way, rank in WAYS.items():
                chosen = max(advice.candidates, key=lambda c, rank=rank, told=told: rank(c, told[c.name]))
                regret[way].append(best - gains[chosen.name])
            regret[random].append(best - float(np.mean(list(gains.values()))))
            advance()
    print(f"| what is shared | regret, points of return, over {len(settings)} datasets | best of all |\n|---|---|---|")
    for way, found in regret.items():
        print(f"| {way} | {np.mean(found):.1f} | {sum(value == 0 for value in found)} |")
    for better, found in by_best.items():
        rose = f"{sum(gain > 0 for gain in found)} of {len(found)}, mean gain {np.mean(found):+.1f}"
        print(f"the {'shared' if better else 'own'} data has the better episodes: the return rose in {rose}")


if __name__ == "__main__":
    try:
        main()
    except DataError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
