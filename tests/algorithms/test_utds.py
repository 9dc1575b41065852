"""UTDS's targets, losses and schedules against slow NumPy and hand-computed numbers."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from utds.algorithms import PBRL, UTDS, Spec, base, spec_of
from utds.algorithms.utds import by_source, uncertainty
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.errors import ConfigError
from utds.training import train

SPEC = Spec(3, 2, mean=np.array([0.5, -1.0, 0.0]), std=np.array([2.0, 1.0, 0.5]), reward_min=-2.0, reward_max=1.0)
SMALL = {"num_critics": 3, "width": 8, "layers": 2, "batch_size": 16, "ood_actions": 2, "shared_ratio_steps": 500_000}
KEY = jax.random.key(5)


def relu(x):
    return np.maximum(x, 0)


def numpy_q(critic, states, actions):
    """Q_n(s, a) [E, B], one member after the other in float64."""
    members = len(np.asarray(critic[0].weight))
    out = []
    for e in range(members):
        x = np.concatenate([states, actions], axis=-1)
        for i, layer in enumerate(critic):
            x = x @ np.asarray(layer.weight[e], np.float64) + np.asarray(layer.bias[e], np.float64)
            x = relu(x) if i < len(critic) - 1 else x
        out.append(x[..., 0])
    return np.stack(out)


def numpy_policy(actor, states):
    x = states
    for i, layer in enumerate(actor):
        x = x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64)
        x = relu(x) if i < len(actor) - 1 else x
    return np.tanh(x)


def numpy_std(q):
    mean = sum(q) / len(q)
    return np.sqrt(sum((member - mean) ** 2 for member in q) / (len(q) - 1))


def disturbed(tree, amount):
    """The same tree with every number moved, so that no two networks of a state agree."""
    return jax.tree.map(lambda x: x + amount * np.sin(np.arange(x.size, dtype=np.float32)).reshape(x.shape), tree)


@cache
def fresh():
    return jax.device_get(jax.jit(UTDS(**SMALL).init)(jax.random.key(0), SPEC))


def make(**overrides):
    """An algorithm, and a state at step 1000 whose target networks differ from the online ones."""
    state = fresh()
    return UTDS(**SMALL | overrides), state._replace(
        step=np.int32(1000),
        target_actor=disturbed(state.target_actor, 0.3),
        target_critic=disturbed(state.target_critic, 0.2),
    )


def expected_losses(algo, state, batch, noise):
    """Everything of the critic's step in NumPy; noise [B, 1 + K (+ K), A] is the standard normal that was drawn."""
    mean, std = np.asarray(SPEC.mean), np.asarray(SPEC.std)
    s, s2 = ((np.asarray(x, np.float64) - mean) / std for x in (batch.observations, batch.next_observations))
    k, ratio = (
        algo.ood_actions,
        1 + (1 - np.asarray(batch.own)) * (algo.shared_ratio - 1) * (1 - 1000 / algo.shared_ratio_steps),
    )
    a2 = np.clip(numpy_policy(state.target_actor, s2) + np.clip(0.2 * noise[:, 0], -0.5, 0.5), -1, 1)
    q2 = numpy_q(state.target_critic if algo.bootstrap == "target" else state.critic, s2, a2)
    values = np.stack([sum(q2) / len(q2)] * len(q2)) if algo.ensemble_target else q2
    y = np.asarray(batch.rewards) + 0.99 * (1 - np.asarray(batch.terminations)) * (
        values - algo.beta_in * ratio * numpy_std(q2)
    )
    if algo.floor is not None:
        y = np.maximum(y, -2.0 / 0.01 if algo.floor == "auto" else algo.floor)
    q, own = numpy_q(state.critic, s, np.asarray(batch.actions)), np.asarray(batch.own) == 1
    bellman, gamma = np.mean((q - y) ** 2), numpy_std(q)
    squares, gammas = [], []
    places = [(s, noise[:, 1 : 1 + k])] + ([(s2, noise[:, 1 + k :])] if algo.ood_next else [])
    beta = max(3.0 * 0.99995**1000, 0.1)
    for states, noises in places:
        for j in range(k):
            actions = np.clip(numpy_policy(state.actor, states) + algo.ood_noise * noises[:, j], -1, 1)
            q = numpy_q(state.critic, states, actions)
            target = q - beta * ratio * numpy_std(q)
            if algo.ood_floor is not None:
                target = np.maximum(target, -200.0 if algo.ood_floor == "auto" else algo.ood_floor)
            squares.append((q - target) ** 2)
            gammas.append(numpy_std(q))
    losses = {"bellman_loss": bellman, "ood_loss": np.mean(squares)}
    places = {"": gamma, "_own": gamma[own], "_shared": gamma[~own], "_ood": np.array(gammas)}
    return losses | {f"uncertainty{place}": found.mean() for place, found in places.items()}, y


VARIANTS = {
    "paper": {},
    "penalised": {"beta_in": 2.0, "shared_ratio": 1.5, "shared_ratio_steps": 4000},
    "released": {"bootstrap": "online", "ood_next": True, "ood_floor": 0.0, "ood_noise": 0.5},
    "ensemble_target": {"beta_in": 1.0, "ensemble_target": True},
    "floored": {"floor": 0.1, "ood_floor": "auto", "ood_noise": 0.3},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_targets_and_losses_equal_numpy(name, batch):
    algo, state = make(**VARIANTS[name])
    scaled = state.normalizer.batch(batch)
    rows = jax.jit(algo.critic_inputs)(state, scaled, KEY)
    draws = 1 + algo.ood_actions * (2 if algo.ood_next else 1)
    noise = np.asarray(jax.random.normal(KEY, (16, draws, 2)), np.float64)
    expected, y = expected_losses(algo, state, batch, noise)
    np.testing.assert_allclose(np.asarray(rows["targets"]).T, y, atol=1e-5)
    loss, metrics = jax.jit(algo.critic_loss)(state.critic, rows, state)
    for key, value in expected.items():
        found = metrics[key].value() if isinstance(metrics[key], base.Mean) else metrics[key]
        assert found == pytest.approx(value, abs=1e-5), key
    assert loss == pytest.approx(3 * (expected["bellman_loss"] + expected["ood_loss"]), abs=3e-5)
    if name == "floored":
        assert np.min(y) == pytest.approx(0.1)


def test_actor_ascends_the_smallest_of_the_critics(batch):
    algo, state = make()
    scaled = state.normalizer.batch(batch)
    s = np.asarray(scaled.observations, np.float64)
    expected = -np.mean(np.min(numpy_q(state.critic, s, numpy_policy(state.actor, s)), axis=0))
    loss, _ = algo.actor_loss(state.actor, state, scaled)
    assert loss == pytest.approx(expected, abs=1e-5)


def test_ood_targets_carry_no_gradient(batch):
    """With the Bellman part silenced, dL/dQ_ood = 2·β2·Γ / count and nothing else."""
    algo, state = make()
    rows = jax.jit(algo.critic_inputs)(state, state.normalizer.batch(batch), KEY)

    def ood_loss(offset):
        last = state.critic[-1]
        critic = (*state.critic[:-1], last._replace(bias=last.bias + offset[:, None]))
        return 3 * algo.critic_loss(critic, rows, state)[1]["ood_loss"]

    slope = jax.jit(jax.grad(ood_loss))(jnp.zeros(3))
    metrics = jax.jit(algo.critic_loss)(state.critic, rows, state)[1]
    np.testing.assert_allclose(slope, np.full(3, 2 * metrics["beta_ood"] * metrics["uncertainty_ood"]), rtol=1e-5)


@pytest.mark.parametrize(("bootstrap", "read"), [("target", "target_critic"), ("online", "critic")])
def test_bellman_targets_read_only_the_critics_they_should(bootstrap, read, batch):
    algo, state = make(bootstrap=bootstrap)
    scaled = state.normalizer.batch(batch)
    targets = jax.jit(lambda state: algo.critic_inputs(state, scaled, KEY)["targets"])
    before = targets(state)
    for name in ("critic", "target_critic"):
        moved = state._replace(**{name: disturbed(getattr(state, name), 0.5)})
        changed = not np.array_equal(before, targets(moved))
        assert changed == (name == read), name


def test_uncertainty_is_the_unbiased_deviation():
    q = jnp.array([[1.0, 5.0], [2.0, 5.0], [6.0, 5.0]])
    np.testing.assert_allclose(uncertainty(q), [np.sqrt((4 + 1 + 9) / 2), 0], rtol=1e-6)


def test_uncertainty_by_source_is_a_mean_over_rows_not_over_batches():
    """Two batches of four rows: in the first one row is of source 2, in the second all four are, none of source 3."""
    gammas = [jnp.array([1.0, 2.0, 3.0, 10.0]), jnp.array([20.0, 20.0, 20.0, 20.0])]
    sources = [jax.nn.one_hot(jnp.array(s), 4) for s in ([0, 1, 1, 2], [2, 2, 2, 2])]
    steps = [by_source(gamma, source) for gamma, source in zip(gammas, sources, strict=True)]
    totals = base.reduce(jax.tree.map(lambda *leaves: jnp.stack(leaves), *steps))
    means = {name: mean.value() for name, mean in totals.items()}
    shared = (2 + 3 + 10 + 80) / 7
    expected = {"own": 1, "shared": shared, "shared_1": 2.5, "shared_2": (10 + 80) / 5, "shared_3": None}
    assert means == pytest.approx({f"uncertainty_{place}": value for place, value in expected.items()})


@pytest.mark.parametrize("kind", [UTDS, PBRL])
def test_a_run_logs_the_uncertainty_of_every_source(kind, make_pool, tmp_path):
    """Own and shared rows together make up the batch, also over several steps of different composition."""
    states = np.random.default_rng(0).normal(size=(64, 3))
    columns = states, states[:, :2].clip(-1, 1), np.ones(64)
    pool = make_pool(*columns, shared=(states + 5, columns[1], np.ones(64)))
    algo = kind(num_critics=3, width=8, layers=1, batch_size=32, ood_actions=1, critic_lr=1e-2)
    run = train(pool, algo, steps=6, log_every=3, out=tmp_path)
    for row in run.metrics:
        share = row["own_share"]
        if kind is PBRL:
            assert "uncertainty_shared" not in row and row["uncertainty_own"] == pytest.approx(row["uncertainty"])
        else:
            mixed = share * row["uncertainty_own"] + (1 - share) * row["uncertainty_shared"]
            assert row["uncertainty"] == pytest.approx(mixed, rel=1e-5) and 0 < share < 1


@pytest.mark.parametrize(("step", "beta"), [(0, 3.0), (1, 2.99985), (20_000, 3 * np.exp(-1.000025)), (10**6, 0.1)])
def test_beta_ood_decays_to_its_end(step, beta):
    assert UTDS().beta_ood_at(jnp.int32(step)) == pytest.approx(beta, rel=1e-5)


@pytest.mark.parametrize(("step", "shared"), [(0, 1.5), (250, 1.25), (500, 1.0), (900, 1.0)])
def test_shared_penalties_anneal_to_those_on_own_data(step, shared):
    algo = UTDS(shared_ratio=1.5, shared_ratio_steps=500)
    ratio = algo.penalty_ratio(jnp.int32(step), jnp.array([1.0, 0.0]))
    np.testing.assert_allclose(ratio, [1.0, shared], rtol=1e-6)


def test_microbatches_change_nothing_but_rounding(batch):
    algo, state = make()
    rows = jax.jit(algo.critic_inputs)(state, state.normalizer.batch(batch), KEY)
    loss = partial(algo.critic_loss, state=state)
    gradient = jax.jit(partial(base.accumulated_gradient, loss), static_argnums=2)
    whole, whole_metrics = gradient(state.critic, rows, 16)
    parts, part_metrics = gradient(state.critic, rows, 5)  # 16 rows in 4 parts
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-6), parts, whole)
    assert part_metrics.keys() == whole_metrics.keys()
    for name in whole_metrics:
        np.testing.assert_allclose(part_metrics[name], whole_metrics[name], atol=1e-5, err_msg=name)


def test_one_update_moves_every_network_by_its_rule(batch):
    algo, state = make(tau=0.25)
    after, metrics = jax.jit(algo.update)(state, batch, KEY)
    assert after.step == 1001
    # Adam's first step has length rate wherever the gradient isn't tiny
    moves = np.abs(np.asarray(after.critic[0].weight) - np.asarray(state.critic[0].weight))
    assert np.max(moves) == pytest.approx(1e-4, rel=1e-2)
    for slow, fast, old in (
        ("target_critic", "critic", state.target_critic),
        ("target_actor", "actor", state.target_actor),
    ):
        expected = jax.tree.map(lambda o, f: 0.75 * o + 0.25 * f, old, getattr(after, fast))
        jax.tree.map(partial(np.testing.assert_allclose, atol=1e-6), getattr(after, slow), expected)
    assert metrics["own_share"] == pytest.approx(float(np.mean(batch.own)))


def test_pbrl_reads_own_data_only(make_pool):
    columns = np.zeros((8, 3)), np.zeros((8, 2)), np.ones(8)
    pool = make_pool(*columns, shared=columns)
    draw = jax.jit(lambda algo, pool: algo.draw(None, pool, KEY).own, static_argnums=0)
    assert np.all(draw(PBRL(batch_size=64), pool) == 1)
    assert 0 < np.mean(draw(UTDS(batch_size=64), pool)) < 1


def test_pbrl_learns_the_same_whatever_is_shared(make_pool):
    """Also the scale of observations and the size of its priors are those of its own data."""
    random = np.random.default_rng(0)
    own = random.normal(size=(40, 3)), random.uniform(-1, 1, (40, 2)), random.uniform(1, 3, 40)
    other = 5 + 10 * random.normal(size=(80, 3)), random.uniform(-1, 1, (80, 2)), random.uniform(1, 3, 80)
    algo = PBRL(**SMALL | {"prior_scale": 0.1, "floor": "auto"})

    def trained(pool):
        state = jax.jit(algo.init)(KEY, spec_of(algo, pool))
        for key in jax.random.split(KEY, 3):
            state, _ = jax.jit(algo.update)(state, jax.jit(algo.draw)(state, pool, key), key)
        return state

    alone, shared = trained(make_pool(*own)), trained(make_pool(*own, shared=other))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), alone, shared)


def test_sampling_by_episode_gives_short_episodes_their_share():
    lengths = np.array([1, 99])
    main = Dataset.from_arrays(
        np.zeros((102, 3)), np.zeros((100, 2)), np.arange(100) == 0, lengths=lengths, task="main"
    )
    rewards = jax.jit(lambda pool: UTDS(batch_size=4096, sampling="episodes").draw(None, pool, KEY).rewards)(
        share(main)
    )
    assert np.mean(rewards) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("kind", [UTDS, PBRL])
def test_sampling_that_would_ignore_the_pools_weights_is_refused(kind, make_pool):
    pool = make_pool(np.zeros((4, 2)), np.zeros((4, 1)), np.ones(4))
    weighted = replace(pool, weights=jnp.arange(1, 5))
    assert kind(batch_size=8).draw(None, weighted, KEY).rewards.shape == (8,)
    with pytest.raises(ConfigError, match="sampling='episodes' would ignore the pool's weights; set sampling='pool'"):
        kind(sampling="episodes").draw(None, weighted, KEY)


@pytest.mark.parametrize(
    "fields", [{"num_critics": 1}, {"bootstrap": "both"}, {"batch_size": 0}, {"floor": "low"}, {"tau": 0}]
)
def test_senseless_fields_are_refused(fields):
    with pytest.raises(ConfigError, match=next(iter(fields))):
        UTDS(**fields)
