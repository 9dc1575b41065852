"""Lemma 2: contraction, its fixed point, what happens where Γ looks at Q; and the OOD operator step by step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from utds.errors import ConfigError
from utds.linear.learners import Operator, ood_penalties, ood_steps, operator
from utds.linear.models import behaviour, collect, count, low_rank

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


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.floats(0, 2))
def test_the_factor_of_an_ensembles_own_spread_is_bounded(seed, beta):
    """|std(x) − std(y)| ≤ std(x − y), and five numbers within ±1 have a standard deviation of √1.2 at most."""
    apply = Operator(np.zeros((2, 1)), np.eye(2).reshape(2, 1, 2), np.ones((2, 1)), discount=0.9, beta=beta)
    first, second = np.random.default_rng(seed).normal(size=(2, 5, 2, 1))
    after = np.abs(apply.ensemble(first) - apply.ensemble(second)).max()
    assert after <= 0.9 * (1 + beta * np.sqrt(1.2)) * np.abs(first - second).max() * (1 + 1e-12)
    split = np.array([1.0, 1, 1, -1, -1]).reshape(5, 1, 1) * np.ones((2, 1))  # reaches it
    assert np.abs(apply.ensemble(split)).max() == pytest.approx(0.9 * (1 + beta * np.sqrt(1.2)))


def test_two_ood_steps_by_hand():
    """Members at 1 and 3: mean 2, deviation √2. β₂ = 1, then 2."""
    q, root = np.array([[1.0], [3.0]]), np.sqrt(2)
    free = ood_steps(q, np.array([1.0, 2.0]))
    np.testing.assert_allclose(free[:, :, 0], [[1, 3], [1 - root, 3 - root], [1 - 3 * root, 3 - 3 * root]])
    floored = ood_steps(q, np.array([1.0, 0.5]), floor=0.0)
    high = 3 - root  # the lower member stands at 0: the deviation of 0 and h is h/√2
    np.testing.assert_allclose(floored[:, :, 0], [[1, 3], [0, high], [0, high - 0.5 * high / root]])


def test_the_tables_penalties():
    """3.0 → 0.1 with α = 0.99995: at the end after 68,023 steps, and Σ is geometric until then, linear from there."""
    penalties = ood_penalties(1_000_000)
    assert penalties[0] == 3.0 and penalties[1] == 3.0 * 0.99995
    assert penalties[68_022] > 0.1 and np.all(penalties[68_023:] == 0.1)
    assert penalties.sum() == pytest.approx(3 * (1 - 0.99995**68_023) / 0.00005 + 0.1 * (1_000_000 - 68_023))
    assert round(penalties.sum()) == 151_198
    assert ood_penalties(1_000_000, end=0.0).sum() == pytest.approx(60_000)
