"""Dynamic programming against enumeration of every policy and of every path."""

import itertools

import numpy as np
import pytest

from utds.errors import DataError
from utds.linear.models import evaluate, greedy, low_rank, occupancy, performance, plan

STATES, ACTIONS, HORIZON = 2, 2, 3


@pytest.fixture
def mdp():
    return low_rank(STATES, ACTIONS, 3, HORIZON, np.random.default_rng(3))


def by_paths(mdp, policy):
    """Expected return and pair probabilities by summing over every path."""
    value, visited = 0.0, np.zeros(policy.shape)
    for path in itertools.product(range(STATES), range(ACTIONS), repeat=HORIZON):
        states, actions = path[::2], path[1::2]
        probability, total = mdp.initial[states[0]], 0.0
        for t in range(HORIZON):
            probability *= policy[t, states[t], actions[t]]
            total += mdp.rewards[states[t], actions[t]]
            if t + 1 < HORIZON:
                probability *= mdp.transitions[states[t], actions[t], states[t + 1]]
        value += probability * total
        for t in range(HORIZON):
            visited[t, states[t], actions[t]] += probability
    return value, visited


def test_values_and_occupancy_equal_sums_over_paths(mdp):
    policy = np.random.default_rng(0).dirichlet(np.ones(ACTIONS), size=(HORIZON, STATES))
    value, visited = by_paths(mdp, policy)
    assert performance(mdp, policy) == pytest.approx(value, abs=1e-13)
    np.testing.assert_allclose(occupancy(mdp, policy), visited, atol=1e-14)


def test_the_plan_is_the_best_of_all_deterministic_policies(mdp):
    choices = itertools.product(range(ACTIONS), repeat=HORIZON * STATES)
    policies = np.eye(ACTIONS)[np.array(list(choices)).reshape(-1, HORIZON, STATES)]
    best = plan(mdp)
    assert performance(mdp, policies).max() == pytest.approx(performance(mdp, best.policy), abs=1e-13)
    assert best.values[0] @ mdp.initial == pytest.approx(performance(mdp, best.policy), abs=1e-13)
    np.testing.assert_allclose(evaluate(mdp, best.policy), best.values, atol=1e-13)


def test_batches_are_evaluated_as_one_by_one(mdp):
    policies = np.random.default_rng(1).dirichlet(np.ones(ACTIONS), size=(4, 5, HORIZON, STATES))
    np.testing.assert_array_equal(evaluate(mdp, policies)[2, 3], evaluate(mdp, policies[2, 3]))
    np.testing.assert_allclose(occupancy(mdp, policies).sum(axis=(-1, -2)), 1)


def test_ties_go_to_the_first_action():
    np.testing.assert_array_equal(greedy(np.array([[1.0, 1.0], [0.0, 2.0]])), [[1, 0], [0, 1]])


def test_a_policy_of_another_shape_is_refused(mdp):
    with pytest.raises(DataError, match="policy has shape"):
        evaluate(mdp, np.ones((HORIZON + 1, STATES, ACTIONS)) / ACTIONS)
