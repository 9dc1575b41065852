"""(g) Infinitely many OOD steps: where they end, and why a floor is needed under them."""

import math
from dataclasses import dataclass

import numpy as np

from utds import figures
from utds.figures import BLUE, GREEN, INK, ORANGE, VERMILLION
from utds.linear.learners import ood_penalties, ood_steps
from utds.linear.models import Array
from utds.linear.statements import Advance, Fact, at_most, picture, quietly, scaled

TITLE = "(g) The OOD operator: infinitely many steps"
CLAIM = (
    "Applying 𝒯<sup>ood</sup>Q = Q − β<sub>2</sub>Γ infinitely often, with β<sub>2</sub> multiplied by α at each "
    "step, leads to Q − β<sub>2</sub>/(1 − α)·Γ, not to negative infinity."
)
NEEDS = (
    "A β<sub>2</sub> that decays to 0. The paper's table lets it end at 0.1 (0.01 in the text of the ablation): the "
    "sum then grows without bound. Where it converges, the limit bounds nothing: with rewards in [0, 1] and γ = 0.99 "
    "no |Q| exceeds 100, while β<sub>2</sub>/(1 − α) is 60,000. The operator shifts all members alike, so Γ stays as "
    "it is and nothing in the operator ever stops; only the other half of the loss pulls values back. "
    "<code>ood_floor</code>, the least value of an OOD target, gives it a fixed point inside the range that values can "
    "have. A gradient step moves Q only part of the way to its target: these are counts of the operator, not "
    "predictions of a trained critic."
)
CODE = ("learners.ood_penalties", "learners.ood_steps")

START, DECAY, END = 3.0, 0.99995, 0.1  # β₂ at first, α, β₂ at last: the paper's table
ABLATION_END = 0.01  # β₂ at last in the text of the paper's ablation
STEPS = 1_000_000
LARGEST = 100.0  # |Q| of rewards in [0, 1] at γ = 0.99
MEMBERS = 5
APPLIED = 1000  # steps in which the operator itself is applied to ensembles


@dataclass(frozen=True, eq=False)
class Result:
    totals: dict[float, Array]  # β₂'s end -> [STEPS] sum of β₂ over the first k + 1 steps: what is taken off, in Γ
    identity: float  # largest relative error of (Σβ₂)·Γ as the fall of Q, against the operator applied step by step
    start: Array  # [N] members of one ensemble, with mean 50 and Γ = 1
    floored: Array  # [APPLIED + 1, N, ensembles] courses with a floor at 0; the first ensemble begins at `start`

    @property
    def claimed(self) -> float:
        """β₂/(1 − α)."""
        return START / (1 - DECAY)

    @property
    def decay_steps(self) -> float:
        """After how many steps β₂ has fallen to its end."""
        return math.log(END / START) / math.log(DECAY)

    @property
    def settled(self) -> int:
        """After how many steps every member of every ensemble stands at the floor."""
        return int((self.floored > 0).any(axis=(1, 2)).sum())


def run(rng: np.random.Generator, size: float = 1.0, advance: Advance = quietly) -> Result:
    """Sum up β₂, and apply the operator to ensembles of values between 0 and 100, without a floor and with one."""
    totals = {end: np.cumsum(ood_penalties(STEPS, START, DECAY, end)) for end in (0.0, ABLATION_END, END)}
    spread = rng.normal(size=MEMBERS)
    start = 50 + (spread - spread.mean()) / spread.std(ddof=1)
    ensembles = rng.uniform(20, 80, scaled(500, size)) + rng.normal(size=(MEMBERS, scaled(500, size)))
    ensembles[:, 0] = start
    penalties = ood_penalties(APPLIED, START, DECAY, END)
    fall = ensembles - ood_steps(ensembles, penalties)[-1]
    identity = float(np.abs(fall / (penalties.sum() * ensembles.std(axis=0, ddof=1)) - 1).max())
    advance(1)
    return Result(totals, identity, start, ood_steps(ensembles, penalties, floor=0.0))


def facts(result: Result) -> tuple[Fact, ...]:
    vanishing, ablation, table = (float(result.totals[end][-1]) for end in (0.0, ABLATION_END, END))
    whole = math.ceil(result.decay_steps)  # the first step whose β₂ is the end's
    closed = START * (1 - DECAY**whole) / (1 - DECAY) + (STEPS - whole) * END
    return (
        at_most(f"relative error of (Σβ₂)·Γ as the fall of Q after {APPLIED:,} applications", result.identity, 1e-10),
        Fact(
            f"Σβ₂ over {STEPS:,} steps if β₂ → 0",
            f"{vanishing:,.0f}",
            f"{result.claimed:,.0f}, as claimed",
            math.isclose(vanishing, result.claimed, rel_tol=1e-9),
        ),
        Fact(
            f"the same if β₂ ends at {END} as in the table: {table / result.claimed:.2f} times what is claimed",
            f"{table:,.0f}",
            f"{closed:,.0f} in closed form",
            math.isclose(table, closed, rel_tol=1e-9),
        ),
        Fact(f"the same if it ends at {ABLATION_END} as in the ablation's text", f"{ablation:,.0f}"),
        Fact("what every further million steps add, at the table's end", f"{END * STEPS:,.0f}"),
        Fact(
            f"Γ above which {result.claimed:,.0f}·Γ exceeds {LARGEST:.0f}, the largest |Q| at γ = 0.99",
            f"{LARGEST / result.claimed:.4f}",
        ),
        Fact(
            f"β₂ has fallen to {END} after (the table says “first half” of {STEPS:,})",
            f"{math.floor(result.decay_steps):,} steps, {result.decay_steps / STEPS:.1%}",
        ),
        Fact(
            "least value with a floor at 0; every member stands there after",
            f"{result.floored.min():.0f}; {result.settled} steps",
            "0; standing still",
            result.floored.min() == 0 and result.settled < APPLIED,
        ),
    )


@picture("ood-sum", "thousand OOD steps k", r"$\sum_{t<k} \beta_2(t)$, thousands")
def taken_off(result: Result, axes: "figures.Axes") -> str:
    steps = np.linspace(1, STEPS, 201).astype(int)
    looks = zip(result.totals.items(), (GREEN, ORANGE, VERMILLION), ("-", "-.", "--"), strict=True)
    for (end, totals), colour, dash in looks:
        axes.plot(steps / 1000, totals[steps - 1] / 1000, color=colour, linestyle=dash, label=rf"$\beta_2 \to$ {end:g}")
    axes.axhline(result.claimed / 1000, color=INK, linewidth=1, linestyle=":", label="claimed limit")
    lowest = LARGEST / 0.1 / 1000
    axes.axhline(lowest, color=BLUE, linewidth=1, linestyle=(0, (5, 1, 1, 1)), label="|Q| = 100 at Γ = 0.1")
    axes.set_ylim(bottom=0)
    return (
        "What OOD steps take off a value, in multiples of its Γ. Only a β₂ that decays to 0 stays within the "
        "claimed limit; the table's exceeds it and keeps growing. Where Γ is 0.1, a value of 100 is used up at the "
        "lowest line."
    )


@picture("ood-floor", "OOD steps k", "mean Q", columns=3)
def floor(result: Result, axes: "figures.Axes") -> str:
    steps = np.unique(np.geomspace(1, STEPS, 100).astype(int))
    lowest = result.start.mean() - result.totals[END][steps - 1]  # Γ is 1 and stays so
    floored = result.floored[:, :, 0].mean(axis=1)
    axes.plot(steps, lowest, color=VERMILLION, linestyle="--", label="no floor")
    axes.plot([*range(1, len(floored)), STEPS], [*floored[1:], floored[-1]], color=BLUE, label="floor at 0")
    axes.axhspan(-LARGEST, LARGEST, color=INK, alpha=0.08, linewidth=0, label="|Q| ≤ 100")
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=100)
    axes.set_ylim(-3e5, 1000)
    return (
        f"An ensemble of {MEMBERS} about Q = 50 with Γ = 1 under the table's β₂: without a floor its mean falls to "
        f"{50 - result.totals[END][-1]:,.0f} in a million steps, with one at 0 it stops."
    )


PICTURES = (taken_off, floor)
