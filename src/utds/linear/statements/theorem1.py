"""(a) Theorem 1: sharing data never raises Γ_lcb, whichever task the data comes from."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from utds import figures
from utds.figures import BLUE, GREEN, INK, VERMILLION
from utds.linear.learners import gamma_lcb, pair_covariance
from utds.linear.models import Array, behaviour, collect, count, draw_ood, family, low_rank, share
from utds.linear.statements import Advance, Fact, at_most, picture, quietly, scaled

TITLE = "(a) Theorem 1: shared data shrinks the uncertainty"
CLAIM = (
    "Γ<sub>lcb</sub>(s, a; D<sub>i</sub>) ≥ Γ<sub>lcb</sub>(s, a; D<sub>i</sub> ∪ D<sub>j→i</sub>) ≥ "
    "Γ<sub>lcb</sub>(s, a; D<sub>i</sub> ∪ D<sub>j→i</sub> ∪ D<sub>k→i</sub>) for every pair, with or without OOD "
    "data."
)
NEEDS = (
    "The same β and the same ridge on every side, and OOD rows that are only ever added: Λ̃<sub>i</sub> must stay "
    "inside Λ̃<sub>ij</sub>. Redrawing D<sup>ood</sup> after sharing, say from a policy that has changed, voids it. "
    "The theorem's second half, for an ensemble's Γ, holds for the posterior's spread and not for each finite "
    "ensemble: see (b)."
)
CODE = ("learners.covariance", "learners.gamma_lcb", "models.share")

OWN = 20  # rows per step of D_i
GROWTH = (0, 5, 10, 20, 50, 100, 200)  # rows per step taken from D_j, then from D_k
RIDGE = 1.0


@dataclass(frozen=True, eq=False)
class Result:
    rows: Array  # [stages] shared rows per step
    gamma: dict[bool, Array]  # with OOD data or without -> Γ [stages, B, T, S·A]

    @property
    def largest_rise(self) -> float:
        """The largest Γ(after) − Γ(before) over all stages, datasets, steps and pairs; ≤ 0 but for rounding."""
        return max(float(np.diff(gamma, axis=0).max()) for gamma in self.gamma.values())


def run(rng: np.random.Generator, size: float = 1.0, advance: Advance = quietly) -> Result:
    """Γ after each portion of D_j and then of D_k, with the portion's own OOD rows and without any."""
    tasks = family(low_rank(states=12, actions=4, width=8, horizon=5, rng=rng), (0.5, 0.0), rng)
    main, datasets = tasks[0], scaled(100, size)
    own = collect(main, behaviour(main, 0.9, 0.25, rng), OWN, rng, datasets)
    others = [collect(task, behaviour(task, 0.7, 0.5, rng), GROWTH[-1], rng, datasets) for task in tasks[1:]]
    portions = [own] + [other.rows(a, b) for other in others for a, b in pairwise(GROWTH)]
    uniform = np.full((main.horizon, main.states, main.actions), 1 / main.actions)
    ood = [draw_ood(main, portion, uniform, 1, rng) for portion in portions]
    visits = np.cumsum([count(main, share(main, portion)).visits for portion in portions], axis=0)
    rows = np.cumsum([0] + [portion.states.shape[2] for portion in portions[1:]]).astype(np.float64)
    stages = {False: visits, True: visits + np.cumsum(ood, axis=0)}
    gamma = {kind: gamma_lcb(main.pairs, pair_covariance(main, found, RIDGE)) for kind, found in stages.items()}
    advance(1)
    return Result(rows, gamma)


def facts(result: Result) -> tuple[Fact, ...]:
    comparisons = sum(gamma[1:].size for gamma in result.gamma.values())
    final = {ood: gamma[-1].mean() / gamma[0].mean() for ood, gamma in result.gamma.items()}
    return (
        at_most(f"largest rise of Γ over {comparisons:,} comparisons", result.largest_rise, 1e-10),
        Fact("mean Γ left after sharing j and k", f"{final[False]:.0%} (with OOD data {final[True]:.0%})"),
    )


@picture("theorem1-growth", "shared rows per step", r"$\Gamma_\mathrm{lcb}$")
def growth(result: Result, axes: "figures.Axes") -> str:
    axes.axvspan(GROWTH[-1], result.rows[-1], color=INK, alpha=0.06, linewidth=0)
    for ood, colour, marker, name in ((False, BLUE, "o", "data only"), (True, VERMILLION, "s", "with OOD")):
        gamma = result.gamma[ood].reshape(len(result.rows), -1)
        axes.plot(result.rows, gamma.mean(axis=1), color=colour, marker=marker, label=f"{name}, mean")
        axes.plot(result.rows, gamma.max(axis=1), color=colour, linestyle="--", label=f"{name}, max")
    axes.set_ylim(bottom=0)
    for at, name in ((0.25, "$+\\, D_j$"), (0.75, "$+\\, D_k$")):
        axes.text(at, 0.97, name, transform=axes.transAxes, ha="center", va="top")
    return (
        "Γ (β = 1) over all pairs and datasets as rows of D_j, then of D_k (shaded), join D_i. Lines are means, "
        "dashes the worst pair."
    )


@picture("theorem1-pairs", r"$\Gamma_\mathrm{lcb}$ on $D_i$ alone", r"$\Gamma_\mathrm{lcb}$ after sharing", columns=3)
def pairs(result: Result, axes: "figures.Axes") -> str:
    gamma = result.gamma[False][:, 0, 0]  # [stages, S·A] of the first dataset and step
    before, after_j, after_k = (gamma[stage] for stage in (0, len(GROWTH) - 1, -1))
    top = before.max() * 1.05
    axes.plot([0, top], [0, top], color=INK, linewidth=0.8, linestyle=":", label="unchanged")
    axes.scatter(before, after_j, s=16, color=BLUE, marker="o", alpha=0.75, linewidths=0, label=r"$D_i \cup D_j$")
    axes.scatter(
        before, after_k, s=18, color=GREEN, marker="^", alpha=0.75, linewidths=0, label=r"$D_i \cup D_j \cup D_k$"
    )
    axes.set(xlim=(0, top), ylim=(0, top))
    return "Γ of each pair in the first step of one dataset, before sharing and after: none lies above the diagonal."


PICTURES = (growth, pairs)
