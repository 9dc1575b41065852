"""A trained policy as an ONNX file: observations in, actions out, with the normalisation inside the graph.

With `ensemble` the file also holds the critics, and a second output `uncertainty` [B] is Γ(s, π(s)): a robot can read
how far it is from the data beside what to do. The file is checked against the JAX policy before it takes its place.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from utds import files
from utds.algorithms import Algorithm, Policy
from utds.algorithms.utds import uncertainty
from utds.data.columns import to_raw
from utds.errors import ConfigError, MissingExtra, TrainingError
from utds.evaluation.rollout import act
from utds.networks import MLP, Layer, LeakyLayer, Prior, SineLayer, TanhLayer, q_values
from utds.version import __version__

Bounds = tuple[list[float], list[float]]  # of the actions in the robot's unit; empty where that is [-1, 1]

OPSET = 17  # the first with LayerNormalization
CHECKED = 256  # random observations that both must agree on
TOLERANCE = 1e-4
ROUNDING = 2e-6  # of Γ in float32, for each unit of Q: it is a difference of values that may be much larger
# A LeakyRelu's slope is 0.01 by default.
ACTIVATIONS = {Layer: "Relu", TanhLayer: "Tanh", LeakyLayer: "LeakyRelu", SineLayer: "Sin"}


def export(
    algorithm: Algorithm,
    policy: Policy,
    config: Mapping[str, Any],  # of the run: its task, the sizes and the actions' bounds
    path: str | os.PathLike[str],
    ensemble: bool = False,
) -> Path:
    """Write a policy, with `ensemble` its critics too."""
    try:
        import onnx
        import onnxruntime
    except ImportError:
        raise MissingExtra("exporting needs onnx and onnxruntime: pip install 'utds[onnx]'") from None
    _check_layers("actor", policy.actor)
    if ensemble:
        _check_layers("ensemble of critics", policy.critic)
    bounds = config["action_low"], config["action_high"]
    graph = _Graph(config["observation_size"], config["action_size"], bounds)
    model = graph.model(policy, ensemble)
    onnx.helper.set_model_props(model, _about(config))
    onnx.checker.check_model(model, full_check=True)
    with files.atomic(path) as part:
        part.write_bytes(model.SerializeToString())
        session = onnxruntime.InferenceSession(str(part), providers=["CPUExecutionProvider"])
        _compare(session, algorithm, policy, bounds, ensemble)
    return Path(path)


def _about(config: Mapping[str, Any]) -> dict[str, str]:
    """What the model's metadata say: whose policy it is, and in which unit it speaks."""
    size = config["action_size"]
    low, high = config["action_low"] or [-1.0] * size, config["action_high"] or [1.0] * size
    return {
        "task": config["task"],
        "observations": "as recorded; the normalisation is part of the model",
        "actions": "in the robot's unit, between action_low and action_high",
        "action_low": json.dumps(low),
        "action_high": json.dumps(high),
    }


class _Graph:
    """Collects nodes and weights."""

    def __init__(self, observation_size: int, action_size: int, bounds: Bounds) -> None:
        self._sizes = observation_size, action_size
        self._bounds = bounds
        self._nodes: list[Any] = []
        self._weights: list[Any] = []

    def model(self, policy: Policy, ensemble: bool) -> Any:
        from onnx import TensorProto, helper

        observations, actions = self._sizes
        kind = TensorProto.FLOAT
        outputs = [helper.make_tensor_value_info("actions", kind, ["batch", actions])]
        centred = self._node("Sub", "observations", self._weight(policy.normalizer.mean))
        normal = self._node("Div", centred, self._weight(policy.normalizer.std))
        raw = self._mlp(policy.actor, normal)
        if policy.actor[-1].bias.shape[-1] == 2 * actions:  # a Gaussian policy: its mean acts
            raw = self._node("Slice", raw, self._integer(0), self._integer(actions), self._integer(1))
        low, high = (np.asarray(bound, np.float64) for bound in self._bounds)
        unit = self._node("Tanh", raw, output=None if low.size else "actions")  # in [-1, 1]
        if low.size:
            scaled = self._node("Mul", unit, self._weight((high - low) / 2))
            self._node("Add", scaled, self._weight((high + low) / 2), output="actions")
        if ensemble:
            self._uncertainty(policy.critic, normal, unit)
            outputs.append(helper.make_tensor_value_info("uncertainty", kind, ["batch"]))
        inputs = [helper.make_tensor_value_info("observations", kind, ["batch", observations])]
        graph = helper.make_graph(self._nodes, "policy", inputs, outputs, self._weights)
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=8,
            producer_name="utds",
            producer_version=__version__,
        )

    def _uncertainty(self, critic: MLP, normal: str, unit: str) -> None:
        """Γ(s, π(s)): the unbiased standard deviation of the critics' values; critics read actions in [-1, 1]."""
        pairs = self._node("Concat", normal, unit, axis=1)
        size = len(critic[0].weight)
        values = [self._mlp(jax.tree.map(lambda x, i=i: x[i], critic), pairs) for i in range(size)]
        q = self._node("Concat", *values, axis=1)  # [B, E]
        deviations = self._node("Sub", q, self._node("ReduceMean", q, axes=[1], keepdims=1))
        squares = self._node("Mul", deviations, deviations)
        total = self._node("ReduceSum", squares, self._integer(1), keepdims=0)
        variance = self._node("Div", total, self._weight(float(size - 1)))
        self._node("Sqrt", variance, output="uncertainty")

    def _mlp(self, layers: MLP, x: str) -> str:
        if isinstance(layers[-1], Prior):
            return self._node("Add", self._mlp(layers[:-1], x), self._mlp(tuple(layers[-1]), x))
        for layer in layers[:-1]:
            x = self._node("Gemm", x, self._weight(layer.weight), self._weight(layer.bias))
            if layer.gain is not None:
                norm = self._weight(layer.gain), self._weight(layer.offset)
                x = self._node("LayerNormalization", x, *norm, epsilon=1e-5)
            x = self._node(_activation(layer), x)
        return self._node("Gemm", x, self._weight(layers[-1].weight), self._weight(layers[-1].bias))

    def _node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        output = output or f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def _integer(self, value: int) -> str:
        return self._weight([value], np.int64)

    def _weight(self, value: Any, dtype: type = np.float32) -> str:
        from onnx import numpy_helper

        name = f"weight_{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name


def _activation(layer: Layer) -> str:
    """The name of a hidden layer's activation in ONNX."""
    if type(layer) not in ACTIVATIONS:
        raise ConfigError(
            f"{type(layer).__name__} can't be exported: utds.export.ACTIVATIONS has no name for it in ONNX"
        )
    return ACTIVATIONS[type(layer)]


def _check_layers(part: str, network: Any) -> None:
    """An algorithm of one's own may have an actor of any kind, but only layers of `utds.networks` can be written."""
    if not isinstance(network, tuple) or not all(isinstance(layer, Layer | Prior) for layer in network):
        raise ConfigError(f"only an {part} made of the layers of utds.networks can be exported")


def _compare(session: Any, algorithm: Algorithm, policy: Policy, bounds: Bounds, ensemble: bool) -> None:
    """Refuse a file that doesn't compute what the policy computes."""
    mean, std = np.asarray(policy.normalizer.mean), np.asarray(policy.normalizer.std)
    noise = np.random.default_rng(0).standard_normal((CHECKED, len(mean)))
    observations = (mean + noise * std).astype(np.float32)
    unit = act(algorithm, policy, observations)
    outputs = [("actions", to_raw(unit, *bounds), 0.0)]
    if ensemble:
        q = q_values(policy.critic, policy.normalizer(observations), jnp.asarray(unit))
        outputs.append(("uncertainty", np.asarray(uncertainty(q)), ROUNDING * float(jnp.abs(q).max())))
    for name, expected, rounding in outputs:
        (found,) = session.run([name], {"observations": observations})
        atol = max(TOLERANCE * max(1.0, float(np.abs(expected).max())), rounding)
        if not np.allclose(found, expected, atol=atol, rtol=TOLERANCE):
            worst = np.abs(found - expected).max()
            raise TrainingError(
                f"the exported {name} differ from the policy's by up to {worst:.2g}; nothing was written"
            )
