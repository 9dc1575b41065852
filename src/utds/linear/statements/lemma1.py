"""(b) Lemma 1 and Claim 1: Γ_lcb is the posterior's standard deviation, and an ensemble estimates it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from utds import figures
from utds.figures import BLUE, GREEN, INK, ORANGE, VERMILLION
from utds.linear.learners import bootstrapped, covariance, gamma_lcb, perturbed, posterior
from utds.linear.models import Array, low_rank
from utds.linear.statements import Advance, Fact, at_most, picture, quietly, scaled

TITLE = "(b) Lemma 1 and Claim 1: an ensemble's spread is the LCB penalty"
CLAIM = (
    "With prior w ~ N(0, I/λ) and standard normal noise, Var[φᵀw | D] = φᵀΛ<sup>−1</sup>φ; the standard deviation "
    "of an ensemble estimates its root."
)
NEEDS = (
    "Members that are draws from the posterior: regressions on targets with fresh unit noise, each shrunk towards "
    "its own draw of the prior. Then the relative error is 1/√(2(N − 1)) for large N. Bootstrapped members estimate "
    "another spread, that of the residuals in the data, and stop short of Γ<sub>lcb</sub>; without a random prior "
    "they agree where there is no data, which is where Γ must be largest. (The printed proof drops λ from the "
    "prior's term and writes Λ<sup>−1</sup> for Λ in the exponent; the result is right.)"
)
CODE = ("learners.posterior", "learners.perturbed", "learners.bootstrapped")

MEMBERS = tuple(2**k for k in range(2, 11))  # N from 4 to 1024
PAPER_MEMBERS = 5
RIDGE = 1.0
KINDS: dict[str, Callable[..., Array]] = {
    "perturbed": perturbed,
    "bootstrapped, random prior": bootstrapped,
    "bootstrapped, no prior": partial(bootstrapped, prior=False),
}


@dataclass(frozen=True, eq=False)
class Result:
    errors: Mapping[str, Array]  # kind -> [len(MEMBERS)] root mean square of Γ_ensemble/Γ_lcb − 1
    gamma: Array  # [pairs] Γ_lcb
    ensembles: dict[int, Array]  # N -> [pairs] Γ of one perturbed ensemble
    identity: float  # largest |Var[φᵀw | D] − φᵀΛ⁻¹φ|, the variance by conditioning a joint Gaussian
    rises: float  # share of pairs whose 5-member Γ rises when data is shared, although Γ_lcb falls at all of them

    @property
    def slope(self) -> float:
        """Exponent of N in the perturbed ensemble's error, fitted in logarithms."""
        return float(np.polyfit(np.log(MEMBERS), np.log(self.errors["perturbed"]), 1)[0])


def run(rng: np.random.Generator, size: float = 1.0, advance: Advance = quietly) -> Result:
    """Fit ensembles to one regression problem whose noise is standard normal, as the lemma supposes."""
    pairs = low_rank(states=16, actions=4, width=8, horizon=1, rng=rng).pairs
    known = pairs[pairs[:, -1].argsort()[:24]]  # 24 of 64 pairs have data; it hardly touches the last feature
    rows = known[rng.integers(0, len(known), size=120)]
    targets = rows @ rng.standard_normal(8) + rng.standard_normal(len(rows))
    gamma = gamma_lcb(pairs, covariance(rows, RIDGE))
    repetitions = scaled(20, size)
    errors = {kind: np.empty(len(MEMBERS)) for kind in KINDS}
    for kind, fit in KINDS.items():
        for i, members in enumerate(MEMBERS):
            spreads = [_spread(fit(rows, targets, RIDGE, members, rng), pairs) for _ in range(repetitions)]
            errors[kind][i] = np.sqrt(np.mean((np.array([spread / gamma for spread in spreads]) - 1) ** 2))
            advance(1 / len(KINDS) / len(MEMBERS))
    sizes = (PAPER_MEMBERS, MEMBERS[-1])
    ensembles = {members: _spread(perturbed(rows, targets, RIDGE, members, rng), pairs) for members in sizes}
    rises = _rises(pairs, rows, targets, repetitions, rng)
    return Result(errors, gamma, ensembles, _identity(pairs, rows, targets, gamma), rises)


def _spread(weights: Array, pairs: Array) -> Array:
    """Γ [pairs] of an ensemble with these weights [N, d]."""
    return (weights @ pairs.T).std(axis=0, ddof=1)


def _identity(pairs: Array, rows: Array, targets: Array, gamma: Array) -> float:
    """How far the two closed forms of the posterior variance are from φᵀΛ⁻¹φ."""
    _, spread = posterior(rows, targets, RIDGE)
    by_weights = np.einsum("pd,de,pe->p", pairs, spread, pairs)
    cross = pairs @ rows.T / RIDGE  # prior covariances of φᵀw with the rows' own
    by_conditioning = (pairs**2).sum(axis=1) / RIDGE - np.einsum(
        "pk,kp->p", cross, np.linalg.solve(rows @ rows.T / RIDGE + np.eye(len(rows)), cross.T)
    )
    return float(max(np.abs(by_weights - gamma**2).max(), np.abs(by_conditioning - gamma**2).max()))


def _rises(pairs: Array, rows: Array, targets: Array, repetitions: int, rng: np.random.Generator) -> float:
    """Share of pairs at which a fresh 5-member ensemble sees more uncertainty with a quarter more data than without."""
    more = np.concatenate([rows, pairs[rng.integers(0, len(pairs), size=len(rows) // 4)]])
    labels = np.zeros(len(more))  # the spread doesn't depend on the targets

    def spread(features: Array, y: Array) -> Array:
        return _spread(perturbed(features, y, RIDGE, PAPER_MEMBERS, rng), pairs)

    return float(np.mean([spread(more, labels) > spread(rows, targets) for _ in range(repetitions)]))


def facts(result: Result) -> tuple[Fact, ...]:
    floor = {kind: result.errors[kind][-1] for kind in KINDS}
    return (
        at_most("|Var − φᵀΛ⁻¹φ|, largest over pairs", result.identity, 1e-10),
        Fact("error ∝ N^slope, N from 4 to 1024", f"{result.slope:.3f}", "−0.6 to −0.4", -0.6 < result.slope < -0.4),
        Fact("relative error at N = 1024", "; ".join(f"{kind} {floor[kind]:.1%}" for kind in KINDS)),
        Fact(
            f"pairs where N = {PAPER_MEMBERS} sees Γ rise as shared data makes Γ_lcb fall",
            f"{result.rises:.0%}: sampling noise, gone as N grows",
        ),
    )


@picture("lemma1-convergence", "ensemble members N", r"relative error of $\Gamma$", height=3.3, columns=1)
def convergence(result: Result, axes: "figures.Axes") -> str:
    for kind, colour, marker in zip(KINDS, (BLUE, ORANGE, VERMILLION), "os^", strict=True):
        axes.loglog(MEMBERS, result.errors[kind], color=colour, marker=marker, label=kind)
    theory = 1 / np.sqrt(2 * (np.array(MEMBERS) - 1))
    axes.loglog(MEMBERS, theory, color=INK, linestyle=":", label=r"$1/\sqrt{2(N-1)}$")
    axes.set_xticks(MEMBERS[::2], [str(members) for members in MEMBERS[::2]])
    axes.set_yticks((0.02, 0.05, 0.1, 0.2, 0.4), ("2 %", "5 %", "10 %", "20 %", "40 %"))
    axes.minorticks_off()
    return (
        "Root mean square of Γ_ensemble/Γ_lcb − 1 over all pairs. Posterior draws follow the closed form; "
        "bootstraps meet a floor."
    )


@picture("lemma1-pairs", r"$\Gamma_\mathrm{lcb}$", r"ensemble $\Gamma$", columns=3)
def pairs(result: Result, axes: "figures.Axes") -> str:
    top = 1.08 * max(gamma.max() for gamma in (result.gamma, *result.ensembles.values()))
    axes.plot([0, top], [0, top], color=INK, linewidth=0.8, linestyle=":", label="equal")
    for (members, gamma), colour, marker in zip(result.ensembles.items(), (ORANGE, GREEN), "s^", strict=True):
        axes.scatter(result.gamma, gamma, s=16, color=colour, marker=marker, linewidths=0, label=f"N = {members}")
    axes.set(xlim=(0, top), ylim=(0, top))
    return f"Γ of one perturbed ensemble at every pair: N = {PAPER_MEMBERS}, as in the deep algorithm, and N = 1024."


PICTURES = (convergence, pairs)
