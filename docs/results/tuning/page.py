"""The tables of ../tuning.md from finished searches: python docs/results/tuning/page.py runs/tuning/*

Adds a row for every trial and setting to trials.csv beside this file, which has those of before, and prints the tables.
"""

import csv
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from utds.training import run_files

HERE = Path(__file__).parent


class Trial(NamedTuple):
    algorithm: str
    number: int


def read(roots: list[Path]) -> tuple[dict[Trial, dict[str, dict[str, float]]], dict[Trial, dict[str, Any]]]:
    """The last evaluation of every trial by task, and the fields that were drawn."""
    last: dict[Trial, dict[str, dict[str, float]]] = defaultdict(dict)
    fields: dict[Trial, dict[str, Any]] = {}
    with open(HERE / "trials.csv", newline="") as file:
        for row in csv.DictReader(file):
            trial = Trial(row["algorithm"], int(row["trial"]))
            last[trial][row["task"]] = {"return": float(row["return"]), "score": float(row["score"])}
            fields[trial] = json.loads(row["fields"])
    for folder in (path for root in roots for path in run_files.folders(root / "search")):
        rows = list(run_files.rows(folder / "evaluations.csv"))
        if not rows:  # under way
            continue
        cell = run_files.cell(folder)
        trial = Trial(cell["algorithm"], cell["trial"])
        last[trial][cell["task"]] = rows[-1]
        fields[trial] = cell["fields"]
    return last, fields


def mean_score(found: dict[str, dict[str, float]]) -> float:
    return sum(row["score"] for row in found.values()) / len(found)


def write(last: dict[Trial, dict[str, dict[str, float]]], fields: dict[Trial, dict[str, Any]]) -> None:
    with open(HERE / "trials.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["algorithm", "trial", "task", "return", "score", "fields"])
        for trial, found in sorted(last.items()):
            for task, row in sorted(found.items()):
                values = (round(row["return"], 1), round(row["score"], 1), json.dumps(fields[trial]))
                writer.writerow([*trial, task, *values])


def table(last: dict[Trial, dict[str, dict[str, float]]], fields: dict[Trial, dict[str, Any]]) -> None:
    tasks = sorted({task for found in last.values() for task in found})
    print(f"| method | trial | mean score | {' | '.join(tasks)} | fields |")
    print("|---" * (4 + len(tasks)) + "|")
    for name in sorted({trial.algorithm for trial in last}):
        ranked = sorted((t for t in last if t.algorithm == name), key=lambda t: -mean_score(last[t]))
        for trial in dict.fromkeys((ranked[0], ranked[1], Trial(name, 0))):
            returns = " | ".join(f"{last[trial][task]['return']:.0f}" if task in last[trial] else "–" for task in tasks)
            chosen = ", ".join(f"`{k}` {v}" for k, v in fields[trial].items()) or "the preset as it was"
            print(f"| {name} | {trial.number} | {mean_score(last[trial]):.1f} | {returns} | {chosen} |")


if __name__ == "__main__":
    searches = read([Path(name) for name in sys.argv[1:]])
    write(*searches)
    table(*searches)
