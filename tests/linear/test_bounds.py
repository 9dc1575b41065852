"""Theorem 2 and Corollary 1, shown on random problems; β and the two-armed example by hand."""

import math

import numpy as np
import pytest

from utds.errors import ConfigError
from utds.linear import learners
from utds.linear.learners import Ood, pevi, prepare
from utds.linear.models import LinearMDP, behaviour, collect, draw_ood, low_rank, plan, related, share, tabular
from utds.linear.statements import corollary1, theorem2

XI = 0.1


def test_beta_by_hand():
    assert learners.beta(width=16, horizon=10, xi=0.1) == pytest.approx(10 * 4 * math.log(100))
    assert learners.beta(width=16, horizon=10, xi=0.1, c=0.5) == pytest.approx(20 * math.log(100))


def test_explicit_beta_by_hand():
    """One-hot features, so det(Λ/λ) is a product of 1 + N/λ; checked at the first of two steps."""
    rng = np.random.default_rng(0)
    mdp = tabular(states=2, actions=2, horizon=2, rng=rng)
    problem = prepare(mdp, collect(mdp, behaviour(mdp, 0.0, 1.0, rng), 30, rng), ridge=2.0)
    growth = np.log1p(problem.counts.visits[0] / 2.0).sum(axis=(1, 2))
    first = 0.5 * math.sqrt(growth[0] + 2 * math.log(2 / XI)) + math.sqrt(2.0) * 2 * math.sqrt(4)
    last = math.sqrt(2.0) * math.sqrt(4)  # nothing follows the last step: no noise, only the ridge's bias
    np.testing.assert_allclose(learners.explicit_beta(problem, XI)[0], [first, last], rtol=1e-12)


@pytest.fixture(scope="module")
def five_hundred():
    """The 500 datasets of Theorem 2: d = 16, T = 10, 1000 samples a step, half of them shared; without and with OOD."""
    rng = np.random.default_rng(7)
    mdp = low_rank(theorem2.STATES, theorem2.ACTIONS, theorem2.WIDTH, theorem2.HORIZON, rng)
    other = related(mdp, 0.3, rng)
    own, more = (collect(task, behaviour(task, 0.5, 0.5, rng), 500, rng, datasets=500) for task in (mdp, other))
    shared = share(mdp, own, more)
    uniform = np.full((mdp.horizon, mdp.states, mdp.actions), 1 / mdp.actions)
    ood = draw_ood(mdp, shared, uniform, 1, rng)
    return mdp, prepare(mdp, shared), prepare(mdp, shared, ood=Ood(ood))


@pytest.mark.parametrize("c", [1.0, 0.1, 0.03])
@pytest.mark.parametrize("with_ood", [False, True])
def test_theorem_2_coverage_over_500_datasets(five_hundred, c, with_ood):
    mdp, problem = five_hundred[0], five_hundred[1 + with_ood]
    solution = pevi(problem, learners.beta(mdp.width, mdp.horizon, XI, c))
    held = learners.quantifies(mdp, solution)
    assert held.shape == (500,)
    assert held.mean() >= 1 - XI


def test_theorem_2_fails_where_c_is_too_small(five_hundred):
    mdp, problem, _ = five_hundred
    assert learners.quantifies(mdp, pevi(problem, learners.beta(16, 10, XI, c=0.002))).mean() < 0.5


def test_theorem_2_with_the_explicit_beta(five_hundred):
    """The largest explicit β over steps is the one that its derivation allows everywhere; it lies below c = 1."""
    mdp, problem, _ = five_hundred
    radius = float(learners.explicit_beta(problem, XI).max())
    assert radius < learners.beta(mdp.width, mdp.horizon, XI)
    assert learners.quantifies(mdp, pevi(problem, radius)).mean() >= 1 - XI


def test_the_explicit_beta_holds_for_features_of_any_length():
    """‖φ‖ = 0.02 and 50 times the weights are the same MDP: the ridge's bias is 50 times larger against Γ."""
    rng = np.random.default_rng(3)
    theta = 50 * np.array([1.0, 0.6])
    mdp = LinearMDP(0.02 * np.eye(2).reshape(1, 2, 2), 50 * np.ones((2, 1)), theta, np.ones(1), horizon=2)
    problem = prepare(mdp, collect(mdp, behaviour(mdp, 0.5, 1.0, rng), 5, rng, datasets=50))
    radius = float(learners.explicit_beta(problem, XI).max())
    assert learners.quantifies(mdp, pevi(problem, radius)).mean() >= 1 - XI


def test_quantifier_and_its_safe_half():
    rng = np.random.default_rng(1)
    mdp = tabular(states=3, actions=2, horizon=3, rng=rng)
    solution = pevi(prepare(mdp, collect(mdp, behaviour(mdp, 0.2, 1.0, rng), 30, rng, datasets=200)), 1.2)
    error = learners.error(mdp, solution)
    held = learners.quantifies(mdp, solution)
    assert 0 < held.mean() < 1
    np.testing.assert_array_equal(held, (solution.gamma - error).reshape(200, -1).min(axis=1) >= 0)
    assert learners.underestimates(mdp, solution)[held].all()


@pytest.fixture(scope="module")
def problems():
    """200 random multi-task problems at two penalties: one that nearly always quantifies, one that often doesn't."""
    return [corollary1.run(np.random.default_rng(11 + k), c=c) for k, c in enumerate((corollary1.C, 0.03))]


@pytest.mark.parametrize("which", [0, 1])
def test_corollary_1_on_200_problems(problems, which):
    result = problems[which]
    assert len(result.single.true) == 200
    quantified = np.concatenate([gaps.quantified for gaps in result.everything])
    assert quantified.sum() > 200  # the chain is tested, not vacuous
    assert result.broken(2) == 0  # what the quantifier implies
    assert result.broken(1) == 0  # the corollary as printed
    assert all((gaps.true >= -1e-12).all() for gaps in result.everything)


def test_the_quantifier_often_fails_and_often_holds_in_the_harder_half(problems):
    held = np.concatenate([gaps.quantified for gaps in problems[1].everything])
    assert 0.3 < held.mean() < 0.99


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("source", corollary1.SOURCES)
def test_sharing_never_raises_the_bound(problems, which, source):
    assert problems[which].largest_rise(source) <= 1e-10


def test_the_true_gap_never_exceeds_the_bound_even_unquantified(problems):
    """At the default c, over all 600 cases, those that the quantifier missed included."""
    assert all((gaps.true <= gaps.bound + 1e-10).all() for gaps in problems[0].everything)


def test_many_bounds_say_something(problems):
    """A bound above the best possible return would hold trivially; in these problems V* ≤ T ≤ 6 and V* is around 3."""
    bound = problems[0].shared["relevant"].bound
    assert (bound < 2).mean() > 0.3


def test_irrelevant_data_leaves_a_tabular_bound_as_it_was(problems):
    result = problems[0]
    change = result.shared["irrelevant"].bound - result.single.bound
    np.testing.assert_allclose(change[result.tabular], 0, atol=1e-12)


def test_the_chain_holds_with_ood_rows_that_sharing_only_adds_to():
    """Λ̃_i stays inside Λ̃_ij: D_i's OOD rows are the same on both sides, D_j's come on top."""
    rng = np.random.default_rng(13)
    held = 0
    for index in range(40):
        mdp = corollary1.random_mdp(index, rng)
        data = corollary1.problem(mdp, 60, 120, 1, rng)
        uniform = np.full((mdp.horizon, mdp.states, mdp.actions), 1 / mdp.actions)
        own, added = (draw_ood(mdp, data[name], uniform, 1, rng) for name in ("own", "irrelevant"))
        beta = learners.beta(mdp.width, mdp.horizon, XI, corollary1.C)
        single = pevi(prepare(mdp, data["own"], ood=Ood(own)), beta)
        shared = pevi(prepare(mdp, share(mdp, data["own"], data["irrelevant"]), ood=Ood(own + added)), beta)
        bound_single, bound_shared = (learners.expected_penalty(mdp, s.gamma)[0] for s in (single, shared))
        assert bound_shared <= bound_single + 1e-10
        if learners.quantifies(mdp, shared)[0]:
            held += 1
            assert learners.suboptimality(mdp, shared.policy)[0] <= bound_shared + 1e-10
    assert held >= 30


def test_two_arms_exceed_the_printed_bound_and_not_its_double():
    gaps = corollary1.two_arms()
    assert gaps.quantified[0]
    assert gaps.true[0] == pytest.approx(0.4)
    assert gaps.bound[0] == pytest.approx(0.25)


def test_expected_penalty_of_a_constant_is_the_horizon_times_it():
    mdp = tabular(states=3, actions=2, horizon=4, rng=np.random.default_rng(0))
    assert learners.expected_penalty(mdp, np.full((1, 4, 3, 2), 0.5))[0] == pytest.approx(2.0)
    assert learners.suboptimality(mdp, plan(mdp).policy) == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("xi", [0.0, 1.0, -0.5])
def test_levels_outside_zero_and_one_are_refused(xi):
    with pytest.raises(ConfigError, match="ξ is"):
        learners.beta(4, 5, xi)


def test_negative_c_and_missing_ridge_are_refused():
    with pytest.raises(ConfigError, match="c is"):
        learners.beta(4, 5, XI, c=-1)
    rng = np.random.default_rng(0)
    mdp = tabular(states=1, actions=1, horizon=1, rng=rng)
    problem = prepare(mdp, collect(mdp, plan(mdp).policy, 3, rng), ridge=0.0)
    with pytest.raises(ConfigError, match="ridge"):
        learners.explicit_beta(problem, XI)
