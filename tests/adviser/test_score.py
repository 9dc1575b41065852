"""What training promises: the plan, less what is uncertain about other actions in its states."""

import numpy as np
import pytest

from utds.adviser.score import Coverage, any_action, good_behaviour
from utds.adviser.score import CAUTION, predictions
from utds.data.dataset import Dataset

STEPS, EPISODES = 20, 10


def walks(actions, reward=1.0, seed=0):
    """Episodes along the same line, with these actions in every state."""
    random = np.random.default_rng(seed)
    places = np.tile(np.arange(STEPS + 1) / STEPS, EPISODES) + 0.01 * random.normal(size=EPISODES * (STEPS + 1))
    size = STEPS * EPISODES
    return Dataset.from_arrays(
        np.stack([places, np.ones_like(places)], axis=1),
        actions(random, size)[:, None],
        np.full(size, reward),
        lengths=[STEPS] * EPISODES,
        task="a",
    )


@pytest.fixture(scope="module")
def expert_and_explorer():
    """An expert's data, which always acts by 0.5, and data of every action in the same states: no better, but broad."""
    expert = walks(lambda random, size: np.full(size, 0.5))
    explorer = walks(lambda random, size: random.uniform(-1, 1, size), reward=0.0, seed=1)
    datasets = [expert, explorer]
    good = good_behaviour(datasets, [data.returns for data in datasets])
    return datasets, good, Coverage(datasets, width=256)


@pytest.fixture(scope="module")
def gammas(expert_and_explorer):
    """Γ of any action in the states of good behaviour, without and with the explorer's data."""
    _, good, coverage = expert_and_explorer
    return [coverage.gamma(any_action(good, 1), subset) for subset in ((), (0,))]


def test_random_actions_in_the_states_of_good_behaviour(expert_and_explorer):
    _, good, _ = expert_and_explorer
    others = any_action(good, 1)
    np.testing.assert_array_equal(others[:, :2], good[:, :2])
    assert (good[:, 2] == 0.5).all()
    assert others[:, 2].std() == pytest.approx(3**-0.5, abs=0.1)


def test_other_actions_are_what_an_expert_leaves_unknown(expert_and_explorer, gammas):
    _, good, coverage = expert_and_explorer
    alone, shared = gammas
    assert alone > 3 * coverage.gamma(good)
    assert shared < 0.5 * alone


def test_a_prediction_is_the_plan_less_a_share_for_the_uncertainty(expert_and_explorer, gammas):
    datasets, _, _ = expert_and_explorer
    alone, shared = predictions(datasets, [np.asarray(data.rewards) for data in datasets], gammas)
    assert alone.plan == pytest.approx(STEPS, abs=0.1) and shared.plan == pytest.approx(STEPS, abs=0.1)
    assert alone.value == pytest.approx(alone.plan * (1 - CAUTION * gammas[0]))
    assert shared.value > alone.value  # no better plan, but actions to compare


@pytest.mark.parametrize("least", [0.0, -1.0])
def test_where_a_plan_earns_nothing_there_is_nothing_to_lose(expert_and_explorer, gammas, least):
    datasets, _, _ = expert_and_explorer
    found = predictions(datasets, [np.full(data.size, least, dtype=np.float32) for data in datasets], gammas)
    assert [each.value for each in found] == [STEPS * least] * 2
