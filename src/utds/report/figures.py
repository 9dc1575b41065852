"""The figures, each a function from findings to a compact inline SVG."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from utds import algorithms
from utds.data.columns import spaced
from utds.report import text
from utds.report.findings import Ablation, Aggregates, Row
from utds.report.load import OWN, Array, Series, shown
from utds.report.plot import STYLES, Look, Plot, numbered, ticks
from utds.report.table import RECORDED, Outcome, Setting, Study

POINTS = 60  # of a curve: more can't be told apart at this size


def bars(study: Study, main: Setting) -> Markup:
    """Final scores by source, a bar an algorithm, in front of a shaded bar: the score with nothing shared."""
    sources = [s for s in study.settings if s.main == main and s.source != OWN]
    labels = [label for label in study.sharing if any((s, label) in study.outcomes for s in sources)]
    outcomes = [study.outcomes[s, a] for s in sources for a in labels if (s, a) in study.outcomes]
    alone = [study.single(main, label) for label in labels]
    recorded = [np.array(study.recorded(main) or [], np.float64)]
    y = _range(study, [outcome.final for outcome in (*outcomes, *alone) if outcome] + recorded)
    plot = Plot((0, len(sources)), y, width=max(300, 60 + 18 * len(labels) * len(sources)), margins=(8, 6, 36, 46))
    plot.labels(y=f"final {study.measure}")
    names = [(i + 0.5, _lines(s.source)) for i, s in enumerate(sources)]
    plot.axes(yticks=ticks(*y))
    width = 0.8 / len(labels)
    for i, setting in enumerate(sources):
        for j, (label, single) in enumerate(zip(labels, alone, strict=True)):
            if outcome := study.outcomes.get((setting, label)):
                _bar(plot, i + 0.1 + j * width, width, outcome, single, look_of(study, label))
        for row, words in enumerate(names[i][1].split("\n")):
            plot.text(plot.px(i + 0.5), plot.height - 22 + 12 * row, words, "tick mid")
    plot.line([0, len(sources)], [max(0, y[0])] * 2, "base")
    for name, value in zip(RECORDED, study.recorded(main) or (), strict=False):
        plot.open(f"{name}: {value:.1f}")
        plot.line([0, len(sources)], [value] * 2, "recorded" + " best" * (name != RECORDED[0]))
        plot.close()
    return plot.render(f"{main}: final {study.measure} by shared source and algorithm")


def _bar(plot: Plot, left: float, width: float, outcome: Outcome, single: Outcome | None, look: Look) -> None:
    base = max(0.0, plot.y[0])
    value = float(outcome.final.mean())
    against = f"; nothing shared: {single.final.mean():.1f}" if single else ""
    tip = f"{shown(outcome.algorithm)} + {outcome.setting.source}: {value:.1f} (seeds {_list(outcome.final)}){against}"
    plot.open(tip, algorithm=outcome.algorithm, source=outcome.setting.source)
    if single:
        height = float(single.final.mean())
        plot.rect(left, left + width, min(base, height), max(base, height), f"alone {look.css}")
    inner = left + 0.2 * width, left + 0.8 * width
    plot.rect(*inner, min(base, value), max(base, value), f"bar {look.css}")
    plot.rect(*inner, min(base, value), max(base, value), "", fill=f"url(#ha{look.style})")
    plot.dots((left + width / 2, run) for run in outcome.final)
    plot.close()


def curves(study: Study, setting: Setting) -> Markup:
    """Scores along training: the mean over seeds within the lowest and highest; thin lines: trained without sharing."""
    mine = [study.outcomes[setting, label] for label in study.algorithms if (setting, label) in study.outcomes]
    alone = {c.algorithm: c for outcome in mine if (c := study.single(setting, outcome.algorithm)) and c is not outcome}
    y = _range(study, [outcome.curves.ravel() for outcome in (*mine, *alone.values())])
    last = max(float(outcome.steps[-1]) for outcome in mine)
    plot = Plot((0, last), y)
    plot.axes(ticks(0, last, 3), ticks(*y))
    plot.labels("gradient steps", study.measure)
    for outcome in alone.values():
        look, keep = look_of(study, outcome.algorithm), spaced(outcome.steps.size, POINTS)
        tip = f"{shown(outcome.algorithm)}, nothing shared: {outcome.final.mean():.1f}"
        plot.open(tip, algorithm=outcome.algorithm)
        plot.line(outcome.steps[keep], outcome.curves.mean(axis=0)[keep], f"thin {look.css}")
        plot.close()
    for outcome in mine:
        look, keep = look_of(study, outcome.algorithm), spaced(outcome.steps.size, POINTS)
        runs = outcome.curves[:, keep]
        plot.open(f"{shown(outcome.algorithm)}: {outcome.final.mean():.1f}", algorithm=outcome.algorithm)
        if len(runs) > 1:
            plot.band(outcome.steps[keep], runs.min(axis=0), runs.max(axis=0), look.css)
        plot.line(outcome.steps[keep], runs.mean(axis=0), look.css)
        plot.mark(outcome.steps[-1], float(outcome.final.mean()), look)
        plot.close()
    return plot.render(f"{setting}: {study.measure} against gradient steps")


def uncertainty(study: Study, main: Setting, algorithm: str, sources: Sequence[str]) -> Markup | None:
    """Γ of training batches, a line per source: own data, dotted shared data where logged apart."""
    lines: list[tuple[str, str, str, Series]] = []
    for source in sources:
        setting = main._replace(source=source)
        outcome = study.outcomes.get((setting, algorithm)) if source != OWN else study.single(main, algorithm)
        for name, css in (("uncertainty_own", ""), ("uncertainty_shared", "shared"), ("uncertainty", "")):
            found = [s.uncertainty[name] for s in outcome.seeds.values() if name in s.uncertainty] if outcome else []
            if found and not (name == "uncertainty" and lines and lines[-1][0] == source):
                lines.append((source, name, css, _mean(found)))
    if not lines:
        return None
    top = max(float(series.values.max()) for *_, series in lines)
    last = max(float(series.steps[-1]) for *_, series in lines)
    plot = Plot((0, last), (0, top))
    plot.axes(ticks(0, last, 3), ticks(0, top))
    plot.labels("gradient steps", "uncertainty Γ")
    for source, name, css, series in lines:
        look, keep = numbered(list(sources).index(source)), spaced(series.steps.size, POINTS)
        plot.open(f"{source}: {name} {series.values[-1]:.3g}", source=source)
        plot.line(series.steps[keep], series.values[keep], f"{css} {look.css}")
        if not css:
            plot.mark(series.steps[-1], float(series.values[-1]), look)
        plot.close()
    return plot.render(f"{main}: uncertainty of {shown(algorithm)} against gradient steps")


def statistic(study: Study, found: Aggregates, name: str) -> Markup:
    """One aggregate of every algorithm with its interval."""
    values = [row.statistics[name] for row in found.rows]
    ends = [end for interval in values for end in interval if np.isfinite(end)]
    margin = 0.06 * (max(ends) - min(ends) or 1)
    x = min(ends) - margin, max(ends) + margin
    plot = Plot(x, (0, len(values)), height=42 + 20 * len(values), margins=(6, 10, 32, 112))
    plot.axes(ticks(*x))
    plot.labels(f"{name}, {study.measure}")
    for i, (row, interval) in enumerate(zip(found.rows[::-1], values[::-1], strict=True)):
        plot.open(f"{_name(row)}: {text.interval(interval)}", algorithm=row.algorithm)
        plot.text(104, plot.py(i + 0.5) + 4, _name(row), "tick end strong")
        look = look_of(study, row.algorithm)
        if np.isfinite(interval.low):
            plot.rect(interval.low, interval.high, i + 0.28, i + 0.72, f"range {look.css}" + " hollow" * row.alone)
        plot.mark(interval.value, i + 0.5, look, "hollow" * row.alone)
        plot.close()
    return plot.render(f"{name} by algorithm, with 95 % intervals")


def profile(study: Study, found: Aggregates, which: str) -> Markup:
    """The share of runs (`profile`) or of settings (`mean_profile`) above each score, with 95 % bands."""
    taus = found.taus
    plot = Plot((taus[0], taus[-1]), (0, 1), height=222)
    plot.labels(f"{study.measure} τ", "share above τ")
    plot.axes(ticks(taus[0], taus[-1], 5), [(v, f"{v:.0%}") for v in (0, 0.25, 0.5, 0.75, 1)])
    for row in found.rows:
        interval, look = getattr(row, which), look_of(study, row.algorithm)
        plot.open(_name(row), algorithm=row.algorithm)
        if np.isfinite(interval.low).all() and not row.alone:
            plot.band(taus, interval.low, interval.high, look.css)
        plot.line(taus, interval.value, look.css + " thin" * row.alone)
        if not row.alone:  # where a third of the way down: markers at the ends would lie on one another
            at = int(np.argmin(np.abs(interval.value - 0.65 + 0.1 * look.style)))
            plot.mark(taus[at], float(interval.value[at]), look)
        plot.close()
    return plot.render(f"share of {'runs' if which == 'profile' else 'settings'} above a {study.measure}")


def ablation(study: Study, found: Ablation) -> Markup:
    """The final score against a field's values, a line per setting, a dot per seed."""
    outcomes = [outcome for line in found.lines.values() for outcome in line if outcome]
    y = _range(study, [outcome.final for outcome in outcomes])
    plot = Plot((-0.4, len(found.values) - 0.6), y, width=340, height=232)
    plot.labels(found.field, f"final {study.measure}")
    plot.axes([(i, f"{value:g}") for i, value in enumerate(found.values)], ticks(*y))
    for number, ((setting, label), line) in enumerate(found.lines.items()):
        points = [(i, outcome) for i, outcome in enumerate(line) if outcome]
        means = [float(outcome.final.mean()) for _, outcome in points]
        data = {"domain": setting.domain, "task": setting.task, "kind": setting.kind, "source": setting.source}
        plot.open(f"{setting}, {shown(label)}: {_list(np.array(means))}", **data)
        look = numbered(number)
        plot.line([i for i, _ in points], means, look.css)
        plot.dots(((i, run) for i, outcome in points for run in outcome.final), f"dot {look.css}")
        for (i, _), mean in zip(points, means, strict=True):
            plot.mark(i, mean, look)
        plot.close()
    return plot.render(f"final {study.measure} against {found.field}")


def look_of(study: Study, label: str) -> Look:
    """The style of a label's place among the algorithms, in the colour that its algorithm is registered with."""
    known, name = list(algorithms.entries()), label.partition(" · ")[0]
    style = study.algorithms.index(label) % STYLES if label in study.algorithms else STYLES - 1
    return Look(style, f"k{known.index(name)}" if name in known else "")


def _range(study: Study, runs: Sequence[Array]) -> tuple[float, float]:
    """0 to 100 and whatever lies beyond for scores, so that panels compare; for returns from 0 to the highest, or 1."""
    values = np.concatenate(runs)
    top = 100.0 if study.measure == "score" else 1.0
    return min(0.0, float(values.min())), max(top, float(values.max()))


def _mean(series: Sequence[Series]) -> Series:
    """The mean over seeds at the steps that all of them have."""
    steps = np.array(sorted(set.intersection(*(set(s.steps) for s in series))))
    return Series(steps, np.mean([s.values[np.isin(s.steps, steps)] for s in series], axis=0))


def _lines(source: str) -> str:
    """A source's name on one line or two."""
    words = source.replace("-", "- ").split(" ")
    cut = max(1, len(words) - 1) if len(source) > 9 else len(words)
    return "\n".join(" ".join(part).replace("- ", "-") for part in (words[:cut], words[cut:]) if part)


def _name(row: Row) -> str:
    return shown(row.algorithm) + ", own data" * row.alone


def _list(values: Array) -> str:
    return ", ".join(f"{value:.1f}" for value in values)
