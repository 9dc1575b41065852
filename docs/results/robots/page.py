"""The tables and the figure of ../robots.md from finished matrices: python docs/results/robots/page.py runs/robots*

Adds the runs to scores.csv beside this file, which has those of before, writes report.html and gains.svg from all of
them, and puts the tables into the page, each between its two comments.
"""

import csv
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from utds import algorithms, figures, files, report
from utds.report import aggregate, findings, text
from utds.report.aggregate import Scores
from utds.report.load import OWN
from utds.report.table import ALL, Outcome, Setting, Study

HERE = Path(__file__).parent
PAGE = HERE.parent / "robots.md"
KINDS = ("random", "medium-replay", "medium", "expert")
NOT_EXPERT, EXPERT = KINDS[:3], KINDS[3:]
RESAMPLES = 10_000

Pair = tuple[Outcome, Outcome]  # of one task and own data: with sharing and without, or of two methods
Rows = Iterator[tuple[object, ...]]  # of a table; the first is its head


def pairs(study: Study, algorithm: str, kept: Callable[[Setting], bool] = lambda _: True) -> list[Pair]:
    """Settings of one source that ran both ways."""
    found = findings.paired(study, algorithm, findings.EVERYTHING)
    return [(shared, alone) for shared, alone in found if shared.setting.pairs and kept(shared.setting)]


def change(pair: Pair) -> float:
    """What the first of a pair has above the second: the difference of mean last scores."""
    return float(pair[0].final.mean() - pair[1].final.mean())


def over_seeds(found: list[Pair]) -> str:
    """The mean difference with its interval over repeats: how much other seeds of the learner would change it."""
    shared, alone = (Scores.of([pair[side].final for pair in found]) for side in (0, 1))
    return text.interval(aggregate.bootstrap(aggregate.gain, shared, alone), plus=True)


def over_settings(values: list[float]) -> str:
    """A mean, and 95 % of what it is when settings are drawn with replacement: what to expect of other such settings.

    It needs no second seed, and says nothing of how much one would change.
    """
    if len(values) < 3:
        return text.signed(float(np.mean(values)), 1) if values else "–"
    drawn = np.random.default_rng(0).choice(values, (RESAMPLES, len(values))).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return f"{text.signed(float(np.mean(values)), 1)} [{text.signed(low, 1)}, {text.signed(high, 1)}]"


def rises(values: Sequence[float]) -> str:
    """In how many settings of how many sharing, or another choice, was for the better."""
    return f"{sum(value > 0 for value in values)} of {len(values)}"


def label(name: str) -> str:
    known = algorithms.entries().get(name)
    return known.label if known else name


def whole(study: Study) -> list[str]:
    """Algorithms that ran on every setting, both ways."""
    most = max(len(pairs(study, name)) for name in study.sharing)
    return [name for name in study.sharing if len(pairs(study, name)) == most]


def iqm(outcomes: list[Outcome]) -> str:
    return f"{float(aggregate.iqm(Scores.of([outcome.final for outcome in outcomes]))):.1f}"


def seeds(found: list[Pair]) -> str:
    counts = sorted({len(outcome.seeds) for pair in found for outcome in pair})
    return " to ".join(map(str, counts[:: max(1, len(counts) - 1)]))


def methods(study: Study) -> Rows:
    """Every method that ran everywhere: its level, and what sharing adds."""
    levels = ("own data alone, IQM", "with sharing, IQM")
    yield "method", "seeds", *levels, "gain, own data not expert", "gain, own data expert"
    for name in whole(study):
        found = pairs(study, name)
        gains = []
        for kinds in (NOT_EXPERT, EXPERT):
            each = [change(pair) for pair in found if pair[0].setting.kind in kinds]
            gains.append(f"{over_settings(each)}, {rises(each)} rise")
        yield label(name), seeds(found), *(iqm([pair[side] for pair in found]) for side in (1, 0)), *gains
    recorded = [found for s in study.settings if s.source == OWN and (found := study.recorded(s))]
    for place, words in enumerate(("recorded data", "best tenth of its episodes")):
        yield words, "–", f"{float(aggregate.iqm(Scores.of([[pair[place]] for pair in recorded]))):.1f}", "–", "–", "–"


def robots(study: Study) -> Rows:
    """The level with sharing, by robot."""
    yield "with sharing, IQM", *study.domains, "all"
    for name in whole(study):
        found = pairs(study, name)
        each = ([p[0] for p in found if p[0].setting.domain == domain] for domain in study.domains)
        yield label(name), *map(iqm, each), iqm([pair[0] for pair in found])


def kinds(study: Study) -> Rows:
    """UTDS without and with sharing, by robot and kind of own data."""
    yield "own data", *KINDS, "all"
    for domain in study.domains:
        found = pairs(study, "utds", lambda setting, d=domain: setting.domain == d)
        parts = [[pair for pair in found if pair[0].setting.kind == kind] for kind in KINDS]
        yield domain, *(_levels(part) for part in (*parts, found))
    found = pairs(study, "utds")
    parts = [[pair for pair in found if pair[0].setting.kind == kind] for kind in KINDS]
    yield "gain, points", *(text.signed(float(np.mean([*map(change, part)])), 1) for part in (*parts, found))


def _levels(found: list[Pair]) -> str:
    shared, alone = (np.mean([pair[side].final.mean() for pair in found]) for side in (0, 1))
    return f"{alone:z.0f} → {shared:z.0f}"


def by_kind(study: Study) -> Rows:
    """Every method without and with sharing, by kind of own data; in brackets how many settings, where not all ran."""
    tasks = len({setting.task for setting in study.settings})
    yield "own data alone → with sharing", *KINDS
    for name in study.sharing:
        parts = (pairs(study, name, lambda setting, k=kind: setting.kind == k) for kind in KINDS)
        yield label(name), *(_levels(p) + (f" ({len(p)})" if len(p) < tasks else "") if p else "–" for p in parts)


def slow(study: Study) -> Rows:
    """UTDS beside the rivals that take longest to train, on the settings that CQL ran on; in brackets how many."""
    ran = {pair[0].setting for pair in pairs(study, "cql")}
    yield "own data alone → with sharing", *study.domains, "all"
    for name in ("utds", "cql", "cds"):
        found = [pair for pair in pairs(study, name) if pair[0].setting in ran]
        parts = [[pair for pair in found if pair[0].setting.domain == domain] for domain in study.domains]
        yield label(name), *(f"{_levels(part)} ({len(part)})" if part else "–" for part in (*parts, found))


def gains(study: Study) -> Rows:
    """What sharing adds, by robot, with and without expert data."""
    yield "method", "own data", *study.domains, "all", "settings that gain"
    for name in study.sharing:
        for words, chosen in (("not expert", NOT_EXPERT), ("expert", EXPERT)):
            found = pairs(study, name, lambda setting, k=chosen: setting.kind in k)
            if found:
                each = [(pair[0].setting.domain, change(pair)) for pair in found]
                columns = ([gain for domain, gain in each if domain == scope] for scope in study.domains)
                every = [gain for _, gain in each]
                yield label(name), words, *map(over_settings, columns), over_settings(every), rises(every)


def repeats(study: Study) -> Rows:
    """Every method that ran everywhere with two seeds or more: seed by seed, and all with intervals over seeds."""
    head = ("own data alone, IQM", "with sharing, IQM", "gain, not expert", "gain, expert")
    yield "method", "seed", *head, "settings that gain, not expert"
    for name in whole(study):
        found = pairs(study, name)
        numbers = sorted(set.intersection(*(set(outcome.seeds) for pair in found for outcome in pair)))
        if len(numbers) < 2:
            continue
        expert = np.array([pair[0].setting.kind == "expert" for pair in found])
        for number in numbers:
            scores = np.array([[each.final[list(each.seeds).index(number)] for each in pair] for pair in found])
            levels = (f"{float(aggregate.iqm(Scores.of(scores[:, [side]]))):.1f}" for side in (1, 0))
            each = scores[:, 0] - scores[:, 1]
            means = (text.signed(float(part.mean()), 1) for part in (each[~expert], each[expert]))
            yield label(name), number, *levels, *means, rises(each[~expert])
        plain, rest = ([pair for pair, is_one in zip(found, expert, strict=True) if is_one == k] for k in (False, True))
        levels = (iqm([pair[side] for pair in found]) for side in (1, 0))
        yield label(name), "all", *levels, over_seeds(plain), over_seeds(rest), rises([*map(change, plain)])


def repeats_by_robot(study: Study) -> Rows:
    """UTDS's gain by robot, own data not expert, with both kinds of intervals."""
    yield "gain, own data not expert", *study.domains, "all"
    found = pairs(study, "utds", lambda setting: setting.kind in NOT_EXPERT)
    parts = [[pair for pair in found if pair[0].setting.domain == domain] for domain in study.domains]
    yield "interval over settings", *(over_settings([*map(change, part)]) for part in (*parts, found))
    yield "interval over seeds", *map(over_seeds, (*parts, found))


def rivals(study: Study) -> Rows:
    """UTDS less every rival, both with sharing and both without, on the settings that both ran."""
    yield "UTDS less", "data", *study.domains, "all", "all, interval over seeds", "UTDS is above in"
    for name in study.algorithms:
        for words, wanted in (("own and shared", False), ("own", True)):
            found: list[Pair] = [
                (study.outcomes[s, "utds"], study.outcomes[s, name])
                for s in study.settings
                if name != "utds" and (s.source == OWN) == wanted and {(s, "utds"), (s, name)} <= set(study.outcomes)
            ]
            if found:
                each = [(pair[0].setting.domain, change(pair)) for pair in found]
                columns = ([value for domain, value in each if domain == scope] for scope in study.domains)
                every = [value for _, value in each]
                repeated = all(len(outcome.seeds) > 1 for pair in found for outcome in pair)
                seeded = over_seeds(found) if repeated else "one seed"
                yield label(name), words, *map(over_settings, columns), over_settings(every), seeded, rises(every)


def better_sources(study: Study) -> Rows:
    """What sharing adds, by whether the shared episodes beat the own data's: best tenth against best tenth."""
    with open(HERE / "regret.csv", newline="", encoding="utf-8") as file:
        told = [line for line in csv.DictReader(file) if line["place"]]
    shared_best = {tuple(line[name].split("/")[0] for name in ("main", "shared")): line["best tenth"] for line in told}
    yield "method", "the better episodes are", "gain from sharing, points", "settings that gain"
    for name in study.sharing:
        found: dict[bool, list[float]] = {True: [], False: []}
        for pair in pairs(study, name):
            setting = pair[0].setting
            best = shared_best[setting.task, f"{setting.domain}-{setting.source}"]
            recorded = next(result.recorded for result in pair[1].results if result.recorded)
            found[float(best) > recorded[1]].append(change(pair))
        for words, better in (("shared", True), ("own", False)):
            yield label(name), words, over_settings(found[better]), rises(found[better])


def everything(study: Study) -> Rows:
    """`medium-replay` data alone, with the source of the matrix, and with all three at once (sources.csv)."""
    yield "own data alone → one source → all three", *study.domains, "all"
    pooled = report.study([HERE / "sources.csv"])
    for name in study.sharing:
        found = {s.task: o for (s, label), o in pooled.outcomes.items() if label == name and s.source == ALL}
        own = pairs(study, name, lambda setting: setting.kind == "medium-replay")
        every = [(*pair, found[task]) for pair in own if (task := pair[0].setting.task) in found]
        parts = [[each for each in every if each[0].setting.domain == domain] for domain in study.domains]
        if every:
            yield (
                label(name),
                *(
                    f"{_levels([each[:2] for each in part])} → {np.mean([each[2].final.mean() for each in part]):z.0f}"
                    for part in (*parts, every)
                ),
            )


def aggregates(study: Study) -> Rows:
    """Every method over the settings that all of them ran, everywhere and by robot."""
    wanted = ("mean", "median", "IQM", "gap to 50", "gap to 100")
    yield "robot", "method", "data", *wanted
    for scope in findings.scopes(study):
        found = findings.aggregates(study, "final", scope)
        for row in found.rows if found else ():
            data = "own" if row.alone else "own and shared"
            yield scope, label(row.algorithm), data, *(text.interval(row.statistics[name]) for name in wanted)


def statements(study: Study) -> Rows:
    """The paper's signs against these."""
    yield "the paper says", "here"
    mains = [s for s in study.settings if s.source == OWN and {(s, "utds"), (s, "cql")} <= set(study.outcomes)]
    if mains:
        pbrl, cql = (np.mean([study.outcomes[s, name].final.mean() for s in mains]) for name in ("utds", "cql"))
        recorded = np.mean([found[0] for s in mains if (found := study.recorded(s))])
        values = f"PBRL {pbrl:.1f}, recorded data {recorded:.1f}, CQL {cql:.1f}, over {len(mains)} settings"
        yield "with own data alone PBRL (UTDS without sharing) is above the recorded data, and that above CQL", values
    for domain, paper in (("walker", "+56"), ("quadruped", "−1"), ("jaco", "−52")):
        each = [
            np.mean([seed.returns.values[-1] for seed in pair[0].seeds.values()])
            - np.mean([seed.returns.values[-1] for seed in pair[1].seeds.values()])
            for pair in pairs(study, "cql", lambda setting, d=domain: setting.domain == d)
        ]
        came = f"{text.signed(float(np.mean(each)), 0)}, over {len(each)} settings" if each else "–"
        yield f"sharing changes CQL's mean return on the {domain} by {paper}", came
    signs = {"gains where own data is not an expert's": NOT_EXPERT, "loses little where it is": EXPERT}
    for words, chosen in signs.items():
        values = [change(pair) for pair in pairs(study, "utds", lambda setting, k=chosen: setting.kind in k)]
        yield f"UTDS {words}", f"{over_settings(values)}, rises in {rises(values)} settings"
    for name in ("cql", "cds"):
        both = [s for s in study.settings if s.pairs and {(s, "utds"), (s, name)} <= set(study.outcomes)]
        less = [float(study.outcomes[s, "utds"].final.mean() - study.outcomes[s, name].final.mean()) for s in both]
        if less:
            came = f"{over_settings(less)}, above it in {rises(less)} settings"
            yield f"with sharing UTDS is above {'Direct Sharing (CQL)' if name == 'cql' else label(name)}", came


def settings(study: Study) -> Rows:
    """Every setting: what was recorded, and every method's mean last score."""
    names = study.algorithms
    yield "task", "own data", "shared", "recorded", "best tenth", *map(label, names)
    for setting in study.settings:
        recorded = study.recorded(setting) or (float("nan"),) * 2
        outcomes = (study.outcomes.get((setting, name)) for name in names)
        values = (str(round(float(found.final.mean()))) if found else "" for found in outcomes)  # without a -0
        shared = "–" if setting.source == OWN else setting.source
        yield setting.task, setting.kind, shared, *(f"{value:z.0f}" for value in recorded), *values


TABLES: dict[str, Callable[[Study], Rows]] = {
    "methods": methods,
    "robots": robots,
    "kinds": kinds,
    "by-kind": by_kind,
    "slow": slow,
    "gains": gains,
    "repeats": repeats,
    "repeats-by-robot": repeats_by_robot,
    "rivals": rivals,
    "better-sources": better_sources,
    "everything": everything,
    "aggregates": aggregates,
    "statements": statements,
    "settings": settings,
}


def markdown(rows: Rows) -> str:
    head, *body = rows
    lines = [head, ("---",) * len(head), *body]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def filled(page: str, study: Study) -> str:
    """The page with its tables made from these runs."""

    def table(match: re.Match[str]) -> str:
        return f"{match[1]}\n\n{markdown(TABLES[match[2]](study))}\n\n{match[3]}"

    return re.sub(r"(<!-- table: ([a-z-]+) -->)\n.*?\n(<!-- end -->)", table, page, flags=re.DOTALL)


def draw_gains(study: Study) -> None:
    """The gain of every method that ran everywhere by kind of own data, a panel per robot."""
    names = whole(study)
    with figures.panels(len(study.domains), 3.0 * len(study.domains), 2.8, sharey=True) as (figure, panels):
        for axes, domain in zip(panels, study.domains, strict=True):
            for place, name in enumerate(names):
                colour, once = algorithms.entries()[name].colour, label(name)
                for x, kind in enumerate(KINDS):
                    each = [*map(change, pairs(study, name, lambda s, d=domain, k=kind: (s.domain, s.kind) == (d, k)))]
                    where = x + (place - (len(names) - 1) / 2) * 0.8 / len(names)
                    axes.plot([where] * len(each), each, ".", color=colour, markersize=5, alpha=0.5)
                    if each:
                        axes.plot(where, np.mean(each), "_", color=colour, markersize=9, markeredgewidth=2, label=once)
                        once = None
            axes.axhline(0, color=figures.INK, linewidth=0.7)
            axes.set_xlim(-0.5, len(KINDS) - 0.5)
            axes.set_xticks(range(len(KINDS)), [kind.replace("-", "-\n") for kind in KINDS])
            axes.set_title(domain)
        panels[0].set_ylabel("gain from sharing, points")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(names))
    files.write_text(HERE / "gains.svg", figures.svg(figure))


def main(roots: list[Path]) -> None:
    study = report.study([*roots, HERE / "scores.csv"])
    report.write(study, HERE / "report.html", csv=HERE / "scores.csv")
    draw_gains(study)
    files.write_text(PAGE, filled(PAGE.read_text(encoding="utf-8"), study))
    for line in (*study.warnings, *study.missing):
        print(f"- {line}", file=sys.stderr)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
