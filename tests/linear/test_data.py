"""Sampling follows its distribution; sharing relabels and joins; counting counts."""

import numpy as np
import pytest
from scipy import stats

from utds.errors import ConfigError, DataError
from utds.linear.models import (
    Transitions,
    avoiding,
    behaviour,
    collect,
    count,
    draw_ood,
    family,
    low_rank,
    occupancy,
    performance,
    plan,
    relabel,
    share,
    tabular,
)


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
