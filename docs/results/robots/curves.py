"""The learning curves of ../robots.md: python docs/results/robots/curves.py

Draws curves.svg from scores.csv beside this file: the mean score of each robot's four tasks against gradient steps, a
panel per robot and kind of own data. Only seeds that were evaluated often enough for a curve count, as those of
third-seed.toml and second-seed-rivals.toml are.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from utds import algorithms, figures, files, report
from utds.report.load import OWN, Seed
from utds.report.table import Outcome, Study

HERE = Path(__file__).parent
KINDS = ("random", "medium-replay", "medium", "expert")
EVALUATIONS = 10  # of a seed, at least
TASKS = 4  # per robot: a curve is drawn where all of them ran


def often(outcome: Outcome) -> list[Seed]:
    """The seeds of a setting that were evaluated often enough."""
    return [seed for seed in outcome.seeds.values() if seed.scores and seed.scores.values.size >= EVALUATIONS]


def curve(outcomes: Iterable[Outcome]) -> tuple[np.ndarray, np.ndarray] | None:
    """Steps and the mean score over tasks and seeds at each; None where a task lacks."""
    each = [often(outcome) for outcome in outcomes]
    if len(each) < TASKS or not all(each):
        return None
    steps = each[0][0].scores.steps
    return steps, np.mean([np.mean([seed.scores.values for seed in seeds], axis=0) for seeds in each], axis=0)


def draw(study: Study) -> None:
    """Solid lines: with sharing. UTDS without sharing is dashed."""
    if not any(map(often, study.outcomes.values())):
        raise SystemExit(f"no seed in scores.csv was evaluated {EVALUATIONS} times: run third-seed.toml")
    rows = len(study.domains)
    with figures.panels(len(KINDS), 9.0, 2.1 * rows, rows=rows, sharex=True, sharey="row") as (figure, panels):
        for index, axes in enumerate(panels):
            domain, kind = study.domains[index // len(KINDS)], KINDS[index % len(KINDS)]
            for name in sorted(study.sharing, key=lambda name: name == "utds"):  # UTDS last, on top of the others
                entry = algorithms.entries()[name]
                for alone in (False, True) if name == "utds" else (False,):
                    found = curve(
                        outcome
                        for (setting, label), outcome in study.outcomes.items()
                        if (label, setting.domain, setting.kind) == (name, domain, kind)
                        if alone == (setting.source == OWN) and (alone or setting.pairs)
                    )
                    if found:
                        words = f"{entry.label}, own data alone" if alone else entry.label
                        axes.plot(*found, "--" if alone else "-", color=entry.colour, label=words)
            if index < len(KINDS):
                axes.set_title(kind)
            if index % len(KINDS) == 0:
                axes.set_ylabel(f"{domain}, score")
        panels[-1].set_xlabel("gradient steps")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=6)
    files.write_text(HERE / "curves.svg", figures.svg(figure))


if __name__ == "__main__":
    draw(report.study([HERE / "scores.csv"]))
