"""Fitted Q evaluation (Le et al., 2019): what a policy is worth, estimated from data alone, without an environment.

Critics are fitted to the Bellman equation of one fixed policy π on the pool's transitions:

    y_n = clip(r + γ·d·Q⁻_n(s', π(s')), v_min, v_max)        loss Σ_n mean w_n·(Q_n(s, a) − y_n)²

The value is that of the start states s₀ of the main task's own episodes, mean Q_n(s₀, π(s₀)). Member n sees a bootstrap
sample of the episodes, w_n = how often each was drawn, so the members' spread tells how much the estimate owes to the
data that happened to be there, and to where the critics started.

An estimate can only be as good as the data's coverage of what the policy does. It serves to rank policies, not to tell
their returns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from utds import progress, training
from utds.algorithms import base
from utds.data.pool import Pool
from utds.errors import TrainingError
from utds.evaluation.rollout import Act
from utds.networks import MLP, init_ensemble, q_values
from utds.normalizer import Normalizer
from utds.training import Run

BURST = 250  # gradient steps between looks at the progress bar
BLOCK = 1 << 16  # observations handed to the policy at once


@dataclass(frozen=True)
class FQE:
    num_critics: int = 5  # critics, each on its own bootstrap sample of the episodes
    width: int = 128  # units of a hidden layer
    layers: int = 2  # hidden layers, with layer norm
    batch_size: int = 256  # transitions a gradient step
    steps: int = 2_000  # gradient steps
    lr: float = 5e-4  # Adam's learning rate
    tau: float = 0.1  # share of the critics mixed into the targets at each step; steps·tau should be 2/(1 − γ) or more
    discount: float = 0.99  # γ

    def __post_init__(self) -> None:
        base.validate(self)

    def evaluate(self, act: Act, pool: Pool, seed: int = 0, name: str = "the policy") -> "Estimate":
        """The value of a policy, any function from observations [n, O] to actions [n, A], on a pool's task."""
        problem = _problem(self, act, pool, seed)
        state = _init(self, jax.random.key(seed), pool.observation_size + pool.action_size)
        key = jax.random.key(seed + 1)
        with progress.bar(f"fitting the value of {name}", self.steps) as advance:
            for done in range(0, self.steps, BURST):
                count = min(BURST, self.steps - done)
                state, loss = _advance(self, state, pool, problem, key, count)
                advance(count, note=f"loss {float(loss):.3g}")
        values = np.asarray(_start_values(state.target, pool, problem), np.float64)
        if not np.all(np.isfinite(values)):
            raise TrainingError(f"the value of {name} became {values.mean()}; lower the learning rate")
        return Estimate(pool.info.task, tuple(values.tolist()), self.discount)


@dataclass(frozen=True)
class Estimate:
    """What the members say of a policy's value at the start states."""

    task: str
    values: tuple[float, ...]  # Σ γᵗ r, a number a member
    discount: float  # γ

    @cached_property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @cached_property
    def interval(self) -> tuple[float, float]:
        """95 %, by the normal distribution with the bootstrap's standard error: the members' deviation."""
        half = 1.96 * float(np.std(self.values, ddof=1)) if len(self.values) > 1 else float("nan")
        return self.mean - half, self.mean + half

    @cached_property
    def level(self) -> float:
        """The reward a step that would have this value if it came at every step: (1 − γ)·value."""
        return (1 - self.discount) * self.mean

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.task}: estimated value {self.mean:.2f} [{low:.2f}, {high:.2f}] at the start states, discounted by "
            f"{self.discount:g} (as {self.level:.3g} a step)"
        )


class State(NamedTuple):
    step: Array
    critic: MLP  # [E, …]
    target: MLP  # [E, …]
    opt_state: Any  # Adam's


class Problem(NamedTuple):
    """What of a policy and a pool the fit reads, on the device; M transitions in the pool's order."""

    next_actions: Array  # [M, A] π(s')
    episode: Array  # [M] int32, counted over the pool
    weights: Array  # [E, episodes] float32: how often member n drew the episode
    starts: Array  # [S, O] start states of own episodes
    start_actions: Array  # [S, A] π(s₀)
    centre: Array  # values are learnt relative to it …
    scale: Array  # … and in this unit
    bounds: Array  # [2] least and greatest value that rewards within the pool's bounds can give


def evaluate(act: Act, pool: Pool, seed: int = 0, **options: Any) -> Estimate:
    """`FQE(**options).evaluate(act, pool, seed)`."""
    return FQE(**options).evaluate(act, pool, seed)


def ranked(policies: dict[str, Act], pool: Pool, seed: int = 0, **options: Any) -> list[tuple[str, Estimate]]:
    """Several policies on one pool, the best first; all see the same batches and the same bootstrap samples."""
    fqe = FQE(**options)
    found = [(name, fqe.evaluate(act, pool, seed, name)) for name, act in policies.items()]
    return sorted(found, key=lambda pair: -pair[1].mean)


def evaluate_run(run: Run, pool: Pool, seed: int = 0, **options: Any) -> list[tuple[int, Estimate]]:
    """Every seed's policy of a run, discounted as the run was unless the options say otherwise."""
    options = {"discount": getattr(run.algorithm, "discount", FQE.discount)} | options
    fqe = FQE(**options)
    return [
        (
            trained,
            fqe.evaluate(partial(training.act, run.algorithm, run.policy(trained)), pool, seed, f"seed {trained}"),
        )
        for trained in run.seeds
    ]


def behaviour(pool: Pool, discount: float) -> float:
    """The mean of Σ γᵗ r over the own episodes as they were recorded, cut where they end."""
    starts = _bounds(pool, 0) - int(pool.ranges.start[0])
    rewards = np.asarray(pool.take(jnp.arange(starts[-1])).rewards, np.float64)
    time = np.arange(len(rewards)) - np.repeat(starts[:-1], np.diff(starts))
    return float(np.sum(rewards * discount**time) / (len(starts) - 1))


def _problem(fqe: FQE, act: Act, pool: Pool, seed: int) -> Problem:
    """Ask the policy once for every action that the fit will need, and draw the bootstrap samples."""
    lengths = [np.diff(_bounds(pool, source)) for source in range(len(pool.info.sizes))]
    episode = np.repeat(np.arange(sum(map(len, lengths))), np.concatenate(lengths)).astype(np.int32)
    firsts = np.concatenate([[0], np.cumsum(lengths[0])[:-1]])  # own episodes come first in the pool
    starts = np.asarray(pool.take(jnp.asarray(firsts)).observations)
    next_actions = np.empty((pool.size, pool.action_size), np.float32)
    rewards, ends = np.empty(pool.size, np.float32), False
    for begin in range(0, pool.size, BLOCK):
        rows = slice(begin, min(begin + BLOCK, pool.size))
        batch = pool.take(jnp.arange(rows.start, rows.stop))
        next_actions[rows] = act(np.asarray(batch.next_observations))
        rewards[rows] = batch.rewards
        ends = ends or bool(np.any(batch.terminations))
    horizon = 1 / (1 - fqe.discount)
    return Problem(
        jnp.asarray(next_actions),
        jnp.asarray(episode),
        jnp.asarray(_bootstrap([len(found) for found in lengths], fqe.num_critics, seed)),
        jnp.asarray(starts),
        jnp.asarray(act(starts), jnp.float32),
        jnp.float32(rewards.mean() * horizon),
        jnp.float32(max(rewards.std(), 1e-6) * horizon),
        jnp.asarray(_reachable(rewards.min(), rewards.max(), horizon, ends), jnp.float32),
    )


def _bounds(pool: Pool, source: int) -> np.ndarray:
    """The transitions at which a source's episodes start, and its end."""
    first = int(pool.ranges.episode[source])
    return np.asarray(pool.columns.episodes[first : first + int(pool.ranges.episodes[source]) + 1])


def _bootstrap(episodes: Sequence[int], members: int, seed: int) -> np.ndarray:
    """How often each member draws each episode, [E, sum(episodes)]: as many draws a source as it has episodes."""
    random = np.random.default_rng(seed)
    drawn = [random.multinomial(count, np.full(count, 1 / count), size=members) for count in episodes]
    return np.concatenate(drawn, axis=1).astype(np.float32)


def _reachable(least: float, greatest: float, horizon: float, ends: bool) -> tuple[float, float]:
    """The least and the greatest value with rewards within these bounds; an end cuts a sum short, at one at best."""
    if not ends:
        return least * horizon, greatest * horizon
    return min(least, least * horizon), max(greatest, greatest * horizon)


@partial(jax.jit, static_argnums=(0, 2))
def _init(fqe: FQE, key: Array, inputs: int) -> State:
    critic = init_ensemble(key, fqe.num_critics, (inputs, *(fqe.width,) * fqe.layers, 1), layer_norm=True)
    target = jax.tree.map(jnp.copy, critic)
    return State(jnp.zeros((), jnp.int32), critic, target, base.adam_init(critic, fqe.lr))


@partial(base.jit, static_argnums=0, donate_argnums=1)
def _advance(fqe: FQE, state: State, pool: Pool, problem: Problem, key: Array, steps: int) -> tuple[State, Array]:
    """`steps` gradient steps; the last one's loss beside the state."""

    def body(_: int, carry: tuple[State, Array]) -> tuple[State, Array]:
        return _step(fqe, carry[0], pool, problem, jax.random.fold_in(key, carry[0].step))

    return jax.lax.fori_loop(0, steps, body, (state, jnp.zeros(())))


def _step(fqe: FQE, state: State, pool: Pool, problem: Problem, key: Array) -> tuple[State, Array]:
    rows = jax.random.randint(key, (fqe.batch_size,), 0, len(problem.episode))
    batch, weights = pool.take(rows), problem.weights[:, problem.episode[rows]]  # [E, B]
    after = _values(state.target, pool, problem, batch.next_observations, problem.next_actions[rows])
    targets = batch.rewards + fqe.discount * (1 - batch.terminations) * after
    targets = jnp.clip(targets, *problem.bounds)

    def loss(critic: MLP) -> Array:
        error = _values(critic, pool, problem, batch.observations, batch.actions) - targets
        return jnp.sum(jnp.mean(weights * (error / problem.scale) ** 2, axis=1))

    value, grads = jax.value_and_grad(loss)(state.critic)
    critic, opt_state = base.adam_step(grads, state.critic, state.opt_state, fqe.lr)
    return State(state.step + 1, critic, optax.incremental_update(critic, state.target, fqe.tau), opt_state), value


def _values(critic: MLP, pool: Pool, problem: Problem, observations: Array, actions: Array) -> Array:
    """Q_n(s, a) [E, B]."""
    return problem.centre + problem.scale * q_values(critic, Normalizer(pool.mean, pool.std)(observations), actions)


@jax.jit
def _start_values(critic: MLP, pool: Pool, problem: Problem) -> Array:
    """Each member's mean value of the start states as it drew their episodes: [E]."""
    values = _values(critic, pool, problem, problem.starts, problem.start_actions)
    values = jnp.clip(values, *problem.bounds)
    weights = problem.weights[:, : len(problem.starts)]
    return jnp.sum(weights * values, axis=1) / jnp.sum(weights, axis=1)
