"""The advice as a picture: what each dataset is worth, and the gain that sharing it promises."""

from string import ascii_uppercase
from typing import TYPE_CHECKING

from utds import figures
from utds.adviser.advice import Advice, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST = 8  # options that the right side shows


def draw(advice: Advice) -> "Figure":
    """Left: returns of every dataset under the main task. Right: predicted gain of sharing, the order of the advice."""
    rows = max(len(advice.candidates) + 1, min(len(advice.options), _MOST))
    letters = _letters(advice)
    with figures.panels(2, 7.2, 1.4 + 0.42 * rows, width_ratios=(3, 2)) as (figure, (left, right)):
        _returns(left, advice, letters)
        _gains(right, advice, letters)
        return figure


def _letters(advice: Advice) -> dict[str, str]:
    """A letter for each candidate, so that combinations fit beside their bars; numbers beyond 26."""
    many = len(advice.candidates) > len(ascii_uppercase)
    return {c.name: str(i + 1) if many else ascii_uppercase[i] for i, c in enumerate(advice.candidates)}


def _returns(axes: "Axes", advice: Advice, letters: dict[str, str]) -> None:
    """A box from quartile to quartile, whiskers to the ends, a diamond at the mean of the best tenth."""
    named = [("own", advice.main, advice.worth, figures.BLUE)]
    for candidate in advice.candidates:
        refused = candidate.dynamics.verdict == "different"
        name = f"{candidate.name} (other dynamics)" if refused else candidate.name
        named.append((letters[candidate.name], name, candidate.worth, "0.6" if refused else figures.VERMILLION))
    for place, (_, name, worth, colour) in enumerate(named):
        least, low, median, high, most = worth.quartiles
        axes.plot([least, most], [place, place], color=colour, linewidth=1)
        axes.barh(place, high - low, left=low, height=0.3, color=colour, alpha=0.35)
        axes.plot([median, median], [place - 0.15, place + 0.15], color=colour)
        axes.plot(worth.best, place, "D", color=colour)
        # Above its bar, an id of any length costs no width.
        axes.text(0.01, place - 0.24, name, transform=axes.get_yaxis_transform(), va="bottom", fontsize=7)
    axes.axvline(advice.worth.best, color=figures.BLUE, linestyle=":", linewidth=1)
    axes.set_yticks(range(len(named)), [label for label, *_ in named])
    axes.set_ylim(len(named) - 0.6, -0.75)
    axes.set(xlabel=f"return under {advice.task}\n(diamond: mean of the best tenth)", title="What the data is worth")


def _gains(axes: "Axes", advice: Advice, letters: dict[str, str]) -> None:
    """A bar for each option, the chosen one filled, with the shrinkage of the bound beside it."""
    chosen, shown = advice.choice, advice.options[:_MOST]
    for place, option in enumerate(shown):
        picked = option == chosen
        axes.barh(
            place, option.score, height=0.6, color=figures.GREEN if picked else "none", edgecolor=figures.GREEN,
            hatch=None if picked else "///", linewidth=1,
        )  # fmt: skip
        axes.annotate(
            f"{number(option.score, '+')}, bound −{option.shrinkage:.0%}", (max(option.score, 0.0), place),
            xytext=(4, 0), textcoords="offset points", va="center",
        )  # fmt: skip
    axes.set_yticks(range(len(shown)), [" + ".join(letters[name] for name in option.names) for option in shown])
    axes.set_ylim(max(len(shown), 1) - 0.4, -0.6)
    scores = [0.0, *(option.score for option in shown)]
    axes.set_xlim(min(scores), 2.1 * max(scores) or 1.0)  # room for what is written beside the bars
    axes.set(
        xlabel="predicted gain in return\n(filled: recommended)" if chosen else "predicted gain in return",
        title="What sharing promises",
    )
