"""Linear MDPs: 500 datasets at once against one after the other row by row, and cost against d and samples.

Learning is timed from drawn transitions to solutions; drawing them is timed apart, for it is the same work either way.
"""

import time

import numpy as np
from numpy.typing import NDArray

from common import CLOCK, RATIO, fastest, require, table, verdict
from utds.linear import behaviour, beta, collect, low_rank, pevi, prepare, quantifies
from utds.linear.models import LinearMDP, Transitions

DATASETS, WIDTH, HORIZON, SAMPLES = 500, 16, 10, 1000
ALLOWED = 30.0  # seconds for the whole 500-dataset experiment on two cores
OVER_ROWS = {"counted and solved": 1, "solved again": 3}  # required, of a dataset row by row
CHUNK = 100  # datasets at a time: what the theory page uses


def row_by_row(mdp: LinearMDP, data: Transitions, penalty: float) -> NDArray[np.float64]:
    """Pessimistic value iteration on the first dataset as a textbook writes it: one regression per step on its rows."""
    flat, values = mdp.features.reshape(-1, mdp.width), np.zeros(mdp.states)
    for t in reversed(range(mdp.horizon)):
        rows = mdp.features[data.states[0, t], data.actions[0, t]]
        targets = data.rewards[0, t] + values[data.next_states[0, t]]
        covariance = rows.T @ rows + np.eye(mdp.width)
        backups = flat @ np.linalg.solve(covariance, rows.T @ targets)
        widths = np.sqrt(np.einsum("pd,dp->p", flat, np.linalg.solve(covariance, flat.T)))
        q = np.clip(backups - penalty * widths, 0, mdp.horizon - t)
        values = q.reshape(mdp.states, mdp.actions).max(axis=1)
    return values


def experiment(width: int = WIDTH, samples: int = SAMPLES, datasets: int = DATASETS) -> tuple[float, float, float]:
    """Seconds to draw, seconds to learn and check, and the share of datasets covered, at c = 1 and ξ = 0.1."""
    rng = np.random.default_rng(0)
    mdp = low_rank(states=16, actions=4, width=width, horizon=HORIZON, rng=rng)
    policy = behaviour(mdp, 0.5, 0.5, rng)
    drawing = learning = covered = 0.0
    for first in range(0, datasets, CHUNK):
        number = min(CHUNK, datasets - first)
        start = time.perf_counter()
        data = collect(mdp, policy, samples, rng, number)
        drawn = time.perf_counter()
        covered += quantifies(mdp, pevi(prepare(mdp, data), beta(width, HORIZON, xi=0.1))).sum()
        drawing, learning = drawing + drawn - start, learning + time.perf_counter() - drawn
    return drawing, learning, covered / datasets


def against_row_by_row() -> list[dict[str, object]]:
    """100 datasets at once, per dataset, against one of them row by row; another c needs no counting again."""
    rng = np.random.default_rng(0)
    mdp = low_rank(states=16, actions=4, width=WIDTH, horizon=HORIZON, rng=rng)
    data = collect(mdp, behaviour(mdp, 0.5, 0.5, rng), SAMPLES, rng, CHUNK)
    penalty = beta(WIDTH, HORIZON, xi=0.1, c=0.02)
    problem = prepare(mdp, data)
    np.testing.assert_allclose(pevi(problem, penalty).values[0, 0], row_by_row(mdp, data, penalty), atol=1e-9)
    times = fastest(
        {
            "row by row": lambda: row_by_row(mdp, data, penalty),
            "counted and solved": lambda: pevi(prepare(mdp, data), penalty),
            "solved again": lambda: pevi(problem, penalty),
        }
    )
    one, rows = times.pop("row by row"), []
    for what, seconds in times.items():
        ratio, least = one / seconds * CHUNK, OVER_ROWS[what]
        require(f"linear: {what}, over row by row", ratio, least=least, noise=RATIO)
        per_dataset = {"ms per dataset": 1e3 * seconds / CHUNK, "row by row": 1e3 * one}
        rows.append({"what": what, **per_dataset, "ratio": ratio, "required": f"≥ {least}"})
    return rows


def main() -> None:
    drawing, learning, covered = experiment()
    total = drawing + learning
    require("linear: seconds allowed over taken", ALLOWED / total, least=1, noise=CLOCK)
    table(
        f"{DATASETS} datasets, d = {WIDTH}, T = {HORIZON}, {SAMPLES} samples per step",
        [
            {
                "draw s": drawing,
                "learn s": learning,
                "covered": covered,
                "allowed / taken": ALLOWED / total,
                "required": "≥ 1",
            }
        ],
    )
    table("vectorised over datasets", against_row_by_row())
    rows = [(width, sum(experiment(width, datasets=100)[:2])) for width in (4, 8, 16, 32, 64)]
    table("cost against d, 100 datasets", [{"d": d, "s": s, "ratio to d = 4": s / rows[0][1]} for d, s in rows])
    rows = [(samples, sum(experiment(samples=samples, datasets=100)[:2])) for samples in (100, 300, 1000, 3000, 10_000)]
    table(
        "cost against samples per step, 100 datasets",
        [{"samples": n, "s": s, "ratio to 100": s / rows[0][1], "ratio of samples": n / 100} for n, s in rows],
    )


if __name__ == "__main__":
    main()
    verdict()
