"""n-step rows of a pool against sums done by hand, and what a learner makes of them."""

import jax
import numpy as np
import pytest

from utds import algorithms
from utds.algorithms.base import discounts, resolve
from utds.algorithms.utds import UTDS
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.errors import ConfigError

GAMMA = 0.5
REWARDS = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])  # episodes of 4 and 3 steps
# Of each transition with n = 3: Σ γᵏ r, whether the stretch ends in a true end, the observation reached, its steps.
SUMS = [1 + 1 + 1, 2 + 2 + 2, 4 + 4, 8, 16 + 16 + 16, 32 + 32, 64]
ENDS = [0, 0, 0, 0, 1, 1, 1]
REACHED = [3, 4, 4, 4, 13, 13, 13]
STEPS = [3, 3, 2, 1, 3, 2, 1]


@pytest.fixture(scope="module")
def pool():
    """Observations count up: 0 … 4 in the first episode, which a time limit cuts, 10 … 13 in the second, which ends."""
    observations = np.array([0, 1, 2, 3, 4, 10, 11, 12, 13.0])[:, None]
    terminations = np.array([0, 0, 0, 0, 0, 0, 1], bool)
    return share(
        Dataset.from_arrays(
            observations, np.zeros((7, 1)), REWARDS, terminations=terminations, lengths=[4, 3], task="main"
        )
    )


@pytest.mark.parametrize("sampling", ["transitions", "episodes"])
def test_stretches_stop_at_the_end_of_their_episode(pool, sampling):
    from dataclasses import replace

    pool = replace(pool, info=replace(pool.info, sampling=sampling))
    batch = pool.sample(jax.random.key(0), 200, n_step=3, discount=GAMMA)
    index = [[0, 1, 2, 3, 10, 11, 12].index(int(o)) for o in batch.observations[:, 0]]
    assert set(index) == set(range(7))
    for name, expected in (("rewards", SUMS), ("terminations", ENDS), ("steps", STEPS)):
        np.testing.assert_array_equal(getattr(batch, name), np.array(expected, np.float32)[index])
    np.testing.assert_array_equal(batch.next_observations[:, 0], np.array(REACHED)[index])
    gamma = np.where(ENDS, 0, GAMMA ** np.array(STEPS))[index]
    np.testing.assert_allclose(discounts(batch, GAMMA), gamma, rtol=1e-6)


def test_one_step_is_what_it_was(pool):
    key = jax.random.key(1)
    plain, one = pool.sample(key, 32), pool.sample(key, 32, n_step=1, discount=GAMMA)
    assert plain.steps is one.steps is None
    np.testing.assert_array_equal(plain.rewards, one.rewards)
    np.testing.assert_array_equal(discounts(one, GAMMA), GAMMA * (1 - np.asarray(one.terminations)))


def test_shares_of_a_run_become_steps():
    algo = resolve(UTDS(anneal_steps="100%", bc_steps="30%"), 2_000)
    assert (algo.anneal_steps, algo.bc_steps, algo.shared_ratio_steps) == (2_000, 600, 1_000)
    assert resolve(UTDS(anneal_steps=7, bc_steps=3, shared_ratio_steps=2), 2_000).anneal_steps == 7
    for value in ("half", "0%", "101%", 0, -3, 1.5):
        with pytest.raises(ConfigError, match=r"^anneal_steps=.* must be"):
            UTDS(anneal_steps=value)


@pytest.mark.parametrize(
    "field",
    [{"beta_ood_decay": 0}, {"beta_ood": -1.0}, {"smoothing": -0.1}, {"n_step": 0}, {"bc_weight": -1}],
)
def test_values_that_make_no_sense(field):
    with pytest.raises(ConfigError, match=f"^{next(iter(field))}="):
        algorithms.make("utds", **field)
    with pytest.raises(ConfigError, match=r"^shared_share=1\.5 must lie in"):
        algorithms.make("cds", shared_share=1.5)
