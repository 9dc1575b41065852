"""What every algorithm shares: the protocol, the description of a problem, and the steps of gradient descent.

An algorithm is a frozen dataclass: its fields are its hyper-parameters, its methods pure functions on a typed pytree.

    state = algo.init(key, spec)
    batch = algo.draw(state, pool, key)
    state, metrics = algo.update(state, batch, key)     # one gradient step
    actions = algo.act(state, observations)             # [B, O] -> [B, A], deterministic

A state has a counter `step`, an `actor`, the normalisation `normal` and, where there are critics, `critic`. Metrics are
scalars; over many steps they are averaged, except those named `…_max`, never negative, of which the largest counts. A
`Mean` is averaged over the rows that it is about, of which a batch may have none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import optax
from jax import Array

from utds.errors import ConfigError

if TYPE_CHECKING:
    from utds.data.pool import Batch, Pool

T = TypeVar("T")

# For jit, wherever gradient steps are compiled. XLA's default library for products on CPUs is made for large matrices:
# without it networks of 256 units learn 5 to 20 % faster, and small ones as fast.
COMPILER = {"xla_cpu_experimental_ynn_fusion_type": ""}


class Mean(NamedTuple):
    """A mean over some rows of a batch. Its parts are averaged apart, so no batch counts for more rows than it has."""

    total: Any  # sum over those rows, divided by the rows of the batch
    weight: Any  # share of those rows in the batch

    @staticmethod
    def of(values: Array, weights: Array) -> Mean:
        """Values [B] where the weights [B] are 1, not where they are 0."""
        return Mean(jnp.mean(values * weights), jnp.mean(weights))

    def value(self) -> float | None:
        """The mean, if there was any row."""
        return float(self.total / self.weight) if self.weight else None


Metrics = dict[str, Any]  # scalars, or `Mean`s


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["mean", "std", "reward_min", "reward_max"],
    meta_fields=["observation_size", "action_size"],
)
@dataclass(frozen=True)
class Spec:
    """What an algorithm must know of a problem before it sees a batch. Statistics may be left out, as online."""

    observation_size: int  # O
    action_size: int  # A; actions lie in [-1, 1]
    mean: Any = 0.0  # [O] or scalar, subtracted from observations
    std: Any = 1.0  # [O] or scalar, observations are divided by it
    reward_min: Any = 0.0  # smallest reward in the data
    reward_max: Any = 1.0  # largest reward in the data

    @staticmethod
    def of(pool: Pool) -> Spec:
        """The sizes and statistics of a pool."""
        return Spec(
            observation_size=pool.observation_size,
            action_size=pool.action_size,
            mean=pool.mean,
            std=pool.std,
            reward_min=pool.reward_min,
            reward_max=pool.reward_max,
        )


class Normal(NamedTuple):
    """The normalisation of observations, part of a policy's state so that the policy stands alone."""

    mean: Array  # [O]
    std: Array  # [O]

    @staticmethod
    def of(spec: Spec, enabled: bool) -> Normal:
        """The pool's statistics, or the identity; a constant feature is centred and left unscaled."""
        mean, std = (spec.mean, spec.std) if enabled else (0.0, 1.0)
        std = jnp.where(jnp.asarray(std) < 1e-6, 1.0, std)
        size = (spec.observation_size,)
        return Normal(*(jnp.broadcast_to(jnp.asarray(x, jnp.float32), size) for x in (mean, std)))

    def __call__(self, observations: Array) -> Array:
        """[B, O] -> [B, O]."""
        return (observations - self.mean) / self.std

    def batch(self, batch: Batch) -> Batch:
        """The batch with both observations normalised."""
        return batch._replace(observations=self(batch.observations), next_observations=self(batch.next_observations))


class Policy(NamedTuple):
    """The part of a state that acts, and the critics that judge it; an algorithm's `act` takes it for a state."""

    normal: Normal
    actor: Any
    critic: Any  # [E, …]; None where there are no critics

    @staticmethod
    def of(state: Any) -> Policy:
        return Policy(state.normal, state.actor, getattr(state, "critic", None))


class Algorithm(Protocol):
    """See the module's description."""

    def init(self, key: Array, spec: Spec) -> Any: ...

    def draw(self, state: Any, pool: Pool, key: Array) -> Batch: ...

    def update(self, state: Any, batch: Batch, key: Array) -> tuple[Any, Metrics]: ...

    def act(self, state: Any, observations: Array) -> Array: ...


def polyak(target: T, online: T, tau: float) -> T:
    """target + τ(online − target), leaf by leaf."""
    return jax.tree.map(lambda slow, fast: slow + tau * (fast - slow), target, online)


def descend(grads: T, params: T, moments: optax.OptState, rate: float | Array) -> tuple[T, optax.OptState]:
    """One step of Adam."""
    steps, moments = optax.adam(rate).update(grads, moments)
    return jax.tree.map(lambda p, step: p + step, params, steps), moments


def annealed(rate: float, step: Array, over: int | None) -> float | Array:
    """A learning rate at a step: as it is, or falling linearly to nothing over so many steps."""
    return rate if over is None else rate * jnp.maximum(1 - step / over, 0)


def start(params: Any, rate: float) -> optax.OptState:
    """Adam's moments before the first step."""
    return optax.adam(rate).init(params)


def reduce(metrics: Metrics) -> Metrics:
    """Metrics stacked on a first axis, as one number each: the largest of those named `…_max`, else the mean."""

    def reduced(name: str, value: Any) -> Any:
        return jax.tree.map(partial(jnp.max if name.endswith("_max") else jnp.mean, axis=0), value)

    return {name: reduced(name, value) for name, value in metrics.items()}


def gradient(loss: Callable[..., tuple[Array, Metrics]], params: T, rows: Any, microbatch: int) -> tuple[T, Metrics]:
    """Gradient and metrics of a mean over rows, `loss(params, rows) -> (loss, metrics)`, accumulated over microbatches.

    `rows` is a pytree of arrays [B, …]. Equal to one pass over all B rows up to rounding, and faster on a CPU: the
    activations of a microbatch stay in cache between the forward and the backward pass.
    """
    grad = jax.grad(loss, has_aux=True)
    size = jax.tree.leaves(rows)[0].shape[0]
    parts = next(n for n in range(1, size + 1) if size % n == 0 and size // n <= microbatch)
    if parts == 1:
        return grad(params, rows)
    split = jax.tree.map(lambda x: x.reshape(parts, size // parts, *x.shape[1:]), rows)

    def add(total: T, part: Any) -> tuple[T, Metrics]:
        grads, metrics = grad(params, part)
        return jax.tree.map(lambda t, g: t + g / parts, total, grads), metrics

    grads, metrics = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), split)
    return grads, reduce(metrics)


def check(config: Any) -> None:
    """Refuse hyper-parameters that make no sense, whatever the algorithm."""
    for field in fields(config):
        name, value = field.name, getattr(config, field.name)
        if wanted := _other_type(name, value, field.default):
            raise ConfigError(f"{name}={value!r} must be {wanted}")
        if isinstance(field.default, int) and not isinstance(value, bool) and value < 1:
            raise ConfigError(f"{name}={value} must be at least 1")
        if name.endswith("_rate") and not value > 0:
            raise ConfigError(f"{name}={value} must be positive")
        if name == "anneal_steps" and value is not None and value < 1:
            raise ConfigError(f"anneal_steps={value} must be at least 1, or left out for constant rates")
        if name == "saturation" and value < 0:
            raise ConfigError(f"saturation={value} must be at least 0")
        if name == "discount" and not 0 <= value < 1:
            raise ConfigError(f"discount={value} must lie in [0, 1)")
        if name == "tau" and not 0 < value <= 1:
            raise ConfigError(f"tau={value} must lie in (0, 1]")


def _other_type(name: str, value: Any, default: Any) -> str | None:
    """What a field wants that got a value of another type, told by its default; nothing where the value will do."""
    if isinstance(default, bool):
        return None if isinstance(value, bool) else "true or false"
    if isinstance(default, str):
        return None if isinstance(value, str) else "a word"
    whole, floor = isinstance(default, int) or name == "anneal_steps", name.endswith("floor")
    if (value is None and default is None) or (floor and value == "auto"):
        return None
    if isinstance(value, int if whole else int | float) and not isinstance(value, bool) and math.isfinite(value):
        return None
    return "a whole number" if whole else "a number, auto or nothing" if floor else "a number"
