"""Exported policies, run by onnxruntime and by plain NumPy."""

import jax
import numpy as np
import onnxruntime
import pytest

from utds import algorithms, files
from utds.algorithms import Policy, Spec
from utds.algorithms.utds import uncertainty
from utds.errors import ConfigError, TrainingError
from utds.export import export
from utds.networks import Layer, LeakyLayer, Prior, TanhLayer
from utds.training.run import Run

OBS, ACT = 5, 2


def make_run(tmp_path, name, preset="paper", **fields):
    algorithm = algorithms.make(name, preset, width=16, **fields)
    config = {
        "algorithm": algorithms.to_config(algorithm),
        "task": "t",
        "sources": [{"id": "t/own", "digest": "0", "transitions": 1}],
        "seeds": [3],
        "observation_size": OBS,
        "action_size": ACT,
        "divergence": 100.0,
        **dict.fromkeys(("steps", "eval_every", "log_every", "checkpoint_every"), 1),
    }
    files.write_json(tmp_path / "config.json", config)
    run = Run(tmp_path)
    spec = Spec(OBS, ACT, mean=np.arange(OBS), std=np.arange(1, OBS + 1) / 2)
    run.save_policy(3, Policy.of(algorithm.init(jax.random.key(1), spec)), step=0)
    return run


def relu(x):
    return np.maximum(x, 0)


def numpy_mlp(layers, x):
    if isinstance(layers[-1], Prior):
        hidden, output = layers[-1]
        sines = np.sin(x @ np.asarray(hidden.weight) + np.asarray(hidden.bias))
        return numpy_mlp(layers[:-1], x) + sines @ np.asarray(output.weight)
    for i, layer in enumerate(layers):
        x = x @ np.asarray(layer.weight) + np.asarray(layer.bias)
        if i < len(layers) - 1:
            if layer.gain is not None:
                x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
                x = x * np.asarray(layer.gain) + np.asarray(layer.offset)
            x = {TanhLayer: np.tanh, LeakyLayer: lambda x: np.maximum(x, 0.01 * x)}.get(type(layer), relu)(x)
    return x


def outputs(path, observations):
    return onnxruntime.InferenceSession(str(path)).run(None, {"observations": observations})


@pytest.mark.parametrize(
    ("name", "preset"),
    [(name, preset) for name, entry in algorithms.entries().items() for preset in entry.presets if preset != "fast"],
)
def test_actions_are_the_policys(tmp_path, name, preset):
    run = make_run(tmp_path, name, preset)
    observations = np.random.default_rng(0).normal(size=(7, OBS)).astype(np.float32) * 3
    (actions,) = outputs(run.export(tmp_path / "p.onnx"), observations)
    policy = run.policy()
    raw = numpy_mlp(
        policy.actor, (observations - np.asarray(policy.normalizer.mean)) / np.asarray(policy.normalizer.std)
    )
    np.testing.assert_allclose(actions, np.tanh(raw[:, :ACT]), atol=1e-5)
    np.testing.assert_allclose(actions, run.act(observations), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("utds", {"layer_norm": False}),
        ("utds", {"layer_norm": True, "prior_scale": 0.1}),
        ("cql", {"architecture": "released"}),
    ],
)
def test_the_ensemble_gives_the_uncertainty_beside_the_action(tmp_path, name, fields):
    run = make_run(tmp_path, name, **fields)
    observations = np.random.default_rng(0).normal(size=(7, OBS)).astype(np.float32)
    actions, gamma = outputs(run.export(tmp_path / "p.onnx", ensemble=True), observations)
    policy = run.policy()
    normal = (observations - np.asarray(policy.normalizer.mean)) / np.asarray(policy.normalizer.std)
    pairs = np.concatenate([normal, actions], axis=1)
    members = [jax.tree.map(lambda x, i=i: x[i], policy.critic) for i in range(run.algorithm.num_critics)]
    values = np.stack([numpy_mlp(member, pairs)[:, 0] for member in members])
    np.testing.assert_allclose(gamma, values.std(axis=0, ddof=1), atol=1e-5)
    assert gamma.min() > 0


def test_large_values_that_agree_are_no_error_of_the_file(tmp_path):
    """Γ is a difference of values: its rounding in float32 grows with them."""
    run = make_run(tmp_path, "utds")
    policy = run.policy()
    *hidden, last = policy.critic
    policy = policy._replace(critic=(*hidden, last._replace(bias=last.bias + 1e6)))
    path = export(run.algorithm, policy, run.config, tmp_path / "p.onnx", ensemble=True)
    assert path.exists()


def test_a_file_that_gives_another_uncertainty_is_refused(tmp_path, monkeypatch):
    run = make_run(tmp_path, "utds")
    monkeypatch.setattr("utds.export.uncertainty", lambda q: uncertainty(q) + 1e-3)
    with pytest.raises(TrainingError, match="the exported uncertainty differ from the policy's by up to 0"):
        run.export(tmp_path / "p.onnx", ensemble=True)


def test_no_ensemble_no_uncertainty(tmp_path):
    with pytest.raises(ConfigError, match="no ensemble of critics: its algorithm is bc"):
        make_run(tmp_path, "bc").export(tmp_path / "p.onnx", ensemble=True)
    assert not (tmp_path / "p.onnx").exists()


class Elu(Layer):
    """A layer of one's own."""


@pytest.mark.parametrize(
    ("part", "ensemble", "message"),
    [
        ({"actor": {"w": np.ones((OBS, ACT))}}, False, "only an actor made of the layers of utds.networks"),
        ({"critic": {"w": np.ones((2, OBS + ACT, 1))}}, True, "only an ensemble of critics made of the layers of"),
        ({"actor": (Elu(np.ones((OBS, ACT)), np.ones(ACT)),) * 2}, False, "Elu can't be exported"),
    ],
)
def test_networks_of_ones_own_are_refused_in_one_line(tmp_path, part, ensemble, message):
    run = make_run(tmp_path, "td3")
    with pytest.raises(ConfigError, match=message):
        export(run.algorithm, run.policy()._replace(**part), run.config, tmp_path / "p.onnx", ensemble)
    assert not (tmp_path / "p.onnx").exists()
