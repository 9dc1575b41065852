"""The advice as a picture: what each dataset is worth, and how far sharing it shrinks the bound."""

from typing import TYPE_CHECKING

from utds import figures
from utds.advise.ranking import Advice, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST = 8  # options that the right side shows


def draw(advice: Advice) -> "Figure":
    """Left: relabelled returns of every dataset. Right: E_π*[Γ_lcb] before and after sharing."""
    rows = max(len(advice.candidates) + 1, min(len(advice.options), _MOST) + 1)
    with figures.panels(2, 7.2, 1.2 + 0.32 * rows) as (figure, (left, right)):
        _returns(left, advice)
        _bounds(right, advice)
        return figure


def _returns(axes: "Axes", advice: Advice) -> None:
    """A box from quartile to quartile, whiskers to the ends, a diamond at the mean of the best tenth."""
    named = [(advice.main, advice.worth, figures.BLUE, "")]
    for candidate in advice.candidates:
        refused = candidate.dynamics.verdict == "different"
        note = " (other dynamics)" if refused else ""
        named.append((candidate.name, candidate.worth, "0.6" if refused else figures.VERMILLION, note))
    for place, (_, worth, colour, _) in enumerate(named):
        least, low, median, high, most = worth.quartiles
        axes.plot([least, most], [place, place], color=colour, linewidth=1)
        axes.barh(place, high - low, left=low, height=0.45, color=colour, alpha=0.35)
        axes.plot([median, median], [place - 0.225, place + 0.225], color=colour)
        axes.plot(worth.best, place, "D", color=colour)
    axes.axvline(advice.worth.best, color=figures.BLUE, linestyle=":", linewidth=1)
    axes.set_yticks(range(len(named)), [name + note for name, _, _, note in named])
    axes.invert_yaxis()
    axes.set(xlabel=f"return under {advice.task}\n(diamond: mean of the best tenth)", title="What the data is worth")


def _bounds(axes: "Axes", advice: Advice) -> None:
    """A bar for each option, the chosen one filled; a line for the main data alone."""
    chosen = advice.choice
    shown = advice.options[:_MOST]
    for place, option in enumerate(shown):
        picked = option == chosen
        axes.barh(
            place, option.after, height=0.6, color=figures.GREEN if picked else "none", edgecolor=figures.GREEN,
            hatch=None if picked else "///", linewidth=1,
        )  # fmt: skip
        gains = f"−{option.shrinkage:.0%}, score {number(option.score, '+')}"
        axes.annotate(
            gains, (option.after, place), xytext=(4, 0), textcoords="offset points", va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )  # fmt: skip
    axes.axvline(advice.before, color=figures.BLUE, linestyle=":", linewidth=1)
    axes.set_yticks(range(len(shown)), [" +\n".join(option.names) for option in shown])
    axes.invert_yaxis()
    axes.set(
        xlabel="E[Γ] under good behaviour\n(dotted: own data alone; filled: chosen)",
        title="How far sharing shrinks the bound",
        xlim=(0, 1.6 * advice.before),
    )
