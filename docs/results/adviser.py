"""Does the adviser's score predict what sharing brings? Holds it against runs trained for real.

    utds benchmark run pointmass
    python docs/results/adviser.py runs/pointmass --out docs/results/pointmass/adviser

Reads every finished UTDS run of a tree of run directories, or of several trees, such as those of one matrix with other
weights of the penalty: then a return is a mean over all of them. The gain of a setting (main dataset, source) is the
mean return of its seeds minus that of the run on the main data alone; the score is what `utds advise` says about the
same datasets, told by their digests. Writes a table, a CSV file and a scatter plot, and prints rank correlations with
bootstrap intervals over main datasets: of the predicted returns with the measured ones, and of score and gain.
"""

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from scipy.stats import rankdata

from utds import figures, files
from utds.adviser import advise
from utds.data import store
from utds.errors import ConfigError, Error
from utds.training.run import Run

RESAMPLES = 5000


@dataclass(frozen=True)
class Setting:
    main: str  # id of the main dataset
    source: str  # id of the shared dataset
    alone: float  # mean return without sharing
    gain: float  # mean return with sharing, minus that
    error: float  # standard error of the gain over seeds
    score: float  # the adviser's
    predicted_alone: float  # what the adviser says that training without sharing promises
    place: int  # of the source in the adviser's order, from 0

    @property
    def shared(self) -> float:
        return self.alone + self.gain

    @property
    def predicted_shared(self) -> float:
        return self.predicted_alone + self.score


def final(run: Run, last: int) -> np.ndarray:
    """Return [seeds] of each seed, a mean over the last evaluations."""
    steps = sorted({row["step"] for row in run.evaluations})[-last:]
    return np.array(
        [
            np.mean([row["return"] for row in run.evaluations if row["seed"] == seed and row["step"] in steps])
            for seed in run.seeds
        ]
    )


def collect(tree: Path, algorithm: str, last: int) -> dict[tuple[str, ...], np.ndarray]:
    """Ids of the sources of each finished run, main first -> return of each seed."""
    found: dict[tuple[str, ...], np.ndarray] = {}
    for config in sorted(tree.rglob("config.json")):
        if any(part.startswith(".") for part in config.relative_to(tree).parts):
            continue  # superseded
        run = Run(config.parent)
        if run.finished and run.config["algorithm"]["name"] == algorithm:
            for source in run.config["sources"]:
                if store.load(source["id"]).digest != source["digest"]:
                    raise ConfigError(f"{run.path} was trained on another version of {source['id']}; generate it again")
            ids = tuple(source["id"] for source in run.config["sources"])
            if ids in found:
                raise ConfigError(f"{tree} holds several {algorithm} runs of {' with '.join(ids)}; keep one of them")
            found[ids] = final(run, last)
    return found


def settings(trees: Sequence[Path], algorithm: str, last: int) -> list[Setting]:
    """Every main dataset with a run alone and at least one run with one source, in every tree."""
    if not trees:
        raise ConfigError("name at least one folder of run directories")
    first, *others = (collect(tree, algorithm, last) for tree in trees)
    common = [ids for ids in first if all(ids in other for other in others)]
    runs = {ids: np.concatenate([tree[ids] for tree in (first, *others)]) for ids in common}
    table = []
    for (main,) in [ids for ids in runs if len(ids) == 1]:
        sources = [ids[1] for ids in runs if len(ids) == 2 and ids[0] == main]
        if not sources:
            continue
        advice = advise(store.load(main), [store.load(source) for source in sources], trust_dynamics=True)
        found = {candidate.name: (place, candidate.score) for place, candidate in enumerate(advice.candidates)}
        alone = runs[main,]
        for source in sources:
            shared = runs[main, source]
            error = np.sqrt(sum(np.var(r, ddof=1) / len(r) if len(r) > 1 else np.nan for r in (alone, shared)))
            gain = shared.mean() - alone.mean()
            place, score = found[store.load(source).name]
            table.append(Setting(main, source, alone.mean(), gain, float(error), score, advice.value, place))
    if not table:
        names = " and ".join(str(tree) for tree in trees)
        raise ConfigError(f"{names}: no finished {algorithm} runs of one main dataset, alone and with a source")
    return table


def spearman(table: list[Setting], predicted: str, measured: str) -> float:
    ranks = [rankdata([getattr(row, name) for row in table]) for name in (predicted, measured)]
    return float(np.corrcoef(ranks)[0, 1]) if all(np.ptp(rank) > 0 for rank in ranks) else float("nan")


def correlation(table: list[Setting], predicted: str, measured: str, seed: int = 0) -> str:
    """Spearman's, with 95 % of what it is when main datasets, with all their sources, are drawn with replacement."""
    random = np.random.default_rng(seed)
    mains = sorted({row.main for row in table})
    groups = {main: [row for row in table if row.main == main] for main in mains}
    drawn = [
        spearman([row for main in random.choice(mains, len(mains)) for row in groups[main]], predicted, measured)
        for _ in range(RESAMPLES)
    ]
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return f"**{spearman(table, predicted, measured):.2f}** (95 % interval {low:.2f} … {high:.2f})"


def first_choices(table: list[Setting]) -> tuple[int, int, int]:
    """Of how many main datasets the first choice is truly best, best or second-best, and how many there are."""
    places = []
    for main in sorted({row.main for row in table}):
        rows = [row for row in table if row.main == main]
        chosen = min(rows, key=lambda row: row.place)
        places.append(sum(row.gain > chosen.gain for row in rows))
    return sum(place == 0 for place in places), sum(place <= 1 for place in places), len(places)


def scatter(table: list[Setting], path: Path) -> None:
    """Measured against predicted: returns with sharing, and gains; a colour and marker for each kind of main data."""
    kinds = sorted({row.main.rsplit("/", 1)[-1] for row in table})
    colours = (figures.BLUE, figures.VERMILLION, figures.GREEN, figures.ORANGE, figures.PURPLE, figures.SKY)
    with figures.panels(2, 7.2, 3.4) as (figure, (left, right)):
        right.axhline(0, color=figures.INK, linewidth=0.6)
        for kind, colour, marker in zip(kinds, colours, "osD^vP", strict=False):
            rows = [row for row in table if row.main.rsplit("/", 1)[-1] == kind]
            left.plot([r.predicted_shared for r in rows], [r.shared for r in rows], marker, color=colour, label=kind)
            right.errorbar(
                [r.score for r in rows], [r.gain for r in rows], yerr=np.nan_to_num([r.error for r in rows]),
                fmt=marker, color=colour, linewidth=0.8,
            )  # fmt: skip
        left.set(xlabel="predicted return with sharing", ylabel="measured")
        right.set(xlabel="predicted gain over own data alone", ylabel="measured")
        figures.legend(figure, 3)
        figures.write(figure, path)


def summary(table: list[Setting]) -> str:
    """The markdown page."""
    best, second, mains = first_choices(table)
    lone = list({row.main: row for row in table}.values())
    lines = [
        f"{len(table)} settings over {mains} main datasets. Spearman's rank correlations, intervals by a bootstrap "
        "over main datasets:",
        "",
        f"- predicted and measured return with sharing: {correlation(table, 'predicted_shared', 'shared')}",
        f"- predicted and measured return of the main data alone: {correlation(lone, 'predicted_alone', 'alone')}",
        f"- score and gain, their differences: {correlation(table, 'score', 'gain')}",
        "",
        f"The first choice was truly the best source for {best} of {mains} main datasets, "
        f"best or second-best for {second} ({second / mains:.0%}).",
        "",
        "| main data | shared | return alone | predicted | gain | ± | score |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in sorted(table, key=lambda row: (row.main, row.place)):
        error = "–" if np.isnan(row.error) else f"{row.error:.1f}"
        lines.append(
            f"| {row.main} | {row.source} | {row.alone:.1f} | {row.predicted_alone:.1f} | {row.gain:+.1f} | {error} "
            f"| {row.score:+.1f} |"
        )
    return "\n".join(lines) + "\n"


def main(
    trees: tyro.conf.Positional[tuple[Path, ...]],
    out: Path = Path("adviser"),
    algorithm: str = "utds",
    last: int = 1,
) -> None:
    """Hold the adviser against trees of runs.

    Args:
        trees: folders of run directories
        out: files to write, without their endings: .md, .csv, .svg, .png
        algorithm: whose runs count
        last: evaluations of a run that are averaged
    """
    table = settings(trees, algorithm, last)
    page = summary(table)
    print(page)
    files.write_text(out.with_suffix(".md"), page)
    with files.atomic(out.with_suffix(".csv")) as part, open(part, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("main", "source", "alone", "gain", "standard_error", "score", "predicted_alone", "place"))
        writer.writerows(vars(row).values() for row in table)
    scatter(table, out)


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except Error as error:
        print(f"adviser: error: {error}", file=sys.stderr)
        sys.exit(2)
