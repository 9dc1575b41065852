"""What every algorithm shares: the protocol, what its fields may be, the description of a problem, gradient steps.

An algorithm is a frozen dataclass: its fields are its hyper-parameters, its methods pure functions on a typed pytree.

    state = algo.init(key, spec)
    batch = algo.draw(state, pool, key)
    state, metrics = algo.update(state, batch, key)     # one gradient step
    actions = algo.act(state, observations)             # [B, O] -> [B, A], deterministic

A state has a counter `step`, an `actor`, a `normalizer` of observations and, where there are critics, `critic`. Metrics
are scalars; over many steps they are averaged, except those named `…_max`, never negative, of which the largest counts.
A `Mean` is averaged over the rows that it is about, of which a batch may have none.

What a field may be is declared as its type, and checked when an algorithm is made. `Annotated` adds limits to a type; a
subclass that declares a field anew, for another default, keeps its limits.

    effort: NonNegative = 0.1  # weight of the mean squared action in the policy's loss
    tau: Annotated[float, interval("(0, 1]")] = 5e-3  # share of the online networks mixed into the targets
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar, Union, get_args, get_origin

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from utds.data.pool import Batch, Pool
from utds.errors import ConfigError
from utds.networks import MLP, Normalizer, deterministic, q_values

T = TypeVar("T")
NormaliseBy = Literal["pool", "own"]


class Limit(NamedTuple):
    """What a field's value must fulfil besides its type."""

    words: str  # what a value must, such as "be positive"
    holds: Callable[[Any], bool]


def at_least(least: float) -> Limit:
    """No smaller than this."""
    return Limit(f"be at least {least}", lambda value: value >= least)


def at_most(most: float) -> Limit:
    """No larger than this."""
    return Limit(f"be at most {most}", lambda value: value <= most)


def interval(written: str) -> Limit:
    """In an interval as it is written: (0, 1] is without 0 and with 1."""
    low, high = (float(end) for end in written[1:-1].split(","))
    ends = [end for end, bracket in ((low, written[0]), (high, written[-1])) if bracket in "[]"]
    return Limit(f"lie in {written}", lambda value: low < value < high or value in ends)


def _percent(text: str) -> float:
    """The number of a word such as 50%; 0 for any other word."""
    try:
        return float(text[:-1]) if text.endswith("%") else 0.0
    except ValueError:
        return 0.0


_STEPS = Limit('be a whole number, or a share of the run such as "50%"', lambda text: 0 < _percent(text) <= 100)

MOST = 2**31 - 1  # JAX computes with whole numbers of 32 bits
_SMALL = Limit(
    f"lie between -{MOST} and {MOST}, or be written as 1e20 where it needn't be whole",
    lambda value: not isinstance(value, int) or abs(value) <= MOST,
)
Positive = Annotated[float, Limit("be positive", lambda value: value > 0)]
NonNegative = Annotated[float, at_least(0)]
Count = Annotated[int, at_least(1)]
Share = Annotated[str, _STEPS]
Steps = Count | Share  # gradient steps; or "50%" of the run's


def validate(config: Any) -> None:
    """Refuse a configuration, a dataclass, with a field that isn't of its type or not within its limits."""
    for name, kinds in _declared(type(config)).items():  # type: ignore[arg-type]
        value = getattr(config, name)
        wrong = _wrong_type(value, kinds[0]) or _out_of_limits(value, kinds)
        if wrong:
            raise ConfigError(f"{name}={value!r} {wrong}")


def resolve(algorithm: T, steps: int) -> T:
    """The algorithm for a run of this many steps: fields such as anneal_steps="100%" as numbers."""
    shares = {
        name: max(1, round(_percent(value) / 100 * steps))
        for name, kinds in _declared(type(algorithm)).items()  # type: ignore[arg-type]
        if isinstance(value := getattr(algorithm, name), str) and Share in _parts(kinds[0])
    }
    return replace(algorithm, **shares) if shares else algorithm  # type: ignore[type-var]


def remaining(step: Array, over: Steps) -> Array:
    """What is left at a step of a number of steps that `resolve` has settled: a share, linearly from 1 to 0."""
    if not isinstance(over, int):
        raise ConfigError(f"{over!r} is a share of a run's steps: train with `utds.train`, or give a number")
    return jnp.maximum(1 - step / over, 0)


@functools.cache
def _declared(config: type) -> dict[str, list[Any]]:
    """The types of every field, as the class itself declares it first and its bases after that."""
    found: dict[str, list[Any]] = {field.name: [] for field in fields(config)}
    for cls in config.__mro__:
        try:
            annotations = inspect.get_annotations(cls, eval_str=True)
        except NameError as error:
            raise ConfigError(f"a field of {cls.__name__} has a type that can't be read: {error}") from None
        for name in found.keys() & annotations.keys():
            found[name].append(annotations[name])
    return found


def _wrong_type(value: Any, kind: Any) -> str | None:
    """What is wrong with a value that isn't of a field's type."""
    parts = _parts(kind)
    if any(_is_a(value, part) for part in parts):
        return None
    if all(get_origin(part) is Literal for part in parts):
        return f"is unknown; use {' or '.join(_words(part) for part in parts)}"
    if Share in parts:
        return f"must {_STEPS.words}"
    *first, last = [_words(part) for part in parts]
    wanted = f"must be {', '.join(first)} or {last}" if first else f"must be {last}"
    numpys = isinstance(value, np.generic) and not isinstance(value, float)
    return f"{wanted} of Python's own: give {value.item()}" if numpys else wanted


def _out_of_limits(value: Any, kinds: list[Any]) -> str | None:
    """The first limit that a value breaks, of any of a field's declarations."""
    parts = [part for kind in kinds for part in _parts(kind) if _is_a(value, part)]
    limits = [each for part in parts for each in getattr(part, "__metadata__", ()) if isinstance(each, Limit)]
    return next((f"must {limit.words}" for limit in (*limits, _SMALL) if not limit.holds(value)), None)


def _parts(kind: Any) -> tuple[Any, ...]:
    """The types of a union; of any other type itself."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _bare(kind: Any) -> Any:
    """A type without its limits."""
    return kind.__origin__ if get_origin(kind) is Annotated else kind


def _is_a(value: Any, kind: Any) -> bool:
    """Whether a value is of a type, limits aside. Whole numbers are numbers, and `true` is neither."""
    kind = _bare(kind)
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind in (int, float) and isinstance(value, int):
        return not isinstance(value, bool)
    if kind is float:
        return isinstance(value, float) and math.isfinite(value)
    return isinstance(value, kind) if isinstance(kind, type) else True  # of others, such as lists, nothing is known


def _words(kind: Any) -> str:
    """A type in words."""
    kind = _bare(kind)
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    known = {bool: "true or false", int: "a whole number", float: "a number", str: "a word", NoneType: "nothing"}
    return known.get(kind, getattr(kind, "__name__", str(kind)))


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
CriticInputs = dict[str, Array]  # every array [B, …], so that a batch can be cut into microbatches


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["mean", "std", "reward_min", "reward_max", "reward_size", "own_mean", "own_std"],
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
    reward_size: Any = 0.5  # mean absolute reward
    own_mean: Any = None  # as `mean` and `std`, of the main task's own data; none: all data is
    own_std: Any = None

    @staticmethod
    def of(pool: Pool, own: bool = False) -> Spec:
        """The sizes and statistics of a pool, or of its main task's own data alone."""
        if own:
            rewards = pool.own_rewards
            found = (pool.own_mean, pool.own_std, rewards.min(), rewards.max(), jnp.mean(jnp.abs(rewards)))
        else:
            found = (pool.mean, pool.std, pool.reward_min, pool.reward_max, pool.reward_size)
        return Spec(pool.observation_size, pool.action_size, *found, own_mean=pool.own_mean, own_std=pool.own_std)

    def normalizer(self, enabled: bool = True, by: NormaliseBy = "pool") -> Normalizer:
        """Of observations, by the statistics of the pool or of its own data; the identity if not enabled."""
        own = by == "own" and self.own_mean is not None
        mean, std = (self.own_mean, self.own_std) if own else (self.mean, self.std)
        mean, std = (mean, std) if enabled else (0.0, 1.0)
        found = Normalizer.of(jnp.asarray(mean), jnp.asarray(std))
        return Normalizer(*(jnp.broadcast_to(jnp.asarray(x, jnp.float32), (self.observation_size,)) for x in found))


class Policy(NamedTuple):
    """The part of a state that acts, and the critics that judge it; an algorithm's `act` takes it for a state."""

    normalizer: Normalizer
    actor: Any
    critic: Any  # [E, …]; None where there are no critics

    @staticmethod
    def of(state: Any) -> Policy:
        return Policy(state.normalizer, state.actor, getattr(state, "critic", None))


class Algorithm(Protocol):
    """See the module's description."""

    def init(self, key: Array, spec: Spec) -> Any: ...

    def draw(self, state: Any, pool: Pool, key: Array) -> Batch: ...

    def update(self, state: Any, batch: Batch, key: Array) -> tuple[Any, Metrics]: ...

    def act(self, state: Any, observations: Array) -> Array: ...


def adam_init(params: Any) -> optax.OptState:
    """Adam's state before the first step, whatever the learning rate."""
    return optax.adam(0.0).init(params)


def adam_step(grads: T, params: T, opt_state: optax.OptState, lr: float | Array) -> tuple[T, optax.OptState]:
    """One step of Adam."""
    updates, opt_state = optax.adam(lr).update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state


def annealed_lr(lr: float, step: Array, over: Steps | None) -> float | Array:
    """A learning rate at a step: as it is, or falling linearly to 0 over that many steps."""
    return lr if over is None else lr * remaining(step, over)


def discounts(batch: Batch, discount: float) -> Array | float:
    """What a bootstrapped value counts for: γ^m after m steps, 0 after a true end: [B]."""
    return (discount if batch.steps is None else discount**batch.steps) * (1 - batch.terminations)


def reduce(metrics: Metrics) -> Metrics:
    """Metrics stacked on a first axis, as one number each: the largest of those named `…_max`, else the mean."""
    kinds = {name: jnp.max if name.endswith("_max") else jnp.mean for name in metrics}
    return {name: jax.tree.map(partial(kinds[name], axis=0), value) for name, value in metrics.items()}


def accumulated_gradient(
    loss: Callable[..., tuple[Array, Metrics]], params: T, rows: Any, microbatch: int
) -> tuple[T, Metrics]:
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


@dataclass(frozen=True)
class Actor:
    """What algorithms with a policy have in common."""

    width: Annotated[Count, at_most(100_000)] = 256  # units of a hidden layer
    layers: Annotated[Count, at_most(100)] = 2  # hidden layers
    layer_norm: bool = False  # normalise hidden layers before their activation
    normalise: bool = True  # scale observations by the data's mean and standard deviation
    normalise_by: NormaliseBy = "pool"  # whose: all of the pool's, or the main task's own
    batch_size: Annotated[Count, at_most(10_000_000)] = 256  # transitions per gradient step
    actor_lr: Positive = 3e-4  # Adam's learning rate of the policy, and of SAC's temperature
    anneal_steps: Steps | None = None  # steps, or "100%" of the run, in which learning rates fall to 0; none: constant

    def __post_init__(self) -> None:
        validate(self)

    def layer_sizes(self, inputs: int, outputs: int, width: int = 0) -> tuple[int, ...]:
        """Units of every layer of a network, inputs first; `width` of the hidden ones if it isn't the algorithm's."""
        return (inputs, *(width or self.width,) * self.layers, outputs)

    def fresh_state(self, spec: Spec, **networks: MLP) -> dict[str, Any]:
        """Fields of a fresh state: these networks, Adam's state of each, no steps, and the normalisation."""
        opt_states = {f"{name}_opt_state": adam_init(network) for name, network in networks.items()}
        normalizer = spec.normalizer(self.normalise, self.normalise_by)
        return {"step": jnp.zeros((), jnp.int32), "normalizer": normalizer, **networks, **opt_states}

    def draw(self, state: Any, pool: Pool, key: Array) -> Batch:
        """Uniform over the pooled transitions."""
        return pool.sample(key, self.batch_size)

    def act(self, state: Any, observations: Array) -> Array:
        """The policy without noise: [B, O] -> [B, A]."""
        return deterministic(state.actor, state.normalizer(observations))

    def actor_step(self, state: Any, loss: Callable[..., tuple[Array, Metrics]], *args: Any) -> tuple[Any, Metrics]:
        """One step of the policy down `loss(actor, *args) -> (loss, metrics)`."""
        grads, metrics = jax.grad(loss, has_aux=True)(state.actor, *args)
        return self.gradient_step(state, "actor", grads, self.actor_lr), metrics

    def gradient_step(self, state: Any, name: str, grads: Any, lr: float) -> Any:
        """The state after one step of Adam on its network `name`, at a learning rate that may be annealed."""
        lr_now = annealed_lr(lr, state.step, self.anneal_steps)
        params, opt_state = adam_step(grads, getattr(state, name), getattr(state, f"{name}_opt_state"), lr_now)
        return state._replace(**{name: params, f"{name}_opt_state": opt_state})


@dataclass(frozen=True)
class ActorCritic(Actor):
    """What algorithms with an ensemble of critics have in common."""

    num_critics: Annotated[Count, at_most(10_000)] = 2  # critics in the ensemble, E
    microbatch: Count = 256  # transitions whose gradient is computed at once; changes speed, not results
    discount: Annotated[float, interval("[0, 1)")] = 0.99  # γ
    n_step: Annotated[Count, at_most(1_000_000)] = 1  # rewards summed before bootstrapping; fewer at an episode's end
    tau: Annotated[float, interval("(0, 1]")] = 5e-3  # share of the online networks mixed into the targets at each move
    critic_lr: Positive = 3e-4  # Adam's learning rate of the critics, and of IQL's value

    def draw(self, state: Any, pool: Pool, key: Array) -> Batch:
        """Uniform over the pooled transitions."""
        return pool.sample(key, self.batch_size, self.n_step, self.discount)

    def bellman_inputs(self, batch: Batch, values: Array) -> CriticInputs:
        """What `bellman_loss` reads: y = r + γ·d·v, from the values v [B] of the next states."""
        targets = batch.rewards + discounts(batch, self.discount) * values
        return {"observations": batch.observations, "actions": batch.actions, "targets": targets}

    def bellman_loss(self, critic: MLP, inputs: CriticInputs, name: str = "critic_loss") -> tuple[Array, Metrics]:
        """Σ_n mean (Q_n(s, a) − y)²; its metric is the mean over the critics."""
        q = q_values(critic, inputs["observations"], inputs["actions"])  # [E, B]
        loss = jnp.mean((q - inputs["targets"]) ** 2)
        return self.num_critics * loss, {
            name: loss,
            "q_mean": jnp.mean(q),
            "q_abs_max": jnp.max(jnp.abs(q)),
            "target_mean": jnp.mean(inputs["targets"]),
        }

    def critic_step(
        self, state: Any, loss: Callable[..., tuple[Array, Metrics]], inputs: CriticInputs
    ) -> tuple[Any, Metrics]:
        """One step of the critics down `loss(critic, inputs) -> (loss, metrics)`."""
        grads, metrics = accumulated_gradient(loss, state.critic, inputs, self.microbatch)
        return self.gradient_step(state, "critic", grads, self.critic_lr), metrics
