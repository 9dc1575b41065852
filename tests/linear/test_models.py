"""Linear MDPs are what the paper says they are, or are refused."""

import dataclasses

import numpy as np
import pytest

from utds.errors import ConfigError, DataError
from utds.linear.models import LinearMDP, family, low_rank, related, tabular


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
