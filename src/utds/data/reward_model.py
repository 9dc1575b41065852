"""A learned reward: an ensemble regressed on the main task's own data, which knows how sure it is.

For a robot whose reward nobody can recompute from a state: r(s, a, s') is learned from the main task's transitions and
read off for the shared ones. Models start from different weights and see different batches, so they agree where the
main data is dense and part where it is thin; their spread is the doubt, and `penalty` times it can be subtracted.
With a penalty this is PDS (Hu et al., 2023), which pairs it with IQL.
"""

import math
import re
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from utds import terminal
from utds.data.cache import cached
from utds.data.dataset import Dataset
from utds.errors import ConfigError, DataError
from utds.networks import MLP, Normalizer, ensemble, fit, init_ensemble, mlp
from utds.version import __version__

_LIMITS = {  # of the options that are counts; the upper ones keep a mistyped number from filling the memory
    "num_models": (2, 1_000),
    "hidden": (1, 100_000),
    "steps": (1, 10_000_000),
    "batch_size": (1, 1_000_000),
    "seed": (0, 2**32 - 1),  # what a key of JAX can hold
}
FORMER_NAMES = {"members": "num_models", "batch": "batch_size", "learning_rate": "lr"}  # in stored identities


@dataclass(frozen=True)
class LearnedReward:
    """How a reward is learned; `fit(main)` learns it."""

    penalty: float = 0.0  # standard deviations of the ensemble to subtract from its mean
    num_models: int = 5  # of the ensemble
    hidden: tuple[int, ...] = (256, 256)  # units of the hidden layers
    steps: int = 3_000  # gradient steps
    batch_size: int = 256  # transitions per step and model
    lr: float = 3e-3  # learning rate of Adam at the start; falls to 0 along a cosine
    held_out: float = 0.1  # share of the main data's episodes kept aside to measure the fit
    seed: int = 0

    def __post_init__(self) -> None:
        hidden = self.hidden if isinstance(self.hidden, list | tuple) else (self.hidden,)
        object.__setattr__(self, "hidden", tuple(hidden))
        if self.num_models < 2:
            raise ConfigError(f"num_models is {self.num_models}; it takes two to tell how sure a learned reward is")
        for name, (lowest, highest) in _LIMITS.items():
            for number in hidden if name == "hidden" else (getattr(self, name),):
                if not isinstance(number, int | np.integer) or not lowest <= number <= highest:
                    raise ConfigError(f"{name}={number} must be a whole number between {lowest} and {highest}")
        if not 0 < self.lr <= 1:
            raise ConfigError(f"lr={self.lr} must lie above 0 and be at most 1")
        if not 0 <= self.penalty < math.inf:
            raise ConfigError(f"penalty is {self.penalty}; subtract a non-negative number of standard deviations")
        if not 0 < self.held_out < 1:
            raise ConfigError(f"held_out is {self.held_out}; it is a share between 0 and 1")

    name = "learned"
    uses_main = True

    @property
    def identity(self) -> str:
        """Such as "learned", or "learned:penalty=2.0": the fields that differ from their defaults."""
        parts = []
        for item in fields(self):
            value = getattr(self, item.name)
            if value != item.default:
                parts.append(f"{item.name}={'-'.join(map(str, value)) if isinstance(value, tuple) else value}")
        return f"{self.name}:{','.join(parts)}" if parts else self.name

    def label(self, dataset: Dataset, task: str, main: Dataset | None) -> np.ndarray:
        """Rewards [N] float32: the ensemble's mean minus `penalty` standard deviations."""
        if main is None:
            raise ConfigError("a learned reward needs the main task's own data to learn from")
        if not main.metadata.has_rewards:
            raise DataError(f"{main.name} holds no rewards to learn from; label it first")
        found = self.predict(dataset, main)
        return np.ascontiguousarray(found.mean - self.penalty * found.std)

    def predict(self, dataset: Dataset, main: Dataset) -> "Prediction":
        """Regress an ensemble on `main` and predict the rewards of `dataset`; kept beside a stored dataset."""
        if (dataset.observation_size, dataset.action_size) != (main.observation_size, main.action_size):
            raise DataError(
                f"{dataset.name} and {main.name} have different dimensions; no reward carries over between them"
            )
        model = replace(self, penalty=0.0)  # which comes after the prediction: one fit serves all penalties
        key = {"from": model.identity, "data": dataset.digest, "main": main.digest, "utds": __version__}

        def compute() -> dict[str, np.ndarray]:
            fitted = model.fit(main)
            values = np.stack(fitted.predict(dataset), axis=1)
            return {"values": values, "fit": np.array([fitted.correlation, fitted.error])}

        kept = cached(dataset, key, (dataset.size, 2), compute)
        mean, std = kept["values"].T
        return Prediction(mean, std, *kept["fit"].tolist())

    def notes(self, dataset: Dataset, main: Dataset | None, truth: np.ndarray | None) -> list[str]:
        """How sure the reward is: on held-out main data, on this data, and against the truth where it is known."""
        assert main is not None
        found = self.predict(dataset, main)
        middle, worst = np.quantile(found.std, (0.5, 0.9))
        notes = [
            f"on episodes of {main.name} kept aside: correlation {found.correlation:.3f}, error {found.error:.3g}",
            f"doubt about {dataset.name}: median {middle:.3g}, worst tenth above {worst:.3g}",
        ]
        if truth is not None and truth.std() > 0 and found.mean.std() > 0:
            notes.append(f"correlation with the true rewards: {_correlation(found.mean, truth):.3f}")
        return notes

    def fit(self, main: Dataset) -> "RewardModel":
        """Regress the ensemble on the rewards of `main`."""
        if main.episodes < 2:
            raise DataError(f"{main.name} has one episode; a learned reward needs at least two, one of them held out")
        inputs, targets = _pairs(main)
        test = _held_out(main, self.held_out, self.seed)
        scales = Normalizer.fit(inputs[~test]), Normalizer.fit(targets[~test])
        key, init_key = jax.random.split(jax.random.key(self.seed))
        params = init_ensemble(init_key, self.num_models, (inputs.shape[1], *self.hidden, 1), False)
        data = jax.tree.map(jnp.asarray, (scales[0](inputs[~test]), scales[1](targets[~test])))
        with terminal.bar(f"learning the reward of {main.metadata.task}", self.steps) as advance:
            loss, keys = _Loss(self.num_models, self.batch_size), jax.random.split(key, self.steps)
            params = fit(params, loss, data, keys, self.lr, advance)
        model = RewardModel(params, *scales)
        mean, _ = model.predict_rows(inputs[test])
        error = float(np.sqrt(np.mean((mean - targets[test]) ** 2)))
        return replace(model, correlation=_correlation(mean, targets[test]), error=error)


def current_identity(identity: str) -> str:
    """A labelling's identity as an earlier version stored it, with today's names of a learned reward's options."""
    if not identity.startswith("learned:"):
        return identity
    return re.sub(r"(?<=[:,])\w+(?==)", lambda name: FORMER_NAMES.get(name[0], name[0]), identity)


class Prediction(NamedTuple):
    """What an ensemble says about the rewards of a dataset, and how sure it is."""

    mean: np.ndarray  # [N] float32
    std: np.ndarray  # [N] float32, over the models: the doubt about each transition
    correlation: float  # of the mean with the true rewards, on episodes of the main data kept aside
    error: float  # root mean square on those episodes, in units of reward


@dataclass(frozen=True)
class RewardModel:
    """A fitted ensemble, and how well it fits episodes of the main task that it never saw."""

    params: MLP
    inputs: Normalizer  # of rows (s, a, s')
    targets: Normalizer  # of rewards
    correlation: float = math.nan  # with the true rewards of the held-out episodes
    error: float = math.nan  # root mean square, in units of reward, on the same episodes

    def predict(self, dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation [N] float32 of the ensemble for every transition of a dataset."""
        mean, std = np.empty((2, dataset.size), np.float32)
        for where, *parts in dataset.blocks(1 << 14):
            mean[where], std[where] = self.predict_rows(np.concatenate(parts, axis=1))
        return mean, std

    def predict_rows(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same for rows (s, a, s') [b, O + A + O]."""
        mean, std = _mean_and_std(self.params, jnp.asarray(self.inputs(rows), jnp.float32))
        return np.asarray(mean) * self.targets.std + self.targets.mean, np.asarray(std) * self.targets.std


@dataclass(frozen=True)
class _Loss:
    """Squared errors of the models, each on a batch of its own."""

    num_models: int
    batch_size: int

    def __call__(self, params: MLP, data: tuple[Array, Array], key: Array) -> Array:
        inputs, targets = data
        index = jax.random.randint(key, (self.num_models, self.batch_size), 0, len(targets))  # [E, B]
        predicted = jax.vmap(lambda model, rows: mlp(model, rows)[:, 0])(params, inputs[index])
        return jnp.sum(jnp.mean((predicted - targets[index]) ** 2, axis=1))


@jax.jit
def _mean_and_std(params: MLP, rows: Array) -> tuple[Array, Array]:
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
