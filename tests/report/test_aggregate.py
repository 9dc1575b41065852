"""Statistics against numbers worked out by hand, SciPy's functions and the normal distribution."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from utds.errors import DataError
from utds.report import aggregate
from utds.report.aggregate import Scores

# Two settings of three runs. Means 20 and 80; all runs in order: 10 20 30 60 80 100.
SMALL = Scores.of([[10, 20, 30], [60, 80, 100]])
# One run, two runs and three runs. Means 10, 30 and 60.
RAGGED = Scores.of([[10], [20, 40], [50, 60, 70]])
TABLES = st.lists(st.lists(st.floats(-50, 150), min_size=1, max_size=4), min_size=1, max_size=7)


@pytest.mark.parametrize(
    ("statistic", "small", "ragged"),
    [
        (aggregate.mean, 50, 100 / 3),
        (aggregate.median, 50, 30),
        (aggregate.iqm, (20 + 30 + 60 + 80) / 4, (20 + 40 + 50 + 60) / 4),  # one run cut at each end
        (aggregate.optimality_gap, 50, 200 / 3),
        (lambda s: aggregate.optimality_gap(s, target=70), (50 + 10 / 3) / 2, 110 / 3),
    ],
)
def test_hand_computed(statistic, small, ragged):
    assert statistic(SMALL) == pytest.approx(small)
    assert statistic(RAGGED) == pytest.approx(ragged)


def test_probability_of_improvement_by_hand():
    ours, theirs = Scores.of([[3, 5], [1]]), Scores.of([[4, 5], [0, 1, 2]])
    # 3<4 3<5 5>4 5=5: 1.5 of 4;  1>0 1=1 1<2: 1.5 of 3.
    assert aggregate.probability_of_improvement(ours, theirs) == pytest.approx((1.5 / 4 + 1.5 / 3) / 2)


def test_profiles_by_hand():
    taus = [0, 20, 25, 80, 101]
    np.testing.assert_allclose(aggregate.profile(SMALL, taus), [1, (1 / 3 + 1) / 2, (1 / 3 + 1) / 2, 1 / 6, 0])
    np.testing.assert_allclose(aggregate.mean_profile(SMALL, taus), [1, 1 / 2, 1 / 2, 0, 0])


def test_area_under_profile_is_the_mean():
    """∫F(τ)dτ over [0, 100] is the mean of scores within it: the profile's defining property."""
    rng = np.random.default_rng(0)
    scores = Scores.of(rng.uniform(0, 100, (20, 3)))
    taus = np.linspace(0, 100, 2001)
    assert np.trapezoid(aggregate.profile(scores, taus), taus) == pytest.approx(aggregate.mean(scores), abs=0.1)
    assert np.trapezoid(aggregate.mean_profile(scores, taus), taus) == pytest.approx(aggregate.mean(scores), abs=0.1)


@settings(max_examples=50, deadline=None)
@given(TABLES)
def test_equal_to_scipy(rows):
    scores = Scores.of(rows)
    flat = np.concatenate([np.ravel(row) for row in rows])
    assert aggregate.iqm(scores) == pytest.approx(stats.trim_mean(flat, 0.25), abs=1e-9)
    assert aggregate.median(scores) == pytest.approx(np.median([np.mean(row) for row in rows]), abs=1e-9)
    reverse = [[100 - x for x in row[::-1]] for row in rows]
    wins = [stats.mannwhitneyu(x, y).statistic / (len(x) * len(y)) for x, y in zip(rows, reverse, strict=True)]
    assert aggregate.probability_of_improvement(scores, Scores.of(reverse)) == pytest.approx(np.mean(wins))


@settings(max_examples=25, deadline=None)
@given(TABLES, st.integers(0, 100))
def test_resamples_stay_within_their_setting_and_equal_single_ones(rows, seed):
    scores = Scores.of(rows)
    drawn = scores.resample(np.random.default_rng(seed), 40)
    begin = 0
    for row in rows:
        assert np.isin(drawn.values[:, begin : begin + len(row)], row).all()
        begin += len(row)
    for statistic in (aggregate.mean, aggregate.median, aggregate.iqm, aggregate.optimality_gap):
        alone = [statistic(Scores(values, scores.counts)) for values in drawn.values]
        np.testing.assert_allclose(statistic(drawn), alone)
    taus = [0.0, 33.0, 66.0]
    np.testing.assert_allclose(
        aggregate.profile(drawn, taus)[7], aggregate.profile(Scores(drawn.values[7], scores.counts), taus)
    )


def test_resampling_is_uniform_over_runs():
    drawn = Scores.of([[0, 1, 2], [3, 4]]).resample(np.random.default_rng(0), 30_000)
    counts = np.bincount(drawn.values.astype(int).ravel(), minlength=5)
    assert stats.chisquare(counts[:3]).pvalue > 1e-3
    assert stats.chisquare(counts[3:]).pvalue > 1e-3


def test_take_repeats_settings():
    taken = RAGGED.take([2, 0, 2])
    assert taken.values.tolist() == [50, 60, 70, 10, 50, 60, 70]
    assert taken.means().tolist() == [60, 10, 60]


@pytest.mark.parametrize(
    ("widen", "expected"), [(True, 0.95), (False, 2 * stats.norm.cdf(1.96 * math.sqrt(2 / 3)) - 1)]
)
def test_interval_covers_the_true_mean(widen, expected):
    """1000 simulated benchmarks of 20 settings with 3 runs; the plain interval's shortfall is known in closed form."""
    rng = np.random.default_rng(1)
    truth = rng.uniform(0, 100, 20)
    covered = 0
    for trial in range(1000):
        scores = Scores.of(rng.normal(truth[:, None], 15, (20, 3)))
        found = aggregate.bootstrap(aggregate.mean, scores, resamples=1000, seed=trial, widen=widen)
        covered += found.low <= truth.mean() <= found.high
    assert covered / 1000 == pytest.approx(expected, abs=3.3 * math.sqrt(expected * (1 - expected) / 1000))


def test_interval_over_settings_is_students_for_a_mean():
    """Settings of one group each; in pairs of equals, as if there were half as many; the whole of them gives none."""
    values = np.random.default_rng(0).normal(50, 20, 40)
    found = aggregate.bootstrap_settings(aggregate.mean, Scores.of([[x] for x in values]), np.arange(40))
    assert found == pytest.approx(aggregate.student(values, center=values.mean()), rel=0.02)
    pairs = Scores.of([[x] for x in np.repeat(values, 2)])
    grouped = aggregate.bootstrap_settings(aggregate.mean, pairs, np.repeat(np.arange(40), 2))
    assert grouped == pytest.approx(found)
    twice = Scores.of([[x - 30, x + 30] for x in values])  # two runs each, drawn together: their mean counts
    assert aggregate.bootstrap_settings(aggregate.mean, twice, np.arange(40)) == pytest.approx(found)
    uneven = Scores.of([[values[0]], *([x - 30, x + 30] for x in values[1:])])
    assert aggregate.bootstrap_settings(aggregate.mean, uneven, np.arange(40)) == pytest.approx(found)
    for scores, groups in ((pairs, [0] * 80), (pairs, [0, 0, *range(1, 79)])):
        assert math.isnan(aggregate.bootstrap_settings(aggregate.mean, scores, groups).low)


def test_plain_interval_equals_scipys_bootstrap():
    """One setting: stratification changes nothing, and SciPy's percentile bootstrap is the reference."""
    runs = np.random.default_rng(0).normal(50, 10, 30)
    ours = aggregate.bootstrap(aggregate.mean, Scores.of([runs]), resamples=20_000, widen=False)
    theirs = stats.bootstrap((runs,), np.mean, n_resamples=20_000, method="percentile", rng=0).confidence_interval
    assert ours.low == pytest.approx(theirs.low, abs=0.15)
    assert ours.high == pytest.approx(theirs.high, abs=0.15)


def test_intervals_depend_on_the_seed_alone():
    scores = Scores.of(np.random.default_rng(0).normal(50, 10, (5, 4)))
    found = [aggregate.bootstrap(aggregate.iqm, scores, resamples=500, seed=seed) for seed in (3, 3, 4)]
    assert found[0] == found[1] != found[2]


def test_arrays_of_statistics_and_bounds():
    taus = [0.0, 50.0, 200.0]
    found = aggregate.bootstrap(lambda s: aggregate.profile(s, taus), SMALL, resamples=200, bounds=(0, 1))
    assert found.value.shape == found.low.shape == found.high.shape == (3,)
    assert (found.low >= 0).all() and (found.high <= 1).all()
    assert found.low[0] == found.high[0] == 1 and found.low[2] == found.high[2] == 0


def test_one_run_a_setting_has_no_interval():
    found = aggregate.bootstrap(aggregate.mean, Scores.of([[1.0], [3.0]]), resamples=100)
    assert found.value == 2
    assert math.isnan(found.low) and math.isnan(found.high)
    assert math.isnan(aggregate.bootstrap(aggregate.gain, SMALL, Scores.of([[1.0], [3.0]]), resamples=100).low)


def test_welch_equals_scipy():
    rng = np.random.default_rng(0)
    x, y = rng.normal(1, 1, 3), rng.normal(0, 2, 5)
    theirs = stats.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
    assert aggregate.welch(x, y) == pytest.approx((x.mean() - y.mean(), theirs.low, theirs.high))
    assert math.isnan(aggregate.welch([1.0], [2.0, 3.0]).low)
    assert aggregate.welch([2.0, 2.0], [1.0, 1.0]) == (1, 1, 1)


@pytest.mark.parametrize("rows", [[], [[1.0], []], [[math.nan]]])
def test_holes_are_refused(rows):
    with pytest.raises(DataError):
        Scores.of(rows)


def test_other_settings_are_refused():
    with pytest.raises(DataError, match="2 settings with 3"):
        aggregate.gain(SMALL, RAGGED)


def test_gain_by_hand():
    assert aggregate.gain(SMALL, Scores.of([[5], [70]])) == pytest.approx((15 + 10) / 2)
