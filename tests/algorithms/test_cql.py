"""CQL's targets and losses against slow NumPy and SciPy; which data UDS, CDS and CDS-Zero learn from."""

from dataclasses import asdict
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from utds import algorithms
from utds.algorithms import CDS, CQL, UDS, CDSZero, Spec
from utds.errors import ConfigError
from utds.networks import LeakyLayer, TanhLayer

SMALL = {"width": 8, "layers": 1, "batch_size": 16, "num_actions": 3, "layer_norm": False}
KEY = jax.random.key(11)


def dense(x, layer):
    return x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64)


def numpy_gaussian(actor, states):
    mean, log_std = np.split(dense(np.maximum(dense(states, actor[0]), 0), actor[1]), 2, axis=-1)
    return mean, np.exp(np.clip(log_std, -5, 2))


def numpy_q(critic, states, actions):
    x = np.concatenate([states, actions], axis=-1)
    members = [jax.tree.map(lambda leaf, e=e: leaf[e], critic) for e in range(len(critic[0].weight))]
    return np.stack([dense(np.maximum(dense(x, first), 0), last)[..., 0] for first, last in members])


def log_density(action, mean, std):
    """Of tanh(N(mean, std)) at an action, by the change of variables."""
    return np.sum(stats.norm.logpdf(np.arctanh(action), mean, std) - np.log(1 - action**2), axis=-1)


@cache
def fresh():
    state = jax.device_get(jax.jit(CQL(**SMALL).init)(jax.random.key(0), Spec(3, 2)))
    return state._replace(
        target_critic=jax.tree.map(lambda x: x * 0.9 - 0.05, state.target_critic), log_temperature=np.float32(-0.7)
    )


def test_targets_and_losses_equal_numpy(batch):
    algo, state = CQL(**SMALL), fresh()
    s, a, r, d, s2 = (np.asarray(x, np.float64) for x in batch[:5])
    normal_key, uniform_key = jax.random.split(KEY)
    noise = np.asarray(jax.random.normal(normal_key, (16, 7, 2)), np.float64)
    here, there = numpy_gaussian(state.actor, s), numpy_gaussian(state.actor, s2)
    a2 = np.tanh(there[0] + there[1] * noise[:, 6])
    y = r + 0.99 * (1 - d) * numpy_q(state.target_critic, s2, a2).min(axis=0)
    rows = jax.jit(algo.critic_inputs)(state, batch, KEY)
    np.testing.assert_allclose(rows["targets"], y, atol=1e-5)

    weighed = []  # Q − log density of each of the nine actions, all at s
    uniform = np.asarray(jax.random.uniform(uniform_key, (16, 3, 2), minval=-1, maxval=1), np.float64)
    for j in range(3):
        weighed.append(numpy_q(state.critic, s, uniform[:, j]) - np.log(0.5**2))
        for (mean, std), z in ((here, noise[:, j]), (there, noise[:, 3 + j])):
            action = np.tanh(mean + std * z)
            weighed.append(numpy_q(state.critic, s, action) - log_density(action, mean, std))
    q = numpy_q(state.critic, s, a)
    gap = np.mean(special.logsumexp(weighed, axis=0) - q)
    loss, metrics = jax.jit(algo.critic_loss)(state.critic, rows)
    assert metrics["conservative_gap"] == pytest.approx(gap, abs=2e-5)
    assert metrics["bellman_loss"] == pytest.approx(np.mean((q - y) ** 2), abs=1e-5)
    assert loss == pytest.approx(2 * (np.mean((q - y) ** 2) + 5.0 * gap), abs=2e-4)


@pytest.mark.parametrize("data_action", [False, True])
def test_the_sum_without_importance_weights_equals_numpy(data_action, batch):
    algo, state = CQL(**SMALL, importance_weights=False, data_action=data_action), fresh()
    rows = jax.jit(algo.critic_inputs)(state, batch, KEY)
    s, proposed = np.asarray(batch.observations, np.float64), np.asarray(rows["proposals"], np.float64)
    q = numpy_q(state.critic, s, np.asarray(batch.actions, np.float64))
    summed = [numpy_q(state.critic, s, proposed[:, j]) for j in range(9)] + [q] * data_action
    gap = np.mean(special.logsumexp(summed, axis=0) - q)
    assert jax.jit(algo.critic_loss)(state.critic, rows)[1]["conservative_gap"] == pytest.approx(gap, abs=2e-5)


def test_released_networks_have_the_authors_layers():
    state = jax.eval_shape(algorithms.make("cql", "released").init, jax.random.key(0), Spec(3, 2))
    assert [type(layer) for layer in state.actor[:-1]] == [TanhLayer, TanhLayer, LeakyLayer]
    assert [type(layer) for layer in state.critic[:-1]] == [TanhLayer, LeakyLayer, LeakyLayer]
    for network in (state.actor, state.critic):
        assert [layer.gain is not None for layer in network] == [True, True, False, False]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"architecture": "elu"}, "architecture='elu' is unknown; use relu or released"),
        ({"architecture": "released", "layers": 2}, "released' has 3 hidden layers, not layers=2"),
        ({"data_action": True}, "needs importance_weights=False"),
        ({"ranking": "mean"}, "ranking='mean' is unknown; use min or first"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        CDS(**fields)


def test_policy_loss_equals_numpy_and_temperature_follows_the_entropy(batch):
    algo, state = CQL(**SMALL), fresh()
    s = np.asarray(batch.observations, np.float64)
    noise = np.asarray(jax.random.normal(KEY, (16, 2)), np.float64)
    mean, std = numpy_gaussian(state.actor, s)
    action = np.tanh(mean + std * noise)
    density = log_density(action, mean, std)
    expected = np.mean(np.exp(-0.7) * density - numpy_q(state.critic, s, action).min(axis=0))
    after, metrics = jax.jit(algo.policy_step)(state, batch, KEY)
    assert metrics["actor_loss"] == pytest.approx(expected, abs=2e-5)
    assert metrics["entropy"] == pytest.approx(-density.mean(), abs=2e-5)
    assert metrics["entropy"] > -2  # above its target, −A: the temperature falls by one step of Adam
    assert after.log_temperature == pytest.approx(-0.7 - algo.actor_lr, abs=1e-6)


def test_targets_read_the_target_critics_only(batch):
    algo, state = CQL(**SMALL), fresh()
    targets = jax.jit(lambda state: algo.critic_inputs(state, batch, KEY)["targets"])
    before = targets(state)
    assert np.array_equal(before, targets(state._replace(critic=state.target_critic)))
    assert not np.array_equal(before, targets(state._replace(target_critic=state.critic)))


@pytest.fixture(scope="module")
def pool(make_pool):
    """Own actions (0, 0) with reward 1; shared actions (x, 0), x from −1 to 1, relabelled with reward 0.25."""
    x = np.stack([np.linspace(-1, 1, 64), np.zeros(64)], axis=1)
    shared = np.ones((64, 3)), x, np.zeros(64)
    return make_pool(np.ones((64, 3)), np.zeros((64, 2)), np.ones(64), shared=shared)


def preferring(critic):
    """Critics of value relu(a_1) − 0 or so: an output that grows with the first action alone."""
    weight = np.zeros((2, 5, 8), np.float32)
    weight[:, 3, 0] = 1.0  # observations come first
    hidden = critic[0]._replace(weight=jnp.asarray(weight), bias=jnp.full((2, 8), 2.0))
    out = np.zeros((2, 8, 1), np.float32)
    out[:, 0] = 1.0
    return hidden, critic[1]._replace(weight=jnp.asarray(out), bias=jnp.zeros((2, 1)))


def test_cds_keeps_the_tenth_of_highest_value(pool):
    algo, state = CDS(**SMALL | {"batch_size": 40}), fresh()
    state = state._replace(critic=preferring(state.critic))
    batch = jax.jit(algo.draw)(state, pool, KEY)
    assert np.array_equal(batch.own, [1] * 20 + [0] * 20)
    offered = pool.sample_shared(jax.random.split(KEY)[1], 200).actions[:, 0]
    np.testing.assert_allclose(np.sort(batch.actions[20:, 0]), np.sort(offered)[-20:])
    np.testing.assert_allclose(batch.rewards, [1.0] * 20 + [0.25] * 20)


@pytest.mark.parametrize("fields", [{"shared_share": 0.001}, {"shared_share": 0.999}, {"batch_size": 1}])
def test_a_batch_of_cds_has_own_and_shared_transitions(fields):
    with pytest.raises(ConfigError, match="leaves no transition of shared or none of own data"):
        CDS(**{"batch_size": 256, **fields})


def test_cds_may_rank_by_the_first_critic(pool):
    algo, state = CDS(**SMALL | {"batch_size": 40}, ranking="first"), fresh()
    hidden, out = preferring(state.critic)
    falling = out.weight.at[1].multiply(-1)  # the second critic prefers the opposite, and is always the lower
    state = state._replace(critic=(hidden, out._replace(weight=falling)))
    offered = pool.sample_shared(jax.random.split(KEY)[1], 200).actions[:, 0]
    chosen = jax.jit(algo.draw)(state, pool, KEY).actions[20:, 0]
    np.testing.assert_allclose(np.sort(chosen), np.sort(offered)[-20:])


@pytest.mark.parametrize("name", ["cds", "cds-zero"])
def test_cds_has_the_fields_of_cql_in_every_preset(name):
    for preset in algorithms.entry("cql").presets:
        mine, theirs = (asdict(algorithms.make(which, preset)) for which in (name, "cql"))
        assert {field: mine[field] for field in theirs} == theirs


@pytest.mark.parametrize(
    ("name", "preset"), [("cds", "released"), ("cds-zero", "fast"), ("uds", "fast"), ("utds", "released")]
)
def test_without_shared_data_an_algorithm_is_its_single_task_form_bit_for_bit(name, preset, make_pool):
    """What a matrix relies on when it runs CDS, CDS-Zero and UDS once, as CQL, and UTDS as PBRL."""
    random = np.random.default_rng(0)
    pool = make_pool(random.normal(size=(8, 3)), random.uniform(-1, 1, (8, 2)), random.normal(size=8))
    single = algorithms.entry(name).single_task
    small = {"width": 8, "batch_size": 16} | ({"num_actions": 2} if single == "cql" else {"ood_actions": 2})
    one, other = (algorithms.resolve(algorithms.make(which, preset, **small), 10) for which in (single, name))

    @jax.jit
    def first_step(key):
        states = [algo.init(key, Spec.of(pool)) for algo in (one, other)]
        pairs = zip((one, other), states, strict=True)
        return [algo.update(state, algo.draw(state, pool, key), key) for algo, state in pairs]

    mine, theirs = first_step(KEY)
    assert jax.tree.all(jax.tree.map(np.array_equal, mine, theirs))
    assert jax.tree.structure(mine) == jax.tree.structure(theirs)


@pytest.mark.parametrize("kind", [UDS, CDSZero])
def test_shared_rewards_become_zero(kind, pool):
    batch = jax.jit(kind(**SMALL).draw)(fresh(), pool, KEY)
    assert 0 < np.mean(batch.own) < 1
    np.testing.assert_array_equal(batch.rewards, batch.own)
