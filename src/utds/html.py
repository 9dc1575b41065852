"""How objects show themselves in a notebook: small tables and charts as inline SVG. Everything given is escaped."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

WIDTH, HEIGHT = 160, 32  # of a chart in a table's cell, in pixels
BINS = 20
MOST = 2 * WIDTH  # points of a line: more than its pixels would only make the page large
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # apart for the colour-blind too

# Charts take the colour of the text around them, so they are seen on light and on dark pages.
_SVG = Markup('<svg width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="img" aria-label="{2}" fill="none">{3}</svg>')
_LINE = Markup('<polyline points="{}" stroke="{}" stroke-width="1.5" stroke-linejoin="round"/>')
_DOT = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="2" fill="{}"/>')
_BAR = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="currentColor" opacity="0.55"/>')
_TEXT = Markup('<text x="{:.0f}" y="{:.0f}" font-size="11" fill="currentColor" text-anchor="{}">{}</text>')


def block(title: str, *parts: Markup) -> str:
    """A heading and what stands below it."""
    return str(Markup("<div><b>{}</b>{}</div>").format(title, Markup("").join(parts)))


def text(words: str) -> Markup:
    return Markup("<p>{}</p>").format(words)


def facts(values: Mapping[str, Any]) -> Markup:
    """A line for each name and value; those that are None are left out."""
    row = Markup('<tr><th style="text-align:left">{}</th><td style="text-align:left">{}</td></tr>')
    rows = (row.format(name, value) for name, value in values.items() if value is not None)
    return Markup("<table>{}</table>").format(Markup("").join(rows))


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Markup:
    """Text columns to the left, numbers and charts as they are; a cell may hold a chart."""

    def line(cells: Sequence[Any], cell: Markup) -> Markup:
        return Markup("<tr>{}</tr>").format(Markup("").join(cell.format(each) for each in cells))

    body = Markup("").join(line(cells, Markup('<td style="text-align:left">{}</td>')) for cells in rows)
    top = line(head, Markup('<th style="text-align:left">{}</th>'))
    return Markup("<table><thead>{}</thead><tbody>{}</tbody></table>").format(top, body)


def sparkline(values: ArrayLike, label: str) -> Markup:
    """Values [n] in their order, from the lowest at the foot to the highest."""
    ys = _finite(values)
    if len(ys) == 0:
        return Markup("–")
    shown = np.linspace(0, len(ys) - 1, min(len(ys), MOST)).round().astype(int)
    drawn = _path(_scaled(shown, ys[shown], 2, 2, WIDTH - 4, HEIGHT - 4), "currentColor")
    return _SVG.format(WIDTH, HEIGHT, f"{label}: {ys.min():.4g} to {ys.max():.4g}", drawn)


def histogram(values: ArrayLike, label: str) -> Markup:
    """How often values [n] fall into equal intervals from the lowest to the highest."""
    ys = _finite(values)
    if len(ys) == 0:
        return Markup("–")
    low, high, bins = float(ys.min()), float(ys.max()), min(BINS, len(ys))
    if math.isclose(low, high, rel_tol=1e-12):  # rounding leaves no room for intervals
        counts = np.where(np.arange(bins) == bins // 2, len(ys), 0)
    else:
        counts, _ = np.histogram(ys, bins)
    step, unit = WIDTH / len(counts), (HEIGHT - 2) / counts.max()
    bars = (_BAR.format(i * step, HEIGHT - n * unit, 0.85 * step, n * unit) for i, n in enumerate(counts.tolist()))
    return _SVG.format(WIDTH, HEIGHT, f"{label}: {low:.4g} to {high:.4g}", Markup("").join(bars))


def curves(lines: Mapping[str, tuple[ArrayLike, ArrayLike]], x: str, y: str) -> Markup:
    """A chart of lines by name, with their least and greatest values at the axes."""
    kept = {}
    for name, (xs, ys) in lines.items():
        there = np.isfinite(np.asarray(ys, float))
        if there.any():
            kept[name] = np.asarray(xs, float)[there], np.asarray(ys, float)[there]
    if not kept:
        return Markup("")
    width, height, left, foot = 420, 170, 60, 36
    every_x, every_y = (np.concatenate([line[i] for line in kept.values()]) for i in (0, 1))
    box = (left, 8, width - left - 8, height - foot - 8)
    parts = []
    for index, (xs, ys) in enumerate(kept.values()):
        points = _scaled(xs, ys, *box, within=(every_x, every_y))
        parts.append(_path(points, COLOURS[index % len(COLOURS)]))
    low, high = every_y.min(), every_y.max()
    parts += [
        _TEXT.format(left - 5, height - foot + 3, "end", f"{low:.4g}"),
        _TEXT.format(left - 5, 14, "end", f"{high:.4g}" if high > low else ""),
        _TEXT.format(left, height - foot + 16, "start", f"{every_x.min():.4g}"),
        _TEXT.format(width - 8, height - foot + 16, "end", f"{every_x.max():.4g}"),
        _TEXT.format((left + width) / 2, height - 4, "middle", f"{y} against {x}"),
    ]
    chart = _SVG.format(width, height, f"{y} against {x}", Markup("").join(parts))
    entry = Markup('<span style="color:{}">&#9632;</span> {} &nbsp; ')
    legend = Markup("").join(entry.format(COLOURS[i % len(COLOURS)], name) for i, name in enumerate(kept))
    return Markup("<div>{}<br>{}</div>").format(chart, legend)


def _path(points: np.ndarray, colour: str) -> Markup:
    """A line through points [n, 2], with a dot at its end: a single point is seen too."""
    drawn = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
    return _LINE.format(drawn, colour) + _DOT.format(*points[-1], colour)


def _scaled(
    xs: np.ndarray, ys: np.ndarray, left: float, top: float, width: float, height: float, within: Any = None
) -> np.ndarray:
    """Points [n, 2] in pixels; `within` are the values that span the box, by default the points themselves."""
    spans = within or (xs, ys)
    shares = []
    for values, span in zip((xs, ys), spans, strict=True):
        low, high = float(span.min()), float(span.max())
        shares.append((values - low) / (high - low) if high > low else np.full(len(values), 0.5))
    return np.stack([left + shares[0] * width, top + (1 - shares[1]) * height], axis=1)


def _finite(values: ArrayLike) -> np.ndarray:
    array = np.asarray(values, float).ravel()
    return array[np.isfinite(array)]
