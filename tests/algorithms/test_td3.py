"""TD3, TD3+BC and behaviour cloning against slow NumPy; the delayed policy; presets and names."""

from dataclasses import asdict
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from utds import algorithms, networks
from utds.algorithms import AWAC, BC, TD3, TD3BC, Spec, base
from utds.errors import ConfigError

SMALL = {"width": 8, "layers": 1, "batch_size": 16}
KEY = jax.random.key(3)


def dense(x, layer):
    return x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64)


def numpy_policy(actor, states):
    return np.tanh(dense(np.maximum(dense(states, actor[0]), 0), actor[1]))


def numpy_q(critic, states, actions):
    x = np.concatenate([states, actions], axis=-1)
    members = [jax.tree.map(lambda leaf, e=e: leaf[e], critic) for e in range(len(critic[0].weight))]
    return np.stack([dense(np.maximum(dense(x, first), 0), last)[:, 0] for first, last in members])


@cache
def fresh():
    state = jax.device_get(jax.jit(TD3(**SMALL).init)(jax.random.key(0), Spec(3, 2)))
    return state._replace(target_critic=jax.tree.map(lambda x: x * 0.9 - 0.05, state.target_critic))


@pytest.mark.parametrize(("floor", "least"), [(None, -np.inf), (-0.5, -0.5), ("auto", 0.0)])
def test_td3_targets_and_loss_equal_numpy(floor, least, batch):
    algo, state = TD3(**SMALL, floor=floor), fresh()
    s, a, r, d, s2 = (np.asarray(x, np.float64) for x in batch[:5])
    noise = np.asarray(jax.random.normal(KEY, (16, 2)), np.float64)
    a2 = np.clip(numpy_policy(state.target_actor, s2) + np.clip(0.2 * noise, -0.5, 0.5), -1, 1)
    y = np.maximum(r + 0.99 * (1 - d) * numpy_q(state.target_critic, s2, a2).min(axis=0), least)
    rows = algo.critic_inputs(state, batch, KEY)
    np.testing.assert_allclose(rows["targets"], y, atol=1e-5)
    loss, metrics = algo.critic_loss(state.critic, rows, state)
    q = numpy_q(state.critic, s, a)
    assert metrics["critic_loss"] == pytest.approx(np.mean((q - y) ** 2), abs=1e-5)
    assert loss == pytest.approx(np.sum(np.mean((q - y) ** 2, axis=1)), abs=1e-5)
    assert metrics["q_abs_max"] == pytest.approx(np.abs(q).max(), abs=1e-5)


def test_policy_losses_equal_numpy(batch):
    state = fresh()
    s, a = (np.asarray(x, np.float64) for x in batch[:2])
    pi = numpy_policy(state.actor, s)
    q = numpy_q(state.critic, s, pi)[0]
    assert TD3(**SMALL).actor_loss(state.actor, state, batch)[0] == pytest.approx(-q.mean(), abs=1e-5)
    cloning = np.mean((pi - a) ** 2)
    loss, metrics = TD3BC(**SMALL, alpha=2.0).actor_loss(state.actor, state, batch)
    assert loss == pytest.approx(cloning - 2.0 / np.abs(q).mean() * q.mean(), abs=1e-5)
    assert metrics["cloning_loss"] == pytest.approx(cloning, abs=1e-5)
    assert BC(**SMALL).actor_loss(state.actor, batch)[0] == pytest.approx(cloning, abs=1e-5)


def test_pretanh_l2_adds_the_squared_outputs_before_tanh(batch):
    state = fresh()
    before_tanh = np.arctanh(numpy_policy(state.actor, np.asarray(batch.observations, np.float64)))
    plain, penalised = (TD3(**SMALL, pretanh_l2=c).policy_loss(state.actor, state, batch)[0] for c in (0, 0.3))
    assert penalised - plain == pytest.approx(0.3 * np.mean(before_tanh**2), abs=1e-5)
    with pytest.raises(ConfigError, match="pretanh_l2=-1"):
        TD3(pretanh_l2=-1)


def test_policy_and_targets_move_every_second_step(batch):
    algo, state = TD3(**SMALL, policy_delay=2), fresh()
    update = jax.jit(algo.update)
    losses = []
    for step in range(1, 5):
        after, metrics = update(state, batch, jax.random.fold_in(KEY, step))
        for name in ("actor", "target_actor", "target_critic"):
            same = np.array_equal(getattr(after, name)[0].weight, getattr(state, name)[0].weight)
            assert same == (step % 2 == 0), (name, step)
        assert not np.array_equal(after.critic[0].weight, state.critic[0].weight)
        losses.append(float(metrics["actor_loss"]))
        state = after
    assert losses[1] == losses[3] == 0  # so that the mean over steps is the mean over policy steps
    assert losses[2] / 2 == pytest.approx(float(algo.actor_loss(fresh().actor, state, batch)[0]), rel=0.1)


def test_adam_takes_the_steps_of_its_paper():
    """Three steps on a fixed sequence of gradients, by Algorithm 1 of Kingma and Ba."""
    params = {"w": jnp.array([1.0, -2.0])}
    opt_state = base.adam_init(params)
    m = v = np.zeros(2)
    expected = np.array([1.0, -2.0])
    for t, g in enumerate([np.array([0.5, -1.0]), np.array([0.1, 3.0]), np.array([-2.0, 0.0])], start=1):
        params, opt_state = base.adam_step({"w": jnp.asarray(g, jnp.float32)}, params, opt_state, 0.1)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        expected = expected - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        np.testing.assert_allclose(params["w"], expected, rtol=1e-5)


def test_normalisation_leaves_constant_features_finite():
    normalizer = Spec(2, 1, mean=np.array([3.0, 5.0]), std=np.array([2.0, 0.0])).normalizer()
    np.testing.assert_allclose(normalizer(jnp.array([[7.0, 5.0]])), [[2.0, 0.0]])
    off = Spec(2, 1, mean=np.array([3.0, 5.0]), std=np.array([2.0, 9.0])).normalizer(enabled=False)
    np.testing.assert_allclose(off(jnp.array([[7.0, 5.0]])), [[7.0, 5.0]])


def test_observations_are_scaled_by_the_pools_statistics_or_by_its_own_datas(make_pool):
    rng = np.random.default_rng(0)
    own, shared = (rng.normal(*at, (50, 3)).astype(np.float32) for at in ((3, 2), (-5, 7)))
    still = np.zeros((50, 2), np.float32), np.zeros(50, np.float32)
    pool = make_pool(own, *still, shared=(shared, *still))
    for kind in (algorithms.UTDS, algorithms.IQL, algorithms.CQL, algorithms.BC):
        for by, rows in (("pool", np.concatenate([own, shared])), ("own", own)):
            state = kind(width=8, layers=1, normalise_by=by).init(jax.random.key(0), Spec.of(pool))
            np.testing.assert_allclose(state.normalizer(rows).mean(axis=0), 0, atol=1e-5)
            np.testing.assert_allclose(state.normalizer(rows).std(axis=0), 1, rtol=1e-5)
    online = Spec(3, 2, mean=np.full(3, 2.0), std=np.full(3, 4.0))  # all that is recorded there is its own
    np.testing.assert_allclose(online.normalizer(by="own")(np.full((1, 3), 10.0)), 2.0)
    with pytest.raises(ConfigError, match="normalise_by='shared' is unknown; use pool or own"):
        algorithms.make("utds", normalise_by="shared")


def test_metrics_reduce_by_mean_or_largest():
    reduced = base.reduce({"loss": jnp.array([1.0, 3.0]), "q_abs_max": jnp.array([1.0, 3.0])})
    assert reduced == {"loss": 2.0, "q_abs_max": 3.0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("utsd",), "algorithm called 'utsd'; did you mean utds"),
        (("bc", "released"), "preset of bc called 'released'; choose from paper, fast"),
        (("utds", "fats"), "preset of utds called 'fats'; did you mean fast"),
        (("utds", "cpu"), "called fast now"),
    ],
)
def test_unknown_names_get_a_hint(arguments, message):
    with pytest.raises(ConfigError, match=message):
        algorithms.make(*arguments)
    with pytest.raises(ConfigError, match="field of utds called 'beta_odd'; did you mean beta_ood"):
        algorithms.make("utds", beta_odd=1.0)


@pytest.mark.parametrize("name", algorithms.entries())
def test_configs_survive_json_and_presets_only_name_fields(name):
    for preset, found in algorithms.entry(name).presets.items():
        algo = algorithms.make(name, preset)
        assert algorithms.from_config(algorithms.to_config(algo)) == algo
        assert all(getattr(algo, field) == value for field, value in found.fields.items())
        assert algorithms.nearest_preset(name, asdict(algo))[1] == {}


def test_where_presets_have_equal_fields_the_fast_one_gives_the_steps(make_pool):
    pool = make_pool(*(np.zeros(shape, np.float32) for shape in ((10, 3), (10, 2), (10,))))
    assert algorithms.default_steps(algorithms.make("td3"), pool) == 3_500


def test_steps_are_those_of_the_preset_that_was_named_whatever_else_was_changed(make_pool):
    pool = make_pool(*(np.zeros(shape, np.float32) for shape in ((10, 3), (10, 2), (10,))))
    changed = {"layers": 2, "critic_lr": 3e-4, "anneal_steps": None, "n_step": 1}  # all but one of what `fast` changes
    fast = algorithms.make("awac", "fast", **changed)
    assert algorithms.nearest_preset("awac", asdict(fast))[0] == "paper"
    assert algorithms.default_steps(fast, pool) == 3_500
    assert algorithms.default_steps(algorithms.make("td3", "paper"), pool) == 1_000_000  # with the fields of `fast`
    assert fast == AWAC(layer_norm=True, lam=0.6767) and hash(fast) == hash(AWAC(layer_norm=True, lam=0.6767))
    assert algorithms.default_steps(AWAC(layer_norm=True, lam=0.6767), pool) == 1_000_000  # which is nearest


def test_paper_preset_is_table_1():
    algo = algorithms.make("utds", "paper")
    table = partial(getattr, algo)
    assert [table(x) for x in ("num_critics", "width", "layers", "batch_size", "ood_actions")] == [5, 256, 3, 1024, 3]
    assert [table(x) for x in ("tau", "discount", "actor_lr", "critic_lr")] == [5e-3, 0.99, 1e-4, 1e-4]
    assert [table(x) for x in ("beta_in", "beta_ood", "beta_ood_end", "beta_ood_decay")] == [1e-3, 3.0, 0.1, 0.99995]
    assert not algo.layer_norm and algo.floor is None and algo.ood_floor is None


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("discount", "high", "a number"),
        ("actor_lr", float("nan"), "a number"),
        ("beta_in", True, "a number"),
        ("batch_size", 1.5, "a whole number"),
        ("anneal_steps", "all", 'a whole number, or a share of the run such as "50%"'),
        ("layer_norm", 1, "true or false"),
        ("floor", "low", "a number, auto or nothing"),
    ],
)
def test_values_of_another_type_are_refused(name, value, wanted):
    with pytest.raises(ConfigError, match=f"^{name}=.* must be {wanted}$"):
        algorithms.make("utds", **{name: value})
    assert algorithms.make("utds", beta_ood=1, floor=-2, ood_floor="auto", anneal_steps=None).beta_ood == 1


def test_of_a_delayed_policy_a_maximum_is_not_scaled_and_a_mean_over_rows_keeps_its_ratio(batch):
    """Over four steps with two policy steps: means are those over policy steps, and the largest is what was seen."""

    class Watched(TD3):
        def actor_loss(self, actor, state, batch):
            loss, metrics = super().actor_loss(actor, state, batch)
            some = base.Mean.of(jnp.full(16, 3.0), (jnp.arange(16) < 4).astype(jnp.float32))
            return loss, metrics | {"weight_max": jnp.float32(7), "level": jnp.float32(5), "some": some}

    algo, state, found = Watched(**SMALL, policy_delay=2), fresh(), []
    for _ in range(4):
        state, metrics = jax.jit(algo.update)(state, batch, KEY)
        found.append(metrics)
    reduced = base.reduce({name: jax.tree.map(lambda *x: jnp.stack(x), *(m[name] for m in found)) for name in found[0]})
    assert reduced["weight_max"] == 7 and reduced["level"] == 5
    assert reduced["some"].value() == 3 and reduced["some"].weight == 0.25


def test_the_compilers_option_is_for_cpus_that_know_it(monkeypatch):
    networks.compiler_options.cache_clear()
    assert networks.compiler_options() == networks.ON_CPU  # this JAX knows it
    double = networks.jit(lambda n, x: n * x, static_argnums=0)
    assert double(2, jnp.float32(3)) == 6
    try:
        networks.compiler_options.cache_clear()
        monkeypatch.setattr(networks, "ON_CPU", {"xla_cpu_no_such_option": "1"})
        assert networks.compiler_options() == {}
        assert networks.jit(lambda x: 2 * x)(jnp.float32(3)) == 6
        networks.compiler_options.cache_clear()
        monkeypatch.undo()
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        assert networks.compiler_options() == {}
    finally:
        networks.compiler_options.cache_clear()
