"""Single episodes of the quadruped's policies: python docs/results/learner/episodes.py RUN

For every seed of the run, the episodes by return: how upright the torso is along the way (1: on its feet, -1: on its
back), and how much the policy's action still changes from step to step in the last fifth.
"""

import sys

import numpy as np

from utds import Run, domains
from utds.domains.simulator import Simulator

EPISODES, STEPS = 24, 1_000
SHOWN = (1, 100, 300, 600, 1_000)  # steps at which the torso is looked at
STARTS = 123  # seed of the start states, the same for every policy


def upright(physics: np.ndarray) -> np.ndarray:
    """[n] the vertical part of the torso's own vertical axis, from its quaternion in [n, S] states."""
    return 1 - 2 * (physics[:, 4] ** 2 + physics[:, 5] ** 2)


def show(run: Run, seed: int) -> None:
    domain, task = domains.get("quadruped"), run.config["task"].removeprefix("quadruped-")
    simulator = Simulator(domain, EPISODES)
    observations = simulator.reset(STARTS)
    torso, actions, returns = [], [], np.zeros(EPISODES)
    for _ in range(STEPS):
        actions.append(run.act(observations, seed=seed))
        observations, rewards = simulator.step(actions[-1])
        returns += rewards[:, domain.task_names.index(task)]
        torso.append(upright(simulator.physics()))
    change = np.abs(np.diff(actions[-STEPS // 5 :], axis=0)).mean(axis=(0, 2))
    print(f"\nseed {seed}: mean return {returns.mean():.0f}")
    print("return  upright at step " + " ".join(f"{step:>6}" for step in SHOWN) + "  action changes by")
    for episode in np.argsort(returns):
        along = " ".join(f"{torso[step - 1][episode]:6.2f}" for step in SHOWN)
        print(f"{returns[episode]:6.0f}                  {along}  {change[episode]:.3f}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: python docs/results/learner/episodes.py RUN, a finished run on the quadruped", file=sys.stderr)
        raise SystemExit(2)
    finished = Run(sys.argv[1])
    for number in finished.seeds:
        show(finished, number)
