"""Drawing: a box with linear axes that becomes one compact inline SVG. The page's style sheet gives the colours."""

import html
import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup

Tick = tuple[float, str]  # where, and what stands beside it

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
