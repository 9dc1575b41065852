"""The space of random features and the widths measured in it, against closed forms."""

import numpy as np
import pytest

from utds.adviser import score
from utds.data.dataset import Dataset
from utds.linear.learners import covariance, gamma_lcb


def dataset(rows, seed=0, centre=0.0, size=2):
    """One episode of `rows` steps with Gaussian states and uniform actions."""
    random = np.random.default_rng(seed)
    return Dataset.from_arrays(
        centre + random.normal(size=(rows + 1, size)), random.uniform(-1, 1, (rows, 1)), np.zeros(rows), task="a"
    )


def test_products_of_features_are_the_gaussian_kernel():
    """φ(x)ᵀφ(y) → exp(−‖x − y‖²/2ℓ²) (Rahimi and Recht, 2007), here within 4 standard errors of 20,000 features."""
    data = dataset(500)
    found = score.make_features([data], 20_000, seed=1, reach=0.7)
    some = score.pairs(data, np.arange(40))
    phi, scaled = found(some), found.normalizer(some)
    distance = np.linalg.norm(scaled[:, None] - scaled[None], axis=2)
    length = 1 / found.weight.std()
    np.testing.assert_allclose(phi @ phi.T, np.exp(-(distance**2) / 2 / length**2), atol=4 / np.sqrt(20_000))


def test_length_scale_is_a_share_of_the_median_distance():
    data = dataset(1000)
    narrow, wide = (score.make_features([data], 4000, seed=2, reach=reach) for reach in (0.5, 1.0))
    np.testing.assert_allclose(narrow.weight, 2 * wide.weight, rtol=1e-5)
    scaled = wide.normalizer(score.pairs(data, np.arange(1000)))
    median = np.median([np.linalg.norm(a - b) for a, b in zip(scaled[::2], scaled[1::2], strict=True)])
    assert 1 / wide.weight.std() == pytest.approx(median, rel=0.06)


def test_width_is_the_theorys():
    """The same Γ_lcb as the linear MDPs' code computes from the features themselves."""
    data = dataset(300)
    space = score.make_features([data], 64, seed=0, reach=0.5)
    phi = space(score.pairs(data, np.arange(300))).astype(np.float64)
    width = score.width_of(score.gram(data, space, 1000))
    np.testing.assert_allclose(width(phi[:20].astype(np.float32)), gamma_lcb(phi[:20], covariance(phi, 1.0)), rtol=1e-4)


def test_a_limit_counts_the_rest_by_the_sample():
    """Every tenth of identical transitions, counted for all, is all of them."""
    repeated = Dataset.from_arrays(np.ones((1001, 2)), np.full((1000, 1), 0.5), np.zeros(1000), task="a")
    space = score.make_features([repeated, dataset(100)], 16, seed=0, reach=0.5)
    np.testing.assert_allclose(score.gram(repeated, space, 100), score.gram(repeated, space, 1000), rtol=1e-5)


def test_large_datasets_do_not_bend_the_scale():
    """Means and deviations are over datasets, each counting once: of N(0, 1) and N(4, 1) they are 2 and √5."""
    normalizer = score.normalizer_of([dataset(200), dataset(20_000, seed=1, centre=4.0)])
    np.testing.assert_allclose(normalizer.mean[:2], 2, atol=0.15)
    np.testing.assert_allclose(normalizer.std[:2], np.sqrt(5), atol=0.15)
