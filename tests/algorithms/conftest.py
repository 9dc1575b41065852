"""Fixtures: batches and pools whose contents are known."""

from collections.abc import Callable, Iterator

import jax.numpy as jnp
import numpy as np
import pytest

from utds import algorithms
from utds.algorithms import Algorithm
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.data.pool import Batch, Pool

SIZE = 512  # own transitions of every problem


@pytest.fixture(scope="module", autouse=True)
def trusted_dynamics() -> Iterator[None]:
    """Made-up problems have no dynamics to compare, runs that a module shares included."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("utds.training.trainer.refuse_different", lambda datasets: None)
        yield


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
    following = (
        jnp.asarray(random.uniform(-1, 1, (16, 2)), jnp.float32),
        jnp.asarray(random.uniform(size=16) < 0.7, float),
    )
    return Batch(*arrays, source=(1 - arrays[-1]).astype(jnp.int32), next_actions=following[0], continues=following[1])


@pytest.fixture(scope="session")
def make_pool() -> Callable[..., Pool]:
    """`make_pool(observations, actions, rewards, …, shared=…)`: shared data is labelled with reward 0.25."""

    def make(*columns, shared=None) -> Pool:
        others = [] if shared is None else [_dataset("other", *shared)]
        return share(_dataset("main", *columns), *others, rewards=lambda o, a, n: np.full(len(o), 0.25))

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


COMMON = {"width": 64, "layers": 1, "batch_size": 64, "actor_lr": 3e-3, "normalise": False}
CRITIC = COMMON | {"critic_lr": 3e-3, "tau": 0.05, "discount": 0.5}
CONSERVATIVE = CRITIC | {"num_actions": 4, "microbatch": 64, "cql_alpha": 0.5}
MANY = CRITIC | {"num_critics": 4, "backup_entropy": False}  # values without entropy, so that they are known
PESSIMISTIC = CRITIC | {"num_critics": 4, "ood_actions": 2, "ood_noise": 0.1, "beta_ood_decay": 0.995}
FIELDS = {  # others: CRITIC
    "utds": PESSIMISTIC,
    "pbrl": PESSIMISTIC,
    "cql": CONSERVATIVE,
    "cds": CONSERVATIVE,
    "cds-zero": CONSERVATIVE,
    "uds": CONSERVATIVE,
    "sac-n": MANY,
    "edac": MANY,
    "iql": CRITIC | {"beta": 5.0},
    "awac": CRITIC | {"lam": 0.2},
    "rebrac": CRITIC | {"smoothing": 0.0, "actor_bc": 5.0},
    "bc": COMMON,
    "td3bc": CRITIC | {"alpha": 0.2},
    "td3": CRITIC | {"smoothing": 0.0},
}


@pytest.fixture(scope="session")
def tiny() -> Callable[[str], Algorithm]:
    """An algorithm by name, with tiny networks, quick steps and γ = 0.5. One compilation serves all tests."""
    return lambda name: algorithms.make(name, "paper", **FIELDS.get(name, CRITIC))


@pytest.fixture(scope="session")
def problems(make_pool) -> dict[str, Pool]:
    """Problems with known answers, all of one shape.

    constant  reward 1 at every step, for ever: Q = 1 / (1 − γ) = 2
    chain     state k = 0, 1, 2 leads to k + 1 without reward; the step from 2 ends with reward 1: Q = γ², γ, 1
    bandit    one state; actions in [−0.6, 0.2] only, reward a: a line through them looks best at a = 1, never tried
    valley    one state; reward −(a + 0.4)², so that a = −0.4 is best

    Each comes with a little shared data of another state, (3, 3), where every action ends with reward 0.
    """
    random = np.random.default_rng(0)
    states, actions = random.uniform(-1, 1, (SIZE, 2)), random.uniform(-1, 1, (SIZE, 1))
    k = random.integers(0, 3, SIZE)
    places = np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    low = random.uniform(-0.6, 0.2, (SIZE, 1))
    others = _dataset("other", np.full((16, 2), 3.0), random.uniform(-1, 1, (16, 1)), np.zeros(16))
    columns = {
        "constant": (states, actions, np.ones(SIZE), states[::-1], np.zeros(SIZE, bool)),
        "chain": (places[k], actions, k == 2, places[k + 1], k == 2),
        "bandit": (np.zeros((SIZE, 2)), low, low[:, 0]),
        "valley": (np.zeros((SIZE, 2)), actions, -((actions[:, 0] + 0.4) ** 2)),
    }
    return {
        name: share(_dataset(name, *main), others, rewards=lambda o, a, n: np.zeros(len(o)))
        for name, main in columns.items()
    }
