"""What training promises: the random features and their widths against closed forms, good behaviour, and the plan less
what is uncertain about other actions in its states."""

import numpy as np
import pytest

from utds.adviser import advice, score
from utds.adviser.score import CAUTION, Coverage, any_action, good_behaviour, predictions
from utds.data.dataset import Dataset
from utds.linear.learners import covariance, gamma_lcb


def single(rows, seed=0, centre=0.0, size=2):
    """One episode of `rows` steps with Gaussian states and uniform actions."""
    random = np.random.default_rng(seed)
    return Dataset.from_arrays(
        centre + random.normal(size=(rows + 1, size)), random.uniform(-1, 1, (rows, 1)), np.zeros(rows), task="a"
    )


def test_products_of_features_are_the_gaussian_kernel():
    """φ(x)ᵀφ(y) → exp(−‖x − y‖²/2ℓ²) (Rahimi and Recht, 2007), here within 4 standard errors of 20,000 features."""
    data = single(500)
    found = score.make_features([data], 20_000, seed=1, reach=0.7)
    some = score.pairs(data, np.arange(40))
    phi, scaled = found(some), found.normalizer(some)
    distance = np.linalg.norm(scaled[:, None] - scaled[None], axis=2)
    length = 1 / found.weight.std()
    np.testing.assert_allclose(phi @ phi.T, np.exp(-(distance**2) / 2 / length**2), atol=4 / np.sqrt(20_000))


def test_length_scale_is_a_share_of_the_median_distance():
    data = single(1000)
    narrow, wide = (score.make_features([data], 4000, seed=2, reach=reach) for reach in (0.5, 1.0))
    np.testing.assert_allclose(narrow.weight, 2 * wide.weight, rtol=1e-5)
    scaled = wide.normalizer(score.pairs(data, np.arange(1000)))
    median = np.median([np.linalg.norm(a - b) for a, b in zip(scaled[::2], scaled[1::2], strict=True)])
    assert 1 / wide.weight.std() == pytest.approx(median, rel=0.06)


def test_width_is_the_theorys():
    """The same Γ_lcb as the linear MDPs' code computes from the features themselves."""
    data = single(300)
    space = score.make_features([data], 64, seed=0, reach=0.5)
    phi = space(score.pairs(data, np.arange(300))).astype(np.float64)
    width = score.width_of(score.gram(data, space, 1000))
    np.testing.assert_allclose(width(phi[:20].astype(np.float32)), gamma_lcb(phi[:20], covariance(phi, 1.0)), rtol=1e-4)


def test_a_limit_counts_the_rest_by_the_sample():
    """Every tenth of identical transitions, counted for all, is all of them."""
    repeated = Dataset.from_arrays(np.ones((1001, 2)), np.full((1000, 1), 0.5), np.zeros(1000), task="a")
    space = score.make_features([repeated, single(100)], 16, seed=0, reach=0.5)
    np.testing.assert_allclose(score.gram(repeated, space, 100), score.gram(repeated, space, 1000), rtol=1e-5)


def test_large_datasets_do_not_bend_the_scale():
    """Means and deviations are over datasets, each counting once: of N(0, 1) and N(4, 1) they are 2 and √5."""
    normalizer = score.normalizer_of([single(200), single(20_000, seed=1, centre=4.0)])
    np.testing.assert_allclose(normalizer.mean[:2], 2, atol=0.15)
    np.testing.assert_allclose(normalizer.std[:2], np.sqrt(5), atol=0.15)


def dataset(centre, returns, steps=50, seed=0):
    """Episodes around a centre in the plane, with these returns."""
    random = np.random.default_rng(seed)
    count = len(returns)
    return Dataset.from_arrays(
        np.asarray(centre) + 0.3 * random.normal(size=(count * (steps + 1), 2)),
        random.uniform(-1, 1, (count * steps, 1)),
        np.repeat(np.asarray(returns) / steps, steps),
        lengths=np.full(count, steps),
        task="a",
    )


def measure(*datasets):
    return score.Coverage(datasets, width=256)


def test_worth_by_hand():
    found = advice.worth(np.arange(1.0, 21.0))
    assert (found.mean, found.best) == (10.5, 19.5)  # best tenth: 19 and 20
    assert found.quartiles == (1, 5.75, 10.5, 15.25, 20)


def test_good_behaviour_is_the_best_on_record():
    high = np.linspace(0.9, 4.8, 40)
    datasets = [dataset((0, 0), np.linspace(0, 1, 60)), dataset((0, 0), high[:-5]), dataset((3, 3), high[-5:])]
    good = score.good_behaviour(datasets, [data.returns for data in datasets])
    assert len(good) == 5 * 50  # all steps of 5 % of a hundred episodes
    assert np.abs(good[:, :2].mean(axis=0) - 3).max() < 0.1


def test_sharing_never_raises_gamma_and_near_data_lowers_it_most():
    """Theorem 1, and what decides in Corollary 1: coverage of good behaviour."""
    main, near, far = (
        dataset((0, 0), [1.0] * 20),
        dataset((3, 0), [5.0] * 20, seed=1),
        dataset((-9, 0), [0] * 20, seed=2),
    )
    good = score.good_behaviour([main, near, far], [data.returns for data in (main, near, far)])
    measured = measure(main, near, far)
    alone, with_near, with_far, with_both = (measured.gamma(good, members) for members in ((), (0,), (1,), (0, 1)))
    assert with_both <= with_near < 0.5 * alone
    assert 0.8 * alone < with_far <= alone


def test_more_of_the_same_falls_as_the_root_of_the_count():
    """At one point seen n times, Γ² = 1/(n + λ) (the tabular case): four times the data halves it."""
    main, more = (
        Dataset.from_arrays(np.zeros((n + 1, 2)), np.zeros((n, 1)), np.zeros(n), task="a") for n in (100, 300)
    )
    measured = measure(main, more)
    good = np.zeros((1, 3), np.float32)
    phi = measured.features(good)
    square = float((phi**2).sum())
    for members, count in (((), 100), ((0,), 400)):
        expected = np.sqrt(square / (count * square + 1))
        assert measured.gamma(good, members) == pytest.approx(expected, rel=1e-3)


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
