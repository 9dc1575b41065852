"""IQL, AWAC, ReBRAC, SAC-N and EDAC against slow NumPy; what their fields must not be."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from utds import algorithms
from utds.algorithms import AWAC, EDAC, IQL, SACN, ReBRAC, Spec
from utds.algorithms.edac import mean_cosine
from utds.errors import ConfigError

SMALL = {"width": 8, "layers": 1, "batch_size": 16, "layer_norm": False}
KEY = jax.random.key(5)


def dense(x, layer):
    return x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64)


def numpy_mlp(network, x):
    return dense(np.maximum(dense(x, network[0]), 0), network[1])


def numpy_q(critic, states, actions):
    x = np.concatenate([states, actions], axis=-1)
    members = [jax.tree.map(lambda leaf, e=e: leaf[e], critic) for e in range(len(critic[0].weight))]
    return np.stack([numpy_mlp(member, x)[:, 0] for member in members])


def columns(batch):
    return (np.asarray(x, np.float64) for x in batch[:5])


@cache
def fresh(algo):
    """A state whose target critics differ from the critics."""
    state = jax.device_get(jax.jit(algo.init)(jax.random.key(0), Spec(3, 2)))
    return state._replace(target_critic=jax.tree.map(lambda x: x * 0.9 - 0.05, state.target_critic))


def test_iql_losses_equal_numpy(batch):
    algo = IQL(**SMALL, expectile=0.8, beta=20.0)
    state = fresh(algo)
    hidden, out = state.value
    state = state._replace(value=(hidden, out._replace(bias=out.bias - 0.5)))  # so that advantages have both signs
    s, a, r, d, s2 = columns(batch)
    q = numpy_q(state.target_critic, s, a).min(axis=0)
    u = q - numpy_mlp(state.value, s)[:, 0]
    assert (u < 0).any() and (u > 0).any()
    loss, metrics = algo.value_loss(state.value, batch, jnp.asarray(q, jnp.float32))
    assert loss == pytest.approx(np.mean(np.where(u < 0, 0.2, 0.8) * u**2), abs=1e-5)
    assert metrics["value_mean"] == pytest.approx(np.mean(q - u), abs=1e-5)

    weights = np.minimum(np.exp(20 * u), 100)
    assert weights.max() == 100 > weights.min()
    pi = np.tanh(numpy_mlp(state.actor, s))
    loss, metrics = algo.actor_loss(state.actor, state, batch, jnp.asarray(q, jnp.float32))
    assert loss == pytest.approx(np.mean(weights[:, None] * (pi - a) ** 2), rel=1e-4)
    assert metrics["advantage_mean"] == pytest.approx(np.mean(u), abs=1e-5)

    y = r + 0.99 * (1 - d) * numpy_mlp(state.value, s2)[:, 0]
    inputs = algo.critic_inputs(state, batch)
    np.testing.assert_allclose(inputs["targets"], y, atol=1e-5)
    loss, _ = algo.bellman_loss(state.critic, inputs)
    assert loss == pytest.approx(np.sum(np.mean((numpy_q(state.critic, s, a) - y) ** 2, axis=1)), abs=1e-4)


def test_iqls_value_is_the_expectile(make_pool):
    """Of values 0 and 1 in equal parts the expectile τ is τ itself: τ(1 − V) = (1 − τ)V."""
    algo = IQL(**SMALL, expectile=0.9, critic_lr=0.03)
    value, q = fresh(algo).value, jnp.tile(jnp.array([0.0, 1.0]), 8)
    pool = make_pool(np.ones((16, 3)), np.zeros((16, 2)), np.ones(16))
    batch = pool.take(jnp.arange(16))
    descend = jax.jit(lambda value: jax.tree.map(lambda x, g: x - 0.1 * g, value, slope(value)))

    def slope(value):
        return jax.grad(lambda v: algo.value_loss(v, batch, q)[0])(value)

    for _ in range(300):
        value = descend(value)
    assert numpy_mlp(value, np.ones((1, 3)))[0, 0] == pytest.approx(0.9, abs=1e-3)


def test_awac_weighs_the_data_by_its_advantage(batch):
    algo = AWAC(**SMALL, lam=0.1)
    state = fresh(algo)
    s, a, *_ = columns(batch)
    pi = np.tanh(numpy_mlp(state.actor, s))
    advantage = numpy_q(state.critic, s, a).min(axis=0) - numpy_q(state.critic, s, pi).min(axis=0)
    weights = np.exp(advantage / 0.1) / np.mean(np.exp(advantage / 0.1))
    loss, metrics = algo.actor_loss(state.actor, state, batch)
    assert loss == pytest.approx(np.mean(weights[:, None] * (pi - a) ** 2), rel=1e-4)
    assert metrics["effective_share"] == pytest.approx(weights.sum() ** 2 / (16 * np.sum(weights**2)), rel=1e-4)


def test_awacs_weights_carry_no_gradient(batch):
    algo = AWAC(**SMALL, lam=0.1)
    state = fresh(algo)
    frozen = algo.weights(state, batch, jnp.tanh(numpy_mlp(state.actor, np.asarray(batch.observations))))

    def weighed(actor):
        hidden = jax.nn.relu(batch.observations @ actor[0].weight + actor[0].bias)
        actions = jnp.tanh(hidden @ actor[1].weight + actor[1].bias)
        return jnp.mean(frozen[:, None] * (actions - batch.actions) ** 2)

    found = jax.grad(lambda actor: algo.actor_loss(actor, state, batch)[0])(state.actor)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), found, jax.grad(weighed)(state.actor))


def test_rebrac_penalises_the_distance_here_and_there(batch):
    algo = ReBRAC(**SMALL, actor_bc=0.3, critic_bc=0.7)
    state = fresh(algo)
    s, a, r, d, s2 = columns(batch)
    noise = np.asarray(jax.random.normal(KEY, (16, 2)), np.float64)
    a2 = np.clip(np.tanh(numpy_mlp(state.target_actor, s2)) + np.clip(0.2 * noise, -0.5, 0.5), -1, 1)
    known, following = np.asarray(batch.continues), np.asarray(batch.next_actions, np.float64)
    assert 0 < known.mean() < 1
    penalty = 0.7 * known * np.sum((a2 - following) ** 2, axis=1)
    y = r + 0.99 * (1 - d) * (numpy_q(state.target_critic, s2, a2).min(axis=0) - penalty)
    np.testing.assert_allclose(algo.critic_inputs(state, batch, KEY)["targets"], y, atol=1e-5)

    pi = np.tanh(numpy_mlp(state.actor, s))
    q = numpy_q(state.critic, s, pi).min(axis=0)
    distance = np.mean(np.sum((pi - a) ** 2, axis=1))
    loss, metrics = algo.actor_loss(state.actor, state, batch)
    assert loss == pytest.approx(0.3 * distance - q.mean() / np.abs(q).mean(), abs=1e-5)
    assert metrics["behaviour_distance"] == pytest.approx(distance, abs=1e-5)


def test_rebrac_asks_for_next_actions_and_norms_its_critics_alone(batch):
    state = jax.eval_shape(ReBRAC().init, jax.random.key(0), Spec(3, 2))
    assert state.actor[0].gain is None and state.critic[0].gain is not None
    algo = ReBRAC(**SMALL)
    with pytest.raises(ConfigError, match="next_actions=True"):
        algo.critic_inputs(fresh(algo), batch._replace(next_actions=None), KEY)


@pytest.mark.parametrize("backup_entropy", [False, True])
def test_sac_n_targets_are_the_least_of_all_critics(backup_entropy, batch):
    algo = SACN(**SMALL, num_critics=5, backup_entropy=backup_entropy)
    state = fresh(algo)._replace(log_temperature=np.float32(-0.7))
    _, _, r, d, s2 = columns(batch)
    mean, log_std = np.split(numpy_mlp(state.actor, s2), 2, axis=-1)
    noise = np.asarray(jax.random.normal(KEY, (16, 2)), np.float64)
    a2 = np.tanh(mean + np.exp(log_std) * noise)
    log_density = np.sum(-0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi) - np.log(1 - a2**2), axis=1)
    values = numpy_q(state.target_critic, s2, a2).min(axis=0) - backup_entropy * np.exp(-0.7) * log_density
    found = algo.critic_inputs(state, batch, KEY)["targets"]
    np.testing.assert_allclose(found, r + 0.99 * (1 - d) * values, atol=2e-5)


def test_edac_adds_the_cosines_of_its_critics_gradients(batch):
    algo = EDAC(**SMALL, num_critics=3, eta=2.0)
    state = fresh(algo)
    s, a, *_ = columns(batch)
    steps = 1e-6 * np.eye(2)
    sides = [numpy_q(state.critic, s, a + step) - numpy_q(state.critic, s, a - step) for step in steps]
    gradients = np.stack(sides, axis=-1) / 2e-6  # [E, B, A]
    cosines = []
    for i in range(3):
        for j in set(range(3)) - {i}:
            norms = np.linalg.norm(gradients[i], axis=1) * np.linalg.norm(gradients[j], axis=1)
            cosines.append(np.mean(np.sum(gradients[i] * gradients[j], axis=1) / norms))
    inputs = algo.critic_inputs(state, batch, KEY)
    loss, metrics = jax.jit(algo.critic_loss)(state.critic, inputs)
    plain, _ = jax.jit(SACN(**SMALL, num_critics=3).critic_loss)(state.critic, inputs)
    assert metrics["gradient_similarity"] == pytest.approx(np.mean(cosines), abs=1e-4)
    assert loss - plain == pytest.approx(2.0 / 2 * np.sum(cosines), abs=1e-3)


def test_mean_cosine_by_hand():
    """Directions of 0°, 90° and 180°: cosines 0, −1 and 0. A gradient of zero has no direction, and a finite slope."""
    gradients = jnp.array([[[2.0, 0.0]], [[0.0, 3.0]], [[-1.0, 0.0]]])
    assert mean_cosine(gradients) == pytest.approx(-1 / 3)
    assert np.all(np.isfinite(jax.grad(mean_cosine)(gradients.at[0].set(0.0))))


def test_edac_without_eta_is_sac_n(batch):
    many, diverse = SACN(**SMALL, num_critics=4), EDAC(**SMALL, num_critics=4, eta=0.0)
    steps = [jax.jit(algo.update)(fresh(many), batch, KEY) for algo in (many, diverse)]
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-6), steps[0][0], steps[1][0])


def test_edac_drives_its_critics_apart(batch):
    ends = []
    for eta in (0.0, 5.0):
        algo = replace(algorithms.make("edac", "paper", **SMALL | {"num_critics": 4, "critic_lr": 3e-3}), eta=eta)
        state, update = fresh(algo), jax.jit(algo.update)
        for step in range(100):
            state, metrics = update(state, batch, jax.random.fold_in(KEY, step))
        ends.append(float(metrics["gradient_similarity"]))
    assert ends[1] < ends[0] - 0.2


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (IQL, {"expectile": 1.0}, "expectile=1.0 must lie in"),
        (IQL, {"beta": -1.0}, "beta=-1.0 must be at least 0"),
        (AWAC, {"lam": 0.0}, "lam=0.0 must be positive"),
        (ReBRAC, {"critic_bc": -0.1}, "critic_bc=-0.1 must be at least 0"),
        (EDAC, {"eta": -1.0}, "eta=-1.0 must be at least 0"),
        (EDAC, {"num_critics": 1}, "num_critics=1 has no other critic"),
    ],
)
def test_fields_that_make_no_sense_are_refused(kind, fields, message):
    with pytest.raises(ConfigError, match=message):
        kind(**fields)
