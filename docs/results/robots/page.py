"""The tables and figure of ../robots.md from finished matrices: python docs/results/robots/page.py runs/robots*

Adds the runs to scores.csv beside this file, which has those of before, writes report.html and gains.svg from all of
them, and prints the tables.
"""

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from utds import algorithms, figures, report
from utds.report import aggregate, findings, text
from utds.report.aggregate import Interval, Scores
from utds.report.load import OWN
from utds.report.table import Outcome, Study

HERE = Path(__file__).parent
KINDS = ("random", "medium-replay", "medium", "expert")
NOT_EXPERT = KINDS[:3]
RESAMPLES = 10_000

Pair = tuple[Outcome, Outcome]  # with sharing, without


def pairs(study: Study, algorithm: str, kept: Callable[[Outcome], bool] = lambda _: True) -> list[Pair]:
    """Settings of one source that ran both ways."""
    found = findings.paired(study, algorithm, findings.EVERYTHING)
    return [(shared, alone) for shared, alone in found if shared.setting.pairs and kept(shared)]


def gain(found: list[Pair]) -> Interval | None:
    """The mean difference of last scores over settings, with its interval."""
    if not found:
        return None
    shared, alone = (Scores.of([pair[side].final for pair in found]) for side in (0, 1))
    return aggregate.bootstrap(aggregate.gain, shared, alone)


def written(found: Interval | None) -> str:
    return "–" if found is None else text.interval(found, plus=True)


def over_settings(values: list[float]) -> str:
    """A mean, and 95 % of what it is when settings are drawn with replacement: what to expect of other such settings.

    It needs no second seed, and says nothing of how much one would change.
    """
    if len(values) < 3:
        return text.signed(float(np.mean(values)), 1) if values else "–"
    drawn = np.random.default_rng(0).choice(values, (RESAMPLES, len(values))).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return f"{text.signed(float(np.mean(values)), 1)} [{text.signed(low, 1)}, {text.signed(high, 1)}]"


def label(name: str) -> str:
    known = algorithms.entries().get(name)
    return known.label if known else name


def row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def header(*names: str) -> None:
    row(*names)
    row(*("---" for _ in names))


def gains(study: Study) -> None:
    """What sharing adds, by kind of own data and by robot."""
    print("\n### Gain from sharing, in points of the normalised score\n")
    header("method", *KINDS, *study.domains, "all", "settings that gain")
    for name in study.sharing:
        found = pairs(study, name)
        rises = sum(shared.final.mean() > alone.final.mean() for shared, alone in found)
        by_kind = (gain(pairs(study, name, lambda cell, k=kind: cell.setting.kind == k)) for kind in KINDS)
        by_domain = (
            gain(pairs(study, name, lambda cell, d=domain: cell.setting.domain == d)) for domain in study.domains
        )
        row(
            label(name),
            *map(written, by_kind),
            *map(written, by_domain),
            written(gain(found)),
            f"{rises} of {len(found)}",
        )


def gains_over_settings(study: Study) -> None:
    """The same gains with intervals over settings, with and without expert data."""
    print("\n### Gain from sharing, with intervals over settings\n")
    scopes = (*study.domains, "all")
    header("method", "own data", *scopes, "settings that gain")
    for name in study.sharing:
        for words, kinds in (("not expert", NOT_EXPERT), ("expert", KINDS[3:])):
            found = pairs(study, name, lambda cell, k=kinds: cell.setting.kind in k)
            each = [(cell.setting.domain, cell.final.mean() - alone.final.mean()) for cell, alone in found]
            columns = ([gain for domain, gain in each if scope in (domain, "all")] for scope in scopes)
            rises = sum(gain > 0 for _, gain in each)
            row(label(name), words, *map(over_settings, columns), f"{rises} of {len(each)}")


def rivals(study: Study) -> None:
    """UTDS less every rival, both with sharing and both without, on the settings that both ran."""
    print("\n### UTDS less its rivals, points\n")
    scopes = (*study.domains, "all")
    header("rival", "data", *scopes, "UTDS is above in")
    for name in study.algorithms:
        for words, wanted in (("own and shared", False), ("own", True)):
            each = [
                (s.domain, study.outcomes[s, "utds"].final.mean() - study.outcomes[s, name].final.mean())
                for s in study.settings
                if name != "utds" and (s.source == OWN) == wanted and {(s, "utds"), (s, name)} <= set(study.outcomes)
            ]
            if each:
                columns = ([value for domain, value in each if scope in (domain, "all")] for scope in scopes)
                above = sum(value > 0 for _, value in each)
                row(label(name), words, *map(over_settings, columns), f"{above} of {len(each)}")


def levels(study: Study) -> None:
    """UTDS without and with sharing, by robot and kind of own data."""
    print("\n### UTDS: mean score with own data alone → with sharing\n")
    header("robot", *KINDS)
    for domain in study.domains:
        cells = []
        for kind in KINDS:
            found = pairs(study, "utds", lambda c, d=domain, k=kind: (c.setting.domain, c.setting.kind) == (d, k))
            shared, alone = ([pair[side].final.mean() for pair in found] for side in (0, 1))
            cells.append(f"{np.mean(alone):z.0f} → {np.mean(shared):z.0f}" if found else "–")
        row(domain, *cells)


def methods(study: Study) -> None:
    """Every method without and with sharing, by kind of own data; in brackets how many settings, where not all ran."""
    print("\n### Mean score with own data alone → with sharing\n")
    tasks = len({s.task for s in study.settings})
    header("method", *KINDS)
    for name in study.sharing:
        cells = []
        for kind in KINDS:
            found = pairs(study, name, lambda cell, k=kind: cell.setting.kind == k)
            shared, alone = ([pair[side].final.mean() for pair in found] for side in (0, 1))
            some = f" ({len(found)})" if len(found) < tasks else ""
            cells.append(f"{np.mean(alone):z.0f} → {np.mean(shared):z.0f}{some}" if found else "–")
        row(label(name), *cells)


def better_sources(study: Study) -> None:
    """What sharing adds, by whether the shared episodes beat the own data's: best tenth against best tenth."""
    print("\n### Gain from sharing, by whose best tenth of episodes returns more, with intervals over settings\n")
    with open(HERE / "regret.csv", newline="", encoding="utf-8") as file:
        told = [line for line in csv.DictReader(file) if line["place"]]
    shared_best = {tuple(line[name].split("/")[0] for name in ("main", "shared")): line["best tenth"] for line in told}
    header("method", "the better episodes are", "gain", "settings that gain")
    for name in study.sharing:
        gains: dict[bool, list[float]] = {True: [], False: []}
        for cell, alone in pairs(study, name):
            best = shared_best[cell.setting.task, f"{cell.setting.domain}-{cell.setting.source}"]
            recorded = next(found.recorded for found in alone.results if found.recorded)
            gains[float(best) > recorded[1]].append(float(cell.final.mean() - alone.final.mean()))
        for words, better in (("shared", True), ("own", False)):
            rises = sum(value > 0 for value in gains[better])
            row(label(name), words, over_settings(gains[better]), f"{rises} of {len(gains[better])}")


def aggregates(study: Study) -> None:
    """Every method over the settings that all of them ran."""
    for scope in findings.scopes(study):
        found = findings.aggregates(study, "final", scope)
        if found is None:
            continue
        print(f"\n### {scope.capitalize()}: last scores over {len(found.settings)} settings\n")
        names = list(found.rows[0].statistics)
        header("method", "data", *names)
        for line in found.rows:
            data = "own" if line.alone else "own and shared"
            row(label(line.algorithm), data, *(text.interval(line.statistics[name]) for name in names))


def statements(study: Study) -> None:
    """The paper's signs against these."""
    print("\n### The paper's statements\n")
    header("the paper's", "here")
    mains = [s for s in study.settings if s.source == OWN and {(s, "utds"), (s, "cql")} <= set(study.outcomes)]
    if mains:
        pbrl, cql = (np.mean([study.outcomes[s, name].final.mean() for s in mains]) for name in ("utds", "cql"))
        recorded = np.mean([found[0] for s in mains if (found := study.recorded(s))])
        row(
            "own data alone: PBRL, which is UTDS there, above the recorded data above CQL, on the mean",
            f"PBRL {pbrl:.1f}, recorded data {recorded:.1f}, CQL {cql:.1f} ({len(mains)} settings)",
        )
    for domain, paper in (("walker", "+56"), ("quadruped", "−1"), ("jaco", "−52")):
        found = pairs(study, "cql", lambda cell, d=domain: cell.setting.domain == d)
        change = None
        if found:
            each = [np.mean([r.returns.values[-1] for r in cell.seeds.values()]) for pair in found for cell in pair]
            change = float(np.mean(each[::2]) - np.mean(each[1::2]))
        row(
            f"sharing changes CQL's return on the {domain} by {paper}",
            "–" if change is None else text.signed(change, 0),
        )
    plain = pairs(study, "utds", lambda cell: cell.setting.kind in NOT_EXPERT)
    rises = sum(shared.final.mean() > alone.final.mean() for shared, alone in plain)
    row("UTDS gains on data that is not expert", f"{written(gain(plain))}; {rises} of {len(plain)} settings")
    expert = pairs(study, "utds", lambda cell: cell.setting.kind == "expert")
    row("and loses little on expert data", written(gain(expert)))
    overall = findings.aggregates(study, "final", findings.EVERYTHING)
    if overall is not None:
        rows = sorted((r for r in overall.rows if not r.alone), key=lambda r: -r.statistics["IQM"].value)
        order = ", ".join(f"{label(r.algorithm)} {r.statistics['IQM'].value:.1f}" for r in rows)
        row("with sharing, UTDS is above CDS and CQL", f"IQM: {order}")


def settings(study: Study) -> None:
    """Every setting: what was recorded, and every method's mean last score."""
    print("\n### Every setting: mean last score\n")
    names = study.algorithms
    header("task", "own data", "shared", "recorded", "best tenth", *map(label, names))
    for setting in study.settings:
        recorded = study.recorded(setting) or (float("nan"),) * 2
        cells = (study.outcomes.get((setting, name)) for name in names)
        values = (str(round(float(cell.final.mean()))) if cell else "" for cell in cells)  # without a -0
        shared = "–" if setting.source == OWN else setting.source
        row(setting.task, setting.kind, shared, *(f"{value:z.0f}" for value in recorded), *values)


def draw_gains(study: Study) -> None:
    """The gain of every method by kind of own data, a panel per robot."""
    with figures.panels(len(study.domains), 3.0 * len(study.domains), 2.8, sharey=True) as (figure, panels):
        for axes, domain in zip(panels, study.domains, strict=True):
            for place, name in enumerate(study.sharing):
                colour, once = algorithms.entries()[name].colour, label(name)
                for x, kind in enumerate(KINDS):
                    chosen = pairs(
                        study, name, lambda c, d=domain, k=kind: (c.setting.domain, c.setting.kind) == (d, k)
                    )
                    each = [shared.final.mean() - alone.final.mean() for shared, alone in chosen]
                    where = x + (place - (len(study.sharing) - 1) / 2) * 0.8 / len(study.sharing)
                    axes.plot([where] * len(each), each, ".", color=colour, markersize=5, alpha=0.5)
                    if each:
                        axes.plot(where, np.mean(each), "_", color=colour, markersize=9, markeredgewidth=2, label=once)
                        once = None
            axes.axhline(0, color=figures.INK, linewidth=0.7)
            axes.set_xlim(-0.5, len(KINDS) - 0.5)
            axes.set_xticks(range(len(KINDS)), [kind.replace("-", "-\n") for kind in KINDS])
            axes.set_title(domain)
        panels[0].set_ylabel("gain from sharing, points")
        panels[-1].legend(loc="upper right", fontsize="small")
    figures.write(figure, HERE / "gains")


def main(roots: list[Path]) -> None:
    study = report.study([*roots, HERE / "scores.csv"])
    report.write(study, HERE / "report.html", csv=HERE / "scores.csv")
    draw_gains(study)
    gains(study)
    gains_over_settings(study)
    rivals(study)
    levels(study)
    methods(study)
    better_sources(study)
    aggregates(study)
    statements(study)
    settings(study)
    for line in (*study.warnings, *study.missing):
        print(f"- {line}", file=sys.stderr)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
