"""Ten updates of UTDS against the same equations in NumPy and double precision, from equal weights and noise."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from utds import algorithms
from utds.algorithms import Spec, resolve

STEPS = 10
SMALL = {"num_critics": 3, "width": 8, "layers": 2, "batch_size": 16, "microbatch": 16, "ood_actions": 2}


def forward(layers, x):
    """Activations before each affine map, and the output. Layers are (weight, bias); ReLU between them."""
    inputs = []
    for i, (weight, bias) in enumerate(layers):
        inputs.append(x)
        x = x @ weight + bias
        if i < len(layers) - 1:
            x = np.maximum(x, 0)
    return inputs, x


def backward(layers, inputs, slope):
    """Gradients of every layer, and of the input, from the output's slope."""
    grads = []
    for (weight, _), x in zip(reversed(layers), reversed(inputs), strict=True):
        grads.append((x.T @ slope, slope.sum(axis=0)))
        slope = (slope @ weight.T) * (x > 0 if len(grads) < len(layers) else 1)
    return grads[::-1], slope


class Adam:
    def __init__(self, lr):
        self.lr, self.t, self.m, self.v = lr, 0, None, None

    def step(self, layers, grads):
        flat = [g for pair in grads for g in pair]
        self.m, self.v = self.m or [0.0] * len(flat), self.v or [0.0] * len(flat)
        self.t += 1
        self.m = [0.9 * m + 0.1 * g for m, g in zip(self.m, flat, strict=True)]
        self.v = [0.999 * v + 0.001 * g**2 for v, g in zip(self.v, flat, strict=True)]
        moves = [
            self.lr * (m / (1 - 0.9**self.t)) / (np.sqrt(v / (1 - 0.999**self.t)) + 1e-8)
            for m, v in zip(self.m, self.v, strict=True)
        ]
        return [(w - moves[2 * i], b - moves[2 * i + 1]) for i, (w, b) in enumerate(layers)]


class Reference:
    """The equations of the paper, with the released code's options."""

    def __init__(self, algo, actor, critics):
        self.algo, self.t = algo, 0
        self.actor, self.critics = actor, critics
        self.target_actor, self.target_critics = list(actor), [list(c) for c in critics]
        self.actor_adam, self.critic_adams = Adam(algo.actor_lr), [Adam(algo.critic_lr) for _ in critics]

    def policy(self, actor, s):
        return np.tanh(forward(actor, s)[1])

    def q(self, critics, s, a):
        return np.stack([forward(c, np.concatenate([s, a], axis=1))[1][:, 0] for c in critics])

    def update(self, s, a, r, d, s2, own, noise):
        algo, k = self.algo, self.algo.ood_actions
        ratio = np.where(own > 0, 1, 1 + (algo.shared_ratio - 1) * max(1 - self.t / algo.shared_ratio_steps, 0))
        smoothing = np.clip(0.2 * noise[:, 0], -0.5, 0.5)
        a2 = np.clip(self.policy(self.target_actor, s2) + smoothing, -1, 1)
        q2 = self.q(self.critics if algo.bootstrap == "online" else self.target_critics, s2, a2)
        y = r + algo.discount * (1 - d) * (q2 - algo.beta_in * ratio * q2.std(axis=0, ddof=1))
        places = [(s, noise[:, 1 + i]) for i in range(k)]
        places += [(s2, noise[:, 1 + k + i]) for i in range(k)] if algo.ood_next else []
        ood = [(x, np.clip(self.policy(self.actor, x) + algo.ood_noise * z, -1, 1)) for x, z in places]
        beta = max(algo.beta_ood * algo.beta_ood_decay**self.t, algo.beta_ood_end)
        grads = self.critic_gradients(s, a, y, ood, beta * ratio)
        self.critics = [adam.step(c, g) for adam, c, g in zip(self.critic_adams, self.critics, grads, strict=True)]
        if self.t % algo.policy_delay == 0:  # updates 1, 3, 5, … where it is 2
            self.actor = self.actor_adam.step(self.actor, self.actor_gradient(s))
        mixed = lambda slow, fast: [  # noqa: E731
            tuple(x + algo.tau * (y - x) for x, y in zip(p, q, strict=True)) for p, q in zip(slow, fast, strict=True)
        ]
        self.target_actor = mixed(self.target_actor, self.actor)
        self.target_critics = [mixed(p, q) for p, q in zip(self.target_critics, self.critics, strict=True)]
        self.t += 1

    def critic_gradients(self, s, a, y, ood, penalty):
        wanted = []
        for x, action in ood:
            q = self.q(self.critics, x, action)
            target = q - penalty * q.std(axis=0, ddof=1)
            wanted.append(target if self.algo.ood_floor is None else np.maximum(target, self.algo.ood_floor))
        found = []
        for n, critic in enumerate(self.critics):
            inputs, q = forward(critic, np.concatenate([s, a], axis=1))
            total, _ = backward(critic, inputs, 2 * (q - y[n][:, None]) / len(s))
            for (x, action), target in zip(ood, wanted, strict=True):
                inputs, q = forward(critic, np.concatenate([x, action], axis=1))
                part, _ = backward(critic, inputs, 2 * (q - target[n][:, None]) / (len(s) * len(ood)))
                total = [(w + pw, b + pb) for (w, b), (pw, pb) in zip(total, part, strict=True)]
            found.append(total)
        return found

    def actor_gradient(self, s):
        inputs, raw = forward(self.actor, s)
        action = np.tanh(raw)
        pairs = np.concatenate([s, action], axis=1)
        least = self.q(self.critics, s, action).argmin(axis=0)
        slope = np.zeros_like(action)
        for n, critic in enumerate(self.critics):
            chosen = (least == n)[:, None] / len(s)
            slope += backward(critic, forward(critic, pairs)[0], -1.0 * chosen)[1][:, s.shape[1] :]
        return backward(self.actor, inputs, slope * (1 - action**2))[0]


def layers_of(params, n=None):
    return [
        tuple(np.asarray(x if n is None else x[n], np.float64) for x in (layer.weight, layer.bias)) for layer in params
    ]


@pytest.mark.parametrize("preset", ["paper", "released"])
def test_ten_updates_agree_to_rounding(preset, batch):
    algo = resolve(algorithms.make("utds", preset, **SMALL | {"actor_lr": 1e-2, "critic_lr": 1e-2}), STEPS)
    spec = Spec(3, 2)
    state = algo.init(jax.random.key(3), spec)
    reference = Reference(algo, layers_of(state.actor), [layers_of(state.critic, n) for n in range(3)])
    update = jax.jit(algo.update)
    draws = 1 + algo.ood_actions * (2 if algo.ood_next else 1)
    s, a, r, d, s2, own = (np.asarray(x, np.float64) for x in batch[:6])
    for t in range(STEPS):
        key = jax.random.key(100 + t)
        state, _ = update(state, batch, key)
        reference.update(s, a, r, d, s2, own, np.asarray(jax.random.normal(key, (16, draws, 2)), np.float64))
    pairs = [(state.actor, None, reference.actor), (state.target_actor, None, reference.target_actor)]
    for n in range(3):
        pairs += [(state.critic, n, reference.critics[n]), (state.target_critic, n, reference.target_critics[n])]
    for found, n, expected in pairs:
        for mine, theirs in zip(layers_of(found, n), expected, strict=True):
            for x, y in zip(mine, theirs, strict=True):
                np.testing.assert_allclose(x, y, atol=5e-5)


def test_released_moves_targets_at_every_step_and_the_policy_at_every_second(batch):
    algo = resolve(algorithms.make("utds", "released", **SMALL), STEPS)
    assert (algo.normalise, algo.policy_delay, algo.target_delay, algo.shared_ratio_steps) == (False, 2, 1, STEPS // 2)
    states = [algo.init(jax.random.key(0), Spec(3, 2))]
    update = jax.jit(algo.update)
    for t in range(3):
        states.append(update(states[-1], batch, jax.random.key(t))[0])

    def moved(name):
        return [
            not np.array_equal(getattr(before, name)[0].weight, getattr(after, name)[0].weight)
            for before, after in itertools.pairwise(states)
        ]

    assert moved("actor") == [True, False, True]
    assert moved("target_actor") == moved("target_critic") == [True, True, True]


def test_the_behaviour_term_by_hand(batch):
    """Weights exp(c·A/σ_A), A = Q(a) − Q(π), with mean 1, on mean squared distances, beside −Q(π)/q."""
    algo = resolve(
        algorithms.make("utds", "paper", **SMALL | {"bc_weight": 2.0, "bc_weight_end": 0.5, "bc_temperature": 2.0}),
        STEPS,
    )
    state = algo.init(jax.random.key(1), Spec(3, 2))._replace(step=jnp.asarray(1))
    reference = Reference(algo, layers_of(state.actor), [layers_of(state.critic, n) for n in range(3)])
    s, a = (np.asarray(x, np.float64) for x in batch[:2])
    action = reference.policy(reference.actor, s)
    q = reference.q(reference.critics, s, action).min(axis=0)
    recorded = reference.q(reference.critics, s, a).min(axis=0)
    scale = np.abs(q).mean()
    weights = np.exp(np.clip(2 * (recorded - q) / (recorded - q).std(), -5, 3))
    weights /= weights.mean()
    weight = 0.5 + 1.5 * (1 - 1 / 3)  # 30 % of ten steps: a third of the way at step 1
    expected = weight * np.mean(weights * ((action - a) ** 2).mean(axis=1)) - q.mean() / scale
    loss, metrics = algo.actor_loss(state.actor, state, batch)
    assert float(loss) == pytest.approx(expected, rel=1e-4)
    assert float(metrics["bc_weight"]) == pytest.approx(weight)
    distance = float(metrics["bc_loss"])
    for narrow, factor in ((distance / 2, 1.0), (3 * distance, 3.0)):  # data this wide binds as before, narrower more
        loss, metrics = replace(algo, bc_narrow=narrow).actor_loss(state.actor, state, batch)
        assert float(metrics["bc_weight"]) == pytest.approx(factor * weight, rel=1e-4)
        assert float(loss) == pytest.approx(factor * weight * distance - q.mean() / scale, rel=1e-4)
    plain, _ = replace(algo, bc_weight=0.0, bc_weight_end=0.0).actor_loss(state.actor, state, batch)
    assert float(plain) == pytest.approx(-q.mean(), rel=1e-4)


def test_ood_actions_of_every_source(batch):
    algo = algorithms.make("utds", "paper", **SMALL)
    state = algo.init(jax.random.key(1), Spec(3, 2))
    noise = jax.random.normal(jax.random.key(2), (4000, 2, 2))
    observations = jnp.zeros((4000, 3))
    uniform = np.asarray(replace(algo, ood_source="uniform").ood_candidates(state.actor, observations, noise))
    assert np.abs(np.quantile(uniform, [0.1, 0.5, 0.9]) - [-0.8, 0, 0.8]).max() < 0.05
    near = np.asarray(algo.ood_candidates(state.actor, observations, noise))
    mixed = np.asarray(replace(algo, ood_source="mixed").ood_candidates(state.actor, observations, noise))
    np.testing.assert_array_equal(mixed[::2], near[::2])
    np.testing.assert_array_equal(mixed[1::2], uniform[1::2])


def test_no_ood_actions_no_ood_loss(batch):
    algo = algorithms.make("utds", "paper", **SMALL | {"ood_actions": 0})
    _, metrics = algo.update(algo.init(jax.random.key(1), Spec(3, 2)), batch, jax.random.key(0))
    assert metrics["ood_loss"] == metrics["uncertainty_ood"] == 0 and np.isfinite(metrics["bellman_loss"])
