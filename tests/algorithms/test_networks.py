"""Networks against NumPy, SciPy and hand-counted parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from utds import algorithms
from utds import networks as nn
from utds.algorithms import Spec


def numpy_mlp(params, x):
    """Slow and plain, in float64."""
    x = np.asarray(x, np.float64)
    for i, layer in enumerate(params):
        x = x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64)
        if layer.gain is not None:
            x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
            x = x * np.asarray(layer.gain) + np.asarray(layer.offset)
        if i < len(params) - 1:
            x = np.maximum(x, 0)
    return x


def on_walker(algo):
    """The shapes of an algorithm's networks: 24 observations, 6 actions."""
    return jax.eval_shape(lambda: algo.init(jax.random.key(0), Spec(24, 6)))


def test_parameters_of_the_papers_table_of_networks():
    """Three hidden layers of 256, counted by hand: policy and critics, as in the cost table of a report."""
    hidden = 2 * (256 + 1) * 256
    state = on_walker(algorithms.make("utds", "paper"))
    critic, actor = (30 + 1) * 256 + hidden + 256 + 1, (24 + 1) * 256 + hidden + (256 + 1) * 6
    assert nn.parameter_count(state.critic) == 5 * critic
    assert nn.parameter_count((state.critic, state.actor)) == 5 * critic + actor == 838_411
    state, norm = on_walker(algorithms.make("cds", "paper")), 3 * 2 * 256
    gaussian = actor + (256 + 1) * 6  # a mean and a standard deviation per action
    assert nn.parameter_count((state.critic, state.actor)) == 2 * (critic + norm) + gaussian + norm == 425_230
    state = on_walker(algorithms.make("cds", "released"))  # layer norm in two of the three
    assert nn.parameter_count((state.critic, state.actor)) == 2 * (critic + 1024) + gaussian + 1024 == 423_694


def test_the_papers_cost_table_counts_two_hidden_layers_and_the_target_critics():
    """0.81M and 0.37M: docs/guides/report.md has the arithmetic."""
    critic, actor = (30 + 1) * 256 + (256 + 1) * 256 + 256 + 1, (24 + 1) * 256 + (256 + 1) * 256 + (256 + 1) * 6
    assert (critic, actor) == (73_985, 73_734)
    utds = on_walker(algorithms.make("utds", "released"))
    counted = nn.parameter_count((utds.critic, utds.target_critic, utds.actor))
    assert counted == 10 * critic + actor == 813_584 and round(counted / 1e6, 2) == 0.81
    cds = on_walker(algorithms.make("cds", "paper", layers=2, layer_norm=False))
    counted = nn.parameter_count((cds.critic, cds.target_critic, cds.actor))
    assert counted == 4 * critic + actor + (256 + 1) * 6 == 371_216 and round(counted / 1e6, 2) == 0.37


@pytest.mark.parametrize("layer_norm", [False, True])
def test_ensemble_is_its_members_one_by_one(layer_norm):
    params = nn.init_ensemble(jax.random.key(1), 3, (4, 8, 8, 1), layer_norm)
    if layer_norm:  # gains of 1 and offsets of 0 would hide a mistake
        params = jax.tree.map(lambda x: x + 0.1 * jnp.cos(jnp.arange(x.size, dtype=x.dtype)).reshape(x.shape), params)
    x = np.random.default_rng(0).normal(size=(5, 4))
    expected = [numpy_mlp(jax.tree.map(lambda leaf, e=e: leaf[e], params), x)[:, 0] for e in range(3)]
    np.testing.assert_allclose(nn.ensemble(params, jnp.asarray(x, jnp.float32)), expected, atol=1e-5)
    assert not np.allclose(expected[0], expected[1])


def test_weights_are_uniform_within_one_over_root_inputs():
    layer = nn.init_mlp(jax.random.key(2), (100, 200, 1), False)[0]
    assert np.abs(layer.weight).max() <= 0.1 and np.abs(layer.bias).max() <= 0.1
    assert np.std(layer.weight) == pytest.approx(0.1 / np.sqrt(3), rel=0.02)


def test_squashed_density_integrates_to_one_and_is_finite_at_the_edge():
    mean, std = jnp.array([0.4]), jnp.array([0.7])

    def density(action: float) -> float:
        noise = (jnp.arctanh(jnp.array([action])) - mean) / std
        actions, log_density = nn.squash(mean, std, noise)
        assert actions[0] == pytest.approx(action, abs=1e-5)
        return float(jnp.exp(log_density))

    points = np.linspace(-0.9999, 0.9999, 4001)
    noise = (np.arctanh(points)[:, None] - 0.4) / 0.7
    values = np.exp(nn.squash(jnp.full((4001, 1), 0.4), jnp.full((4001, 1), 0.7), jnp.asarray(noise, jnp.float32))[1])
    assert integrate.simpson(values, x=points) == pytest.approx(1, abs=2e-3)
    # by hand at a = 0: N(0; 0.4, 0.7) / (1 - 0²)
    assert density(0.0) == pytest.approx(np.exp(-0.5 * (0.4 / 0.7) ** 2) / (0.7 * np.sqrt(2 * np.pi)), rel=1e-5)
    assert np.isfinite(nn.squash(jnp.array([30.0]), std, jnp.array([5.0]))[1])


def test_gaussian_bounds_its_deviation():
    actor = nn.init_mlp(jax.random.key(3), (2, 4), False)
    actor = (actor[0]._replace(bias=jnp.array([0.0, 0.0, 99.0, -99.0]), weight=jnp.zeros((2, 4))),)
    mean, std = nn.gaussian(actor, jnp.zeros((1, 2)))
    np.testing.assert_allclose(mean, [[0, 0]])
    np.testing.assert_allclose(std, np.exp([[2.0, -5.0]]), rtol=1e-6)


def test_priors_are_fixed_random_sines_of_the_size_asked_for():
    prior = nn.init_priors(jax.random.key(0), 3, 4, 2, scale=5.0)
    random = np.random.default_rng(0)
    x = np.concatenate([random.normal(size=(4000, 4)), random.uniform(-1, 1, (4000, 2))], axis=1)
    hidden, output = (jax.tree.map(np.asarray, layer) for layer in prior)
    expected = [np.sin(x @ hidden.weight[e] + hidden.bias[e]) @ output.weight[e][:, 0] for e in range(3)]
    network = nn.init_ensemble(jax.random.key(1), 3, (6, 8, 1), False)
    both, alone = (np.asarray(nn.ensemble(params, x)) for params in ((*network, prior), network))
    np.testing.assert_allclose(both - alone, expected, atol=2e-5)
    assert 2.5 < np.std(expected) < 10
    grads = jax.grad(lambda params: nn.ensemble(params, x[:5]).sum())((*network, prior))
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(grads[-1])) and np.any(grads[0].weight)


def test_an_ensemble_disagrees_about_what_it_has_not_seen_by_its_priors():
    """Members learn the same numbers from the same points: at other actions Γ is larger with priors than without."""
    random = np.random.default_rng(0)
    seen = np.concatenate([random.normal(size=(256, 2)), random.uniform(0, 1, (256, 1))], axis=1).astype(np.float32)
    unseen = seen * [1, 1, -1]

    def gammas(scale):
        network = nn.init_ensemble(jax.random.key(1), 5, (3, 32, 1), True)
        network = (*network, nn.init_priors(jax.random.key(2), 5, 2, 1, scale))

        def step(_, params):
            grads = jax.grad(lambda params: jnp.sum(jnp.mean(nn.ensemble(params, seen) ** 2, axis=1)))(params)
            return jax.tree.map(lambda w, g: w - 0.02 * g, params, grads)

        network = jax.jit(lambda params: jax.lax.fori_loop(0, 300, step, params))(network)
        return [np.std(nn.ensemble(network, x), axis=0, ddof=1).mean() for x in (seen, unseen)]

    (near, far), (near_without, far_without) = gammas(2.0), gammas(0.0)
    assert far / near > 2 and far > 2 * far_without, (near, far, near_without, far_without)


def squared_error(weights, data, key):
    inputs, targets = data
    rows = jax.random.randint(key, (32,), 0, len(targets))
    return jnp.mean((inputs[rows] @ weights - targets[rows]) ** 2)


def test_a_fit_finds_what_the_data_was_made_from_and_tells_of_every_burst():
    random, heard = np.random.default_rng(0), []
    inputs, truth = random.normal(size=(500, 3)).astype(np.float32), np.array([1.0, -2.0, 0.5], np.float32)
    data, start = (jnp.asarray(inputs), jnp.asarray(inputs @ truth)), jnp.zeros(3)
    keys = jax.random.split(jax.random.key(0), 2 * nn.BURST + 100)
    found = nn.fit(start, squared_error, data, keys, 0.05, lambda steps, note: heard.append((steps, note)))
    np.testing.assert_allclose(found, truth, atol=1e-4)
    assert [steps for steps, _ in heard] == [nn.BURST, nn.BURST, 100]
    losses = [float(note.removeprefix("loss ")) for _, note in heard]
    assert losses[0] > 0.1 > 1e-6 > losses[-1]
    np.testing.assert_array_equal(nn.fit(start, squared_error, data, keys, 0.05), found)  # heard or not, the same
    np.testing.assert_array_equal(start, 0)  # and it can start anew from the same place


def test_a_fit_is_adam_along_a_cosine():
    data, keys = (jnp.ones((1, 1)), jnp.ones(1)), jax.random.split(jax.random.key(0), 4)
    # With a gradient of one sign Adam's first step is its rate, and the rate of step t is lr·(1 + cos(πt/4))/2.
    first = nn.fit(jnp.zeros(1), squared_error, data, keys[:1], 1e-3)
    np.testing.assert_allclose(first, 1e-3, rtol=1e-4)
    found = nn.fit(jnp.zeros(1), squared_error, data, keys, 1e-3)
    np.testing.assert_allclose(found, 1e-3 * np.sum((1 + np.cos(np.pi * np.arange(4) / 4)) / 2), rtol=1e-3)
