"""Statistics of a benchmark: a few runs of each of many settings, as numbers with intervals.

The aggregates are those of Agarwal et al. (2021), "Deep RL at the edge of the statistical precipice". A statistic is a
function of `Scores` whose values may carry any number of leading axes, so `bootstrap` computes thousands of resamples
in one call:

    utds = Scores.of([[81, 84, 79], [40, 38, 45]])     # two settings, three runs each
    bootstrap(iqm, utds)                               # Interval(value=…, low=…, high=…)
    bootstrap(probability_of_improvement, utds, cql)

Intervals. Runs are resampled within each setting. Of n runs that shows only (n-1)/n of the variance: with three runs a
plain percentile interval covers 89 %, not 95 %. `bootstrap` therefore widens the percentiles about the statistic's
value by √(n/(n-1)) and by Student's t over the normal quantile; `widen=False` gives the plain interval.

With one run per setting there is nothing to resample within it: `bootstrap_settings` draws whole settings with all
their runs, and its interval says what to expect of other such settings, not how another seed would come out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special  # its Student's t: scipy.stats takes half a second to load

from utds.errors import DataError

Array = NDArray[np.float64]
Statistic = Callable[..., Array]  # of one Scores or more: [..., K] -> [...] or [..., T]

CHUNK = 1 << 19  # resampled values held at a time: they stay in cache


@dataclass(frozen=True)
class Scores:
    """Scores of runs, one setting after the other. Every setting has a run or more, not all the same number."""

    values: Array  # [..., K], K = counts.sum()
    counts: NDArray[np.int64]  # [M] runs of each setting

    @staticmethod
    def of(rows: Sequence[ArrayLike]) -> Scores:
        """From one row of runs per setting, rows of any length. A row without runs or with NaN is refused."""
        arrays = [np.asarray(row, np.float64).ravel() for row in rows]
        for index, row in enumerate(arrays):
            if row.size == 0 or not np.isfinite(row).all():
                raise DataError(f"setting {index} has {'a score that is no number' if row.size else 'no run'}")
        if not arrays:
            raise DataError("there is no setting to aggregate over")
        return Scores(np.concatenate(arrays), np.array([row.size for row in arrays]))

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where each setting begins: [M]."""
        return np.cumsum(self.counts) - self.counts

    def means(self) -> Array:
        """The mean over each setting's runs: [..., M]."""
        return _means(self.values, self.counts)

    def take(self, settings: ArrayLike) -> Scores:
        """The settings of these indices, in this order; one may come up several times."""
        picked = np.asarray(settings, np.int64)
        counts = self.counts[picked]
        index = np.repeat(self.starts[picked] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        return Scores(self.values[..., index], counts)

    def resample(self, rng: np.random.Generator, times: int) -> Scores:
        """Runs drawn with replacement within each setting, `times` over: values [times, K]."""
        draws = rng.random((times, self.values.size))
        draws *= np.repeat(self.counts, self.counts)
        index = draws.astype(np.int64)  # rounds down: 0 … n-1
        index += np.repeat(self.starts, self.counts)
        return replace(self, values=self.values[index])


class Interval(NamedTuple):
    """A statistic and what it lies between, numbers or arrays [T]. NaN bounds where a table has no second run."""

    value: Any
    low: Any
    high: Any


def mean(scores: Scores) -> Array:
    """The mean over settings of their means."""
    return scores.means().mean(axis=-1)


def median(scores: Scores) -> Array:
    """The median over settings of their means."""
    return np.median(scores.means(), axis=-1)


def iqm(scores: Scores) -> Array:
    """The interquartile mean: of all runs together, without the lowest and the highest quarter."""
    size = scores.values.shape[-1]
    cut = size // 4
    return np.sort(scores.values, axis=-1)[..., cut : size - cut].mean(axis=-1)


def optimality_gap(scores: Scores, target: float = 100.0) -> Array:
    """How far runs stay below `target` on average; being above it counts for nothing."""
    return target - mean(replace(scores, values=np.minimum(scores.values, target)))


def probability_of_improvement(scores: Scores, others: Scores) -> Array:
    """How likely a run of `scores` beats one of `others` on the same setting, ties half, averaged over settings."""
    _check_same_settings(scores, others)
    pairs = scores.counts * others.counts  # [M]
    within = np.arange(pairs.sum()) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    width = np.repeat(others.counts, pairs)
    left = np.repeat(scores.starts, pairs) + within // width
    right = np.repeat(others.starts, pairs) + within % width
    wins = scores.values[..., left] - others.values[..., right]  # [..., pairs], large: changed in place
    np.sign(wins, out=wins)
    wins += 1
    wins /= 2
    return _means(wins, pairs).mean(axis=-1)


def gain(scores: Scores, others: Scores) -> Array:
    """The mean over settings of the difference of means."""
    _check_same_settings(scores, others)
    return (scores.means() - others.means()).mean(axis=-1)


def profile(scores: Scores, taus: ArrayLike) -> Array:
    """F(τ): the share of runs that score more than τ, every setting with the same weight: [..., T]."""
    weights = np.repeat(1 / (scores.counts * scores.counts.size), scores.counts)  # [K], of each run
    return _share_above(scores.values, weights, taus)


def mean_profile(scores: Scores, taus: ArrayLike) -> Array:
    """The average score distribution: the share of settings whose mean is above τ: [..., T]."""
    means = scores.means()
    return _share_above(means, np.full(means.shape[-1], 1 / means.shape[-1]), taus)


def bootstrap(
    statistic: Statistic,
    *tables: Scores,
    resamples: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
    bounds: tuple[float, float] = (-math.inf, math.inf),  # of the statistic itself, such as (0, 1) of a share
    widen: bool = True,
    weights: Sequence[ArrayLike] | None = None,
) -> Interval:
    """A statistic of one or more tables with its stratified percentile-bootstrap interval.

    `weights` [M] of each table say how much its settings count in the statistic, where that isn't equally much.
    """
    rng = np.random.default_rng(seed)
    size = max(1, CHUNK // max(table.values.size for table in tables))
    times = [min(size, resamples - begin) for begin in range(0, resamples, size)]
    found = np.concatenate([statistic(*(table.resample(rng, n) for table in tables)) for n in times])  # [R] or [R, T]
    value = statistic(*tables)
    ends = np.quantile(found, [(1 - level) / 2, (1 + level) / 2], axis=0)
    if widen:
        ends = np.clip(value + _widening(tables, level, weights) * (ends - value), *bounds)
    low, high = ends
    return Interval(value, low, high) if np.ndim(value) else Interval(float(value), float(low), float(high))


def bootstrap_settings(
    statistic: Statistic,
    scores: Scores,
    groups: ArrayLike,
    resamples: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Interval:
    """A statistic with its percentile-bootstrap interval over settings, widened as `bootstrap`'s is.

    Settings that hang together, such as those of one main dataset, have the same number in `groups` [M] and are drawn
    together. Where settings differ in their number of runs, means of settings are drawn instead of runs. NaN bounds
    where groups differ in size, and where there is one alone.
    """
    value = center = statistic(scores)
    _, which, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    count, runs = sizes.size, scores.counts[0]
    if (sizes != sizes[0]).any() or count < 2:
        return Interval(value, np.full_like(value, math.nan), np.full_like(value, math.nan))
    if (scores.counts != runs).any():
        scores, runs = Scores(scores.means(), np.ones_like(scores.counts)), 1
        center = statistic(scores)
    rows = np.argsort(np.repeat(which, runs), kind="stable").reshape(count, -1)  # runs, setting by setting
    drawn = np.random.default_rng(seed).integers(count, size=(resamples, count))
    chosen = rows[drawn].reshape(resamples, -1)  # [R, K]
    parts = np.array_split(chosen, -(-chosen.size // CHUNK))
    found = np.concatenate([statistic(replace(scores, values=scores.values[part])) for part in parts])
    ends = np.quantile(found, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Interval(value, *np.clip(value + _wider(count / (count - 1), count - 1, level) * (ends - center), *bounds))


def welch(runs: ArrayLike, others: ArrayLike, level: float = 0.95) -> Interval:
    """The difference of two means with Welch's interval, for one setting; NaN bounds below two runs each."""
    x, y = np.asarray(runs, np.float64), np.asarray(others, np.float64)
    value = float(x.mean() - y.mean())
    if min(x.size, y.size) < 2:
        return Interval(value, math.nan, math.nan)
    parts = np.array([x.var(ddof=1) / x.size, y.var(ddof=1) / y.size])
    total = parts.sum()
    if total == 0:
        return Interval(value, value, value)
    freedom = total**2 / (parts**2 / [x.size - 1, y.size - 1]).sum()
    half = float(special.stdtrit(freedom, (1 + level) / 2) * math.sqrt(total))
    return Interval(value, value - half, value + half)


def student(values: ArrayLike, center: float, level: float = 0.95) -> Interval:
    """Student's interval of a mean, around the `center`: of independent values, two at least."""
    x = np.asarray(values, np.float64)
    half = float(special.stdtrit(x.size - 1, (1 + level) / 2) * x.std(ddof=1) / math.sqrt(x.size))
    return Interval(center, center - half, center + half)


def _share_above(values: Array, weights: Array, taus: ArrayLike) -> Array:
    """The weight of values [..., K] above each τ, [..., T]: a histogram between the τs, summed from above."""
    sorted_taus, index = np.unique(np.ravel(taus), return_inverse=True)
    rows, bins = values.reshape(-1, values.shape[-1]), sorted_taus.size + 1
    where = np.searchsorted(sorted_taus, rows, side="left") + bins * np.arange(len(rows))[:, None]
    each = np.broadcast_to(weights, rows.shape)
    counted = np.bincount(where.ravel(), each.ravel(), minlength=bins * len(rows)).reshape(len(rows), bins)
    above: Array = np.cumsum(counted[:, ::-1], axis=1, dtype=np.float64)[:, ::-1][:, 1:]
    return above.round(12)[:, index].reshape(*values.shape[:-1], index.size)  # a share of all is 1


def _means(values: Array, counts: NDArray[np.int64]) -> Array:
    """Means of consecutive stretches of the last axis: [..., K] -> [..., M]."""
    if (counts == counts[0]).all():  # a few strided sums beat many short ones
        return reduce(np.add, (values[..., run :: counts[0]] for run in range(counts[0]))) / counts[0]
    starts, means = np.cumsum(counts) - counts, np.empty((*values.shape[:-1], counts.size))
    for count in np.unique(counts):  # settings of as many runs together: three times as fast as `reduceat`
        here = counts == count
        means[..., here] = sum(values[..., starts[here] + run] for run in range(count)) / count
    return means


def _widening(tables: Sequence[Scores], level: float, weights: Sequence[ArrayLike] | None = None) -> float:
    """What a resampled interval lacks in width: exact for means of settings that vary alike.

    A mean of n runs has the variance σ²/n; resampled, (n-1)/n of it, with n-1 degrees of freedom, which settings
    contribute as Welch and Satterthwaite have it. NaN where a table has no setting with a second run: nothing is known
    of its spread.
    """
    if any((table.counts == 1).all() for table in tables):
        return math.nan
    counts = np.concatenate([table.counts for table in tables])
    squares = np.square(np.concatenate(weights or [np.ones(table.counts.size) for table in tables]))
    shown = squares * (counts - 1) / counts**2
    freedom = shown.sum() ** 2 / (shown**2 / np.maximum(counts - 1, 1)).sum()
    return _wider((squares / counts).sum() / shown.sum(), freedom, level)


def _wider(variance: float, freedom: float, level: float) -> float:
    """The factor for a share of the variance that resampling doesn't show, known from so many degrees of freedom."""
    upper = (1 + level) / 2
    return math.sqrt(variance) * float(special.stdtrit(freedom, upper) / special.ndtri(upper))


def _check_same_settings(scores: Scores, others: Scores) -> None:
    if scores.counts.size != others.counts.size:
        raise DataError(f"can't compare {scores.counts.size} settings with {others.counts.size}: give the same ones")
