"""Is the adviser worth following? python docs/results/robots/regret.py runs/sources*

Adds UTDS's runs to sources.csv beside this file, which has those of before; own data alone is in scores.csv. For every
main dataset that ran alone, with each of its sources and with all of them at once, it asks `utds advise` which source
to share, and holds that against other ways to choose. Regret: the score of the best choice, as it turned out, less that
of the choice that was made. Writes regret.csv beside this file.
"""

import csv
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from utds import files, load, progress, report
from utds.adviser import Advice, advise
from utds.adviser.advice import Candidate
from utds.report import rows as tables
from utds.report.load import OWN
from utds.report.table import ALL, Study

HERE = Path(__file__).parent
RESAMPLES = 10_000

NUMBERS = ("predicted gain", "plan", "bound", "covered", "best tenth")  # of a candidate, as the adviser prints them

Scores = dict[str, float]  # what is shared: a source's id, OWN for nothing or ALL -> last score


def read(trees: list[Path]) -> Study:
    """The runs of these trees and of sources.csv, to which they are added, and those of scores.csv."""
    kept = HERE / "sources.csv"
    sources = [*trees, *([kept] if kept.exists() else [])]
    if sources:
        files.write_text(kept, tables.to_csv(report.study(sources)))
    return report.study([*sources, HERE / "scores.csv"])


def collect(study: Study) -> dict[str, Scores]:
    """The scores of every choice, by main dataset; of those alone where every choice has run."""
    found: dict[str, Scores] = {}
    for (setting, label), outcome in study.outcomes.items():
        if label == "utds":
            name = setting.source if setting.source in (OWN, ALL) else f"{setting.domain}-{setting.source}/replay"
            found.setdefault(f"{setting.task}/{setting.kind}", {})[name] = float(outcome.final.mean())
    return {main: scores for main, scores in found.items() if {OWN, ALL} <= set(scores) and len(scores) > 3}


def choices(advice: Advice, scores: Scores) -> Scores:
    """What each way of choosing scores."""
    ways: dict[str, Callable[[Candidate], float]] = {
        "the adviser's first choice": lambda c: -advice.candidates.index(c),
        "the source with the best plan": lambda c: c.plan or 0.0,
        "the source with the lowest bound": lambda c: -c.after,
        "the source that the own data covers most": lambda c: c.overlap,
        "the source that the own data covers least": lambda c: -c.overlap,
        "the source with the best tenth of episodes": lambda c: c.worth.best,
        "the source with the highest mean return": lambda c: c.worth.mean,
    }
    sources = [value for name, value in scores.items() if name not in (OWN, ALL)]
    return {way: scores[max(advice.candidates, key=rank).name] for way, rank in ways.items()} | {
        "everything": scores[ALL],
        "nothing": scores[OWN],
        "one source at random": float(np.mean(sources)),
        "the worst source": min(sources),
    }


def numbers(candidate: Candidate) -> tuple[float, ...]:
    """Its `NUMBERS`."""
    found = candidate.score, candidate.plan, candidate.after, candidate.overlap, candidate.worth.best
    return tuple(value or 0.0 for value in found)


def interval(values: np.ndarray) -> str:
    """The mean, and 95 % of what it is when main datasets are drawn with replacement."""
    drawn = np.random.default_rng(0).choice(values, (RESAMPLES, len(values))).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return f"{values.mean():.1f} [{low:.1f}, {high:.1f}]"


def show(outcomes: Mapping[str, Scores], scores: Mapping[str, Scores]) -> None:
    best = {main: max(found.values()) for main, found in scores.items()}
    domains = sorted({main.split("-")[0] for main in scores})
    print(f"| what is shared | mean score | {' | '.join(domains)} | regret, points | best of all |")
    print("|---" * (len(domains) + 4) + "|")
    for way in next(iter(outcomes.values())):
        values = {main: found[way] for main, found in outcomes.items()}
        regret = np.array([best[main] - value for main, value in values.items()])
        means = [np.mean([v for m, v in values.items() if m.startswith(d)]) for d in domains]
        cells = [f"{np.mean(list(values.values())):.1f}", *(f"{mean:.1f}" for mean in means), interval(regret)]
        print(f"| {way} | {' | '.join(cells)} | {(regret < 1e-9).sum()} of {len(regret)} |")


def main(trees: list[Path]) -> None:
    scores, outcomes, rows = collect(read(trees)), {}, []
    if not scores:
        print("no main dataset has run alone, with each source and with all of them: name such trees", file=sys.stderr)
        raise SystemExit(2)
    with progress.bar("asking the adviser", len(scores), "datasets") as advance:
        for name, found in scores.items():
            sources = [load(source) for source in found if source not in (OWN, ALL)]
            advice = advise(load(name), sources, trust_dynamics=True)
            ids = {load(source).name: source for source in found if source not in (OWN, ALL)}
            named = {data: found[id] for data, id in ids.items()}
            outcomes[name] = choices(advice, {**named, OWN: found[OWN], ALL: found[ALL]})
            rows += [
                [name, c.name, round(named[c.name], 2), place, *(round(x, 3) for x in numbers(c))]
                for place, c in enumerate(advice.candidates, 1)
            ]
            rows += [[name, way, round(found[way], 2), *[""] * 6] for way in (OWN, ALL)]
            advance()
    show(outcomes, scores)
    with files.atomic(HERE / "regret.csv") as part, open(part, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["main", "shared", "score", "place", *NUMBERS])
        writer.writerows(rows)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
