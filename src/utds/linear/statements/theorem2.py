"""(c) Theorem 2: how often Γ bounds the error of T̂V everywhere, and how small its constant c may be."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from utds import figures
from utds.figures import BLUE, GREEN, INK, ORANGE, PURPLE, VERMILLION
from utds.linear.learners import Ood, Problem, Solution, beta, explicit_beta, pevi, prepare, quantifies, underestimates
from utds.linear.models import Array, LinearMDP, Transitions, behaviour, collect, draw_ood, low_rank, related, share
from utds.linear.statements import Advance, Fact, picture, quietly, scaled

TITLE = "(c) Theorem 2: the ξ-uncertainty quantifier on shared data"
CLAIM = (
    "With β = c·T·√d·log(T/ξ), |T̂V(s, a) − 𝒯V(s, a)| ≤ Γ<sub>lcb</sub>(s, a; D̂<sub>i</sub>) at every step and "
    "pair, with probability at least 1 − ξ."
)
NEEDS = (
    "The V that the algorithm itself computes, which depends on c. Rows drawn afresh at each step: then V is "
    "independent of the step's noise and √d suffices; whole episodes need a cover of the values that V may take, and d "
    "in its place, though on these problems they fare no worse. Exact OOD targets 𝒯V: with the practical Q − Γ nothing "
    "is promised. The O(·) hides c and a logarithm of the rows. (The printed proof bounds D<sub>i</sub>'s and "
    "D<sub>j</sub>'s noise apart and joins the two by an inequality that runs the other way; the self-normalised bound "
    "on the pooled rows gives the theorem directly, without its factor of two.)"
)
CODE = ("learners.beta", "learners.explicit_beta", "learners.quantifies", "learners.pevi")

XI = 0.1
STATES, ACTIONS, WIDTH, HORIZON, SAMPLES = 16, 4, 16, 10, 1000
CONSTANTS = np.concatenate([np.geomspace(0.004, 0.025, 11), (0.1, 0.3, 1.0)])  # fine where coverage climbs
WIDTHS = (4, 8, 16, 32)
CHUNK = 100  # datasets held in memory at once
SETTINGS = {  # name -> colour, marker; the last has no guarantee
    "D_i alone": (BLUE, "o"),
    "shared": (GREEN, "s"),
    "shared, whole episodes": (PURPLE, "D"),
    "shared, exact OOD targets": (ORANGE, "^"),
    "shared, practical OOD targets": (VERMILLION, "v"),
}
PRACTICAL = tuple(SETTINGS)[-1]


@dataclass(frozen=True, eq=False)
class Result:
    datasets: int
    coverage: Mapping[str, Array]  # setting -> [len(CONSTANTS)] share of datasets with |T̂V − 𝒯V| ≤ Γ everywhere
    safe: Array  # [len(CONSTANTS)] share with T̂V − Γ ≤ 𝒯V everywhere, for the practical OOD target
    provable: float  # the c at which β equals its explicit form, for the shared data
    by_width: Array  # [len(WIDTHS)] smallest c with coverage ≥ 1 − ξ, shared data
    provable_by_width: Array  # [len(WIDTHS)]

    def smallest(self, setting: str) -> float:
        """The smallest c of the grid from which coverage stays at 1 − ξ or more; infinite if there is none."""
        enough = np.flip(np.logical_and.accumulate(np.flip(self.coverage[setting] >= 1 - XI)))
        return float(CONSTANTS[enough.argmax()]) if enough.any() else np.inf


def run(rng: np.random.Generator, size: float = 1.0, advance: Advance = quietly) -> Result:
    """Run pessimistic value iteration anew for every dataset, setting and c: V depends on c, and so does its error."""
    mdp = low_rank(STATES, ACTIONS, WIDTH, HORIZON, rng)
    policies = _behaviours(mdp, rng)
    datasets = scaled(500, size, least=20)
    held = {setting: np.zeros(len(CONSTANTS)) for setting in SETTINGS}
    safe = np.zeros(len(CONSTANTS))
    provable = 0.0
    for first in range(0, datasets, CHUNK):
        number = min(CHUNK, datasets - first)
        for setting, problem in _problems(mdp, policies, number, rng):
            solutions = [solve(problem, c) for c in CONSTANTS]
            held[setting] += [quantifies(mdp, solution).sum() for solution in solutions]
            if setting == PRACTICAL:
                safe += [underestimates(mdp, solution).sum() for solution in solutions]
            if setting == "shared":
                provable = max(provable, _provable(problem))
            advance(0.9 * number / datasets / len(SETTINGS))
    coverage = {setting: counts / datasets for setting, counts in held.items()}
    by_width = np.array([_at_width(width, scaled(100, size, least=20), rng) for width in WIDTHS])
    advance(0.1)
    return Result(datasets, coverage, safe / datasets, provable, by_width[:, 0], by_width[:, 1])


def solve(problem: Problem, c: float) -> Solution:
    """Pessimistic value iteration with β = c·T·√d·log(T/ξ)."""
    return pevi(problem, beta(problem.mdp.width, problem.mdp.horizon, XI, c))


def _behaviours(mdp: LinearMDP, rng: np.random.Generator) -> tuple[Array, Array]:
    other = related(mdp, 0.3, rng)
    return behaviour(mdp, 0.5, 0.5, rng), behaviour(other, 0.5, 0.5, rng)


def _problems(
    mdp: LinearMDP, policies: tuple[Array, Array], datasets: int, rng: np.random.Generator
) -> list[tuple[str, Problem]]:
    """Every setting on the same draws."""
    own, other = _pair(mdp, policies, datasets, rng)
    shared = share(mdp, own, other)
    uniform = np.full((mdp.horizon, mdp.states, mdp.actions), 1 / mdp.actions)
    ood = draw_ood(mdp, shared, uniform, 1, rng)
    problems = (
        prepare(mdp, own),
        prepare(mdp, shared),
        prepare(mdp, share(mdp, *_pair(mdp, policies, datasets, rng, episodes=True))),
        prepare(mdp, shared, ood=Ood(ood, "exact")),
        prepare(mdp, shared, ood=Ood(ood, "pessimistic")),
    )
    return list(zip(SETTINGS, problems, strict=True))


def _pair(
    mdp: LinearMDP, policies: tuple[Array, Array], datasets: int, rng: np.random.Generator, episodes: bool = False
) -> list[Transitions]:
    """D_i and D_j, half of the samples each."""
    return [collect(mdp, policy, SAMPLES // 2, rng, datasets, episodes) for policy in policies]


def _provable(problem: Problem) -> float:
    mdp = problem.mdp
    return float(explicit_beta(problem, XI).max() / beta(mdp.width, mdp.horizon, XI))


def _at_width(width: int, datasets: int, rng: np.random.Generator) -> tuple[float, float]:
    """The smallest c that covers 1 − ξ of the datasets, by bisection to 3 %, and the provable one, for d = `width`."""
    mdp = low_rank(STATES, ACTIONS, width, HORIZON, rng)
    problem = prepare(mdp, share(mdp, *_pair(mdp, _behaviours(mdp, rng), datasets, rng)))
    low, high = 1e-4, 1.0
    while high / low > 1.03:
        middle = float(np.sqrt(low * high))
        if quantifies(mdp, solve(problem, middle)).mean() >= 1 - XI:
            high = middle
        else:
            low = middle
    return high, _provable(problem)


def facts(result: Result) -> tuple[Fact, ...]:
    worst = min(float(coverage[-1]) for setting, coverage in result.coverage.items() if setting != PRACTICAL)
    safe = CONSTANTS[result.safe >= 1 - XI]
    return (
        Fact(
            f"coverage at c = 1 over {result.datasets} datasets, least of the settings without practical OOD targets",
            f"{worst:.1%}",
            f"≥ {1 - XI:.0%}",
            worst >= 1 - XI,
        ),
        Fact("c for which every constant is proved", f"{result.provable:.2f}", "≤ 1", result.provable <= 1),
        *(
            Fact(f"smallest c with coverage ≥ {1 - XI:.0%}: {setting}", f"{result.smallest(setting):.3f}")
            for setting in SETTINGS
            if setting != PRACTICAL
        ),
        Fact(
            "practical OOD targets: coverage at c = 1",
            f"{result.coverage[PRACTICAL][-1]:.0%}; yet T̂V − Γ ≤ 𝒯V, the safe half, in {1 - XI:.0%} of the datasets "
            f"from c = {safe.min() if safe.size else np.inf:.3f} on",
        ),
    )


@picture("theorem2-coverage", "constant c", "share of datasets covered", height=3.6, columns=1)
def coverage(result: Result, axes: "figures.Axes") -> str:
    for setting, (colour, marker) in SETTINGS.items():
        label = setting.replace("D_i", "$D_i$")
        axes.semilogx(CONSTANTS, result.coverage[setting], color=colour, marker=marker, markersize=3.5, label=label)
    axes.axhline(1 - XI, color=INK, linewidth=0.8, linestyle=":")
    axes.axvline(result.provable, color=INK, linewidth=0.8, linestyle="-.")
    axes.set_ylim(-0.03, 1.03)
    return (
        f"Share of {result.datasets} datasets (d = {WIDTH}, T = {HORIZON}, {SAMPLES} samples per step, half of them "
        "for D_i alone) in which Γ bounds the error at every step and pair, against c. Dots: 1 − ξ. Dash-dots: the "
        "provable c."
    )


@picture("theorem2-constant", "features d", "constant c")
def constant(result: Result, axes: "figures.Axes") -> str:
    axes.loglog(WIDTHS, result.provable_by_width, color=INK, marker="x", linestyle="-.", label="provable")
    axes.loglog(WIDTHS, result.by_width, color=GREEN, marker="s", label="smallest in practice")
    axes.set_xticks(WIDTHS, [str(width) for width in WIDTHS])
    axes.minorticks_off()
    axes.set_ylim(0.004, 1.1)
    return "The smallest c that reaches 1 − ξ in practice, and the provable one, against d."


PICTURES = (coverage, constant)
