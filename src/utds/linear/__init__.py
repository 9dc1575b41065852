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

from utds.linear.learners import Ood, beta, expected_penalty, pevi, prepare, quantifies, suboptimality
from utds.linear.models import LinearMDP, behaviour, collect, draw_ood, low_rank, plan, relabel, related, share, tabular

__all__ = [
    "LinearMDP", "Ood", "behaviour", "beta", "collect", "draw_ood", "expected_penalty", "low_rank", "pevi", "plan",
    "prepare", "quantifies", "relabel", "related", "share", "suboptimality", "tabular",
]  # fmt: skip
