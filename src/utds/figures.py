"""How figures look, and how they become SVG: a paper's column wide, colour-blind safe, legible in print and on a phone.

Matplotlib is imported by the functions that draw, never by importing this module, and pyplot not at all.
"""

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from utds import files

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes  # as figures.Axes, in annotations elsewhere
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure as Figure

# Okabe and Ito's palette, told apart by every common kind of colour vision; series differ in marker and dash besides.
BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY = "#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7", "#56b4e9"
INK = "#1f2328"  # text and axes; a page inlining the figure puts its own text colour in its place
PAPER = "#ffffff"
DPI = 200  # of PNG files, and of the pixels inside an SVG

_FONTS = "DejaVu Sans, Verdana, Arial, sans-serif"
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": _FONTS.split(", ")[:-1],
    "mathtext.fontset": "dejavusans",
    "font.size": 8,
    "axes.titlesize": 9,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.facecolor": "none",
    "figure.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",  # text stays text: small files, searchable, read aloud by screen readers
    "svg.hashsalt": "utds",  # the same figure gives the same bytes
}


@contextlib.contextmanager
def panels(
    count: int, width: float, height: float, rows: int = 1, **options: Any
) -> Iterator[tuple["Figure", list["Axes"]]]:
    """One figure with `count` axes per row, in the house style while the block runs; inches, options of `subplots`."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(rows, count, squeeze=False, **options).ravel().tolist()


@contextlib.contextmanager
def panel(xlabel: str, ylabel: str, height: float = 3.0) -> Iterator[tuple["Figure", "Axes"]]:
    """One figure with one pair of axes, a column wide."""
    with panels(1, 3.5, height) as (figure, (axes,)):
        axes.set(xlabel=xlabel, ylabel=ylabel)
        yield figure, axes


def log_scale(values: np.ndarray) -> "Normalize":
    """One colour scale for several maps: logarithmic between the 1st and the 99th percentile of all their values."""
    from matplotlib.colors import LogNorm

    low, high = np.nanpercentile(values, [1, 99])
    return LogNorm(max(low, 1e-6 * high), high)


def log_bins(values: np.ndarray, count: int = 40) -> np.ndarray:
    """Edges of a histogram's bins that fit several series: logarithmic, no more than four decades."""
    least, most = float(np.min(values)), float(np.max(values))
    return np.geomspace(max(least, 1e-4 * most), most, count + 1)


def write(figure: "Figure", path: Path) -> tuple[Path, Path]:
    """The figure as <path>.svg and <path>.png, in the style that it was drawn in."""
    vector, raster = path.with_suffix(".svg"), path.with_suffix(".png")
    files.write_text(vector, svg(figure))
    with files.atomic(raster) as part:
        figure.savefig(part, dpi=DPI, format="png", metadata={"Software": None})
    return vector, raster


def legend(figure: "Figure", columns: int = 2) -> None:
    """The legend below the axes, where it covers nothing."""
    figure.legend(loc="outside lower center", ncols=columns)


def svg(figure: "Figure") -> str:
    """The figure as one SVG document on white, without a date, so that equal figures are equal files."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(buffer, format="svg", dpi=DPI, metadata={"Date": None, "Creator": None})
    text = re.sub(r"(\d\.\d{3})\d+", r"\1", buffer.getvalue())  # a thousandth of a point is enough
    return text.replace("font-family: 'DejaVu Sans';", f"font-family: {_FONTS};")  # formulas name no second choice


def inline(document: str, name: str, description: str) -> str:
    """An SVG document made fit to stand inside a page: transparent, in the page's text colour, with ids of its own."""
    body = document[document.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = body.replace(INK, "currentColor").replace(f"fill: {PAPER}", "fill: none")
    body = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', body)
    body = re.sub(r'(url\(|href=")#', rf"\1#{name}-", body)
    return body.replace("<svg ", f'<svg role="img" aria-label="{description}" ', 1)
