"""Is the adviser worth following? python docs/results/robots/regret.py runs/sources*

Adds UTDS's runs to sources.csv beside this file, which has those of before; own data alone is in scores.csv. For every
main dataset that ran alone, with each of its sources and with all of them at once, it asks `utds advise` which source
to share, and holds that against other ways to choose, also by two numbers that the adviser no longer gives, because
they choose no better: `tried`. Regret: the score of the best choice, as it turned out, less that of the choice that was
made. Writes regret.csv beside this file.
"""

import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from utds import files, load, report, terminal
from utds.adviser import Advice, advise, score
from utds.adviser.advice import Candidate
from utds.data.columns import KNOWN, spaced
from utds.data.dataset import Dataset
from utds.data.labelling import make, rewards_for
from utds.report import table as tables
from utds.report.load import OWN
from utds.report.table import ALL, Study

HERE = Path(__file__).parent
RESAMPLES = 10_000

NUMBERS = ("predicted gain", "plan", "bound", "covered", "best tenth")  # of a candidate

Scores = dict[str, float]  # what is shared: a source's id, OWN for nothing or ALL -> last score


def read(trees: list[Path]) -> Study:
    """The runs of these trees and of sources.csv, to which they are added, and those of scores.csv."""
    kept = HERE / "sources.csv"
    sources = [*trees, *([kept] if kept.exists() else [])]
    if sources:
        files.write_text(kept, tables.to_csv(report.study(sources)))
    return report.study([*sources, HERE / "scores.csv"])


def collect(study: Study) -> dict[str, Scores]:
    """The scores of every choice, by main dataset; of those alone where every choice has run.

    Of the first seed alone, the only one that the runs of all sources have.
    """
    found: dict[str, Scores] = {}
    for (setting, label), outcome in study.outcomes.items():
        if label == "utds":
            name = setting.source if setting.source in (OWN, ALL) else f"{setting.domain}-{setting.source}/replay"
            first = list(outcome.seeds).index(0)
            found.setdefault(f"{setting.task}/{setting.kind}", {})[name] = float(outcome.final[first])
    return {main: scores for main, scores in found.items() if {OWN, ALL} <= set(scores) and len(scores) > 3}


class Tried(NamedTuple):
    """Numbers of a candidate that the adviser no longer gives."""

    bound: float  # Γ_lcb under good behaviour with it shared, E_π*[Γ_lcb] of Corollary 1
    covered: float  # share of its state-actions that the main data knows as well as 95 % of its own


WAYS: dict[str, Callable[[Candidate, Tried], float]] = {
    "the source with the highest score": lambda c, _: c.score or 0.0,
    "the source with the best plan": lambda c, _: c.plan or 0.0,
    "the source with the lowest bound": lambda _, t: -t.bound,
    "the source that the own data covers most": lambda _, t: t.covered,
    "the source that the own data covers least": lambda _, t: -t.covered,
    "the source whose best tenth of episodes returns most": lambda c, _: c.worth.best,
    "the source with the highest mean return": lambda c, _: c.worth.mean,
}


def tried(main: Dataset, others: Sequence[Dataset]) -> dict[str, Tried]:
    """These numbers by the candidate's name."""
    measured = score.Coverage([main, *others])
    labels = [rewards_for(other, main, make(KNOWN)) for other in others]
    returns = [other.returns_with(found) for other, found in zip(others, labels, strict=True)]
    good = score.good_behaviour([main, *others], [main.returns, *returns])
    alone = measured.width()

    def widths(data: Dataset) -> np.ndarray:
        return alone(measured.features(score.pairs(data, spaced(data.size, 2000))))

    square = widths(main) ** 2  # and without the sample itself, by Sherman and Morrison:
    known = np.quantile(np.sqrt(square / np.maximum(1 - square, 1e-6)), 0.95)
    return {
        other.name: Tried(measured.gamma(good, (place,)), float((widths(other) <= known).mean()))
        for place, other in enumerate(others)
    }


def choices(advice: Advice, told: Mapping[str, Tried], scores: Scores) -> Scores:
    """What each way of choosing scores."""
    sources = [value for name, value in scores.items() if name not in (OWN, ALL)]
    chosen = {way: max(advice.candidates, key=lambda c: rank(c, told[c.name])) for way, rank in WAYS.items()}
    return {
        "the adviser's choice, nothing where it has none": scores[advice.choice.name if advice.choice else OWN],
        **{way: scores[candidate.name] for way, candidate in chosen.items()},
        "everything": scores[ALL],
        "nothing": scores[OWN],
        "one source at random": float(np.mean(sources)),
        "the worst source": min(sources),
    }


def numbers(candidate: Candidate, told: Tried) -> tuple[float, ...]:
    """Its `NUMBERS`."""
    return candidate.score or 0.0, candidate.plan or 0.0, *told, candidate.worth.best


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
    with terminal.bar("asking the adviser", len(scores), "datasets") as advance:
        for name, found in scores.items():
            sources = [load(source) for source in found if source not in (OWN, ALL)]
            advice, told = advise(load(name), sources, trust_dynamics=True), tried(load(name), sources)
            ids = {load(source).name: source for source in found if source not in (OWN, ALL)}
            named = {data: found[id] for data, id in ids.items()}
            outcomes[name] = choices(advice, told, {**named, OWN: found[OWN], ALL: found[ALL]})
            rows += [
                [name, c.name, round(named[c.name], 2), place, *(round(x, 3) for x in numbers(c, told[c.name]))]
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
