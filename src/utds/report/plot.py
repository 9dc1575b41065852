"""What the page's figures are drawn with: a plot as a compact inline SVG, and how its lines are told apart.

Algorithms have the colours that they are registered with, everything else those of the page's style sheet.
"""

import html
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from utds import algorithms

Tick = tuple[float, str]  # where, and what stands beside it

STYLES = 9  # classes a0 … a8 of the style sheet: a colour, a dash, a hatching and a marker each
PAPER = {"light": "#ffffff", "dark": "#0d1117"}  # behind the figures, as in the style sheet
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

    def mark(self, x: float, y: float, look: Look, css: str = "") -> None:
        self.parts.append(marker(self.px(x), self.py(y), look, css))

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


def marker(px: float, py: float, look: Look, css: str = "") -> str:
    place = f"translate({_n(px)} {_n(py)})"
    return f'<path class="mark {look.css} {css}" transform="{place}" d="{_MARKERS[look.style]}"/>'


def swatch(look: Look) -> Markup:
    """What a legend shows: hatched bar, dashed line and marker."""
    box = 'y="2" width="12" height="12"'
    bar = f'<rect class="bar {look.css}" {box}/><rect {box} fill="url(#ha{look.style})"/>'
    line = f'<path class="line {look.css}" d="M16 8H40"/>{marker(28, 8, look)}'
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


def numbered(index: int) -> Look:
    """The look of a source or a setting, which have no colour of their own."""
    return Look(index % STYLES)


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
