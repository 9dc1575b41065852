"""(f) Lemma 2: the UTDS operator contracts by γ, as long as Γ doesn't look at Q."""

from dataclasses import dataclass, replace

import numpy as np

from utds import figures
from utds.figures import BLUE, GREEN, INK, VERMILLION
from utds.linear.learners import Operator, gamma_lcb, operator, pair_covariance
from utds.linear.models import Array, behaviour, collect, count, low_rank
from utds.linear.statements import Advance, Fact, at_most, picture, quietly, scaled

TITLE = "(f) Lemma 2: the operator contracts"
CLAIM = (
    "‖𝒯<sup>UTDS</sup>Q<sub>1</sub> − 𝒯<sup>UTDS</sup>Q<sub>2</sub>‖<sub>∞</sub> ≤ γ‖Q<sub>1</sub> − "
    "Q<sub>2</sub>‖<sub>∞</sub>, so iterating it reaches its only fixed point."
)
NEEDS = (
    "A Γ that depends on the data alone, so that it cancels: Γ<sub>lcb</sub> does, a fixed policy too. The standard "
    "deviation of the very ensemble being updated moves with Q, and then the factor may reach γ(1 + β<sub>1</sub>√1.2) "
    "with five members: 2.1γ at β<sub>1</sub> = 1; at the table's β<sub>1</sub> = 0.001 it is 1.0011γ, still a "
    "contraction."
)
CODE = ("learners.operator", "learners.Operator.fixed_point")

DISCOUNTS = (0.5, 0.9, 0.99)
ITERATIONS = 40
MEMBERS = 5
BETA_1 = 1.0  # as in the lemma's proof, which writes Q − Γ
TABLE_BETA_1 = 0.001  # of the paper's experiments


@dataclass(frozen=True, eq=False)
class Result:
    distances: dict[float, Array]  # γ -> [2, ITERATIONS + 1] ‖𝒯ᵏQ₁ − 𝒯ᵏQ₂‖∞ / ‖Q₁ − Q₂‖∞: random, constant difference
    fixed_point: float  # ‖𝒯Q − Q‖∞ at the Q that the linear equation gives
    lcb: Array  # [pairs of Qs] ‖𝒯Q₁ − 𝒯Q₂‖∞ / (γ‖Q₁ − Q₂‖∞) with Γ_lcb
    ensemble: dict[float, Array]  # β₁ -> [pairs of ensembles] the same with Γ = the members' own standard deviation


def run(rng: np.random.Generator, size: float = 1.0, advance: Advance = quietly) -> Result:
    """Apply the operator of one dataset to random pairs of Q functions."""
    mdp = low_rank(states=10, actions=3, width=6, horizon=1, rng=rng)
    counts = count(mdp, collect(mdp, behaviour(mdp, 0.5, 1.0, rng), 3000, rng))  # every pair is seen
    gamma = gamma_lcb(mdp.pairs, pair_covariance(mdp, counts.visits[0, 0], 1.0)).reshape(mdp.states, mdp.actions)
    policy = rng.dirichlet(np.ones(mdp.actions), size=mdp.states)
    operators = {discount: operator(counts, 0, policy, discount, BETA_1) for discount in DISCOUNTS}
    chosen = operators[0.9]
    fixed = chosen.fixed_point(gamma)

    # Members drift apart as a whole more than from pair to pair: an offset each, and smaller differences on top.
    pairs = scaled(2000, size)
    before = np.zeros((MEMBERS, pairs, mdp.states, mdp.actions))
    after = rng.normal(size=(MEMBERS, pairs, 1, 1)) + rng.normal(scale=0.3, size=before.shape)
    advance(1)
    return Result(
        {discount: _distances(chosen, gamma, rng) for discount, chosen in operators.items()},
        float(np.abs(chosen(fixed, gamma) - fixed).max()),
        _ratio(chosen(after, gamma)[:1] - chosen(before, gamma)[:1], after[:1] - before[:1], chosen.discount),
        {beta: _own_ratio(replace(chosen, beta=beta), before, after) for beta in (BETA_1, TABLE_BETA_1)},
    )


def _distances(chosen: Operator, gamma: Array, rng: np.random.Generator) -> Array:
    """How pairs of Q functions approach each other: one differs at random, one by a constant, the hardest case."""
    base = rng.normal(scale=10, size=gamma.shape)
    q: Array = np.stack([base, rng.normal(scale=10, size=gamma.shape), base + 10])
    gaps = []
    for _ in range(ITERATIONS + 1):
        gaps.append(np.abs(q[1:] - q[0]).max(axis=(1, 2)))
        q = chosen(q, gamma)
    return (np.array(gaps) / gaps[0]).T


def _ratio(after: Array, before: Array, discount: float) -> Array:
    """‖after‖∞ / (γ‖before‖∞) over members, states and actions of two differences [N, pairs, S, A]: [pairs]."""
    return np.abs(after).max(axis=(0, 2, 3)) / (discount * np.abs(before).max(axis=(0, 2, 3)))


def _own_ratio(chosen: Operator, before: Array, after: Array) -> Array:
    """The ratio of two ensembles [N, pairs, S, A] whose Γ is their own standard deviation."""
    return _ratio(chosen.ensemble(after) - chosen.ensemble(before), after - before, chosen.discount)


def facts(result: Result) -> tuple[Fact, ...]:
    largest = float(result.lcb.max())
    return (
        Fact(
            f"largest ‖𝒯Q₁ − 𝒯Q₂‖ / (γ‖Q₁ − Q₂‖) with Γ_lcb, {len(result.lcb)} pairs",
            f"{largest:.3f}",
            "≤ 1",
            largest <= 1 + 1e-12,
        ),
        at_most("‖𝒯Q − Q‖ at the solved fixed point", result.fixed_point, 1e-12),
        *(
            Fact(
                f"the same ratio with the ensemble's own Γ (N = {MEMBERS}, β₁ = {beta:g})",
                f"up to {ratio.max():.4g}; above 1 in {np.mean(ratio > 1):.0%} of pairs",
            )
            for beta, ratio in result.ensemble.items()
        ),
    )


@picture("lemma2-iterations", "applications k", r"$\|T^kQ_1 - T^kQ_2\|_\infty \,/\, \|Q_1 - Q_2\|_\infty$", columns=3)
def iterations(result: Result, axes: "figures.Axes") -> str:
    steps = np.arange(ITERATIONS + 1)
    for (discount, distance), colour, marker in zip(
        result.distances.items(), (VERMILLION, GREEN, BLUE), "^so", strict=True
    ):
        axes.semilogy(steps, discount**steps, color=colour, linewidth=0.9)
        random, constant = (
            axes.semilogy(steps[::4], series[::4], color=colour, marker=marker)[0] for series in distance
        )
        random.set(linestyle="", label=f"γ = {discount}")
        constant.set(linestyle="", markerfacecolor="none")
    axes.set_ylim(1e-6, 2)
    return (
        "Distance between two Q functions as the operator is applied, below γᵏ (lines): full marks for a random "
        "difference, hollow ones for a constant, the hardest case."
    )


@picture("lemma2-ratios", r"$\|TQ_1 - TQ_2\|_\infty \,/\, (\gamma\,\|Q_1 - Q_2\|_\infty)$", "share of pairs", columns=3)
def ratios(result: Result, axes: "figures.Axes") -> str:
    own = result.ensemble[BETA_1]
    edges = np.linspace(0, max(1.05, own.max()), 41)
    for ratios, colour, hatch, name in (
        (result.lcb, BLUE, "", r"$\Gamma_\mathrm{lcb}$"),
        (own, VERMILLION, "////", r"ensemble $\Gamma$"),
    ):
        shares = np.histogram(ratios, edges)[0] / len(ratios)
        axes.stairs(shares, edges, fill=True, color=colour, alpha=0.45, hatch=hatch, linewidth=0.5, label=name)
    axes.axvline(1, color=INK, linewidth=1, linestyle=":", label="contraction by γ")
    return (
        "One application to random pairs: with Γ_lcb every pair comes closer by γ or more, with the ensemble's own "
        f"Γ and β₁ = {BETA_1:g} most do not."
    )


PICTURES = (iterations, ratios)
