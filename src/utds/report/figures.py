"""The figures, each a function from findings to a compact inline SVG. The page's style sheet gives the colours."""

import html
import math
from collections.abc import Iterable, Sequence

import numpy as np
from markupsafe import Markup

from utds.benchmark.aggregate import Interval
from utds.data.columns import spaced
from utds.report.findings import Ablation, Aggregates, Row
from utds.report.load import OWN, Array, Series
from utds.report.table import RECORDED, Outcome, Setting, Study

Tick = tuple[float, str]  # where, and what stands beside it

POINTS = 60  # of a curve: more can't be told apart at this size
STYLES = 9  # classes a0 … a8 of the style sheet: a colour, a dash, a hatching and a marker each
_MARKERS = (  # within ±4 units
    "M0-4A4 4 0 1 1 0 4A4 4 0 1 1 0-4Z",
    "M-3.5-3.5H3.5V3.5H-3.5Z",
    "M0-4.5L4.3 3.5H-4.3Z",
    "M0-5L4 0 0 5-4 0Z",
    "M-4-4L4 4M4-4L-4 4",
    "M0-5V5M-5 0H5",
    "M0 4.5L-4.3-3.5H4.3Z",
    "M-4-2.5H4V2.5H-4Z",
    "M-2.5-4H2.5V4H-2.5Z",
)


class Plot:
    """A chart of `width` × `height` units; data runs over the intervals `x` and `y` inside the margins."""

    def __init__(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        width: float = 300,
        height: float = 192,
        margins: tuple[float, float, float, float] = (8, 14, 34, 46),  # top, right, bottom, left
    ) -> None:
        self.x, self.y, self.width, self.height = _wide(x), _wide(y), width, height
        self.top, self.right, self.bottom, self.left = margins
        self.parts: list[str] = []

    def px(self, value: float) -> float:
        share = (value - self.x[0]) / (self.x[1] - self.x[0])
        return self.left + share * (self.width - self.left - self.right)

    def py(self, value: float) -> float:
        share = (value - self.y[0]) / (self.y[1] - self.y[0])
        return self.height - self.bottom - share * (self.height - self.top - self.bottom)

    def axes(self, xticks: Sequence[Tick] = (), yticks: Sequence[Tick] = ()) -> None:
        """Grid lines and their labels; a label breaks into lines at newlines."""
        foot, end = self.height - self.bottom, self.width - self.right
        lines = [f"M{_n(self.left)} {_n(self.py(at))}H{_n(end)}" for at, _ in yticks]
        lines += [f"M{_n(self.px(at))} {_n(self.top)}V{_n(foot)}" for at, _ in xticks]
        self.parts.append(f'<path class="grid" d="{"".join(lines)}"/>')
        for at, label in yticks:
            self.text(self.left - 4, self.py(at) + 3.5, label, "tick end")
        for at, label in xticks:
            for row, words in enumerate(label.split("\n")):
                self.text(self.px(at), foot + 13 + 12 * row, words, "tick mid")

    def labels(self, x: str = "", y: str = "") -> None:
        """What the axes show."""
        if x:
            self.text((self.left + self.width - self.right) / 2, self.height - 4, x, "axis mid")
        if y:
            at = f"translate(11 {_n((self.top + self.height - self.bottom) / 2)}) rotate(-90)"
            self.parts.append(f'<text class="axis mid" transform="{at}">{html.escape(y)}</text>')

    def text(self, px: float, py: float, words: str, css: str) -> None:
        self.parts.append(f'<text class="{css}" x="{_n(px)}" y="{_n(py)}">{html.escape(words)}</text>')

    def line(self, xs: Iterable[float], ys: Iterable[float], css: str) -> None:
        self.parts.append(f'<path class="line {css}" d="{self._path(xs, ys)}"/>')

    def band(self, xs: Iterable[float], low: Iterable[float], high: Iterable[float], css: str) -> None:
        there, back = list(xs), list(low)
        outline = self._path([*there, *there[::-1]], [*high, *back[::-1]])
        self.parts.append(f'<path class="band {css}" d="{outline}Z"/>')

    def rect(self, left: float, right: float, low: float, high: float, css: str, fill: str = "") -> None:
        """A box in data units; `fill` overrides the style sheet, such as by a pattern."""
        x, y = self.px(left), self.py(high)
        size = f'width="{_n(self.px(right) - x)}" height="{_n(self.py(low) - y)}"'
        paint = f' fill="{fill}"' if fill else ""
        self.parts.append(f'<rect class="{css}" x="{_n(x)}" y="{_n(y)}" {size}{paint}/>')

    def mark(self, x: float, y: float, style: int, css: str = "") -> None:
        self.parts.append(marker(self.px(x), self.py(y), style, css))

    def dots(self, points: Iterable[tuple[float, float]], css: str = "dot") -> None:
        drawn = "".join(f"M{_n(self.px(x))} {_n(self.py(y))}h0" for x, y in points)
        self.parts.append(f'<path class="{css}" d="{drawn}"/>')

    def open(self, tip: str, **data: str) -> None:
        """Begin a group with a tooltip, and data-… attributes that filters read."""
        attributes = "".join(f' data-{name}="{html.escape(value)}"' for name, value in data.items())
        self.parts.append(f"<g{attributes}><title>{html.escape(tip)}</title>")

    def close(self) -> None:
        self.parts.append("</g>")

    def render(self, label: str) -> Markup:
        box = f'viewBox="0 0 {_n(self.width)} {_n(self.height)}"'
        head = f'<svg {box} role="img" aria-label="{html.escape(label)}">'
        return Markup(head + "".join(self.parts) + "</svg>")

    def _path(self, xs: Iterable[float], ys: Iterable[float]) -> str:
        points = [(_n(self.px(x)), _n(self.py(y))) for x, y in zip(xs, ys, strict=True)]
        return "M" + "L".join(f"{x} {y}" for x, y in points)


def marker(px: float, py: float, style: int, css: str = "") -> str:
    shape = _MARKERS[style % STYLES]
    return f'<path class="mark a{style % STYLES} {css}" transform="translate({_n(px)} {_n(py)})" d="{shape}"/>'


def swatch(style: int) -> Markup:
    """What a legend shows: hatched bar, dashed line and marker of a style."""
    css = f"a{style % STYLES}"
    box = 'y="2" width="12" height="12"'
    bar = f'<rect class="bar {css}" {box}/><rect {box} fill="url(#h{css})"/>'
    line = f'<path class="line {css}" d="M16 8H40"/>{marker(28, 8, style)}'
    return Markup(f'<svg class="swatch" viewBox="0 0 40 16" aria-hidden="true">{bar}{line}</svg>')


def ticks(low: float, high: float, about: int = 4) -> list[Tick]:
    """Round numbers between low and high."""
    raw = max(high - low, 1e-12) / about
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * m for m in (1, 2, 2.5, 5, 10) if size * m >= raw)
    first = math.ceil(low / step - 1e-9)
    return [(k * step, short(k * step)) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def short(value: float) -> str:
    """A number for an axis: 0.25, 40, 15k, 1M."""
    for size, suffix in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}".replace("-", "−")


def _wide(interval: tuple[float, float]) -> tuple[float, float]:
    low, high = map(float, interval)
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _n(value: float) -> str:
    """A coordinate to a tenth of a unit, without a needless zero."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


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
                _bar(plot, i + 0.1 + j * width, width, outcome, single, style(study, label))
        for row, words in enumerate(names[i][1].split("\n")):
            plot.text(plot.px(i + 0.5), plot.height - 22 + 12 * row, words, "tick mid")
    plot.line([0, len(sources)], [max(0, y[0])] * 2, "base")
    for name, value in zip(RECORDED, study.recorded(main) or (), strict=False):
        plot.open(f"{name}: {value:.1f}")
        plot.line([0, len(sources)], [value] * 2, "recorded" + " best" * (name != RECORDED[0]))
        plot.close()
    return plot.render(f"{main}: final {study.measure} by shared source and algorithm")


def _bar(plot: Plot, left: float, width: float, outcome: Outcome, single: Outcome | None, number: int) -> None:
    base, css = max(0.0, plot.y[0]), f"a{number}"
    value = float(outcome.final.mean())
    against = f"; nothing shared: {single.final.mean():.1f}" if single else ""
    tip = f"{outcome.algorithm} + {outcome.setting.source}: {value:.1f} (seeds {_list(outcome.final)}){against}"
    plot.open(tip, algorithm=outcome.algorithm, source=outcome.setting.source)
    if single:
        height = float(single.final.mean())
        plot.rect(left, left + width, min(base, height), max(base, height), f"alone {css}")
    inner = left + 0.2 * width, left + 0.8 * width
    plot.rect(*inner, min(base, value), max(base, value), f"bar {css}")
    plot.rect(*inner, min(base, value), max(base, value), "", fill=f"url(#h{css})")
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
        plot.open(f"{outcome.algorithm}, nothing shared: {outcome.final.mean():.1f}", algorithm=outcome.algorithm)
        keep = spaced(outcome.steps.size, POINTS)
        plot.line(outcome.steps[keep], outcome.curves.mean(axis=0)[keep], f"thin a{style(study, outcome.algorithm)}")
        plot.close()
    for outcome in mine:
        number, keep = style(study, outcome.algorithm), spaced(outcome.steps.size, POINTS)
        runs = outcome.curves[:, keep]
        plot.open(f"{outcome.algorithm}: {outcome.final.mean():.1f}", algorithm=outcome.algorithm)
        if len(runs) > 1:
            plot.band(outcome.steps[keep], runs.min(axis=0), runs.max(axis=0), f"a{number}")
        plot.line(outcome.steps[keep], runs.mean(axis=0), f"a{number}")
        plot.mark(outcome.steps[-1], float(outcome.final.mean()), number)
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
        number, keep = list(sources).index(source) % STYLES, spaced(series.steps.size, POINTS)
        plot.open(f"{source}: {name} {series.values[-1]:.3g}", source=source)
        plot.line(series.steps[keep], series.values[keep], f"{css} a{number}")
        if not css:
            plot.mark(series.steps[-1], float(series.values[-1]), number)
        plot.close()
    return plot.render(f"{main}: uncertainty of {algorithm} against gradient steps")


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
        plot.open(f"{_name(row)}: {_interval(interval)}", algorithm=row.algorithm)
        plot.text(104, plot.py(i + 0.5) + 4, _name(row), "tick end strong")
        number = style(study, row.algorithm)
        if np.isfinite(interval.low):
            plot.rect(interval.low, interval.high, i + 0.28, i + 0.72, f"range a{number}" + " hollow" * row.alone)
        plot.mark(interval.value, i + 0.5, number, "hollow" * row.alone)
        plot.close()
    return plot.render(f"{name} by algorithm, with 95 % intervals")


def profile(study: Study, found: Aggregates, which: str) -> Markup:
    """The share of runs (`profile`) or of settings (`mean_profile`) that reach a score, with 95 % bands."""
    taus = found.taus
    plot = Plot((taus[0], taus[-1]), (0, 1), height=222)
    plot.labels(f"{study.measure} τ", "share at τ or above")
    plot.axes(ticks(taus[0], taus[-1], 5), [(v, f"{v:.0%}") for v in (0, 0.25, 0.5, 0.75, 1)])
    for row in found.rows:
        interval, number = getattr(row, which), style(study, row.algorithm)
        plot.open(_name(row), algorithm=row.algorithm)
        if np.isfinite(interval.low).all() and not row.alone:
            plot.band(taus, interval.low, interval.high, f"a{number}")
        plot.line(taus, interval.value, f"a{number}" + " thin" * row.alone)
        if not row.alone:  # where a third of the way down: markers at the ends would lie on one another
            at = int(np.argmin(np.abs(interval.value - 0.65 + 0.1 * number)))
            plot.mark(taus[at], float(interval.value[at]), number)
        plot.close()
    return plot.render(f"share of {'runs' if which == 'profile' else 'settings'} above a {study.measure}")


def ablation(study: Study, found: Ablation) -> Markup:
    """The final score against a field's values, a line per setting, a dot per seed."""
    outcomes = [outcome for line in found.lines.values() for outcome in line if outcome]
    y = _range(study, [outcome.final for outcome in outcomes])
    plot = Plot((-0.4, len(found.values) - 0.6), y, width=340, height=232)
    plot.labels(found.field, f"final {study.measure}")
    plot.axes([(i, f"{value:g}") for i, value in enumerate(found.values)], ticks(*y))
    for number, (setting, line) in enumerate(found.lines.items()):
        points = [(i, outcome) for i, outcome in enumerate(line) if outcome]
        means = [float(outcome.final.mean()) for _, outcome in points]
        data = {"domain": setting.domain, "task": setting.task, "kind": setting.kind, "source": setting.source}
        plot.open(f"{setting}: {_list(np.array(means))}", **data)
        plot.line([i for i, _ in points], means, f"a{number % STYLES}")
        plot.dots(((i, run) for i, outcome in points for run in outcome.final), f"dot a{number % STYLES}")
        for (i, _), mean in zip(points, means, strict=True):
            plot.mark(i, mean, number)
        plot.close()
    return plot.render(f"final {study.measure} against {found.field}")


def style(study: Study, algorithm: str) -> int:
    return study.algorithms.index(algorithm) % STYLES if algorithm in study.algorithms else STYLES - 1


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
    return f"{row.algorithm}, own data" if row.alone else row.algorithm


def _list(values: Array) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


def _interval(interval: Interval) -> str:
    return f"{short(interval.value)} [{interval.low:z.1f}, {interval.high:z.1f}]"
