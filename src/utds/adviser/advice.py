"""The advice: every candidate's worth, dynamics, coverage and bound, ranked; what to do in words and as a picture."""

from dataclasses import asdict, dataclass, field
from string import ascii_uppercase
from typing import Any

import numpy as np

from utds import figures
from utds.adviser.bound import Array
from utds.adviser.dynamics import Check
from utds.data.dataset import best_tenth

WORTHWHILE = 0.05  # least relative shrinkage of the bound for which sharing is recommended
WORTH_ADDING = 0.1  # least relative growth of the score for which one more dataset is recommended
_MOST = 8  # options that the figure shows

# What docs/guides/advise.md measures; the tests hold the two together.
RELIABILITY = (
    "How far to trust it: on twelve datasets of walker, quadruped and jaco its first choice scored 6.7 points less "
    "than the best choice, the source with the highest best tenth 5.0, sharing everything 10.3, a random source 13.3, "
    "nothing 42.3. On 45 held-out settings of the point mass, predicted and measured returns with sharing have a rank "
    "correlation of 0.85, gains one of 0.27."
)
# What came of sharing with UTDS, by whose best tenth of episodes returns more: docs/results/robots.md.
BETTER = "Sharing such data raised the score in 21 of 21 settings of three robots."
NO_BETTER = (
    "Such sharing raised the score in 12 of 27 settings of three robots, and in 25 of 36 of the point mass with ten "
    "own episodes"
)
BEST_TENTH = (
    "best tenth: mean return of the best tenth of its episodes with the main task's rewards. Above the main data's own "
    "(↑), sharing raised the score in 21 of 21 settings of three robots; below it, in 12 of 27."
)
# What choosing by it alone costs, and what the first choice does.
BY_BEST_TENTH = (
    "Choosing by that alone cost 5.0 points on three robots, where the first choice cost 6.7, and 14.5 on the point "
    "mass, where it cost 4.8"
)


@dataclass(frozen=True)
class Worth:
    """What a dataset is worth: returns of its episodes under the main task's reward."""

    mean: float
    quartiles: tuple[float, float, float, float, float]  # least, 25 %, median, 75 %, greatest
    best: float  # mean over the best tenth of the episodes
    beyond: float  # share of the episodes that return more than the main data's `best`
    returns: Array = field(repr=False, compare=False)  # [E]


def worth(returns: Array, against: float | None = None) -> Worth:
    """The worth of episodes with these returns [E], held against the best of the main data."""
    least, low, median, high, greatest = (float(v) for v in np.quantile(returns, [0, 0.25, 0.5, 0.75, 1]))
    best = best_tenth(returns)
    beyond = float((returns > (best if against is None else against)).mean())
    return Worth(float(returns.mean()), (least, low, median, high, greatest), best, beyond, returns)


@dataclass(frozen=True)
class Candidate:
    """What is known about one dataset that might be shared."""

    name: str
    worth: Worth
    dynamics: Check
    overlap: float  # share of its state-actions that the main data covers already
    after: float  # E_π*[Γ_lcb] when it is shared alone
    plan: float | None  # return of a cautious plan through the main data and it; None where it is refused
    score: float | None  # predicted gain; None where it is refused


@dataclass(frozen=True)
class Option:
    """Sharing one or more candidates."""

    names: tuple[str, ...]
    after: float  # E_π*[Γ_lcb] with them
    shrinkage: float  # by how much it falls, as a share of E_π*[Γ_lcb] of the main data alone
    plan: float  # return of a cautious plan
    score: float  # predicted gain: by how much what training promises grows


@dataclass(frozen=True)
class Advice:
    """What to share with a task's own data."""

    main: str
    task: str
    worth: Worth  # of the main data itself
    before: float  # E_π*[Γ_lcb] of the main data alone
    plan: float  # return of a cautious plan through the main data alone
    value: float  # what training on it promises: that, less what uncertainty takes
    candidates: tuple[Candidate, ...]  # best first; those with other dynamics last
    options: tuple[Option, ...]  # single candidates and combinations of those with the main task's dynamics, best first
    duplicates: tuple[tuple[str, str], ...]  # datasets left out, each with the one that it equals byte for byte
    seconds: float

    @property
    def choice(self) -> Option | None:
        """The fewest datasets that bring nearly all that there is to gain; None: share nothing.

        Every dataset beyond the fewest must raise the score by a tenth: two more by a tenth and again a tenth.
        """
        worthwhile = [option for option in self.options if option.shrinkage >= WORTHWHILE]
        chosen = None
        for option in sorted(worthwhile, key=lambda option: (len(option.names), -option.score)):
            if chosen is not None:
                more = len(option.names) - len(chosen.names)
                if option.score <= (1 + WORTH_ADDING) ** more * max(chosen.score, 0.0):
                    continue
            chosen = option
        return chosen

    @property
    def recommendation(self) -> str:
        """What to do and why, in a few sentences."""
        return " ".join([_choose(self), *_best_tenth(self), *_refusals(self), *_duplicates(self)])

    def best_tenth(self, worth: Worth) -> str:
        """A candidate's best tenth in figures, with an arrow where it is above the main data's own."""
        return number(worth.best) + (" ↑" if worth.best > self.worth.best else "")

    def _repr_html_(self) -> str:
        from utds import html

        head = ("share", "best tenth", "better", "covered", "dynamics", "bound after", "plan", "score", "")
        rows = []
        for each in self.candidates:
            refused = each.score is None or each.plan is None
            gains = ("–", "refused") if refused else (number(each.plan or 0.0), number(each.score or 0.0, "+"))
            shares = self.best_tenth(each.worth), f"{each.worth.beyond:.0%}", f"{each.overlap:.0%}"
            returns = html.histogram(each.worth.returns, f"returns as {self.task}")
            rows.append((each.name, *shares, each.dynamics.verdict, f"{each.after:.3f}", *gains, returns))
        best, plan = number(self.worth.best), number(self.plan)
        own = f"the main data alone: best tenth {best}, bound {self.before:.3f}, plan {plan}"
        words = (html.text(each) for each in (self.recommendation, own, BEST_TENTH, RELIABILITY))
        return html.block(f"Advice for {self.main}", next(words), html.table(head, rows), *words)

    def to_json(self) -> dict[str, Any]:
        """Everything but the single returns, as plain values."""
        value = asdict(self)
        for worth in (value["worth"], *(candidate["worth"] for candidate in value["candidates"])):
            del worth["returns"]
        chosen = self.choice
        words = {"recommendation": self.recommendation, "reliability": RELIABILITY}
        return value | {"choice": list(chosen.names) if chosen else [], **words}


def number(value: float, sign: str = "") -> str:
    """A return or a gain in few digits, at any scale; `sign` as in a format."""
    if abs(value) >= 100:
        return f"{value:{sign}.0f}"
    return f"{value:{sign}.3g}" if abs(value) >= 1e-3 else "0"


def _choose(advice: Advice) -> str:
    chosen = advice.choice
    if chosen is None:
        if not advice.options:
            return f"Share nothing with {advice.main}: no candidate has its dynamics."
        first = advice.options[0]
        return (
            f"Share nothing with {advice.main}: it covers good behaviour itself, and the best choice, "
            f"{_listed(first.names)}, would shrink the bound by {first.shrinkage:.0%} only."
        )
    found = [candidate for candidate in advice.candidates if candidate.name in chosen.names]
    best = max(found, key=lambda candidate: candidate.worth.best)
    before, after = number(advice.plan), number(chosen.plan)
    change = f"stays at {after}" if before == after else f"rises from {before} to {after}"
    text = (
        f"Share {_listed(chosen.names)} with {advice.main}: a cautious plan's return {change}, and the expected "
        f"uncertainty under good behaviour falls from {advice.before:.3f} to {chosen.after:.3f} "
        f"({chosen.shrinkage:.0%})."
    )
    text += f" {_compared(advice, best)}"
    if best.worth.best > advice.worth.best:
        return f"{text}. {BETTER}"
    text += f": it adds coverage only. {NO_BETTER}: train on {advice.main} alone too, and compare."
    if len(advice.options) > 1:
        text += (
            " On jaco, where no candidate's was higher, sharing all or nothing scored 6 points above the first choice."
        )
    return text


def _compared(advice: Advice, candidate: Candidate) -> str:
    own, best = number(advice.worth.best), number(candidate.worth.best)
    return f"The best tenth of {candidate.name} returns {best} under {advice.task}, the main data's own {own}"


def _best_tenth(advice: Advice) -> list[str]:
    """A sentence where the simplest rule, to share what has the highest best tenth, would choose another dataset."""
    allowed = [candidate for candidate in advice.candidates if candidate.score is not None]
    best = max(allowed, key=lambda candidate: candidate.worth.best, default=None)
    chosen = advice.choice
    if best is None or (chosen is not None and best.name in chosen.names):
        return []
    if chosen is not None:
        return [f"{_compared(advice, best)}. {BY_BEST_TENTH}: if it matters, train with {best.name} too, and compare."]
    if best.worth.best > advice.worth.best:
        return [f"{_compared(advice, best)}. {BETTER} Train with it too, and compare."]
    return []


def _refusals(advice: Advice) -> list[str]:
    """A sentence on candidates that were refused, and one on those whose dynamics couldn't be compared."""
    refused = [c.name for c in advice.candidates if c.dynamics.verdict == "different"]
    unsure = [c.name for c in advice.candidates if c.dynamics.verdict == "unknown"]
    sentences = []
    if refused:
        sentences.append(f"Don't share {_listed(refused)}: recorded with other dynamics.")
    if unsure:
        have, meet = ("has", "it hardly meets") if len(unsure) == 1 else ("have", "they hardly meet")
        sentences.append(f"Whether {_listed(unsure)} {have} the same dynamics can't be told: {meet} the main data.")
    return sentences


def _duplicates(advice: Advice) -> list[str]:
    return [f"{name} is the same data as {same}, byte for byte, and counts once." for name, same in advice.duplicates]


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def draw(advice: Advice) -> "figures.Figure":
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


def _returns(axes: "figures.Axes", advice: Advice, letters: dict[str, str]) -> None:
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


def _gains(axes: "figures.Axes", advice: Advice, letters: dict[str, str]) -> None:
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
