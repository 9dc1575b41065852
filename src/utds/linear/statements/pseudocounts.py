"""(e) The tabular case: Γ_lcb is the reciprocal root of a count."""

from dataclasses import dataclass

import numpy as np

from utds import figures
from utds.figures import BLUE, GREEN, VERMILLION
from utds.linear.learners import prepare
from utds.linear.models import Array, avoiding, behaviour, collect, count, plan, share, tabular
from utds.linear.statements import Advance, Fact, at_most, picture, quietly, scaled

TITLE = "(e) Tabular MDPs: uncertainty is a pseudo-count"
CLAIM = "With one-hot features Γ<sub>lcb</sub>(s, a) = 1/√(N(s, a) + λ)."
NEEDS = (
    "Nothing but one-hot φ: Λ is then diagonal. Counts can't fall, so no shared data raises Γ anywhere, and data "
    "that avoids π* leaves Γ untouched wherever π* goes."
)
CODE = ("learners.prepare", "models.count")

RIDGES = (0.1, 1.0, 10.0)


@dataclass(frozen=True, eq=False)
class Result:
    visits: Array  # [B, T, S, A] N(s, a) of D_i
    gamma: dict[float, Array]  # λ -> Γ [B, T, S, A]
    shared: Array  # [B, T, S, A] Γ at λ = 1 after sharing data that avoids π*
    best: Array  # [T, S, A] π*, one-hot

    @property
    def deviation(self) -> float:
        """Largest |Γ − 1/√(N + λ)|."""
        return max(float(np.abs(gamma - (self.visits + ridge) ** -0.5).max()) for ridge, gamma in self.gamma.items())

    @property
    def moved(self) -> float:
        """Largest change of Γ at the pairs that π* plays."""
        return float(np.abs((self.shared - self.gamma[1.0]) * self.best).max())


def run(rng: np.random.Generator, size: float = 1.0, advance: Advance = quietly) -> Result:
    """Γ by the general formula, on one-hot features."""
    mdp = tabular(states=6, actions=4, horizon=4, rng=rng)
    best, datasets = plan(mdp).policy, scaled(20, size)
    own = collect(mdp, behaviour(mdp, 0.5, 1.0, rng), 200, rng, datasets)
    other = collect(mdp, avoiding(best), 400, rng, datasets)
    gamma = {ridge: prepare(mdp, own, ridge).width for ridge in RIDGES}
    advance(1)
    return Result(count(mdp, own).visits, gamma, prepare(mdp, share(mdp, own, other)).width, best)


def facts(result: Result) -> tuple[Fact, ...]:
    return (
        at_most("largest |Γ − 1/√(N + λ)|", result.deviation, 1e-12),
        Fact("change of Γ at π*'s pairs by data that avoids π*", f"{result.moved:.1e}", "0", result.moved == 0),
    )


@picture("pseudocounts-curve", "visits N(s, a)", r"$\Gamma_\mathrm{lcb}(s, a)$", columns=3)
def against_count(result: Result, axes: "figures.Axes") -> str:
    counts, first = np.unique(result.visits, return_index=True)
    shown = np.unique(np.linspace(0, len(counts) - 1, 25).round().astype(int))
    curve = np.linspace(0, counts.max(), 200)
    for ridge, colour, marker in zip(RIDGES, (BLUE, GREEN, VERMILLION), "os^", strict=True):
        axes.semilogy(curve, (curve + ridge) ** -0.5, color=colour, linewidth=0.9)
        gamma = result.gamma[ridge].ravel()[first][shown]
        axes.semilogy(counts[shown], gamma, color=colour, marker=marker, linestyle="", label=f"λ = {ridge:g}")
    axes.set_yticks((0.2, 0.5, 1, 2, 3), ("0.2", "0.5", "1", "2", "3"))
    axes.minorticks_off()
    return "Γ of pairs against their count (marks, by the general formula) on 1/√(N + λ) (lines)."


@picture("pseudocounts-map", "state s", "action a", columns=0)
def left_over(result: Result, axes: "figures.Axes") -> str:
    from matplotlib.colors import BoundaryNorm

    kept = (result.shared[0, 0] / result.gamma[1.0][0, 0]).T  # [A, S]
    levels = BoundaryNorm(np.linspace(0, 1, 11), 256)
    mesh = axes.pcolormesh(kept, cmap="cividis", norm=levels, edgecolors="face", linewidth=0.3)
    action, state = np.nonzero(result.best[0].T)
    axes.plot(state + 0.5, action + 0.5, linestyle="", marker="x", color="#000000", markersize=7, markeredgewidth=1.4)
    axes.set_xticks(np.arange(kept.shape[1]) + 0.5, [str(i) for i in range(kept.shape[1])])
    axes.set_yticks(np.arange(kept.shape[0]) + 0.5, [str(i) for i in range(kept.shape[0])])
    axes.grid(False)
    axes.figure.colorbar(mesh, ax=axes, label=r"$\Gamma$ shared / $\Gamma$ alone", ticks=(0, 0.2, 0.4, 0.6, 0.8, 1))
    return (
        "What is left of Γ (λ = 1) at each pair of the first step after sharing data that avoids π*; crosses mark "
        "π*'s pairs, which keep all of it."
    )


PICTURES = (against_count, left_over)
