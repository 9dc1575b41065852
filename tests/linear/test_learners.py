"""Value iteration against regressions written out row by row, and against exact dynamic programming."""

import numpy as np
import pytest

from utds.errors import DataError
from utds.linear.learners import Ood, pevi, prepare, suboptimality
from utds.linear.models import behaviour, collect, draw_ood, low_rank, plan, related, share, tabular

RIDGE, BETA = 0.5, 0.3


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def mdp(rng):
    return low_rank(states=5, actions=3, width=4, horizon=3, rng=rng)


@pytest.fixture
def data(mdp, rng):
    other = related(mdp, 0.5, rng)
    own, more = (collect(task, behaviour(task, 0.4, 0.7, rng), 40, rng, datasets=2) for task in (mdp, other))
    return share(mdp, own, more)


def row_by_row(mdp, data, dataset, beta, ood=None):
    """The same recursion with one row a sample, least squares by numpy, and φᵀΛ⁻¹φ by an explicit inverse."""
    values, flat = np.zeros(mdp.states), mdp.features.reshape(-1, mdp.width)
    backups, gammas = [], []
    for t in reversed(range(mdp.horizon)):
        features = mdp.features[data.states[dataset, t], data.actions[dataset, t]]
        targets = data.rewards[dataset, t] + values[data.next_states[dataset, t]]
        if ood is not None:
            visits = ood[dataset, t].ravel().astype(int)
            features = np.concatenate([features, np.repeat(flat, visits, axis=0)])
            exact = (mdp.rewards + mdp.transitions @ values).ravel()
            targets = np.concatenate([targets, np.repeat(exact, visits)])
        augmented = np.concatenate([features, np.sqrt(RIDGE) * np.eye(mdp.width)])
        weights = np.linalg.lstsq(augmented, np.concatenate([targets, np.zeros(mdp.width)]))[0]
        inverse = np.linalg.inv(augmented.T @ augmented)
        gamma = beta * np.sqrt(np.einsum("pd,de,pe->p", flat, inverse, flat))
        backups.insert(0, flat @ weights)
        gammas.insert(0, gamma)
        q = np.clip(flat @ weights - gamma, 0, mdp.horizon - t).reshape(mdp.states, mdp.actions)
        values = q.max(axis=1)
    shape = (mdp.horizon, mdp.states, mdp.actions)
    return np.reshape(backups, shape), np.reshape(gammas, shape), values


@pytest.mark.parametrize("with_ood", [False, True])
@pytest.mark.parametrize("dataset", [0, 1])
def test_pevi_equals_regression_row_by_row(mdp, data, rng, with_ood, dataset):
    visits = draw_ood(mdp, data, np.full((3, 5, 3), 1 / 3), 1, rng) if with_ood else None
    solution = pevi(prepare(mdp, data, RIDGE, Ood(visits) if with_ood else None), BETA)
    backups, gamma, values = row_by_row(mdp, data, dataset, BETA, visits)
    np.testing.assert_allclose(solution.backups[dataset], backups, atol=1e-10)
    np.testing.assert_allclose(solution.gamma[dataset], gamma, atol=1e-12)
    np.testing.assert_allclose(solution.values[dataset, 0], values, atol=1e-10)


def test_practical_ood_targets_row_by_row(rng):
    """One step, so V = 0: fit ŵ to the data, regress OOD rows to φᵀŵ − Γ, fit again."""
    mdp = low_rank(states=5, actions=3, width=4, horizon=1, rng=rng)
    data = collect(mdp, behaviour(mdp, 0.4, 0.7, rng), 40, rng)
    visits = draw_ood(mdp, data, np.full((1, 5, 3), 1 / 3), 2, rng)
    solution = pevi(prepare(mdp, data, RIDGE, Ood(visits, "pessimistic")), BETA)
    flat, ood = mdp.features.reshape(-1, 4), np.repeat(mdp.features.reshape(-1, 4), visits.ravel().astype(int), axis=0)
    features = mdp.features[data.states[0, 0], data.actions[0, 0]]
    alone = np.linalg.solve(features.T @ features + RIDGE * np.eye(4), features.T @ data.rewards[0, 0])
    total = features.T @ features + ood.T @ ood + RIDGE * np.eye(4)
    targets = ood @ alone - BETA * np.sqrt(np.einsum("pd,de,pe->p", ood, np.linalg.inv(total), ood))
    weights = np.linalg.solve(total, features.T @ data.rewards[0, 0] + ood.T @ targets)
    np.testing.assert_allclose(solution.backups[0, 0].ravel(), flat @ weights, atol=1e-12)


def test_plenty_of_data_recovers_exact_dynamic_programming(rng):
    mdp = tabular(states=3, actions=2, horizon=4, rng=rng)
    data = collect(mdp, behaviour(mdp, 0.0, 1.0, rng), 200_000, rng)
    solution = pevi(prepare(mdp, data, ridge=1e-6), 0.0)
    np.testing.assert_allclose(solution.values[0], plan(mdp).values, atol=0.02)
    assert suboptimality(mdp, solution.policy)[0] < 0.01
    assert (solution.gamma == 0).all()


def test_a_heavy_penalty_leaves_nothing(mdp, data):
    solution = pevi(prepare(mdp, data), 1e6)
    assert (solution.q == 0).all()


def test_sharing_helps_where_own_data_is_thin(rng):
    mdp = tabular(states=4, actions=3, horizon=4, rng=rng)
    own = collect(mdp, behaviour(mdp, 0.1, 0.4, rng), 20, rng, datasets=50)
    good = collect(mdp, behaviour(mdp, 0.9, 1.0, rng), 1000, rng, datasets=50)
    alone, shared = (pevi(prepare(mdp, d), 0.5) for d in (own, share(mdp, own, good)))
    assert suboptimality(mdp, shared.policy).mean() < 0.2 * suboptimality(mdp, alone.policy).mean()


def test_no_ridge_needs_full_rank_and_ood_rows_can_give_it(mdp, rng):
    one_pair = collect(mdp, plan(mdp).policy, 1, rng)
    with pytest.raises(DataError, match="rank-deficient"):
        prepare(mdp, one_pair, ridge=0.0)
    everywhere = np.ones((1, 3, 5, 3))
    assert np.isfinite(pevi(prepare(mdp, one_pair, 0.0, Ood(everywhere)), BETA).backups).all()


def test_wrong_requests_are_refused(mdp, data):
    with pytest.raises(DataError, match="OOD visits have shape"):
        prepare(mdp, data, ood=Ood(np.ones((1, 1, 5, 3))))
