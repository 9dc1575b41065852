"""The figures: functions from findings to a compact inline SVG, what draws them, and how lines are told apart.

Algorithms have the colours that they are registered with, everything else those of the page's style sheet.
"""

import contextlib
import html
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from utds import algorithms
from utds.data.columns import spaced
from utds.report import text
from utds.report.findings import Ablation, Aggregates
from utds.report.load import OWN, Array, Series, shown, together
from utds.report.table import RECORDED, Outcome, Setting, Study

Tick = tuple[float, str]  # where, and what stands beside it

POINTS = 60  # of a curve: more can't be told apart at this size
STYLES = 9  # classes a0 … a8 of the style sheet: a colour, a dash, a hatching and a marker each
PAPER = {"light": "#ffffff", "dark": "#0d1117"}  # behind the figures, as in the style sheet
LETTER = 5.7  # units that a letter of a label takes, on average
CONTRAST = 3.0  # of a line with the paper, at least: what WCAG asks for graphics
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


class Look(NamedTuple):
    """How one of several lines, bars or markers is told apart."""

    style: int  # of the style sheet
    colour: str = ""  # class of another colour than the style's

    @property
    def css(self) -> str:
        return f"a{self.style} {self.colour}".strip()


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
        self.top, right, bottom, self.left = margins
        self.right, self.bottom = width - right, height - bottom
        self.parts: list[str] = []

    def px(self, value: float) -> float:
        return self.left + (value - self.x[0]) / (self.x[1] - self.x[0]) * (self.right - self.left)

    def py(self, value: float) -> float:
        return self.bottom - (value - self.y[0]) / (self.y[1] - self.y[0]) * (self.bottom - self.top)

    def axes(self, xticks: Sequence[Tick] = (), yticks: Sequence[Tick] = ()) -> None:
        """Grid lines and their labels; a label breaks into lines at newlines."""
        lines = [f"M{_n(self.left)} {_n(self.py(at))}H{_n(self.right)}" for at, _ in yticks]
        lines += [f"M{_n(self.px(at))} {_n(self.top)}V{_n(self.bottom)}" for at, _ in xticks]
        self.parts.append(f'<path class="grid" d="{"".join(lines)}"/>')
        for at, label in yticks:
            self.text(self.left - 4, self.py(at) + 3.5, label, "tick end")
        for at, label in xticks:
            for row, words in enumerate(label.split("\n")):
                self.text(self.px(at), self.bottom + 13 + 12 * row, words, "tick mid")

    def labels(self, x: str = "", y: str = "") -> None:
        """What the axes show."""
        if x:
            self.text((self.left + self.right) / 2, self.height - 4, x, "axis mid")
        if y:
            at = f"translate(11 {_n((self.top + self.bottom) / 2)}) rotate(-90)"
            self.parts.append(f'<text class="axis mid" transform="{at}">{html.escape(y)}</text>')

    def text(self, px: float, py: float, words: str, css: str) -> None:
        self.parts.append(f'<text class="{css}" x="{_n(px)}" y="{_n(py)}">{html.escape(words)}</text>')

    def line(self, xs: Iterable[float], ys: Iterable[float], css: str) -> None:
        self.parts.append(f'<path class="line {css}" d="{self._path(xs, ys)}"/>')

    def band(self, xs: Array, low: Array, high: Array, css: str) -> None:
        outline = self._path([*xs, *xs[::-1]], [*high, *low[::-1]])
        self.parts.append(f'<path class="band {css}" d="{outline}Z"/>')

    def rect(self, left: float, right: float, low: float, high: float, css: str, fill: str = "") -> None:
        """A box in data units, `low` and `high` in either order; `fill` is a pattern in place of the style's colour."""
        x, y = self.px(left), self.py(max(low, high))
        size = f'width="{_n(self.px(right) - x)}" height="{_n(self.py(min(low, high)) - y)}"'
        paint = f' fill="{fill}"' if fill else ""
        self.parts.append(f'<rect class="{css}" x="{_n(x)}" y="{_n(y)}" {size}{paint}/>')

    def mark(self, x: float, y: float, look: Look, css: str = "") -> None:
        self.parts.append(_marker(self.px(x), self.py(y), look, css))

    def dots(self, points: Iterable[tuple[float, float]], css: str = "dot") -> None:
        drawn = "".join(f"M{_n(self.px(x))} {_n(self.py(y))}h0" for x, y in points)
        self.parts.append(f'<path class="{css}" d="{drawn}"/>')

    @contextlib.contextmanager
    def group(self, tip: str, **data: str) -> Iterator[None]:
        """What is drawn while it is open has a tooltip, and data-… attributes that filters read."""
        attributes = "".join(f' data-{name}="{html.escape(value)}"' for name, value in data.items())
        self.parts.append(f"<g{attributes}><title>{html.escape(tip)}</title>")
        yield
        self.parts.append("</g>")

    def render(self, label: str) -> Markup:
        box = f'viewBox="0 0 {_n(self.width)} {_n(self.height)}"'
        head = f'<svg {box} role="img" aria-label="{html.escape(label)}">'
        return Markup(head + "".join(self.parts) + "</svg>")

    def _path(self, xs: Iterable[float], ys: Iterable[float]) -> str:
        return "M" + "L".join(f"{_n(self.px(x))} {_n(self.py(y))}" for x, y in zip(xs, ys, strict=True))


def bars(study: Study, main: Setting) -> Markup:
    """Final scores by source, a bar per algorithm, in front of a shaded bar: the score with nothing shared."""
    sources = [s for s in study.settings if s.main == main and s.source != OWN]
    labels = [label for label in study.sharing if any((s, label) in study.compared for s in sources)]
    outcomes = [study.compared[s, a] for s in sources for a in labels if (s, a) in study.compared]
    alone = [study.single(main, label) for label in labels]
    recorded = [np.array(study.recorded(main) or [], np.float64)]
    y = _range(study, [outcome.final for outcome in (*outcomes, *alone) if outcome] + recorded)
    words = [word for setting in sources for word in re.split(r"(?<=[-/])| ", setting.source)]
    place = max(248 / len(sources), 18 * len(labels), LETTER * max(map(len, words)))  # of a source
    names = [_lines(setting.source, int(place / LETTER)) for setting in sources]
    rows = max(2, *map(len, names))
    size = {"width": 52 + place * len(sources), "height": 168 + 12 * rows}
    plot = Plot((0, len(sources)), y, **size, margins=(8, 6, 12 + 12 * rows, 46))
    plot.labels(y=f"final {study.measure}")
    plot.axes(yticks=ticks(*y))
    width = 0.8 / len(labels)
    for i, setting in enumerate(sources):
        for j, (label, single) in enumerate(zip(labels, alone, strict=True)):
            if outcome := study.compared.get((setting, label)):
                _bar(plot, i + 0.1 + j * width, width, outcome, single, look_of(study, label))
        for row, line in enumerate(names[i]):
            plot.text(plot.px(i + 0.5), plot.bottom + 14 + 12 * row, line, "tick mid")
    plot.line([0, len(sources)], [max(0, y[0])] * 2, "base")
    for name, value in zip(RECORDED, study.recorded(main) or (), strict=False):
        with plot.group(f"{name}: {value:.1f}"):
            plot.line([0, len(sources)], [value] * 2, "recorded" + " best" * (name != RECORDED[0]))
    return plot.render(f"{main}: final {study.measure} by shared source and algorithm")


def _bar(plot: Plot, left: float, width: float, outcome: Outcome, single: Outcome | None, look: Look) -> None:
    base = max(0.0, plot.y[0])
    value = float(outcome.final.mean())
    against = f"; nothing shared: {single.final.mean():.1f}" if single else ""
    tip = f"{shown(outcome.algorithm)} + {outcome.setting.source}: {value:.1f} (seeds {_list(outcome.final)}){against}"
    with plot.group(tip, algorithm=outcome.algorithm, source=outcome.setting.source):
        if single:
            plot.rect(left, left + width, base, float(single.final.mean()), f"alone {look.css}")
        inner = left + 0.2 * width, left + 0.8 * width
        plot.rect(*inner, base, value, f"bar {look.css}")
        plot.rect(*inner, base, value, "", fill=f"url(#ha{look.style})")
        plot.dots((left + width / 2, run) for run in outcome.final)


def curves(study: Study, setting: Setting) -> Markup:
    """Scores along training: the mean over seeds within the lowest and highest; thin lines: trained without sharing."""
    mine = [study.compared[setting, label] for label in study.algorithms if (setting, label) in study.compared]
    alone = {c.algorithm: c for outcome in mine if (c := study.single(setting, outcome.algorithm)) and c is not outcome}
    y = _range(study, [outcome.curves.ravel() for outcome in (*mine, *alone.values())])
    last = max(float(outcome.steps[-1]) for outcome in mine)
    plot = Plot((0, last), y)
    plot.axes(ticks(0, last, 3), ticks(*y))
    plot.labels("gradient steps", study.measure)
    for outcome, thin in [*((outcome, True) for outcome in alone.values()), *((outcome, False) for outcome in mine)]:
        look, keep = look_of(study, outcome.algorithm), spaced(outcome.steps.size, POINTS)
        steps, runs, final = outcome.steps[keep], outcome.curves[:, keep], float(outcome.final.mean())
        tip = f"{shown(outcome.algorithm)}{', nothing shared' * thin}: {final:.1f}"
        with plot.group(tip, algorithm=outcome.algorithm):
            if len(runs) > 1 and not thin:
                plot.band(steps, runs.min(axis=0), runs.max(axis=0), look.css)
            plot.line(steps, runs.mean(axis=0), "thin " * thin + look.css)
            if not thin:
                plot.mark(outcome.steps[-1], final, look)
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
                steps, values = together(found)
                lines.append((source, name, css, Series(steps, values.mean(axis=0))))
    if not lines:
        return None
    top = max(float(series.values.max()) for *_, series in lines)
    last = max(float(series.steps[-1]) for *_, series in lines)
    plot = Plot((0, last), (0, top))
    plot.axes(ticks(0, last, 3), ticks(0, top))
    plot.labels("gradient steps", "uncertainty Γ")
    for source, name, css, series in lines:
        look, keep = numbered(list(sources).index(source)), spaced(series.steps.size, POINTS)
        with plot.group(f"{source}: {name} {series.values[-1]:.3g}", source=source):
            plot.line(series.steps[keep], series.values[keep], f"{css} {look.css}")
            if not css:
                plot.mark(series.steps[-1], float(series.values[-1]), look)
    return plot.render(f"{main}: uncertainty of {shown(algorithm)} against gradient steps")


def statistic(study: Study, found: Aggregates, name: str) -> Markup:
    """One aggregate of every algorithm with its interval; names too long for the left stand above."""
    values = [row.statistics[name] for row in found.rows]
    ends = [end for interval in values for end in interval if np.isfinite(end)]
    margin = 0.06 * (max(ends) - min(ends) or 1)
    x = min(ends) - margin, max(ends) + margin
    names = [textwrap.wrap(row.name, int(280 / LETTER)) for row in found.rows[::-1]]
    above = max(len(row.name) for row in found.rows) * LETTER > 104
    tall = 20 + 12 * above * max(map(len, names))  # units of a row, the lower 20 of them for its mark
    plot = Plot(x, (0, len(values)), height=42 + tall * len(values), margins=(6, 10, 32, 14 if above else 112))
    plot.axes(ticks(*x))
    plot.labels(f"{name}, {study.measure}")
    for i, (row, interval) in enumerate(zip(found.rows[::-1], values[::-1], strict=True)):
        look = look_of(study, row.algorithm)
        with plot.group(f"{row.name}: {text.interval(interval)}", algorithm=row.algorithm):
            if not above:
                plot.text(104, plot.py(i + 0.5) + 4, row.name, "tick end strong")
            for k, line in enumerate(names[i] if above else ()):
                plot.text(10, plot.py(i) - 20 - 12 * (len(names[i]) - 1 - k), line, "tick strong")
            middle, half = i + 10 / tall, 4.4 / tall
            if np.isfinite(interval.low):
                css = f"range {look.css}" + " hollow" * row.alone
                plot.rect(interval.low, interval.high, middle - half, middle + half, css)
            plot.mark(interval.value, middle, look, "hollow" * row.alone)
    return plot.render(f"{name} by algorithm, with 95 % intervals")


def profile(study: Study, found: Aggregates, which: str) -> Markup:
    """The share of runs (`profile`) or of settings (`mean_profile`) above each score, with 95 % bands."""
    taus = found.taus
    plot = Plot((taus[0], taus[-1]), (0, 1), height=222)
    plot.labels(f"{study.measure} τ", "share above τ")
    plot.axes(ticks(taus[0], taus[-1], 5), [(v, f"{v:.0%}") for v in (0, 0.25, 0.5, 0.75, 1)])
    for row in found.rows:
        interval, look = getattr(row, which), look_of(study, row.algorithm)
        with plot.group(row.name, algorithm=row.algorithm):
            if np.isfinite(interval.low).all() and not row.alone:
                plot.band(taus, interval.low, interval.high, look.css)
            plot.line(taus, interval.value, look.css + " thin" * row.alone)
            if not row.alone:  # where a third of the way down: markers at the ends would lie on one another
                at = int(np.argmin(np.abs(interval.value - 0.65 + 0.1 * look.style)))
                plot.mark(taus[at], float(interval.value[at]), look)
    return plot.render(f"share of {'runs' if which == 'profile' else 'settings'} above a {study.measure}")


def ablation(study: Study, found: Ablation) -> Markup:
    """The final score against a field's values, a line per setting, a dot per seed."""
    outcomes = [outcome for line in found.lines.values() for outcome in line if outcome]
    y = _range(study, [outcome.final for outcome in outcomes])
    plot = Plot((-0.4, len(found.values) - 0.6), y, width=340, height=232)
    plot.labels(found.field, f"final {study.measure}")
    plot.axes([(i, f"{value:g}") for i, value in enumerate(found.values)], ticks(*y))
    for number, ((setting, label), line) in enumerate(found.lines.items()):
        look, points = numbered(number), [(i, outcome) for i, outcome in enumerate(line) if outcome]
        means = [float(outcome.final.mean()) for _, outcome in points]
        with plot.group(f"{setting}, {shown(label)}: {_list(means)}", **setting._asdict()):
            plot.line([i for i, _ in points], means, look.css)
            plot.dots(((i, run) for i, outcome in points for run in outcome.final), f"dot {look.css}")
            for (i, _), mean in zip(points, means, strict=True):
                plot.mark(i, mean, look)
    return plot.render(f"final {study.measure} against {found.field}")


def look_of(study: Study, label: str) -> Look:
    """The style of a label's place among the algorithms, in the colour that its algorithm is registered with."""
    known, name = list(algorithms.entries()), label.partition(" · ")[0]
    style = study.algorithms.index(label) % STYLES if label in study.algorithms else STYLES - 1
    return Look(style, f"k{known.index(name)}" if name in known else "")


def numbered(index: int) -> Look:
    """The look of a source or a setting, which have no colour of their own."""
    return Look(index % STYLES)


def swatch(look: Look) -> Markup:
    """What a legend shows: hatched bar, dashed line and marker."""
    box = 'y="2" width="12" height="12"'
    bar = f'<rect class="bar {look.css}" {box}/><rect {box} fill="url(#ha{look.style})"/>'
    line = f'<path class="line {look.css}" d="M16 8H40"/>{_marker(28, 8, look)}'
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


def colours() -> Markup:
    """The registered colours as a style sheet, for light and for dark paper."""
    rules = {
        scheme: "".join(
            f".k{i}{{--c:{legible(found.colour, paper)}}}" for i, found in enumerate(algorithms.entries().values())
        )
        for scheme, paper in PAPER.items()
    }
    return Markup(f"{rules['light']}@media (prefers-color-scheme: dark){{{rules['dark']}}}")


def legible(colour: str, paper: str) -> str:
    """The colour, moved away from the paper's as far as it takes to stand out from it."""
    away = 0.0 if _luminance(paper) > 0.5 else 1.0
    for share in np.linspace(0, 1, 21):
        mixed = [(1 - share) * x + share * away for x in _rgb(colour)]
        found = "#" + "".join(f"{round(255 * x):02x}" for x in mixed)
        light, dark = sorted((_luminance(found), _luminance(paper)), reverse=True)
        if (light + 0.05) / (dark + 0.05) >= CONTRAST:
            break
    return found


def _rgb(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def _luminance(colour: str) -> float:
    """As WCAG defines it."""
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in _rgb(colour)]
    return float(np.dot((0.2126, 0.7152, 0.0722), linear))


def _marker(px: float, py: float, look: Look, css: str = "") -> str:
    place = f"translate({_n(px)} {_n(py)})"
    return f'<path class="mark {look.css} {css}" transform="{place}" d="{_MARKERS[look.style]}"/>'


def _range(study: Study, runs: Sequence[Array]) -> tuple[float, float]:
    """0 to 100 and whatever lies beyond for scores, so that panels compare; for returns from 0 to the highest, or 1."""
    values = np.concatenate(runs)
    top = 100.0 if study.measure == "score" else 1.0
    return min(0.0, float(values.min())), max(top, float(values.max()))


def _lines(source: str, letters: int) -> list[str]:
    """A source's name on lines of so many letters; each of several sources begins one."""
    parts = source.replace("/", "/ ").replace(" + ", "\n+ ").split("\n")
    return [line.replace("/ ", "/") for part in parts for line in textwrap.wrap(part, letters)]


def _list(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)
