"""Fitted Q evaluation (Le et al., 2019): what a policy is worth, estimated from data alone, without an environment.

What is estimated is the value of an episode as long as the recorded ones: Σ γᵗ r over H steps from the start states of
the main task's own episodes, H being what `horizon_of` finds. Critics are fitted to the Bellman equation of one fixed
policy π on the pool's transitions, each drawn with a number h of steps to go:

    y_n = r + γ·(1 − d)·Q⁻_n(s', π(s'), h − 1)    Q_n(·, ·, 0) = 0    loss Σ_n mean w_n·(Q_n(s, a, h) − y_n)²

and the value is mean Q_n(s₀, π(s₀), H). `recorded` is the same sum over the recorded episodes, so both can be compared.

Critic n sees a bootstrap sample of the episodes, w_n = how often each was drawn. So the critics' spread tells how much
the estimate owes to the data that happened to be there, and to where the critics started; intervals are cut to what the
rewards of the data can sum to. It can't tell what no episode shows: `outside` says how often a policy does what nobody
in the data does.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from scipy import special  # its Student's t: scipy.stats takes half a second to load

from utds import terminal
from utds.algorithms import base
from utds.algorithms.base import Count, Positive, at_most, interval, validate
from utds.data.pool import Pool
from utds.errors import ConfigError, TrainingError
from utds.evaluation.rollout import Act, check_seed
from utds.networks import MLP, Normalizer, ensemble, init_ensemble, jit

BURST = 250  # gradient steps between looks at the progress bar
BLOCK = 1 << 16  # observations handed to the policy at once


@dataclass(frozen=True)
class FQE:
    num_critics: Annotated[Count, at_most(10_000)] = 5  # each on its own bootstrap sample of the episodes
    width: Annotated[Count, at_most(100_000)] = 128  # units of a hidden layer
    layers: Annotated[Count, at_most(100)] = 2  # hidden layers, with layer norm
    batch_size: Annotated[Count, at_most(10_000_000)] = 256  # transitions per gradient step
    steps: Count = 2_000  # gradient steps
    lr: Positive = 3e-3  # Adam's learning rate, falling linearly to nothing
    tau: Annotated[float, interval("(0, 1]")] = 0.1  # share of the critics mixed into the targets at each step
    discount: Annotated[float, interval("[0, 1)")] = 0.99  # γ
    horizon: Count | None = None  # H, steps of an episode; as the recorded ones if not given

    def __post_init__(self) -> None:
        validate(self)

    def evaluate(self, policies: Mapping[str, Act], pool: Pool, seed: int = 0) -> dict[str, "Estimate"]:
        """The value of each policy on a pool's task.

        All policies see the same batches, bootstrap samples and initial critics, so that what these do to the estimates
        is largely the same for all: `difference` of two estimates is surer than either.

        Args:
            policies: any functions from observations [n, O] to actions [n, A], by name. What lies beyond ±1 is cut, as
                a simulator does.
            pool: the data.
            seed: of the bootstrap samples, the batches and the initial critics.

        Returns:
            An estimate for each name, in the order given.
        """
        check_seed(seed)
        horizon = self.horizon or horizon_of(pool)
        problem, sums = _problem(self, pool, horizon, seed), possible(pool, self.discount, horizon)
        return {name: Estimate(_fit(self, act, problem, seed, name), sums) for name, act in policies.items()}


@dataclass(frozen=True)
class Estimate:
    """What the critics say of a policy's value at the start states."""

    values: tuple[float, ...]  # Σ γᵗ r over the horizon, a number per critic
    possible: tuple[float, float] = (-math.inf, math.inf)  # the least and the greatest that the data's rewards sum to

    @cached_property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @cached_property
    def half_width(self) -> float:
        """95 %: the critics' deviation is the bootstrap's standard error; by Student's t, since critics are few."""
        if len(self.values) < 2:
            return math.nan
        return float(special.stdtrit(len(self.values) - 1, 0.975) * np.std(self.values, ddof=1))

    @cached_property
    def interval(self) -> tuple[float, float]:
        """95 %: the mean plus or minus the half width, cut to what is possible."""
        return within(self.mean, self.half_width, self.possible)

    def __str__(self) -> str:
        return text(self.mean, *self.interval)


class Recorded(NamedTuple):
    """What the main task's own episodes were worth as recorded, over the same horizon."""

    mean: float
    low: float  # 95 %, by Student's t over episodes, cut to what is possible; NaN for a single one
    high: float
    episodes: int

    def __str__(self) -> str:
        return text(*self[:3])


def text(value: float, low: float, high: float) -> str:
    """The value with its interval, where there is one; what is nothing beside the largest of them is 0."""
    if math.isnan(low):
        return f"{value:z.4g}"
    least = 1e-4 * max(abs(value), abs(low), abs(high))
    value, low, high = (number if abs(number) >= least else 0.0 for number in (value, low, high))
    return f"{value:z.4g} [{low:z.4g}, {high:z.4g}]"


def within(value: float, half_width: float, possible: tuple[float, float]) -> tuple[float, float]:
    """The interval of this half width, cut to what is possible; NaN where there is none."""
    if math.isnan(half_width):
        return math.nan, math.nan
    return max(value - half_width, possible[0]), min(value + half_width, possible[1])


def difference(a: Estimate, b: Estimate) -> Estimate:
    """How much more `a` is worth than `b`, critic by critic: both must come from one call of `evaluate`."""
    possible = (a.possible[0] - b.possible[1], a.possible[1] - b.possible[0])
    return Estimate(tuple(x - y for x, y in zip(a.values, b.values, strict=True)), possible)


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """Of several policies of one call of `evaluate`, critic by critic."""
    values = np.mean([estimate.values for estimate in estimates], axis=0)
    return Estimate(tuple(values.tolist()), estimates[0].possible)


def possible(pool: Pool, discount: float, horizon: int) -> tuple[float, float]:
    """The least and the greatest Σ γᵗ r over H steps that the rewards of a pool allow."""
    _, terminations = _labels(pool)
    bounds = np.array([pool.reward_min, pool.reward_max], np.float64)
    low, high = _reachable(bounds, jnp.any(terminations), np.sum(discount ** np.arange(horizon)))
    return float(low), float(high)


def horizon_of(pool: Pool) -> int:
    """Steps of a recorded episode of the main data: the median of those that were cut, or the longest if all ended."""
    lengths, ended = _own_episodes(pool)
    return int(lengths.max() if ended.all() else np.median(lengths[~ended]))


def recorded(pool: Pool, discount: float, horizon: int | None = None) -> Recorded:
    """The mean of Σ γᵗ r over H steps of the own episodes.

    An episode that was cut before counts for the steps it has: step t's mean reward is over the episodes that weren't
    cut before, one that truly ended earning nothing from there on.
    """
    lengths, ended = _own_episodes(pool)
    horizon = horizon_of(pool) if horizon is None else horizon
    longest = int(lengths.max())
    if horizon > longest and not ended.any():
        raise ConfigError(f"horizon={horizon} is longer than any recorded episode, {longest} steps; give fewer")
    rewards, episode = np.asarray(pool.own_rewards, np.float64), np.repeat(np.arange(len(lengths)), lengths)
    time = np.arange(len(rewards)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    counted = time < horizon
    rewards, episode, time = rewards[counted], episode[counted], time[counted]
    early = ended & (lengths < horizon)
    # Of episodes, at step t: those that go on, and those that ended before.
    known = np.bincount(time, minlength=horizon) + np.bincount(lengths[early], minlength=horizon).cumsum()
    discounts = discount ** np.arange(horizon)
    weight, means = discounts / known, np.bincount(time, rewards, horizon) / known
    # How far each episode lies from the mean: their sum of squares is the estimate's variance.
    apart = np.bincount(episode, weight[time] * (rewards - means[time]), len(lengths))
    rest = np.append(np.cumsum((weight * means)[::-1])[::-1], 0.0)
    apart[early] -= rest[lengths[early]]
    value, count, half = float(discounts @ means), len(lengths), math.nan
    if count > 1:
        half = float(special.stdtrit(count - 1, 0.975) * np.sqrt(np.sum(apart**2) * count / (count - 1)))
    return Recorded(value, *within(value, half, possible(pool, discount, horizon)), count)


class State(NamedTuple):
    critic: MLP  # [E, …]
    target: MLP  # [E, …]
    opt_state: Any  # Adam's


class Problem(NamedTuple):
    """What the fit reads, on the device; M transitions in the pool's order."""

    pool: Pool
    episode: Array  # [M] int32, counted over the pool
    weights: Array  # [E, episodes] float32: how often critic n drew the episode
    starts: Array  # [S, O] start states of own episodes
    annuity: Array  # [H + 1] Σ γᵗ over h steps: what a reward of 1 at each is worth
    centre: Array  # values per unit of annuity are learnt relative to it …
    scale: Array  # … and in this unit
    bounds: Array  # [2] least and greatest reward
    ends: Array  # whether any episode truly ends: a sum may then stop at one reward


def _fit(fqe: FQE, act: Act, problem: Problem, seed: int, name: str) -> tuple[float, ...]:
    """Each critic's value of the start states; the policy is asked once for every action that this takes."""
    pool, indices = problem.pool, jnp.arange(problem.pool.size)
    blocks = (pool.take(indices[begin : begin + BLOCK]) for begin in range(0, pool.size, BLOCK))
    after = jnp.asarray(np.concatenate([_asked(act, block.next_observations, pool, name) for block in blocks]))
    at_start = jnp.asarray(_asked(act, problem.starts, pool, name))
    state = _init(fqe, jax.random.key(seed), pool.observation_size + pool.action_size + 1)
    key = jax.random.key(seed + 1)
    with terminal.bar(f"fitting the value of {name}", fqe.steps) as advance:
        for first in range(0, fqe.steps, BURST):
            last = min(first + BURST, fqe.steps)
            state, loss = _advance(fqe, state, problem, after, key, first, last)
            advance(last - first, note=f"loss {float(loss):.3g}")
    values = np.asarray(_start_values(state.target, problem, at_start), np.float64)
    if not np.all(np.isfinite(values)):
        raise TrainingError(f"the value of {name} became {values.mean()}; lower the learning rate")
    return tuple(values.tolist())


def _problem(fqe: FQE, pool: Pool, horizon: int, seed: int) -> Problem:
    lengths = _lengths(pool)
    counts = [len(found) for found in lengths]
    labels, terminations = _labels(pool)
    rewards = np.asarray(labels, np.float64)
    return Problem(
        pool=pool,
        episode=jnp.asarray(np.repeat(np.arange(sum(counts)), np.concatenate(lengths)), jnp.int32),
        weights=jnp.asarray(_bootstrap(counts, fqe.num_critics, seed)),
        starts=pool.take(jnp.asarray(np.cumsum(lengths[0]) - lengths[0])).observations,  # own episodes come first
        annuity=jnp.asarray(np.append(0, np.cumsum(fqe.discount ** np.arange(horizon))), jnp.float32),
        centre=jnp.float32(rewards.mean()),
        scale=jnp.float32(max(rewards.std(), 1e-6)),
        bounds=jnp.stack([pool.reward_min, pool.reward_max]),
        ends=jnp.any(terminations),
    )


@jax.jit
def _labels(pool: Pool) -> tuple[Array, Array]:
    """Reward and termination of every transition, in the pool's order: [M], [M]."""
    batch = pool.take(jnp.arange(pool.size))  # compiled: what isn't returned takes no memory
    return batch.rewards, batch.terminations


def _asked(act: Act, observations: Array, pool: Pool, name: str) -> np.ndarray:
    """What a policy does at observations [n, O]: [n, A] in [-1, 1], as a simulator would take it."""
    actions, shape = np.asarray(act(np.asarray(observations)), np.float32), (len(observations), pool.action_size)
    if actions.shape != shape:
        raise ConfigError(f"{name} gives actions of shape {actions.shape}; {shape} is needed, a row per observation")
    if not np.all(np.isfinite(actions)):
        raise ConfigError(f"{name} gives actions that are no finite numbers; correct the policy")
    return np.clip(actions, -1, 1)


def _lengths(pool: Pool) -> list[np.ndarray]:
    """Lengths of each source's episodes."""
    bounds, *ranges = map(np.asarray, (pool.columns.episodes, pool.ranges.episode, pool.ranges.episodes))
    return [np.diff(bounds[first : first + count + 1]) for first, count in zip(*ranges, strict=True)]


def _own_episodes(pool: Pool) -> tuple[np.ndarray, np.ndarray]:
    """Lengths [E] of the main data's episodes, and whether each truly ended [E]."""
    lengths, (_, terminations) = _lengths(pool)[0], _labels(pool)
    return lengths, np.asarray(terminations)[np.cumsum(lengths) - 1] > 0  # own episodes come first in the pool


def _bootstrap(episodes: Sequence[int], num_critics: int, seed: int) -> np.ndarray:
    """How often each critic draws each episode, [E, sum(episodes)]: as many draws per source as it has episodes."""
    random = np.random.default_rng(seed)
    drawn = [random.multinomial(count, np.full(count, 1 / count), size=num_critics) for count in episodes]
    return np.concatenate(drawn, axis=1).astype(np.float32)


@partial(jax.jit, static_argnums=(0, 2))
def _init(fqe: FQE, key: Array, inputs: int) -> State:
    critic = init_ensemble(key, fqe.num_critics, (inputs, *(fqe.width,) * fqe.layers, 1), layer_norm=True)
    target = jax.tree.map(jnp.copy, critic)
    return State(critic, target, base.adam_init(critic))


@partial(jit, static_argnums=0, donate_argnums=1)
def _advance(
    fqe: FQE, state: State, problem: Problem, after: Array, key: Array, first: int, last: int
) -> tuple[State, Array]:
    """Gradient steps `first` to `last` (exclusive), given π(s') [M, A]; the last one's loss beside the state."""

    def step(index: Array, carry: tuple[State, Array]) -> tuple[State, Array]:
        state, (which, when) = carry[0], jax.random.split(jax.random.fold_in(key, index))
        rows = jax.random.randint(which, (fqe.batch_size,), 0, len(problem.episode))
        to_go = jax.random.randint(when, (fqe.batch_size,), 1, len(problem.annuity))
        batch, weights = problem.pool.take(rows), problem.weights[:, problem.episode[rows]]  # [E, B]
        onward = _values(state.target, problem, batch.next_observations, after[rows], to_go - 1)
        targets = batch.rewards + fqe.discount * (1 - batch.terminations) * onward

        def loss(critic: MLP) -> Array:
            error = _values(critic, problem, batch.observations, batch.actions, to_go, clip=False) - targets
            return jnp.sum(jnp.mean(weights * (error / (problem.scale * problem.annuity[-1])) ** 2, axis=1))

        value, grads = jax.value_and_grad(loss)(state.critic)
        lr = base.annealed_lr(fqe.lr, index, fqe.steps)
        critic, opt_state = base.adam_step(grads, state.critic, state.opt_state, lr)
        return State(critic, optax.incremental_update(critic, state.target, fqe.tau), opt_state), value

    return jax.lax.fori_loop(first, last, step, (state, jnp.zeros(())))


def _values(
    critic: MLP, problem: Problem, observations: Array, actions: Array, to_go: Array, clip: bool = True
) -> Array:
    """Q_n(s, a, h) [E, B]: a mean reward times the annuity, clipped to what the rewards can sum to."""
    annuity = problem.annuity[to_go]
    rest = annuity / problem.annuity[-1]
    inputs = [Normalizer(problem.pool.mean, problem.pool.std)(observations), actions, 2 * rest[:, None] - 1]
    level = problem.centre + problem.scale * ensemble(critic, jnp.concatenate(inputs, axis=-1))
    return jnp.clip(annuity * level, *_reachable(problem.bounds, problem.ends, annuity)) if clip else annuity * level


def _reachable(bounds: Any, ends: Any, annuity: Any) -> tuple[Array, Array]:
    """The least and the greatest value of so many steps; a true end cuts a sum short, at one reward at best."""
    least, greatest = bounds
    shortest = jnp.where(ends, jnp.minimum(1.0, annuity), annuity)
    return least * jnp.where(least > 0, shortest, annuity), greatest * jnp.where(greatest < 0, shortest, annuity)


@jax.jit
def _start_values(critic: MLP, problem: Problem, actions: Array) -> Array:
    """Each critic's mean value of the start states, given π(s₀) [S, A], as it drew their episodes: [E]."""
    to_go = jnp.full(len(problem.starts), len(problem.annuity) - 1)
    values = _values(critic, problem, problem.starts, actions, to_go)
    weights = problem.weights[:, : len(problem.starts)]
    return jnp.sum(weights * values, axis=1) / jnp.sum(weights, axis=1)


STATES = 1_000  # at which the policy is asked, at most
REFERENCES = 20_000  # transitions among which similar states are looked for, at most
NEIGHBOURS = 10  # similar states for each
USUAL = 0.95  # of the recorded actions lie within the usual distance


def outside(act: Act, pool: Pool, seed: int = 0) -> float:
    """The share of states at which the policy's action lies unusually far from all that was done in similar states.

    Where it does, an estimate from that data is a guess. For states drawn from the pool, the most similar states of
    other episodes are looked up, and the distance from an action to the nearest of those taken there is measured. A
    state is outside where the distance of the policy's action exceeds that of 95 % of the recorded actions.

    Args:
        act: the policy, from observations [n, O] to actions [n, A]; what lies beyond ±1 is cut.
        pool: the data.
        seed: of the states that are drawn.

    Returns:
        A share from 0 to 1; a policy that does what the data does gets about 0.05.
    """
    check_seed(seed)
    random = np.random.default_rng(seed)
    chosen = random.permutation(pool.size)[: STATES + REFERENCES]
    asked = chosen[: min(STATES, max(1, len(chosen) // 5))]
    others = chosen[len(asked) :] if len(chosen) > len(asked) else chosen
    batch, beside = (pool.take(jnp.asarray(rows)) for rows in (asked, others))
    normal = Normalizer(pool.mean, pool.std)
    states, places = (np.asarray(normal(part.observations)) for part in (batch, beside))
    squares = (states**2).sum(1)[:, None] - 2 * states @ places.T + (places**2).sum(1)  # [Q, R]
    lengths, firsts = _lengths(pool), np.asarray(pool.ranges.episode)
    numbers = [first + np.arange(len(found)) for first, found in zip(firsts, lengths, strict=True)]
    episode = np.repeat(np.concatenate(numbers), np.concatenate(lengths))  # [M], counted over the lake
    same = episode[asked, None] == episode[others]
    squares[same & ~same.all(axis=1, keepdims=True)] = np.inf  # its own next steps prove nothing, if there are others
    count = min(NEIGHBOURS, len(others))
    near = np.argpartition(squares, count - 1, axis=1)[:, :count]
    done = np.asarray(beside.actions)[near]  # [Q, k, A]

    def distance(actions: np.ndarray) -> np.ndarray:
        return np.linalg.norm(done - actions[:, None], axis=-1).min(axis=1)

    usual = np.quantile(distance(np.asarray(batch.actions)), USUAL)
    return float(np.mean(distance(_asked(act, batch.observations, pool, "the policy")) > usual + 1e-6))
