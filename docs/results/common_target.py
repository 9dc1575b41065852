"""What sharing changes about Γ at a common target, on all four robots, from generated data alone.

    python docs/results/common_target.py

Own data is the main task's medium-replay, shared data another task's replay; both come from the policies that ship. Γ
is measured on own data, on shared data, and at the main task's best shipped policy's actions in the states of both.
"""

import numpy as np
import tyro

from utds.collection import kinds
from utds.uncertainty.measure import _points, fit_common, times

PAIRS = {  # main task, whose data is shared
    "walker-walk": "walker-run",
    "quadruped-walk": "quadruped-run",
    "jaco-reach-top-left": "jaco-reach-top-right",
    "pointmass-reach-top-right": "pointmass-reach-bottom-right",
}


def main(own: int = 20, shared: int = 60, seed: int = 0) -> None:
    """Print the table.

    Args:
        own: episodes of the main task's data
        shared: episodes of the shared data
        seed: of the data
    """
    print("| main task | shared | own data | shared data | best policy's actions |\n|---|---|---|---|---|")
    for task, other in PAIRS.items():
        policies = kinds.load_ladder(task)
        datasets = [
            kinds.generate(policies, "medium-replay", own, seed),
            kinds.generate(kinds.load_ladder(other), "replay", shared, seed),
        ]
        points = [_points(data, 4000) for data in datasets]
        act = policies.act(len(policies) - 1)
        where = [(p.observations, p.actions) for p in points]
        best = np.concatenate([p.observations for p in points])
        where.append((best, act(best)))
        before, after = (
            [float(fitted.gamma(*place).mean()) for place in where]
            for fitted in fit_common(datasets, [[0], [0, 1]], seed)
        )
        cells = (f"{a:.3f} → {b:.3f}, {times(b / a)}" for a, b in zip(before, after, strict=True))
        print(f"| {task} | {other} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    tyro.cli(main)
