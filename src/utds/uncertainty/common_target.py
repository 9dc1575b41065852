"""Γ that can be compared between runs: one fixed function, learnt from the data of each.

The Γ of a run's critics has the unit of its values, and sharing changes the values. What the data of a run can teach is
measured with a target that no run can change: a random network's response to state-actions, with standard deviation 1
over all data at hand. For each run an ensemble of five networks learns it from the transitions that the run was trained
on. The ensembles have the same sizes, initial weights and number of steps, so Γ, their standard deviation, differs by
the data alone. This is the paper's toy (`toy.py`) on a robot's data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from utds import networks, progress
from utds.algorithms.utds import uncertainty
from utds.data.dataset import Dataset
from utds.networks import MLP, Normalizer, ensemble, init_ensemble

NETWORKS = 5  # networks of an ensemble
HIDDEN = (128, 128)  # their hidden layers
STEPS = 2000  # of Adam
BATCH = 256  # transitions per step
LEARNING_RATE = 1e-3  # at the start; falls to 0 along a cosine
ROWS = 200_000  # transitions of all datasets together that are read at most, evenly spaced
BLOCK = 1 << 14  # state-actions judged at once


class Ensemble(NamedTuple):
    """Networks that learnt the common target from some data."""

    params: MLP
    normalizer: Normalizer  # of state-actions

    def gamma(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Γ(s, a) [n], in standard deviations of the target."""
        blocks = range(0, len(observations), BLOCK)
        parts = [_pairs(observations[i : i + BLOCK], actions[i : i + BLOCK]) for i in blocks]
        return np.concatenate([np.asarray(_gamma(self.params, self.normalizer(part))) for part in parts])


def fit(datasets: Sequence[Dataset], choices: Sequence[Sequence[int]], seed: int = 0) -> list[Ensemble]:
    """An ensemble for each choice of datasets, counted from 0: the transitions of those that it may learn from."""
    stride = -(-sum(data.size for data in datasets) // ROWS)
    rows = [data.rows[::stride] for data in datasets]
    parts = [_pairs(data.observations[r], data.actions[::stride]) for data, r in zip(datasets, rows, strict=True)]
    joined, bounds = np.concatenate(parts), np.cumsum([0, *map(len, parts)])
    normalizer = Normalizer.fit(joined)
    inputs = jnp.asarray(normalizer(joined), jnp.float32)
    targets = jnp.asarray(response(np.random.default_rng(seed), inputs), jnp.float32)
    key = jax.random.key(seed)
    start = init_ensemble(key, NETWORKS, (inputs.shape[1], *HIDDEN, 1), layer_norm=False)
    found = []
    with progress.bar("learning the common target", len(choices), "ensembles") as advance:
        for choice in choices:
            known = np.concatenate([np.arange(bounds[i], bounds[i + 1]) for i in choice])
            index = jnp.asarray(np.resize(known, len(joined)))  # of one length for all: one program
            data = inputs, targets, index, jnp.asarray(len(known))
            params = networks.fit(start, Loss(BATCH), data, jax.random.split(key, STEPS), LEARNING_RATE)
            found.append(Ensemble(jax.block_until_ready(params), normalizer))
            advance()
    return found


def response(random: np.random.Generator, x: np.ndarray | Array, width: int = 64) -> np.ndarray:
    """A network with two hidden layers and random weights, [B, D] -> [B], scaled to mean 0 and standard deviation 1."""
    hidden = np.asarray(x, np.float64)
    for inputs in (hidden.shape[1], width):
        hidden = np.tanh(hidden @ random.normal(size=(inputs, width)) / np.sqrt(inputs) + random.normal(size=width))
    y = hidden @ random.normal(size=width)
    return (y - y.mean()) / y.std()


@dataclass(frozen=True)
class Loss:
    """The models' squared errors on a batch from rows `index[:count]` of inputs [n, D] and targets [n]."""

    batch_size: int

    def __call__(self, params: MLP, data: tuple[Array, Array, Array, Array], key: Array) -> Array:
        inputs, targets, index, count = data
        rows = index[jax.random.randint(key, (self.batch_size,), 0, count)]
        return jnp.sum(jnp.mean((ensemble(params, inputs[rows]) - targets[rows]) ** 2, axis=1))


@jax.jit
def _gamma(params: MLP, pairs: Array) -> Array:
    return uncertainty(ensemble(params, pairs))


def _pairs(observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """State-actions [n, O + A]."""
    return np.concatenate([observations, actions], axis=1).astype(np.float32)
