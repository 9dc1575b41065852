"""Fixtures: quick compilation, and batches and pools whose contents are known."""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.data.pool import Batch, Pool


@pytest.fixture(autouse=True, scope="session")
def quick_compilation() -> Iterator[None]:
    """Networks are tiny here: compiling is what takes time, so let it optimise less."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def batch() -> Batch:
    """16 random transitions, O = 3, A = 2; some terminate, some are shared."""
    random = np.random.default_rng(7)
    columns = (
        random.normal(size=(16, 3)),
        random.uniform(-1, 1, (16, 2)),
        random.normal(size=16),
        random.uniform(size=16) < 0.3,
        random.normal(size=(16, 3)),
        random.uniform(size=16) < 0.5,
    )
    arrays = [jnp.asarray(column, jnp.float32) for column in columns]
    return Batch(*arrays, source=(1 - arrays[-1]).astype(jnp.int32))


@pytest.fixture(scope="session")
def make_pool() -> Callable[..., Pool]:
    """`make_pool(observations, actions, rewards, next_observations, terminations)`: all of it the main task's own."""

    def make(observations, actions, rewards, next_observations=None, terminations=None, shared=None) -> Pool:
        main = _dataset("main", observations, actions, rewards, next_observations, terminations)
        others = [] if shared is None else [_dataset("other", *shared)]
        return share(main, *others, rewards=lambda o, a, n: np.full(len(o), 0.25, np.float32))

    return make


def _dataset(task, observations, actions, rewards, next_observations=None, terminations=None) -> Dataset:
    """Episodes of one step each, so that any transition can stand beside any other."""
    size = len(rewards)
    return Dataset.from_arrays(
        observations,
        actions,
        rewards,
        next_observations=observations if next_observations is None else next_observations,
        terminations=np.ones(size, bool) if terminations is None else terminations,
        lengths=np.ones(size, int),
        task=task,
    )
