import numpy as np
import pytest
from scipy import stats

from utds.advise import cells
from utds.advise.cells import Matched

CELLS, EACH, FEATURES = 40, 20, 50


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def same_law(rng: np.random.Generator) -> Matched:
    """Errors that differ from cell to cell, but not between the two datasets."""
    cell = np.repeat(np.arange(CELLS), EACH)
    bias = rng.normal(size=(CELLS, FEATURES))
    errors = bias[cell] + rng.normal(size=(len(cell), FEATURES))
    actions = rng.uniform(-1, 1, (len(cell), 2))
    return Matched(errors, np.full_like(errors, 2.0), actions, cell, np.arange(len(cell)) % 2 == 0)


def test_p_values_of_equal_laws_are_those_of_chance(rng):
    p = cells.push(same_law(rng), margin=0.0).p  # one-sided in |τ|: at most 0.5, uniform below
    assert stats.kstest(2 * p[:, 0], "uniform").pvalue > 0.01
    assert stats.kstest(2 * p[:, 2], "uniform").pvalue > 0.01


def test_push_finds_a_constant_and_a_part_in_proportion_to_an_action(rng):
    found = same_law(rng)
    found.errors[found.other, 3] += 0.5
    found.errors[found.other, 7] -= 0.8 * found.actions[found.other, 1]
    pushed = cells.push(found, margin=0.01)
    assert pushed.effect[3, 0] == pytest.approx(0.5, abs=0.2)
    assert pushed.effect[7, 2] == pytest.approx(-0.8, abs=0.3)
    assert {tuple(index) for index in np.argwhere(pushed.p < 1e-4)} == {(3, 0), (7, 2)}


def test_push_without_noise_is_the_weighted_mean_difference():
    cell, other = np.repeat([0, 1, 2], 4), np.tile([False, True], 6)
    errors = np.where(other, 0.3, 0.1)[:, None] + cell[:, None]
    found = Matched(errors, np.ones_like(errors), np.zeros((12, 0)), cell, other)
    assert cells.push(found, margin=0.0).effect == pytest.approx(0.2 / (1 + cells.RIDGE))


def test_an_effect_within_the_margin_is_none(rng):
    found = same_law(rng)
    found.errors[found.other, 3] += 0.5
    assert cells.push(found, margin=1.0).p[3, 0] > 0.5


def test_scatter_tells_how_much_farther_one_feature_is_off_than_the_others(rng):
    found = same_law(rng)
    found = found._replace(errors=rng.normal(size=found.errors.shape))
    found.errors[found.other] *= 1.3  # all are off farther: the law is a little out of its depth
    found.errors[found.other, 5] *= 2.0
    ratio, p = cells.scatter(found, 1.15)
    assert ratio[5] == pytest.approx(2.0, rel=0.2)
    assert np.median(ratio) == pytest.approx(1.0, abs=0.05)
    assert np.flatnonzero(p < 1e-4).tolist() == [5]


def test_only_cells_where_both_have_been_are_left(rng):
    found = same_law(rng)
    other = found.other.copy()
    other[found.cell == 3] = False
    left = cells.shared_only(found._replace(other=other))
    assert left.cells == CELLS - 1
    assert len(left.errors) == (CELLS - 1) * EACH
    assert np.array_equal(left.errors, found.errors[found.cell != 3])
