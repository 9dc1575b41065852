"""Lemma 2: contraction, its fixed point, and what happens where Γ looks at Q."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from utds.errors import ConfigError
from utds.linear.data import behaviour, collect, count
from utds.linear.models import low_rank
from utds.linear.operator import Operator, operator

STATES, ACTIONS = 5, 3


def make(seed: int, discount: float, samples: int = 20) -> tuple[Operator, np.ndarray, np.random.Generator]:
    """An operator from few samples, so that some pairs have no data."""
    rng = np.random.default_rng(seed)
    mdp = low_rank(STATES, ACTIONS, 4, 2, rng)
    counts = count(mdp, collect(mdp, behaviour(mdp, 0.3, 0.7, rng), samples, rng))
    policy = rng.dirichlet(np.ones(ACTIONS), size=STATES)
    return operator(counts, 0, policy, discount, beta=0.7), rng.random((STATES, ACTIONS)), rng


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.floats(0, 0.999), st.floats(1e-3, 1e3))
def test_contraction_by_gamma_in_the_sup_norm(seed, discount, scale):
    apply, penalty, rng = make(seed, discount)
    first, second = rng.normal(scale=scale, size=(2, STATES, ACTIONS))
    after = np.abs(apply(first, penalty) - apply(second, penalty)).max()
    assert after <= discount * np.abs(first - second).max() * (1 + 1e-12)


def test_the_factor_is_reached_by_a_constant_shift():
    apply, penalty, rng = make(0, 0.9)
    q = rng.normal(size=(STATES, ACTIONS))
    assert np.abs(apply(q + 2, penalty) - apply(q, penalty)).max() == pytest.approx(0.9 * 2)


def test_iteration_reaches_the_solved_fixed_point():
    apply, penalty, rng = make(1, 0.8)
    q = rng.normal(scale=10, size=(STATES, ACTIONS))
    for _ in range(200):
        q = apply(q, penalty)
    np.testing.assert_allclose(q, apply.fixed_point(penalty), atol=1e-12)


def test_one_application_by_hand():
    """One state, two actions, 3 and 1 rows of them: r + γ·(π-mean of Q − β₁Γ)."""
    apply = Operator(np.array([[0.5, 1.0]]), np.ones((1, 2, 1)), np.array([[0.25, 0.75]]), discount=0.5, beta=2.0)
    result = apply(np.array([[4.0, 8.0]]), np.array([[1.0, 1.0]]))
    np.testing.assert_allclose(result, [[0.5 + 0.5 * 5, 1.0 + 0.5 * 5]])


def test_an_ensembles_own_spread_can_break_the_contraction():
    """Two members at the same Q, then moved apart by ±1: the spread of √2 adds to the lower member's fall."""
    apply = Operator(np.zeros((1, 1)), np.ones((1, 1, 1)), np.ones((1, 1)), discount=0.9, beta=1.0)
    together, apart = np.zeros((2, 1, 1)), np.array([1.0, -1.0]).reshape(2, 1, 1)
    distance = np.abs(apply.ensemble(apart) - apply.ensemble(together)).max()
    assert distance == pytest.approx(0.9 * (1 + np.sqrt(2)))


@pytest.mark.parametrize("discount", [1.0, -0.1])
def test_discounts_that_cannot_contract_are_refused(discount):
    with pytest.raises(ConfigError, match="discount"):
        make(0, discount)
