"""The adviser: three candidates of 100,000 transitions each against the allowed minute, and time against data.

The datasets have the walker's sizes and random contents from a smooth law of motion: time doesn't depend on what is in
them, but for the search of combinations, which is the same for all.
"""

import time

import numpy as np

from common import CLOCK, require, table, verdict
from utds.adviser import advise, dynamics
from utds.data.dataset import Dataset

OBSERVATION, ACTION, STEPS = 24, 6, 1000  # the walker's
SIZES = (10_000, 30_000, 100_000)  # transitions of each dataset
CANDIDATES = 3
ALLOWED = 60.0  # seconds on two cores


def recorded(transitions: int, seed: int) -> Dataset:
    """Episodes of a stable nonlinear system with a random reward of every step."""
    law = np.random.default_rng(0)
    inner, outer = law.normal(size=(OBSERVATION + ACTION, OBSERVATION)), law.normal(size=(OBSERVATION, OBSERVATION))
    random = np.random.default_rng(seed)
    count = transitions // STEPS
    actions = random.uniform(-1, 1, (count, STEPS, ACTION)).astype(np.float32)
    observations = np.empty((count, STEPS + 1, OBSERVATION), np.float32)
    observations[:, 0] = random.normal(size=(count, OBSERVATION))
    for step in range(STEPS):
        now = observations[:, step]
        moved = np.tanh(np.concatenate([now, actions[:, step]], axis=1) @ inner / 3) @ outer / 5
        observations[:, step + 1] = 0.9 * now + 0.2 * moved
    return Dataset.from_arrays(
        observations.reshape(-1, OBSERVATION),
        actions.reshape(-1, ACTION),
        random.uniform(size=count * STEPS).astype(np.float32),
        lengths=np.full(count, STEPS),
        task="bench",
        kind=f"data-{seed}",
    )


def main() -> None:
    rows: list[dict[str, object]] = []
    for size in SIZES:
        own, *others = (recorded(size, seed) for seed in range(CANDIDATES + 1))
        started = time.perf_counter()
        dynamics.checks(own, others)
        compared = time.perf_counter()
        advise(own, others)
        advised = time.perf_counter() - compared
        rows.append({"transitions each": size, "check of dynamics s": compared - started, "in all s": advised})
    last = float(str(rows[-1]["in all s"]))
    require("advising: seconds allowed over taken", ALLOWED / last, least=1, noise=CLOCK)
    for row in rows:
        row["ratio to 10,000"] = float(str(row["in all s"])) / float(str(rows[0]["in all s"]))
        row["allowed / taken"] = ALLOWED / last if row is rows[-1] else "–"
        row["required"] = "≥ 1" if row is rows[-1] else "–"
    table(f"advising with {CANDIDATES} candidates", rows)


if __name__ == "__main__":
    main()
    verdict()
