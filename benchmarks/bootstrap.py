"""Stratified bootstrap: 50,000 resamples of 180 settings with 3 runs, against the plain loop over resamples."""

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from common import CLOCK, RATIO, fastest, require, table, verdict
from utds.report import aggregate
from utds.report.aggregate import Scores

RESAMPLES, LOOPED = 50_000, 500
SECONDS, FASTER = 5.0, 5.0  # required: at most, and times the loop's speed at least


def _looped(scores: NDArray[np.float64], rng: np.random.Generator) -> list[tuple[float, ...]]:
    """What the definitions say, one resample at a time: scores [M, N]."""
    found = []
    for _ in range(LOOPED):
        drawn = np.take_along_axis(scores, rng.integers(scores.shape[1], size=scores.shape), axis=1)
        means = drawn.mean(axis=1)
        gap = 100 - np.minimum(drawn, 100).mean()
        found.append((means.mean(), np.median(means), stats.trim_mean(drawn, 0.25, axis=None), gap))
    return found


def _all_four(scores: Scores) -> NDArray[np.float64]:
    four = (aggregate.mean, aggregate.median, aggregate.iqm, aggregate.optimality_gap)
    return np.stack([statistic(scores) for statistic in four], axis=-1)


def main() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(60, 20, (180, 3))
    ours = Scores.of(scores)
    works = {
        "loop": lambda: _looped(scores, rng),
        "all four": lambda: aggregate.bootstrap(_all_four, ours, resamples=RESAMPLES),
    }
    seconds = fastest(works, repeats=3)
    loop = seconds.pop("loop") * RESAMPLES / LOOPED
    ours_took = seconds["all four"]
    require("bootstrap: seconds", ours_took, most=SECONDS, noise=CLOCK)
    require("bootstrap: times faster than the loop", loop / ours_took, least=FASTER, noise=RATIO)
    table(
        f"{RESAMPLES:,} resamples of 180 settings × 3 runs: mean, median, IQM and optimality gap",
        [
            {
                "s": ours_took,
                "at most, s": SECONDS,
                "loop, s": loop,
                "times faster": loop / ours_took,
                "at least": FASTER,
            }
        ],
    )


if __name__ == "__main__":
    main()
    verdict()
