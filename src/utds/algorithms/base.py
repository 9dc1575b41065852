"""What every algorithm shares: the protocol, the description of a problem, and the steps of gradient descent.

An algorithm is a frozen dataclass: its fields are its hyper-parameters, its methods pure functions on a typed pytree.

    state = algo.init(key, spec)
    batch = algo.draw(state, pool, key)
    state, metrics = algo.update(state, batch, key)     # one gradient step
    actions = algo.act(state, observations)             # [B, O] -> [B, A], deterministic

A state has a counter `step`, an `actor`, a `normalizer` of observations and, where there are critics, `critic`. Metrics
are scalars; over many steps they are averaged, except those named `…_max`, never negative, of which the largest counts.
A `Mean` is averaged over the rows that it is about, of which a batch may have none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import optax
from jax import Array

from utds.algorithms.fields import Count, Positive, Steps, at_most, concrete, interval, validate
from utds.networks import MLP, Normalizer, deterministic, q_values

if TYPE_CHECKING:
    from utds.data.pool import Batch, Pool

T = TypeVar("T")
NormaliseBy = Literal["pool", "own"]


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
        size = (self.observation_size,)
        return Normalizer(*(jnp.broadcast_to(jnp.asarray(x, jnp.float32), size) for x in found))


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


def adam_init(params: Any, lr: float) -> optax.OptState:
    """Adam's state before the first step."""
    return optax.adam(lr).init(params)


def adam_step(grads: T, params: T, opt_state: optax.OptState, lr: float | Array) -> tuple[T, optax.OptState]:
    """One step of Adam."""
    updates, opt_state = optax.adam(lr).update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state


def annealed_lr(lr: float, step: Array, over: Steps | None) -> float | Array:
    """A learning rate at a step: as it is, or falling linearly to nothing over so many steps."""
    return lr if over is None else lr * jnp.maximum(1 - step / concrete(over), 0)


def discounts(batch: Batch, discount: float) -> Array | float:
    """What a bootstrapped value counts for: γ^m after m steps, 0 after a true end: [B]."""
    return (discount if batch.steps is None else discount**batch.steps) * (1 - batch.terminations)


def reduce(metrics: Metrics) -> Metrics:
    """Metrics stacked on a first axis, as one number each: the largest of those named `…_max`, else the mean."""

    def reduced(name: str, value: Any) -> Any:
        return jax.tree.map(partial(jnp.max if name.endswith("_max") else jnp.mean, axis=0), value)

    return {name: reduced(name, value) for name, value in metrics.items()}


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

    def draw(self, state: Any, pool: Pool, key: Array) -> Batch:
        """Uniform over the pooled transitions."""
        return pool.sample(key, self.batch_size)

    def act(self, state: Any, observations: Array) -> Array:
        """The policy without noise: [B, O] -> [B, A]."""
        return deterministic(state.actor, state.normalizer(observations))

    def actor_step(self, state: Any, loss: Callable[..., tuple[Array, Metrics]], *args: Any) -> tuple[Any, Metrics]:
        """One step of the policy down `loss(actor, *args) -> (loss, metrics)`."""
        grads, metrics = jax.grad(loss, has_aux=True)(state.actor, *args)
        lr = annealed_lr(self.actor_lr, state.step, self.anneal_steps)
        actor, opt_state = adam_step(grads, state.actor, state.actor_opt_state, lr)
        return state._replace(actor=actor, actor_opt_state=opt_state), metrics


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
        lr = annealed_lr(self.critic_lr, state.step, self.anneal_steps)
        critic, opt_state = adam_step(grads, state.critic, state.critic_opt_state, lr)
        return state._replace(critic=critic, critic_opt_state=opt_state), metrics
