"""(d) Corollary 1: the learned policy's true suboptimality against the bound, single and shared."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from utds import figures
from utds.figures import BLUE, GREEN, INK, ORANGE, VERMILLION
from utds.linear.learners import beta, expected_penalty, pevi, prepare, quantifies, suboptimality
from utds.linear.models import (
    Array,
    Booleans,
    LinearMDP,
    Transitions,
    avoiding,
    behaviour,
    collect,
    low_rank,
    plan,
    related,
    share,
    tabular,
)
from utds.linear.statements import Advance, Fact, Picture, at_most, picture, quietly, scaled

TITLE = "(d) Corollary 1: the optimality gap"
CLAIM = (
    "SubOpt(π*, π̃) ≤ Σ<sub>t</sub> E<sub>π*</sub>[Γ<sub>lcb</sub>(s<sub>t</sub>, a<sub>t</sub>; D̂<sub>i</sub>)] ≤ "
    "Σ<sub>t</sub> E<sub>π*</sub>[Γ<sub>lcb</sub>(s<sub>t</sub>, a<sub>t</sub>; D<sub>i</sub>)]."
)
NEEDS = (
    "For the first inequality, a Γ that quantifies the error on D̂<sub>i</sub>; for the second, the same π*, β and "
    "ridge on both sides. From the quantifier alone follows 0 ≤ 𝒯V − Q̂ ≤ 2Γ and so <b>twice</b> the printed sum "
    "(Jin et al. 2021, Theorem 4.2). As an order the printed form is right: the O(·) in β can absorb the two. As an "
    "inequality for the Γ that the algorithm itself subtracts it is not: the two-armed problem below exceeds it. On "
    "random problems the printed form holds with room to spare, for T̂V's error is seldom as large as Γ. Less bound is "
    "not less gap: sharing never raises the right-hand side, while the true gap may move either way, and data that "
    "avoids π* can make a worse policy look safer."
)
CODE = ("learners.suboptimality", "learners.expected_penalty", "learners.pevi")

XI = 0.1
C = 0.06  # about the smallest for which the quantifier holds on nearly all of these problems; see (c)
GROWTH = (0, 10, 30, 100, 300, 1000, 3000)
SOURCES = ("relevant", "irrelevant")
FLOOR = 0.001  # smaller gaps, most of them exactly zero, are drawn here on the logarithmic axis


class Gaps(NamedTuple):
    """One number per dataset, [B], for D_i alone or shared."""

    true: Array  # V* − V^π̂
    bound: Array  # Σ E_π*[Γ], as printed
    quantified: Booleans  # whether Γ bounds T̂V's error everywhere


@dataclass(frozen=True, eq=False)
class Result:
    growth: dict[str, list[Gaps]]  # source -> one per entry of GROWTH
    single: Gaps  # over problems
    shared: dict[str, Gaps]  # source -> over problems
    tabular: Booleans  # which problems are tabular

    @property
    def everything(self) -> tuple[Gaps, ...]:
        return (self.single, *self.shared.values())

    def broken(self, factor: float) -> int:
        """Quantified cases, over all problems, in which the true gap exceeds `factor` times the bound."""
        return sum(int((gaps.quantified & (gaps.true > factor * gaps.bound + 1e-10)).sum()) for gaps in self.everything)

    def largest_rise(self, source: str) -> float:
        """The largest bound(shared) − bound(single) over problems; ≤ 0 but for rounding."""
        return float((self.shared[source].bound - self.single.bound).max())


def gaps(mdp: LinearMDP, data: Transitions, penalty: float) -> Gaps:
    """Learn from `data` with β = `penalty`, and compare with the truth."""
    solution = pevi(prepare(mdp, data), penalty)
    return Gaps(suboptimality(mdp, solution.policy), expected_penalty(mdp, solution.gamma), quantifies(mdp, solution))


def problem(mdp: LinearMDP, own: int, shared: int, datasets: int, rng: np.random.Generator) -> dict[str, Transitions]:
    """D_i of a mediocre policy; a relevant source, the good policy of a similar task; one that avoids π* altogether."""
    similar = related(mdp, 0.9, rng)
    return {
        "own": collect(mdp, behaviour(mdp, 0.2, 0.7, rng), own, rng, datasets),
        "relevant": collect(similar, behaviour(similar, 0.9, 1.0, rng), shared, rng, datasets),
        "irrelevant": collect(mdp, avoiding(plan(mdp).policy), shared, rng, datasets),
    }


def random_mdp(index: int, rng: np.random.Generator) -> LinearMDP:
    """Tabular problems at even indices, low-rank ones at odd, of random sizes."""
    states, actions, horizon = (int(rng.integers(low, high)) for low, high in ((3, 8), (2, 5), (2, 7)))
    if index % 2 == 0:
        return tabular(states, actions, horizon, rng)
    return low_rank(states, actions, int(rng.integers(2, states * actions)), horizon, rng)


def two_arms() -> Gaps:
    """One step, two arms, rewards 1 and 0.6: where the quantifier holds and the gap exceeds the printed bound.

    Three rows of the better arm give T̂V = 3/4, wrong by all of Γ = 1/4, and after the penalty 1/2: less than the
    other arm's 0.6, which 10,000 rows leave no doubt about. The gap is 0.4, between Γ and 2Γ.
    """
    features = np.eye(2).reshape(1, 2, 2)
    mdp = LinearMDP(features, psi=np.ones((2, 1)), theta=np.array([1.0, 0.6]), initial=np.ones(1), horizon=1)
    arms = np.repeat([0, 1], [3, 10_000]).reshape(1, 1, -1)
    data = Transitions(np.zeros_like(arms), arms, mdp.rewards[0][arms], np.zeros_like(arms))
    return gaps(mdp, data, 0.5)


def run(rng: np.random.Generator, size: float = 1.0, advance: Advance = quietly, c: float = C) -> Result:
    """Let shared data grow on one family, and take one dataset each from many random families."""
    growth = _grow(tabular(states=4, actions=3, horizon=4, rng=rng), scaled(50, size), c, rng)
    rows = []
    problems = scaled(200, size)
    for index in range(problems):
        mdp = random_mdp(index, rng)
        data = problem(mdp, int(rng.integers(20, 200)), int(rng.integers(20, 500)), 1, rng)
        shared = (share(mdp, data["own"], data[source]) for source in SOURCES)
        penalty = beta(mdp.width, mdp.horizon, XI, c)
        rows.append([gaps(mdp, each, penalty) for each in (data["own"], *shared)])
        advance(1 / problems)
    single, *joined = (Gaps(*map(np.concatenate, zip(*parts, strict=True))) for parts in zip(*rows, strict=True))
    return Result(growth, single, dict(zip(SOURCES, joined, strict=True)), np.arange(problems) % 2 == 0)


def _grow(mdp: LinearMDP, datasets: int, c: float, rng: np.random.Generator) -> dict[str, list[Gaps]]:
    data = problem(mdp, 200, GROWTH[-1], datasets, rng)
    penalty = beta(mdp.width, mdp.horizon, XI, c)
    single = gaps(mdp, data["own"], penalty)
    found = {source: [single] for source in SOURCES}
    for source in SOURCES:
        for rows in GROWTH[1:]:
            found[source].append(gaps(mdp, share(mdp, data["own"], data[source].rows(0, rows)), penalty))
    return found


def facts(result: Result) -> tuple[Fact, ...]:
    cases = sum(len(gaps.true) for gaps in result.everything)
    quantified = sum(int(gaps.quantified.sum()) for gaps in result.everything)
    unchanged = result.shared["irrelevant"].bound - result.single.bound
    exact = float(np.abs(unchanged[result.tabular]).max())
    arms = two_arms()
    gap, bound = float(arms.true[0]), float(arms.bound[0])
    return (
        Fact(
            f"quantifier holds (c = {C}) in, of {cases} cases on {len(result.single.true)} problems",
            str(quantified),
            f"≥ {cases // 2}, or the next two say little",
            quantified >= cases // 2,
        ),
        Fact("quantified cases with a gap above twice the bound", str(result.broken(2)), "0", result.broken(2) == 0),
        Fact(
            "quantified cases with a gap above the bound as printed", str(result.broken(1)), "0", result.broken(1) == 0
        ),
        Fact("two arms: gap, printed bound, twice the bound", f"{gap:.2f}, {bound:.2f}, {2 * bound:.2f}"),
        *(at_most(f"largest rise of the bound by {s} data", result.largest_rise(s), 1e-10) for s in SOURCES),
        Fact(
            "tabular problems: change of the bound by data that avoids π*", f"{exact:.1e}", "0 to 1e-10", exact <= 1e-10
        ),
        Fact(
            "true gap of the growing example: alone, all relevant data, all irrelevant data",
            ", ".join(
                f"{float(gaps.true.mean()):.2f}"
                for gaps in (result.growth["relevant"][0], *(result.growth[source][-1] for source in SOURCES))
            ),
        ),
    )


def _growth(source: str, seen: str) -> Callable[[Result], Picture]:
    """The picture of bound and gap as data of this source grows; `seen` is what its caption says of them."""

    @picture(f"corollary1-{source}", f"{source} shared rows per step", "return", height=3.2)
    def growth(result: Result, axes: "figures.Axes") -> str:
        series = result.growth[source]
        at = np.arange(len(GROWTH))
        axes.axhline(series[0].bound.mean(), color=INK, linewidth=1, linestyle=":", label="bound, $D_i$ alone")
        axes.axhline(series[0].true.mean(), color=ORANGE, linewidth=1, linestyle="-.", label="true gap, $D_i$ alone")
        for name, label, colour, marker in (
            ("bound", "bound, shared", BLUE, "o"),
            ("true", "true gap, shared", VERMILLION, "s"),
        ):
            values = np.array([getattr(gaps, name) for gaps in series])  # [len(GROWTH), B]
            axes.fill_between(at, *np.quantile(values, (0.1, 0.9), axis=1), color=colour, alpha=0.2, linewidth=0)
            axes.plot(at, values.mean(axis=1), color=colour, marker=marker, label=label)
        axes.set_xticks(at, [str(rows) for rows in GROWTH])
        axes.set_ylim(bottom=0)
        return f"{seen} Mean and 10–90 % band over datasets."

    return growth


@picture("corollary1-problems", "bound, as printed", "true gap", height=3.2)
def problems(result: Result, axes: "figures.Axes") -> str:
    for gaps, name, colour, marker in (
        (result.single, "$D_i$ alone", ORANGE, "o"),
        (result.shared["relevant"], "relevant", GREEN, "^"),
        (result.shared["irrelevant"], "irrelevant", BLUE, "s"),
    ):
        gap = np.maximum(gaps.true, FLOOR)
        axes.scatter(gaps.bound, gap, s=8, color=colour, marker=marker, alpha=0.7, linewidths=0, label=name)
    bounds = np.concatenate([gaps.bound for gaps in result.everything])
    ends = (max(FLOOR, bounds.min() / 1.3), bounds.max() * 1.3)
    axes.plot(ends, ends, color=INK, linewidth=1, linestyle=":", label="gap = bound")
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=(FLOOR / 1.3, ends[1]))
    axes.set_yticks((FLOOR, 0.01, 0.1, 1, 10), (f"≤ {FLOOR}", "0.01", "0.1", "1", "10"))
    axes.set_xticks((0.1, 1, 10), ("0.1", "1", "10"))
    axes.minorticks_off()
    return "True gap against the bound, one dot per problem and source: all lie below the line."


PICTURES = (
    _growth("relevant", "Shared data from the good policy of a similar task: bound and true gap both fall."),
    _growth(
        "irrelevant",
        "Shared data that never plays an optimal action: the bound stays where it was, the gap does not.",
    ),
    problems,
)
