"""Linear MDPs (paper, §4 and Appendix A): the theory behind the penalty, computed exactly and shown numerically.

Stands alone: NumPy in float64, and matplotlib for the figures only. A first session:

    rng = np.random.default_rng(0)
    task = low_rank(states=12, actions=4, width=8, horizon=5, rng=rng)
    other = related(task, similarity=0.5, rng=rng)
    own = collect(task, behaviour(task, quality=0.3, coverage=0.5, rng=rng), samples=100, rng=rng)
    more = collect(other, behaviour(other, quality=0.8, coverage=1.0, rng=rng), samples=400, rng=rng)
    solution = pevi(prepare(task, share(task, own, more)), beta(task.width, task.horizon, xi=0.1, c=0.05))
    suboptimality(task, solution.policy), expected_penalty(task, solution.gamma)
"""

from utds.linear.data import Transitions, avoiding, behaviour, collect, count, draw_ood, relabel, share
from utds.linear.learners import (
    Ood,
    Problem,
    Solution,
    beta,
    ensemble_pevi,
    error,
    expected_penalty,
    explicit_beta,
    lsvi,
    pevi,
    prepare,
    quantifies,
    suboptimality,
    underestimates,
)
from utds.linear.models import (
    LinearMDP,
    Plan,
    evaluate,
    family,
    low_rank,
    occupancy,
    performance,
    plan,
    related,
    tabular,
)
from utds.linear.operator import Operator, ood_penalties, ood_steps, operator
from utds.linear.regression import bootstrapped, covariance, gamma_lcb, perturbed, posterior

__all__ = [
    "LinearMDP",
    "Ood",
    "Operator",
    "Plan",
    "Problem",
    "Solution",
    "Transitions",
    "avoiding",
    "behaviour",
    "beta",
    "bootstrapped",
    "collect",
    "count",
    "covariance",
    "draw_ood",
    "ensemble_pevi",
    "error",
    "evaluate",
    "expected_penalty",
    "explicit_beta",
    "family",
    "gamma_lcb",
    "low_rank",
    "lsvi",
    "occupancy",
    "ood_penalties",
    "ood_steps",
    "operator",
    "performance",
    "perturbed",
    "pevi",
    "plan",
    "posterior",
    "prepare",
    "quantifies",
    "relabel",
    "related",
    "share",
    "suboptimality",
    "tabular",
    "underestimates",
]
