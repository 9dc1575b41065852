"""`advise` measures every candidate, plans with it and ranks them; `Advice` tells it in words and as a picture."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from utds import figures
from utds.adviser.dynamics import LEAST_EPISODES, LEAST_SHARE, Check, checks
from utds.adviser.score import Array, Coverage, any_action, good_behaviour, predictions
from utds.data.columns import KNOWN
from utds.data.dataset import Dataset, best_tenth
from utds.data.labelling import Rewards, make, rewards_for
from utds.data.lake import check_compatible
from utds.errors import ConfigError

LEGEND = (
    "best tenth: mean return of the best tenth of its episodes with the main task's rewards, ↑ above the main data's "
    "own; dynamics: p is how likely so large a difference is by chance; plan: return of a cautious plan through both "
    "datasets; score: predicted gain"
)

# What docs/guides/advise.md and docs/results/robots.md measure; the tests hold them together.
RELIABILITY = (
    "How far to trust it: of three sources, the one with the highest score brought 6.1 points less than the best "
    "choice on twelve datasets of walker, quadruped and jaco, the one with the highest best tenth 5.3, one at random "
    "13.3, nothing 42.3; on fifteen of the point mass 4.8, 14.5 and 15.8 points of return. Predicted and measured "
    "gains have a rank correlation of 0.27, returns with sharing one of 0.85."
)
# What came of sharing with UTDS, by whose best tenth of episodes returns more.
BETTER = "Sharing such data raised the score in 20 of 20 settings of three robots."
NO_BETTER = (
    "Sharing such data raised the score in 13 of 28 settings of three robots, and in 25 of 36 of the point mass, most "
    "of them with ten own episodes."
)
# And of sharing all three sources.
EVERYTHING = (
    "Sharing everything at once scored 73.1 points on average on three robots, the one source with the highest score "
    "77.3."
)
JACO = (
    "On jaco, where no candidate had better episodes either, sharing all or nothing scored 6 points more than the one "
    "source with the highest score."
)


@dataclass(frozen=True)
class Worth:
    """What a dataset is worth: returns of its episodes under the main task's reward."""

    mean: float
    quartiles: tuple[float, float, float, float, float]  # least, 25 %, median, 75 %, greatest
    best: float  # mean over the best tenth of the episodes
    returns: Array = field(repr=False, compare=False)  # [E]


def worth(returns: Array) -> Worth:
    """The worth of episodes with these returns [E]."""
    least, low, median, high, greatest = (float(v) for v in np.quantile(returns, [0, 0.25, 0.5, 0.75, 1]))
    return Worth(float(returns.mean()), (least, low, median, high, greatest), best_tenth(returns), returns)


@dataclass(frozen=True)
class Candidate:
    """What is known about one dataset that might be shared."""

    name: str
    worth: Worth
    dynamics: Check
    plan: float | None  # return of a cautious plan through the main data and it; None where it is refused
    score: float | None  # predicted gain: by how much what training promises grows; None where it is refused


@dataclass(frozen=True)
class Advice:
    """What to share with a task's own data."""

    main: str
    task: str
    worth: Worth  # of the main data itself
    plan: float  # return of a cautious plan through the main data alone
    value: float  # what training on it promises: that, less what uncertainty takes
    candidates: tuple[Candidate, ...]  # the highest score first; those with other dynamics last
    duplicates: tuple[tuple[str, str], ...]  # datasets left out, each with the one that it equals byte for byte
    seconds: float

    @property
    def allowed(self) -> tuple[Candidate, ...]:
        """The candidates that aren't refused, the highest score first."""
        return tuple(candidate for candidate in self.candidates if candidate.score is not None)

    @property
    def choice(self) -> Candidate | None:
        """What to share: of the candidates whose best tenth is above the main data's own, that with the highest score.

        None where there is no such candidate.
        """
        return next((candidate for candidate in self.allowed if self.is_better(candidate)), None)

    def is_better(self, candidate: Candidate) -> bool:
        """Whether its best tenth of episodes returns more than the main data's own."""
        return candidate.worth.best > self.worth.best

    @property
    def recommendation(self) -> str:
        """What to do and why, in a few sentences."""
        return " ".join(_sentences(self))

    def best_tenth(self, candidate: Candidate) -> str:
        """Its best tenth in figures, with an arrow where it is above the main data's own."""
        return number(candidate.worth.best) + (" ↑" if self.is_better(candidate) else "")

    def _repr_html_(self) -> str:
        from utds import html

        rows = []
        for each in self.candidates:
            plan = "–" if each.plan is None else number(each.plan)
            score = "refused" if each.score is None else number(each.score, "+")
            returns = html.histogram(each.worth.returns, f"returns as {self.task}")
            rows.append((each.name, self.best_tenth(each), each.dynamics.says, plan, score, returns))
        table = html.table(("share", "best tenth", "dynamics", "plan", "score", ""), rows)
        own = f"the main data alone: best tenth {number(self.worth.best)}, plan {number(self.plan)}"
        words = (html.text(each) for each in (self.recommendation, own, LEGEND, RELIABILITY))
        return html.block(f"Advice for {self.main}", next(words), table, *words)

    def to_json(self) -> dict[str, Any]:
        """Everything but the single returns, as plain values."""
        value = asdict(self)
        for worth in (value["worth"], *(candidate["worth"] for candidate in value["candidates"])):
            del worth["returns"]
        words = {"recommendation": self.recommendation, "reliability": RELIABILITY}
        return value | {"choice": self.choice.name if self.choice else None, **words}


def advise(
    main: Dataset,
    candidates: Sequence[Dataset],
    *,
    rewards: Rewards = KNOWN,
    seed: int = 0,
    trust_dynamics: bool = False,
) -> Advice:
    """Rank datasets by what sharing them with a task's own data promises; no policy is trained.

    Args:
        main: data of the task to learn.
        candidates: data of other tasks of the same robot. Those that equal another one byte for byte count once.
        rewards: how the candidates are labelled for the main task, as in `utds.share`.
        seed: of the random features and of the model of the dynamics.
        trust_dynamics: leave out the check of dynamics, which takes most of the time.

    Returns:
        An `Advice`: `candidates`, the highest score first, `choice` and `recommendation`.

    Example:
        >>> advice = utds.advise(utds.load("walker-flip/medium-replay"), [utds.load("walker-run/replay")])
        >>> print(advice.recommendation)
    """
    started = time.perf_counter()
    candidates, duplicates = _distinct(main, candidates)
    check_compatible([main, *candidates])
    labelling = make(rewards)
    labels = [rewards_for(other, main, labelling) for other in candidates]
    returns = [other.returns_with(found) for other, found in zip(candidates, labels, strict=True)]
    dynamics = [Check(other.name, "trusted") for other in candidates]
    if not trust_dynamics:
        dynamics = checks(main, candidates, seed=seed)

    # What the robot can't do is no example, and changes nothing: only data with the main task's dynamics is looked at.
    allowed = [index for index, found in enumerate(dynamics) if found.verdict != "different"]
    known = [main, *(candidates[index] for index in allowed)]
    coverage = Coverage(known, seed)
    good = good_behaviour(known, [main.returns, *(returns[index] for index in allowed)])
    others = any_action(good, main.action_size)
    gammas = [coverage.gamma(others, subset) for subset in ((), *((place,) for place in range(len(allowed))))]
    alone, *shared = predictions(known, [main.rewards, *(labels[index] for index in allowed)], gammas)
    found = dict(zip(allowed, shared, strict=True))

    ranked = [
        Candidate(
            name=other.name,
            worth=worth(returns[index]),
            dynamics=dynamics[index],
            plan=found[index].plan if index in found else None,
            score=found[index].value - alone.value if index in found else None,
        )
        for index, other in enumerate(candidates)
    ]
    return Advice(
        main=main.name,
        task=main.metadata.task,
        worth=worth(main.returns),
        plan=alone.plan,
        value=alone.value,
        candidates=tuple(sorted(ranked, key=lambda c: (c.score is None, -(c.score or 0), -c.worth.best))),
        duplicates=duplicates,
        seconds=time.perf_counter() - started,
    )


def _distinct(main: Dataset, candidates: Sequence[Dataset]) -> tuple[list[Dataset], tuple[tuple[str, str], ...]]:
    """The candidates whose content differs from the main data's and from each other's, and what the others equal."""
    if not candidates:
        raise ConfigError("there is no candidate to advise on; name at least one dataset after --from")
    first = {main.digest: main.name}
    distinct, duplicates = [], []
    for other in _named_apart(main, candidates):
        if other.digest in first:
            duplicates.append((other.name, first[other.digest]))
        else:
            first[other.digest] = other.name
            distinct.append(other)
    if not distinct:
        raise ConfigError(
            f"every candidate is {main.name} itself (equal digests): name at least one other dataset after --from"
        )
    return distinct, tuple(duplicates)


def _named_apart(main: Dataset, candidates: Sequence[Dataset]) -> Iterator[Dataset]:
    """The candidates; datasets that were never stored have the names of their tasks, and several may have one."""
    taken = {main.name}
    for other in candidates:
        names = (other.name, *(f"{other.name} ({number})" for number in range(2, len(candidates) + 2)))
        name = next(name for name in names if name not in taken)
        taken.add(name)
        yield other if other.name == name else other.named(name)


def number(value: float, sign: str = "") -> str:
    """A return or a gain in few digits, at any scale; `sign` as in a format."""
    if abs(value) >= 100:
        return f"{value:{sign}.0f}"
    return f"{value:{sign}.3g}" if abs(value) >= 1e-3 else "0"


def _sentences(advice: Advice) -> Iterator[str]:
    yield from _choose(advice)
    if advice.choice:
        best = max(advice.allowed, key=lambda candidate: candidate.worth.best)
        if best.worth.best > advice.choice.worth.best:
            yield (
                f"The best tenth of {best.name} returns more, {number(best.worth.best)}: choosing by that alone cost "
                f"less on three robots, and more on the point mass. If it matters, train with {best.name} too, and "
                "compare."
            )
    if len(advice.allowed) > 1:
        yield EVERYTHING if advice.choice else JACO
    if refused := [c.name for c in advice.candidates if c.dynamics.verdict == "different"]:
        yield f"Don't share {_listed(refused)}: recorded with other dynamics."
    if unsure := [c.name for c in advice.candidates if c.dynamics.verdict == "unknown"]:
        yield (
            f"Whether {_listed(unsure)} {'has' if len(unsure) == 1 else 'have'} the same dynamics can't be told: fewer "
            f"than {LEAST_SHARE:.0%} of the transitions or {LEAST_EPISODES} episodes lie where the main data has been "
            "too."
        )
    yield from (
        f"{name} is the same data as {same}, byte for byte, and counts once." for name, same in advice.duplicates
    )


def _choose(advice: Advice) -> list[str]:
    """What to share and what it promises."""
    if not advice.allowed:
        return [f"Share nothing with {advice.main}: no candidate has its dynamics."]
    first, own = advice.choice or advice.allowed[0], number(advice.worth.best)
    best, after, before = number(first.worth.best), number(first.plan or 0.0), number(advice.plan)
    plan = f"A cautious plan's return {f'stays at {after}' if before == after else f'rises from {before} to {after}'}"
    if advice.choice:
        better = f"the best tenth of its episodes returns {best} under {advice.task}, the main data's own {own}"
        return [f"Share {first.name} with {advice.main}: {better}.", BETTER, f"{plan}."]
    why = f"no candidate's best tenth of episodes returns more under {advice.task} than the main data's own, {own}"
    return [
        f"Train on {advice.main} alone, and with {first.name} too, and compare: {why}.",
        NO_BETTER,
        f"{plan} with {first.name}.",
    ]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def draw(advice: Advice) -> "figures.Figure":
    """A row for each dataset. Left: its returns under the main task. Right: the predicted gain of sharing it."""
    named = [(advice.main, advice.worth, figures.BLUE)]
    for each in advice.candidates:
        refused = each.score is None
        name = f"{each.name} (other dynamics)" if refused else each.name
        named.append((name, each.worth, "0.6" if refused else figures.VERMILLION))
    with figures.panels(2, 7.2, 1.4 + 0.42 * len(named), width_ratios=(3, 2)) as (figure, (left, right)):
        for place, (name, worth, colour) in enumerate(named):
            _returns(left, place, worth, colour)
            # Above its bar, an id of any length costs no width.
            left.text(0.01, place - 0.24, name, transform=left.get_yaxis_transform(), va="bottom", fontsize=7)
        left.axvline(advice.worth.best, color=figures.BLUE, linestyle=":", linewidth=1)
        left.set(
            xlabel=f"return under {advice.task}\n(diamond: mean of the best tenth)", title="What the data is worth"
        )
        _gains(right, advice)
        for axes in (left, right):
            axes.set_yticks([])
            axes.set_ylim(len(named) - 0.6, -0.75)
        return figure


def _returns(axes: "figures.Axes", place: int, worth: Worth, colour: str) -> None:
    """A box from quartile to quartile, whiskers to the ends, a diamond at the mean of the best tenth."""
    least, low, median, high, most = worth.quartiles
    axes.plot([least, most], [place, place], color=colour, linewidth=1)
    axes.barh(place, high - low, left=low, height=0.3, color=colour, alpha=0.35)
    axes.plot([median, median], [place - 0.15, place + 0.15], color=colour)
    axes.plot(worth.best, place, "D", color=colour)


def _gains(axes: "figures.Axes", advice: Advice) -> None:
    """A bar for each candidate beside its returns, the chosen one filled."""
    scores = [candidate.score or 0.0 for candidate in advice.allowed]
    for place, (candidate, score) in enumerate(zip(advice.allowed, scores, strict=True), 1):
        picked = candidate == advice.choice
        axes.barh(
            place, score, height=0.3, color=figures.GREEN if picked else "none", edgecolor=figures.GREEN,
            hatch=None if picked else "///", linewidth=1,
        )  # fmt: skip
        axes.annotate(
            number(score, "+"), (max(score, 0.0), place), xytext=(4, 0), textcoords="offset points", va="center"
        )
    axes.set_xlim(min([0.0, *scores]), 1.4 * max([0.0, *scores]) or 1.0)  # room for what is written beside the bars
    axes.set(
        xlabel="predicted gain in return\n(filled: recommended)" if advice.choice else "predicted gain in return",
        title="What sharing promises",
    )
