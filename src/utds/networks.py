"""Networks as plain pytrees: MLPs, ensembles of them and two kinds of actor; how they are fitted and compiled, and
how observations are normalised.

An ensemble is one MLP whose arrays have a leading axis E. Inputs are rows [B, in]; an ensemble's outputs are [E, B].
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from utds.terminal import Advance

if TYPE_CHECKING:
    from utds.data.pool import Batch

T = TypeVar("T")

# XLA's default library for products on CPUs is made for large matrices: without it networks of 256 units learn 5 to
# 20 % faster, and small ones as fast.
ON_CPU = {"xla_cpu_experimental_ynn_fusion_type": ""}

BURST = 250  # gradient steps of `fit` between two moves of the progress bar
MIN_STD = 1e-6  # standard deviation below which a feature counts as constant
LOG_STD = (-5.0, 2.0)  # bounds of a Gaussian actor's log standard deviation, as in SAC and CQL


class Layer(NamedTuple):
    """One affine map, with layer norm's gain and offset when the layer is normalised. Ensembles prepend an axis E.

    A hidden layer's class tells its activation, here ReLU: a class is static under jit and takes no place in a file.
    """

    weight: Array  # [in, out]
    bias: Array  # [out]
    gain: Array | None = None  # [out]
    offset: Array | None = None  # [out]


class TanhLayer(Layer):
    """A hidden layer that ends in tanh."""


class LeakyLayer(Layer):
    """A hidden layer that ends in a leaky ReLU of slope 0.01."""


class SineLayer(Layer):
    """A hidden layer that ends in a sine."""


class Prior(NamedTuple):
    """A fixed random function, added to a network's output as the last element of its tuple (Osband et al., 2018).

    A network learns to cancel it where there is data and can't elsewhere, so the members of an ensemble differ there.
    """

    hidden: Layer
    output: Layer


ACTIVATIONS: dict[type[Layer], Callable[[Array], Array]] = {
    Layer: jax.nn.relu,
    TanhLayer: jnp.tanh,
    LeakyLayer: jax.nn.leaky_relu,
    SineLayer: jnp.sin,
}
MLP = tuple[Layer, ...]  # and perhaps a `Prior` at its end
PRIOR_UNITS = 32  # of a prior's hidden layer
PRIOR_GAIN = 0.7  # standard deviation of a sine's argument, from observations of unit variance; as much from actions


def init_mlp(
    key: Array, sizes: tuple[int, ...], layer_norm: bool | Sequence[bool], kinds: Sequence[type[Layer]] | None = None
) -> MLP:
    """An MLP from sizes[0] inputs to sizes[-1] outputs; weights and biases are uniform within ±1/√in.

    `layer_norm` is for all hidden layers or for each; `kinds` are the hidden layers' classes, `Layer` if not given.
    """
    hidden = len(sizes) - 2
    norms = (layer_norm,) * hidden if isinstance(layer_norm, bool) else layer_norm
    kinds = (Layer,) * hidden if kinds is None else kinds
    shapes = list(itertools.pairwise(sizes))
    counts = [(rows + 1) * columns for rows, columns in shapes]
    drawn = jax.random.uniform(key, (sum(counts),), minval=-1)  # in one call: each compiles for a good part of a second
    layers, start = [], 0
    kinds, norms = (*kinds, Layer), (*norms, False)  # and the output
    for (rows, columns), count, kind, normed in zip(shapes, counts, kinds, norms, strict=True):
        affine = rows**-0.5 * drawn[start : start + count].reshape(rows + 1, columns)
        start += count
        norm = (jnp.ones(columns), jnp.zeros(columns)) if normed else ()
        layers.append(kind(affine[:-1], affine[-1], *norm))
    return tuple(layers)


def init_ensemble(
    key: Array,
    count: int,
    sizes: tuple[int, ...],
    layer_norm: bool | Sequence[bool],
    kinds: Sequence[type[Layer]] | None = None,
) -> MLP:
    """`count` independently drawn MLPs, stacked on a new first axis."""
    return jax.vmap(lambda k: init_mlp(k, sizes, layer_norm, kinds))(jax.random.split(key, count))


def init_priors(key: Array, count: int, observation_size: int, action_size: int, scale: Array | float) -> Prior:
    """`count` priors, each a sum of random sines of observation and action with standard deviation `scale`."""
    size, units = observation_size + action_size, PRIOR_UNITS
    drawn = jax.random.normal(key, (count, size + 2, units))
    # Uniform actions have a variance of a third: observations and actions move a sine's argument alike.
    gains = [observation_size**-0.5] * observation_size + [(action_size / 3) ** -0.5] * action_size
    hidden = SineLayer(PRIOR_GAIN * jnp.array(gains)[:, None] * drawn[:, :size], 3 * drawn[:, size])
    output = scale * (2 / units) ** 0.5 * drawn[:, size + 1, :, None]
    return Prior(hidden, Layer(output, jnp.zeros((count, 1))))


def mlp(params: MLP, x: Array) -> Array:
    """[B, in] -> [B, out], with the layer's activation (after layer norm, if any) between the layers."""
    if isinstance(params[-1], Prior):
        return mlp(params[:-1], x) + mlp(jax.lax.stop_gradient(tuple(params[-1])), x)
    for layer in params[:-1]:
        x = x @ layer.weight + layer.bias
        if layer.gain is not None and layer.offset is not None:
            x = _normalised(x) * layer.gain + layer.offset
        x = ACTIVATIONS[type(layer)](x)
    return x @ params[-1].weight + params[-1].bias


def ensemble(params: MLP, x: Array) -> Array:
    """Scalar outputs of every member on the same rows: [B, in] -> [E, B]."""
    return _each(lambda member: mlp(member, x)[..., 0], params)


def q_values(critic: MLP, observations: Array, actions: Array) -> Array:
    """Q_n(s, a) of every member: [B, O], [B, A] -> [E, B]."""
    return ensemble(critic, jnp.concatenate([observations, actions], axis=-1))


def is_q_ensemble(critic: Any, inputs: int) -> bool:
    """Whether `q_values` takes it, for observation and action of so many numbers together."""
    if not isinstance(critic, tuple) or not critic or not all(isinstance(part, Layer | Prior) for part in critic):
        return False
    return isinstance(critic[0], Layer) and critic[0].weight.ndim == 3 and critic[0].weight.shape[1] == inputs


def action_gradients(critic: MLP, observations: Array, actions: Array) -> Array:
    """∇_a Q_n(s, a) of every member: [B, O], [B, A] -> [E, B, A]."""

    def gradient(member: MLP) -> Array:
        return jax.grad(lambda a: jnp.sum(mlp(member, jnp.concatenate([observations, a], axis=-1))))(actions)

    return _each(gradient, critic)


def deterministic(actor: MLP, observations: Array) -> Array:
    """The deterministic tanh policy: [B, O] -> [B, A] in (-1, 1)."""
    return jnp.tanh(mlp(actor, observations))


def gaussian(actor: MLP, observations: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of the Gaussian under a stochastic policy's tanh: [B, O] -> [B, A], [B, A]."""
    mean, log_std = jnp.split(mlp(actor, observations), 2, axis=-1)
    return mean, jnp.exp(jnp.clip(log_std, *LOG_STD))


def squash(mean: Array, std: Array, noise: Array) -> tuple[Array, Array]:
    """Actions tanh(mean + std·noise) [..., A] and their log density [...] under the tanh-Gaussian policy."""
    raw = mean + std * noise
    log_normal = -0.5 * noise**2 - jnp.log(std) - 0.5 * jnp.log(2 * jnp.pi)
    log_slope = 2 * (jnp.log(2.0) - raw - jax.nn.softplus(-2 * raw))  # log(1 - tanh²), finite for every raw
    return jnp.tanh(raw), jnp.sum(log_normal - log_slope, axis=-1)


def parameter_count(params: object) -> int:
    """How many numbers a pytree holds."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def jit(function: Callable[..., T], **options: Any) -> Callable[..., T]:
    """`jax.jit` for gradient steps, with the compiler's options for this machine. Options are those of `jax.jit`.

    What the machine has is asked at the first call: importing a module must not start JAX.
    """

    @functools.cache
    def compiled() -> Callable[..., T]:
        return jax.jit(function, compiler_options=compiler_options(), **options)

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> T:
        return compiled()(*args, **named)

    return call


@functools.cache
def compiler_options() -> dict[str, str]:
    """`ON_CPU` on a CPU whose compiler knows it: it is an experiment of XLA's, which may end with any version."""
    if jax.default_backend() != "cpu":
        return {}
    try:
        jax.jit(lambda x: x, compiler_options=ON_CPU).lower(0.0).compile()
    except Exception:  # JAX says it with several types, by version
        return {}
    return ON_CPU


def fit(
    params: T, loss: Callable[[T, Any, Array], Array], data: Any, keys: Array, lr: float, advance: Advance | None = None
) -> T:
    """Minimise `loss(params, data, key)` by Adam, one step per key; the rate falls from `lr` along a cosine.

    The loss draws its batch from the data, any pytree of arrays, by the key. It is compiled once for a function that
    compares equal: give one of a module, or an instance of a frozen class. `advance` hears of every burst of steps.
    """
    steps = len(keys)
    opt_state = _adam(lr, steps).init(params)
    for start in range(0, steps, BURST):
        burst = keys[start : start + BURST]
        params, opt_state, value = _gradient_steps(loss, lr, steps, params, opt_state, data, burst)
        if advance is not None:
            advance(len(burst), note=f"loss {float(value):.3g}")
    return params


def _adam(lr: float, steps: int) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(lr, steps))


@partial(jit, static_argnums=(0, 1, 2))
def _gradient_steps(
    loss: Callable[[T, Any, Array], Array], lr: float, steps: int, params: T, opt_state: Any, data: Any, keys: Array
) -> tuple[T, Any, Array]:
    """One gradient step per key; parameters, optimiser state and the mean loss."""

    def step(carry: tuple[T, Any], key: Array) -> tuple[tuple[T, Any], Array]:
        params, opt_state = carry
        value, grads = jax.value_and_grad(loss)(params, data, key)
        updates, opt_state = _adam(lr, steps).update(grads, opt_state)
        return (optax.apply_updates(params, updates), opt_state), value

    (params, opt_state), values = jax.lax.scan(step, (params, opt_state), keys)
    return params, opt_state, jnp.mean(values)


def _each(function: Callable[[MLP], Array], params: MLP) -> Array:
    """`function` of every member, stacked on a first axis E.

    A CPU runs one plain product per member faster than a batched one; an accelerator wants them batched.
    """
    if jax.default_backend() != "cpu":
        return jax.vmap(function)(params)
    return jnp.stack([function(member) for member in _members(params)])


def _members(params: MLP) -> list[MLP]:
    """The ensemble's MLPs one by one. The gradient of `lax.split` is a concatenation, cheaper than that of slices."""
    leaves, structure = jax.tree.flatten(params)
    size = leaves[0].shape[0]
    parts = [jax.lax.split(leaf, (1,) * size) for leaf in leaves]
    return [jax.tree.unflatten(structure, [part[e][0] for part in parts]) for e in range(size)]


def _normalised(x: Array) -> Array:
    centred = x - _mean(x)
    return centred * jax.lax.rsqrt(_mean(centred * centred) + 1e-5)


def _mean(x: Array) -> Array:
    """The mean of each row, [B, n] -> [B, 1], as a product.

    XLA adds up a row number by number on a CPU; a product takes many at once, and a small network's gradient step with
    layer norm a tenth less time.
    """
    return jnp.matmul(x, jnp.full((x.shape[-1], 1), 1 / x.shape[-1], x.dtype), precision="highest")


def divisor(std: Any) -> Any:
    """What to divide by: `std` [O], and 1 where a feature is constant, which is centred and left unscaled."""
    return (jnp if isinstance(std, jax.Array) else np).where(std < MIN_STD, 1.0, std)


class Normalizer(NamedTuple):
    """The normalisation of observations. As part of a policy's state it lets the policy stand alone."""

    mean: Any  # [O]
    std: Any  # [O]; 1 where a feature is constant

    @staticmethod
    def of(mean: Any, std: Any) -> Normalizer:
        """From statistics [O] as they were measured, constant features included."""
        return Normalizer(mean, divisor(std))

    @staticmethod
    def fit(rows: np.ndarray) -> Normalizer:
        """From the rows [n, O] themselves."""
        return Normalizer.of(rows.mean(axis=0), rows.std(axis=0))

    def __call__(self, observations: Any) -> Any:
        """[B, O] -> [B, O]."""
        return (observations - self.mean) / self.std

    def batch(self, batch: Batch) -> Batch:
        """The batch with both observations normalised."""
        return batch._replace(observations=self(batch.observations), next_observations=self(batch.next_observations))
