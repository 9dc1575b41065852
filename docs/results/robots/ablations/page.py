"""The table of ablations of ../../robots.md: python docs/results/robots/ablations/page.py runs/ablations/*

Adds the runs to scores.csv beside this file, which has those of before, and prints every variant less the preset, whose
scores on the same settings are in ../scores.csv.
"""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from utds import algorithms, files, report
from utds.data.columns import KNOWN
from utds.report import load, text
from utds.report.load import OWN, Result

HERE = Path(__file__).parent
TABLE = HERE / "scores.csv"
COLUMNS = ("variant", "task", "kind", "shared", "seed", "score")
KINDS = ("medium-replay", "expert")
RESAMPLES = 10_000

Key = tuple[str, str]  # task and kind of its own data: what is shared follows from the task
Scores = dict[Key, float]


def variant(result: Result) -> str:
    """What is unlike the preset, in words."""
    _, differences = algorithms.nearest_preset(result.algorithm, result.fields)
    words = [result.algorithm] if result.algorithm != "utds" else []
    words += [f"{name}={value}" for name, value in differences.items()]
    if result.config["rewards"] != KNOWN:
        words.append(f"rewards={result.config['rewards'].partition('@')[0]}")
    if "/" in result.source:  # only replay goes without saying
        words.append(f"source={result.source.rpartition('/')[2]}")
    return ", ".join(words)


def runs(trees: list[Path]) -> Iterator[tuple[str, ...]]:
    """A row for every finished run."""
    for result in load.read(trees)[0] if trees else []:
        for number, seed in result.seeds.items():
            assert seed.scores is not None
            shared = result.source.partition("/")[0]
            yield variant(result), result.task, result.kind, shared, str(number), f"{seed.scores.values[-1]:.2f}"


def keep(trees: list[Path]) -> dict[str, Scores]:
    """Scores by variant, of the table and of these trees, which are added to it; a run's own folder comes first."""
    before = []
    if TABLE.exists():
        with open(TABLE, newline="", encoding="utf-8") as file:
            before = [tuple(row) for row in csv.reader(file)][1:]
    rows = {row[:-1]: row for row in [*before, *runs(trees)]}
    with files.atomic(TABLE) as part, open(part, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(sorted(rows.values()))
    found: dict[str, dict[Key, list[float]]] = {}
    for name, task, kind, _, _, score in sorted(rows.values()):
        found.setdefault(name, {}).setdefault((task, kind), []).append(float(score))
    return {name: {key: float(np.mean(each)) for key, each in scores.items()} for name, scores in found.items()}


def preset() -> Scores:
    """The preset's scores with the next task's data."""
    study = report.study([HERE.parent / "scores.csv"])
    return {
        (setting.task, setting.kind): float(outcome.final.mean())
        for (setting, label), outcome in study.outcomes.items()
        if label == "utds" and setting.source != OWN and setting.kind in KINDS
    }


def less(scores: Scores, base: Scores) -> str:
    """The mean difference and, from three settings on, 95 % of what it is when settings are drawn with replacement."""
    values = np.array([score - base[key] for key, score in scores.items() if key in base])
    if len(values) < 3:
        return text.signed(float(values.mean()), 1) if len(values) else "–"
    drawn = np.random.default_rng(0).choice(values, (RESAMPLES, len(values))).mean(axis=1)
    low, high = (text.signed(float(end), 1) for end in np.percentile(drawn, [2.5, 97.5]))
    return f"{text.signed(float(values.mean()), 1)} [{low}, {high}]"


def main(trees: list[Path]) -> None:
    base = preset()
    print(f"| variant, less the preset | {' | '.join(KINDS)} | both | above it in |")
    print("|---" * (len(KINDS) + 3) + "|")
    for name, scores in keep(trees).items():
        parts = [{key: score for key, score in scores.items() if key[1] == kind} for kind in KINDS]
        above = sum(score > base[key] for key, score in scores.items() if key in base)
        print(f"| {name} | {' | '.join(less(part, base) for part in (*parts, scores))} | {above} of {len(scores)} |")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
