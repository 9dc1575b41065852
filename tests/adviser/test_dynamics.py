"""The check of dynamics on altered robots, and the regression behind it against simulated effects."""

import numpy as np
import pytest

from utds.adviser import dynamics
from utds.adviser.dynamics import CLIP, RIDGE, Residuals, estimate
from utds.data.dataset import Dataset
from utds.errors import DataError


@pytest.fixture
def push(push):
    """Enough of it to compare."""
    return lambda *given, **named: push(*given, **{"episodes": 80, **named})


def late(dataset: Dataset, feature: int) -> Dataset:
    """The same data with one feature measured a step late."""
    observations = dataset.observations.copy()
    first = np.concatenate([[0], np.cumsum(dataset.lengths + 1)])[:-1]
    kept = observations[first, feature]
    observations[1:, feature] = dataset.observations[:-1, feature]
    observations[first, feature] = kept
    columns = {name: dataset.column(name) for name in dataset.columns}
    return Dataset.checked(columns | {"observations": observations}, dataset.lengths, dataset.metadata)


def far(dataset: Dataset) -> Dataset:
    """The same data five metres away."""
    observations = dataset.observations.copy()
    observations[:, :2] += 5
    columns = {name: dataset.column(name) for name in dataset.columns} | {"observations": observations}
    return Dataset.checked(columns, dataset.lengths, dataset.metadata)


def test_altered_robots_are_refused_and_other_behaviour_is_not(push):
    candidates = {
        "other seed": push(1),
        "other way": push(2, (0.1, 0.1)),
        "third way": push(3, (-0.1, 0.1)),
        "weak motor": push(4, gear=0.5),
        "weak motor, other way": push(5, (0.1, 0.1), gear=0.5),
        "thick air": push(6, (0.1, 0.1), damping=3.0),
        "late sensor": late(push(7), 3),
        "elsewhere": far(push(8)),
    }
    found = dict(zip(candidates, dynamics.checks(push(0), list(candidates.values())), strict=True))
    verdicts = {name: check.verdict for name, check in found.items()}
    assert verdicts == dict.fromkeys(candidates, "different") | {
        "other seed": "same",
        "other way": "same",
        "third way": "same",
        "elsewhere": "unknown",
    }, found
    assert max(found[name].p for name in ("weak motor", "thick air", "late sensor")) < 1e-4
    assert (found["weak motor"].feature, found["weak motor"].cause) == (2, "action 0")  # the velocity along x
    assert "feature 2 changes" in found["weak motor"].sentence("main")
    assert found["late sensor"].feature in (1, 3)  # position and velocity along y tell each other
    assert found["elsewhere"].comparable == 0
    assert "too little in common" in found["elsewhere"].sentence("main")


def test_nothing_is_said_from_a_handful_of_episodes(push):
    assert dynamics.check(push(0, episodes=5), push(1)).verdict == "unknown"


def test_the_same_seed_gives_the_same_answer(push, monkeypatch):
    monkeypatch.setattr(dynamics, "STEPS", 250)
    main, other = push(0), push(1)
    assert dynamics.check(main, other, seed=3) == dynamics.check(main, other, seed=3)


def test_training_refuses_other_dynamics(push, monkeypatch):
    found = dynamics.Check("theirs", "different", 1e-9, -0.4, 2, "action 0", 0.9, 40)
    monkeypatch.setattr(dynamics, "checks", lambda main, others: [found])
    with pytest.raises(DataError, match=r"doesn't move as .* per standard deviation of action 0 .*--trust-dynamics"):
        dynamics.refuse_different([push(0, episodes=6), push(1, episodes=6)])


EPISODES, STEPS = 60, 50


def simulated(random, effect, model_error=0.0):
    """Two datasets of which one's Δs is larger by effect·(1, x); x is normal, and whose it is depends on it.

    The model of Δs is off by model_error·sin x, the same for both datasets.
    """
    x = random.standard_normal(EPISODES * STEPS)
    chance = 1 / (1 + np.exp(-x))
    z = random.random(len(x)) < chance
    regressors = np.stack([np.ones_like(x), x], axis=1)
    noise = 0.5 * random.standard_normal(len(x)) + model_error * np.sin(x)
    error = (z - chance) * (regressors @ effect) + noise
    episode = np.repeat(np.arange(EPISODES), STEPS)
    return Residuals(error[:, None], np.full((len(x), 1), 0.5), z - chance, np.ones(len(x)), episode), regressors


def test_finds_the_effect_that_was_put_in():
    found = estimate(*simulated(np.random.default_rng(0), np.array([0.2, -0.1])), floor=0.1)
    np.testing.assert_allclose(found.effect, [[0.2, -0.1]], atol=4 * found.error.max())
    assert found.error.max() < 0.03
    assert found.most_evident(0.01)[0] < 1e-6


def test_a_model_that_errs_alike_for_both_datasets_is_no_estimate():
    """And the standard errors are right: z-scores of 200 trials without an effect have unit deviation."""
    random = np.random.default_rng(1)
    trials = [estimate(*simulated(random, np.zeros(2), model_error=0.5), floor=0.1) for _ in range(200)]
    scores = np.array([found.effect / found.error for found in trials])
    assert np.abs(scores.mean(axis=0)).max() < 4 / 200**0.5
    assert scores.std() == pytest.approx(1, abs=0.12)


def test_standard_errors_are_those_of_leaving_out_one_episode_at_a_time():
    found, regressors = simulated(np.random.default_rng(2), np.array([0.1, 0.1]))
    columns = (found.side / 0.5)[:, None] * regressors
    target = np.clip(found.error[:, 0] / 0.5, -CLIP, CLIP)
    ridge = RIDGE * np.trace(columns.T @ columns) / 2

    def effect(kept):
        padded = np.concatenate([columns[kept], np.sqrt(ridge) * np.eye(2)])
        return np.linalg.lstsq(padded, np.append(target[kept], [0, 0]), rcond=None)[0]

    without = np.array([effect(found.episode != episode) for episode in range(EPISODES)])
    whole = effect(np.full(len(target), True))
    expected = np.sqrt((EPISODES - 1) / EPISODES * ((without - whole) ** 2).sum(axis=0))
    result = estimate(found, regressors, floor=0.1)
    np.testing.assert_allclose(result.effect[0], whole, rtol=1e-8)
    np.testing.assert_allclose(result.error[0], expected, rtol=1e-8)


def test_p_values_without_an_effect_are_uniform():
    """A deviation in either direction counts: of 2 × 200 p-values 5 % lie below 0.05, half of them above 0.5."""
    random = np.random.default_rng(5)
    found = np.array([estimate(*simulated(random, np.zeros(2)), floor=0.1).p(0.0) for _ in range(200)]).ravel()
    assert (found < 0.05).mean() == pytest.approx(0.05, abs=0.035)
    assert (found > 0.5).mean() == pytest.approx(0.5, abs=0.08)


def test_a_margin_forgives_effects_within_it():
    found = estimate(*simulated(np.random.default_rng(3), np.array([0.2, 0.0])), floor=0.1)
    assert found.p(0.0)[0, 0] < 1e-4
    assert found.p(0.4)[0, 0] > 0.99


def test_floor_lets_all_transitions_count_alike():
    found, regressors = simulated(np.random.default_rng(4), np.array([0.2, 0.0]))
    uneven = found._replace(spread=np.where(regressors[:, 1:] > 0, 0.01, 0.5))
    even = found._replace(spread=np.ones_like(found.spread))
    np.testing.assert_array_equal(
        estimate(uneven, regressors, floor=1.0).effect, estimate(even, regressors, floor=0.1).effect
    )
