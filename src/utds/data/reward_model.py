"""A learned reward: an ensemble regressed on the main task's own data, which knows how sure it is.

For a robot whose reward nobody can recompute from a state: r(s, a, s') is learned from the main task's transitions and
read off for the shared ones. Members start from different weights and see different batches, so they agree where the
main data is dense and part where it is thin; their spread is the doubt, and `penalty` times it can be subtracted.
"""

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from utds import progress
from utds.algorithms.networks import MLP, ensemble, init_ensemble
from utds.data.dataset import Dataset
from utds.errors import ConfigError, DataError

_CHUNK = 250  # gradient steps between two moves of the progress bar


@dataclass(frozen=True)
class LearnedReward:
    """How a reward is learned; `fit(main)` learns it."""

    penalty: float = 0.0  # standard deviations of the ensemble to subtract from its mean
    members: int = 5  # of the ensemble
    hidden: tuple[int, ...] = (256, 256)  # units of the hidden layers
    steps: int = 3_000  # gradient steps
    batch: int = 256  # transitions a step and member
    learning_rate: float = 3e-3  # of Adam at the start; falls to 0 along a cosine
    held_out: float = 0.1  # share of the main data's episodes kept aside to measure the fit
    seed: int = 0

    def __post_init__(self) -> None:
        if self.members < 2:
            raise ConfigError(f"a learned reward needs at least two members to tell how sure it is, not {self.members}")
        if self.penalty < 0:
            raise ConfigError(f"penalty is {self.penalty}; subtract a non-negative number of standard deviations")
        if not 0 < self.held_out < 1:
            raise ConfigError(f"held_out is {self.held_out}; it is a share between 0 and 1")

    def identity(self) -> dict[str, Any]:
        """All that the ensemble's predictions depend on; the penalty comes after."""
        return {name: value for name, value in asdict(self).items() if name != "penalty"}

    def fit(self, main: Dataset) -> "RewardModel":
        """Regress the ensemble on the rewards of `main`."""
        if main.episodes < 2:
            raise DataError(f"{main.name} has one episode; a learned reward needs at least two, one of them held out")
        inputs, targets = _pairs(main)
        test = _held_out(main, self.held_out, self.seed)
        scale = _Scale.of(inputs[~test], targets[~test])
        config = replace(self, penalty=0.0)  # which doesn't enter the fit: one compilation for all penalties
        key, init_key = jax.random.split(jax.random.key(self.seed))
        params, state = _start(init_key, inputs.shape[1], config)
        data = (scale.inputs(inputs[~test]), scale.targets(targets[~test]))
        done = 0
        with progress.bar(f"learning the reward of {main.metadata.task}", self.steps) as advance:
            while done < self.steps:
                count = min(_CHUNK, self.steps - done)
                key, chunk = jax.random.split(key)
                params, state, loss = _train(params, state, data, jax.random.split(chunk, count), config)
                done += count
                advance(count, note=f"loss {float(loss):.4f}")
        model = RewardModel(params, scale, float("nan"), float("nan"))
        mean, _ = model.predict_rows(inputs[test])
        error = float(np.sqrt(np.mean((mean - targets[test]) ** 2)))
        return RewardModel(params, scale, _correlation(mean, targets[test]), error)


@dataclass(frozen=True)
class _Scale:
    """Inputs and targets brought to mean 0 and deviation 1."""

    centre: np.ndarray  # [in]
    width: np.ndarray  # [in]
    target_centre: float
    target_width: float

    @classmethod
    def of(cls, inputs: np.ndarray, targets: np.ndarray) -> "_Scale":
        width = inputs.std(axis=0)
        spread = float(targets.std())
        return cls(inputs.mean(axis=0), np.where(width < 1e-6, 1, width), float(targets.mean()), spread or 1.0)

    def inputs(self, rows: np.ndarray) -> np.ndarray:
        return (rows - self.centre) / self.width

    def targets(self, rewards: np.ndarray) -> np.ndarray:
        return (rewards - self.target_centre) / self.target_width


@dataclass(frozen=True)
class RewardModel:
    """A fitted ensemble, and how well it fits episodes of the main task that it never saw."""

    params: MLP
    scale: _Scale
    correlation: float  # with the true rewards of the held-out episodes
    error: float  # root mean square, in units of reward, on the same episodes

    def predict(self, dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation [N] float32 of the ensemble for every transition of a dataset."""
        mean, std = np.empty((2, dataset.size), np.float32)
        for where, *parts in dataset.blocks(1 << 14):
            mean[where], std[where] = self.predict_rows(np.concatenate(parts, axis=1))
        return mean, std

    def predict_rows(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same for rows (s, a, s') [b, O + A + O]."""
        mean, std = _moments(self.params, jnp.asarray(self.scale.inputs(rows), jnp.float32))
        width = self.scale.target_width
        return np.asarray(mean) * width + self.scale.target_centre, np.asarray(std) * width


def _optimizer(config: LearnedReward) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(config.learning_rate, config.steps))


@partial(jax.jit, static_argnames=("width", "config"))
def _start(key: Array, width: int, config: LearnedReward) -> tuple[MLP, optax.OptState]:
    params = init_ensemble(key, config.members, (width, *config.hidden, 1), False)
    return params, _optimizer(config).init(params)


@partial(jax.jit, static_argnames="config")
def _train(
    params: MLP, state: optax.OptState, data: tuple[Array, Array], keys: Array, config: LearnedReward
) -> tuple[MLP, optax.OptState, Array]:
    """One gradient step a key on squared errors; every member draws its own batch."""
    inputs, targets = data
    optimizer = _optimizer(config)

    def loss(params: MLP, index: Array) -> Array:  # index [E, B]
        predicted = jax.vmap(lambda member, rows: ensemble(jax.tree.map(lambda x: x[None], member), rows)[0])(
            params, inputs[index]
        )
        return jnp.sum(jnp.mean((predicted - targets[index]) ** 2, axis=1))

    def step(carry: tuple[MLP, optax.OptState], key: Array) -> tuple[tuple[MLP, optax.OptState], Array]:
        params, state = carry
        index = jax.random.randint(key, (config.members, config.batch), 0, len(targets))
        value, gradient = jax.value_and_grad(loss)(params, index)
        updates, state = optimizer.update(gradient, state)
        return (optax.apply_updates(params, updates), state), value / config.members

    (params, state), losses = jax.lax.scan(step, (params, state), keys)
    return params, state, jnp.mean(losses)


@jax.jit
def _moments(params: MLP, rows: Array) -> tuple[Array, Array]:
    predicted = ensemble(params, rows)  # [E, b]
    return jnp.mean(predicted, axis=0), jnp.std(predicted, axis=0, ddof=1)


def _pairs(main: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Rows (s, a, s') [N, O + A + O] and rewards [N] of the main task."""
    rows = np.empty((main.size, 2 * main.observation_size + main.action_size), np.float32)
    for where, *parts in main.blocks():
        np.concatenate(parts, axis=1, out=rows[where])
    return rows, main.read("rewards")


def _held_out(main: Dataset, share: float, seed: int) -> np.ndarray:
    """[N] bool: the transitions of randomly chosen whole episodes, at least one and not all."""
    count = min(max(1, round(share * main.episodes)), main.episodes - 1)
    chosen = np.random.default_rng(seed).choice(main.episodes, count, replace=False)
    return np.repeat(np.isin(np.arange(main.episodes), chosen), main.lengths)


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson's; 0 where one of the two is constant."""
    if a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])
