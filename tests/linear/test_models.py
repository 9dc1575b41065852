"""Linear MDPs are what the paper says they are, or are refused; planning against enumeration of every policy and path;
sampling follows its distribution, sharing relabels and joins, counting counts."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy import stats

from utds.errors import ConfigError, DataError
from utds.linear.models import (
    LinearMDP,
    Transitions,
    avoiding,
    behaviour,
    collect,
    count,
    draw_ood,
    evaluate,
    family,
    greedy,
    low_rank,
    occupancy,
    performance,
    plan,
    relabel,
    related,
    share,
    tabular,
)


def make(seed: int = 0, **changes) -> LinearMDP:
    return dataclasses.replace(low_rank(4, 3, 5, 2, np.random.default_rng(seed)), **changes)


@pytest.mark.parametrize("seed", range(5))
def test_low_rank_is_a_proper_linear_mdp(seed):
    mdp = low_rank(states=7, actions=3, width=4, horizon=2, rng=np.random.default_rng(seed))
    kernel = mdp.transitions.reshape(-1, 7)
    assert (kernel >= 0).all()
    np.testing.assert_allclose(kernel.sum(axis=1), 1, atol=1e-12)
    assert np.linalg.matrix_rank(kernel) == 4
    assert (np.linalg.norm(mdp.features, axis=-1) <= 1 + 1e-12).all()
    assert 0 <= mdp.rewards.min() <= mdp.rewards.max() <= 1


def test_tabular_features_are_one_hot_and_free():
    mdp = tabular(states=3, actions=2, horizon=1, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(mdp.features.reshape(6, 6), np.eye(6))
    np.testing.assert_array_equal(mdp.transitions.reshape(6, 3), mdp.psi)


def test_backup_by_hand():
    features = np.eye(2).reshape(1, 2, 2)
    mdp = LinearMDP(features, np.ones((2, 1)), np.array([0.25, 1.0]), np.ones(1), horizon=3)
    np.testing.assert_array_equal(mdp.backup(np.array([2.0])), [[2.25, 3.0]])


def test_a_family_shares_dynamics_and_differs_in_reward():
    rng = np.random.default_rng(1)
    main, same, fresh, opposite = family(tabular(4, 2, 3, rng), (1.0, 0.0, -1.0), rng)
    for task in (same, fresh, opposite):
        assert task.features is main.features
        assert task.psi is main.psi
    np.testing.assert_array_equal(same.rewards, main.rewards)
    np.testing.assert_allclose(opposite.rewards, 1 - main.rewards)
    assert np.abs(np.corrcoef(fresh.theta, main.theta)[0, 1]) < 0.9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 0}, "horizon is 0"),
        ({"theta": np.zeros(4)}, "theta has shape"),
        ({"psi": np.ones((4, 4)) / 4}, "psi has shape"),
        ({"features": np.zeros((4, 15))}, "features have shape"),
        ({"initial": np.full(4, 0.3)}, "initial must be"),
        ({"theta": np.full(5, 2.0)}, "rewards"),
        ({"psi": np.full((5, 4), 0.3)}, "transitions"),
        ({"theta": np.full(5, np.nan)}, "theta holds NaN"),
        ({"initial": np.full(4, np.nan)}, "initial must be"),
    ],
)
def test_what_is_no_linear_mdp_is_refused(changes, message):
    with pytest.raises((ConfigError, DataError), match=message):
        make(**changes)


def test_long_features_are_refused():
    mdp = make()
    with pytest.raises(DataError, match="longer than 1"):
        dataclasses.replace(mdp, features=3 * mdp.features)


def test_similarity_out_of_range():
    with pytest.raises(ConfigError, match="similarity"):
        related(make(), 1.5, np.random.default_rng(0))


STATES, ACTIONS, HORIZON = 2, 2, 3


@pytest.fixture
def small():
    return low_rank(STATES, ACTIONS, 3, HORIZON, np.random.default_rng(3))


def by_paths(small, policy):
    """Expected return and pair probabilities by summing over every path."""
    value, visited = 0.0, np.zeros(policy.shape)
    for path in itertools.product(range(STATES), range(ACTIONS), repeat=HORIZON):
        states, actions = path[::2], path[1::2]
        probability, total = small.initial[states[0]], 0.0
        for t in range(HORIZON):
            probability *= policy[t, states[t], actions[t]]
            total += small.rewards[states[t], actions[t]]
            if t + 1 < HORIZON:
                probability *= small.transitions[states[t], actions[t], states[t + 1]]
        value += probability * total
        for t in range(HORIZON):
            visited[t, states[t], actions[t]] += probability
    return value, visited


def test_values_and_occupancy_equal_sums_over_paths(small):
    policy = np.random.default_rng(0).dirichlet(np.ones(ACTIONS), size=(HORIZON, STATES))
    value, visited = by_paths(small, policy)
    assert performance(small, policy) == pytest.approx(value, abs=1e-13)
    np.testing.assert_allclose(occupancy(small, policy), visited, atol=1e-14)


def test_the_plan_is_the_best_of_all_deterministic_policies(small):
    choices = itertools.product(range(ACTIONS), repeat=HORIZON * STATES)
    policies = np.eye(ACTIONS)[np.array(list(choices)).reshape(-1, HORIZON, STATES)]
    best = plan(small)
    assert performance(small, policies).max() == pytest.approx(performance(small, best.policy), abs=1e-13)
    assert best.values[0] @ small.initial == pytest.approx(performance(small, best.policy), abs=1e-13)
    np.testing.assert_allclose(evaluate(small, best.policy), best.values, atol=1e-13)


def test_batches_are_evaluated_as_one_by_one(small):
    policies = np.random.default_rng(1).dirichlet(np.ones(ACTIONS), size=(4, 5, HORIZON, STATES))
    np.testing.assert_array_equal(evaluate(small, policies)[2, 3], evaluate(small, policies[2, 3]))
    np.testing.assert_allclose(occupancy(small, policies).sum(axis=(-1, -2)), 1)


def test_ties_go_to_the_first_action():
    np.testing.assert_array_equal(greedy(np.array([[1.0, 1.0], [0.0, 2.0]])), [[1, 0], [0, 1]])


def test_a_policy_of_another_shape_is_refused(small):
    with pytest.raises(DataError, match="policy has shape"):
        evaluate(small, np.ones((HORIZON + 1, STATES, ACTIONS)) / ACTIONS)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def mdp(rng):
    return low_rank(states=4, actions=3, width=5, horizon=3, rng=rng)


def p_value(observed, probabilities):
    """Chi-square test of counts against probabilities, cells without mass left out (they must be empty)."""
    observed, probabilities = observed.ravel(), probabilities.ravel()
    assert observed[probabilities == 0].sum() == 0
    kept = probabilities > 0
    return stats.chisquare(observed[kept], probabilities[kept] / probabilities.sum() * observed.sum()).pvalue


@pytest.mark.parametrize("episodes", [False, True])
def test_draws_follow_the_behaviour_and_the_dynamics(mdp, rng, episodes):
    policy = behaviour(mdp, quality=0.4, coverage=0.7, rng=rng)
    counts = count(mdp, collect(mdp, policy, 20_000, rng, episodes=episodes))
    expected = occupancy(mdp, policy)[..., None] * mdp.transitions  # [T, S, A, S]
    for t in range(mdp.horizon):
        assert p_value(counts.next_states[0, t], expected[t]) > 1e-4


def test_only_episodes_chain(mdp, rng):
    policy = behaviour(mdp, 0.5, 1.0, rng)
    chained, fresh = (collect(mdp, policy, 50, rng, datasets=2, episodes=episodes) for episodes in (True, False))
    np.testing.assert_array_equal(chained.next_states[:, :-1], chained.states[:, 1:])
    assert (fresh.next_states[:, :-1] != fresh.states[:, 1:]).any()


def test_counts_by_hand(rng):
    mdp = tabular(states=2, actions=2, horizon=1, rng=rng)
    data = Transitions(
        np.array([[[0, 0, 1]]]), np.array([[[1, 1, 0]]]), np.array([[[0.5, 0.25, 1.0]]]), np.array([[[1, 0, 1]]])
    )
    counts = count(mdp, data)
    np.testing.assert_array_equal(counts.visits[0, 0], [[0, 2], [1, 0]])
    np.testing.assert_array_equal(counts.rewards[0, 0], [[0, 0.75], [1, 0]])
    np.testing.assert_array_equal(counts.next_states[0, 0, 0, 1], [1, 1])


def test_sharing_keeps_rows_and_changes_only_rewards(mdp, rng):
    main, other = family(mdp, (0.0,), rng)
    own = collect(main, behaviour(main, 0.5, 1.0, rng), 5, rng, datasets=2)
    more = collect(other, behaviour(other, 0.5, 1.0, rng), 7, rng, datasets=2)
    shared = share(main, own, more)
    assert shared.states.shape == (2, 3, 12)
    for name in ("states", "actions", "next_states"):
        np.testing.assert_array_equal(getattr(shared.rows(0, 5), name), getattr(own, name))
        np.testing.assert_array_equal(getattr(shared.rows(5, 12), name), getattr(more, name))
    np.testing.assert_array_equal(shared.rewards, main.rewards[shared.states, shared.actions])
    assert (relabel(main, more).rewards != more.rewards).any()


def test_behaviour_quality_and_coverage(mdp, rng):
    best = plan(mdp).policy
    np.testing.assert_array_equal(behaviour(mdp, 1.0, 0.3, rng), best)
    narrow = behaviour(mdp, 0.0, 1 / 3, rng)
    assert ((narrow > 0).sum(axis=-1) == 1).all()
    wide = behaviour(mdp, 0.0, 1.0, rng)
    np.testing.assert_allclose(wide, 1 / 3)
    returns = [float(performance(mdp, behaviour(mdp, quality, 1.0, rng))) for quality in (0.0, 0.5, 1.0)]
    assert returns == sorted(returns)


def test_avoiding_never_plays_the_policys_actions(mdp):
    best = plan(mdp).policy
    other = avoiding(best)
    assert (other * best).sum() == 0
    np.testing.assert_allclose(other.sum(axis=-1), 1)
    with pytest.raises(ConfigError, match="every action"):
        avoiding(np.full_like(best, 1 / 3))


def test_ood_rows_sit_at_the_datas_states_and_follow_the_policy(mdp, rng):
    data = collect(mdp, behaviour(mdp, 0.5, 1.0, rng), 4000, rng)
    policy = rng.dirichlet(np.ones(3), size=(3, 4))
    visits = draw_ood(mdp, data, policy, draws=2, rng=rng)
    states = count(mdp, data).visits.sum(axis=-1)
    np.testing.assert_array_equal(visits.sum(axis=-1), 2 * states)
    for t in range(3):
        assert p_value(visits[0, t], states[0, t][:, None] * policy[t]) > 1e-4


def test_empty_data_is_refused(mdp, rng):
    policy = behaviour(mdp, 0.5, 1.0, rng)
    with pytest.raises(DataError, match="empty dataset"):
        collect(mdp, policy, 0, rng)
    none = np.zeros((1, 3, 0), dtype=np.int64)
    with pytest.raises(DataError, match="empty dataset"):
        Transitions(none, none, none.astype(float), none)


def test_data_of_another_mdp_is_refused(mdp, rng):
    larger = tabular(states=6, actions=3, horizon=3, rng=rng)
    longer = tabular(states=4, actions=3, horizon=4, rng=rng)
    with pytest.raises(DataError, match="states span"):
        count(mdp, collect(larger, behaviour(larger, 0.0, 1.0, rng), 100, rng))
    with pytest.raises(DataError, match="4 steps, the MDP 3"):
        count(mdp, collect(longer, behaviour(longer, 0.0, 1.0, rng), 10, rng))


def test_sources_with_other_numbers_of_datasets_are_refused(mdp, rng):
    policy = behaviour(mdp, 0.5, 1.0, rng)
    with pytest.raises(DataError, match="differ between sources"):
        share(mdp, collect(mdp, policy, 5, rng, datasets=2), collect(mdp, policy, 5, rng, datasets=3))


def test_ragged_columns_are_refused():
    column = np.zeros((1, 2, 3), dtype=np.int64)
    with pytest.raises(DataError, match="columns have shapes"):
        Transitions(column, column, column[:, :, :2].astype(float), column)


def test_rewards_that_are_no_numbers_are_refused():
    column = np.zeros((1, 1, 2), dtype=np.int64)
    with pytest.raises(DataError, match="NaN"):
        Transitions(column, column, np.array([[[0.0, np.nan]]]), column)


@pytest.mark.parametrize(("quality", "coverage"), [(1.1, 0.5), (0.5, -0.1)])
def test_behaviour_out_of_range(mdp, rng, quality, coverage):
    with pytest.raises(ConfigError, match="must lie in"):
        behaviour(mdp, quality, coverage, rng)
