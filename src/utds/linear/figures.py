"""How figures look, and how they become SVG: a paper's column wide, colour-blind safe, legible in print and on a phone.

Matplotlib is imported by the functions that draw, never by importing this module, and pyplot not at all.
"""

import contextlib
import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart by every common kind of colour vision; series differ in marker and dash besides.
BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY = "#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7", "#56b4e9"
INK = "#1f2328"  # text and axes; a page inlining the figure puts its own text colour in its place
PAPER = "#ffffff"

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
def panel(xlabel: str, ylabel: str, height: float = 3.0) -> Iterator[tuple["Figure", "Axes"]]:
    """One figure with one pair of axes, in the house style while the block runs; `height` in inches."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(3.5, height), layout="constrained")
        axes = figure.add_subplot()
        axes.set(xlabel=xlabel, ylabel=ylabel)
        yield figure, axes


def legend(figure: "Figure", columns: int = 2) -> None:
    """The legend below the axes, where it covers nothing."""
    figure.legend(loc="outside lower center", ncols=columns)


def svg(figure: "Figure") -> str:
    """The figure as one SVG document on white, without a date, so that equal figures are equal files."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
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
