"""What training promises: a cautious plan through the data, alone and shared, less what is uncertain about it.

The uncertainty is Γ_lcb of Corollary 1, in a fixed space of features, where good behaviour goes. The corollary needs
the states of π*, which is unknown before training. Its stand-in is the best behaviour on record: the best episodes,
under the main task's reward, of all datasets at hand. It is the same for every candidate. The features are random
Fourier features of normalised state-actions, φ(x) = √(2/d) cos(Wx/ℓ + b) with Gaussian W and uniform b, so that
φ(x)ᵀφ(y) ≈ exp(−‖x − y‖²/2ℓ²) (Rahimi and Recht, 2007). ‖φ‖ ≈ 1: with λ = 1 the width Γ_lcb = [φᵀΛ⁻¹φ]^½ is 1 where
nothing is known and falls as 1/√n near n samples.

For the plan, the data is cut into stretches of a few recorded steps. A plan starts where the task starts, follows a
stretch to its end, and goes on with the next one of the episode or with a stretch, of any dataset, that begins near. A
way is as long as the quick steps that it takes, of the feature that needs most, and costs the greatest reward times the
square of that: within a step is almost there, but three steps in which nobody was recorded may lead through a wall. The
best plan over the task's episode is found by backward induction, its value is in units of return: where good episodes
are on record it is near theirs, and sharing raises it where another dataset knows a stretch that the task's own data
lacks.

Corollary 1 bounds what a pessimistic policy falls short of the best one by the expected uncertainty in the best one's
states. The plan stands in for the best policy that the data allows, and what may be lost is a share of what it earns:
where it earns nothing, there is nothing to lose. The uncertainty is that of any action there, not of the plan's alone:
a policy is found by comparing actions, and a few episodes of an expert say nothing about the others.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from utds import domains, terminal
from utds.data.columns import spaced
from utds.data.dataset import Dataset
from utds.domains.simulator import Simulator
from utds.linear.learners import inverse_root
from utds.networks import Normalizer, divisor

Floats = NDArray[np.float32]
Array = NDArray[np.float64]
Subset = tuple[int, ...]  # candidates, counted from 0; () is the main data alone

GOOD = 0.05  # share of all episodes that count as good behaviour
AT_LEAST = 5  # episodes of good behaviour, where there are as many
RIDGE = 1.0  # λ
WIDTH = 1024  # random features
REACH = 0.5  # their length scale, as a share of the median distance between state-actions
LIMIT = 200_000  # transitions of a dataset that are read for Γ
QUERIES = 4000  # state-actions of good behaviour at which Γ is measured
PASS = 1 << 13  # transitions whose features are computed at once: they stay in the cache's neighbourhood
SCALE_ROWS = 20_000  # transitions of a dataset from which the common scale is taken
PAIRS = 1000  # state-actions of each dataset whose distances give the length scale

CAUTION = 0.5  # share of what a plan earns that is lost where nothing is known, Γ = 1
QUICK = 0.99  # share of recorded steps that change a feature by less than a quick one
STRIDE = 10  # most steps of a stretch
STRETCHES = 6000  # of a dataset, at most: episodes beyond are left out, half of the rest are the best ones
NEAREST = 4  # stretches of each dataset that a plan can go on with
STARTS = 32  # start states
SAMPLE = 20_000  # transitions of a dataset that tell how far a step goes
BLOCK = 1000  # states whose distances are computed at once
STILL = 0.01  # deviations that a quick step changes a feature by at least, though it never changes in an episode


def pairs(dataset: Dataset, index: NDArray[np.int64]) -> Floats:
    """State-actions [n, O + A] of these transitions."""
    return np.concatenate([dataset.observations[dataset.rows[index]], dataset.actions[index]], axis=1)


def normalizer_of(datasets: Sequence[Dataset]) -> Normalizer:
    """Of state-actions, common to these datasets: each counts alike, however large."""
    parts = [pairs(data, spaced(data.size, SCALE_ROWS)).astype(np.float64) for data in datasets]
    mean = np.mean([part.mean(axis=0) for part in parts], axis=0)
    square = np.mean([((part - mean) ** 2).mean(axis=0) for part in parts], axis=0)
    return Normalizer(mean.astype(np.float32), divisor(np.sqrt(square)).astype(np.float32))


class Features(NamedTuple):
    """The feature map, the same for all datasets that are compared."""

    normalizer: Normalizer
    weight: Floats  # [O + A, d], length scale included
    phase: Floats  # [d]

    def __call__(self, pairs: Floats) -> Floats:
        """φ [n, d] of state-actions [n, O + A]."""
        angles = self.normalizer(pairs) @ self.weight
        angles += self.phase
        np.cos(angles, out=angles)
        angles *= np.float32(np.sqrt(2 / len(self.phase)))
        return angles


def make_features(datasets: Sequence[Dataset], width: int, seed: int, reach: float) -> Features:
    """`width` features for these datasets; `reach` is the length scale ℓ as a share of the median distance."""
    random = np.random.default_rng(seed)
    normalizer = normalizer_of(datasets)
    some = np.concatenate([normalizer(pairs(data, spaced(data.size, PAIRS))) for data in datasets])
    left, right = random.permutation(len(some)), random.permutation(len(some))
    length = reach * float(np.median(np.linalg.norm(some[left] - some[right], axis=1)))
    weight = random.standard_normal((some.shape[1], width)) / max(length, 1e-6)
    return Features(normalizer, weight.astype(np.float32), random.uniform(0, 2 * np.pi, width).astype(np.float32))


def gram(dataset: Dataset, features: Features, limit: int) -> Array:
    """The Gram matrix Σ φφᵀ [d, d] of a dataset: passes in float32, their sum in float64.

    Of a dataset with more than `limit` transitions as many are read, evenly spaced, and counted for all.
    """
    index = spaced(dataset.size, limit)
    total = np.zeros((len(features.phase),) * 2)
    for start in range(0, len(index), PASS):
        phi = features(pairs(dataset, index[start : start + PASS]))
        total += phi.T @ phi
    return total * (dataset.size / len(index))


def width_of(gram: Array) -> Callable[[Floats], Floats]:
    """Γ_lcb [n] as a function of features [n, d]; Λ = Σ φφᵀ + λI is factored once."""
    root = inverse_root(gram + RIDGE * np.eye(len(gram))).astype(np.float32)
    return lambda phi: np.linalg.norm(phi @ root.T, axis=1)


def good_behaviour(datasets: Sequence[Dataset], returns: Sequence[Array]) -> Floats:
    """State-actions [n, O + A] of the best episodes of all datasets, given the returns [E] of each dataset's episodes
    under the main task."""
    source = np.repeat(np.arange(len(datasets)), [len(found) for found in returns])
    episode = np.concatenate([np.arange(len(found)) for found in returns])
    joined = np.concatenate(returns)
    count = min(len(joined), max(AT_LEAST, round(GOOD * len(joined))))
    best = np.argsort(-joined, kind="stable")[:count]
    parts = []
    for which, index in zip(source[best], episode[best], strict=True):
        first, last = datasets[which].starts[index : index + 2]
        parts.append(pairs(datasets[which], first + spaced(last - first, -(-QUERIES // count))))
    return np.concatenate(parts)


def any_action(pairs: Floats, action_size: int) -> Floats:
    """The same states, each with an action drawn at random: who knows only the good one can't tell why it is good."""
    found = pairs.copy()
    actions = found[:, -action_size:]
    actions[:] = np.random.default_rng(0).uniform(-1, 1, actions.shape)
    return found


class Coverage:
    """Measures Γ_lcb of the main data, the first, joined with any others, in one space of features."""

    def __init__(self, datasets: Sequence[Dataset], seed: int = 0, *, width: int = WIDTH) -> None:
        self.features = make_features(datasets, width, seed, REACH)
        self._grams: list[Array] = []
        with terminal.bar("measuring coverage", len(datasets), "datasets") as advance:
            for data in datasets:
                self._grams.append(gram(data, self.features, LIMIT))
                advance(note=data.name)

    def width(self, subset: Subset = ()) -> Callable[[Floats], Floats]:
        """Γ_lcb of the main data and these candidates, as a function of features."""
        return width_of(self._grams[0] + sum(self._grams[1 + index] for index in subset))

    def gamma(self, pairs: Floats, subset: Subset = ()) -> float:
        """Its mean at state-actions [n, O + A]."""
        return float(self.width(subset)(self.features(pairs)).mean())


class Prediction(NamedTuple):
    """What training promises with a choice of data."""

    plan: float  # return of the best plan
    value: float  # what is left of it, for what is uncertain


def predictions(datasets: Sequence[Dataset], labels: Sequence[Floats], gammas: Sequence[float]) -> list[Prediction]:
    """The prediction for the main data, the first, alone, and with each of the others.

    `gammas` are Γ of any action in the states of good behaviour, for the same choices.
    """
    planner = Planner(datasets, labels)
    found = []
    with terminal.bar("planning", len(datasets), "plans") as advance:
        for index, gamma in enumerate(gammas):
            plan = planner.value((index - 1,) if index else ())
            found.append(Prediction(plan, planner.worst + (plan - planner.worst) * (1 - CAUTION * gamma)))
            advance()
    return found


class Stretches(NamedTuple):
    """Recorded stretches of one dataset, those of an episode one after another."""

    begin: Floats  # [n, O] in quick steps
    end: Floats  # [n, O] in quick steps
    reward: Floats  # [n] summed
    last: NDArray[np.bool_]  # [n] of its episode
    final: NDArray[np.bool_]  # [n] nothing comes after it: the episode terminated


class Join(NamedTuple):
    """Where plans can go on: stretches of one dataset that begin near some states."""

    stretch: NDArray[np.int64]  # [n, k]
    distance: Floats  # [n, k] in quick steps


class Planner:
    """Values of the best plans with the main data and any candidates; `labels` are rewards under the main task."""

    def __init__(self, datasets: Sequence[Dataset], labels: Sequence[Floats]) -> None:
        self._step = quick_step(datasets)
        self._stride = min(STRIDE, max(-(-data.size // STRETCHES) for data in datasets))
        self._parts = [self._cut(data, reward) for data, reward in zip(datasets, labels, strict=True)]
        starts, self._horizon = _task(datasets)
        self._starts = starts / self._step
        self._least = float(min(reward.min() for reward in labels))
        if any(data.terminations.any() for data in datasets):
            self._least = min(self._least, 0.0)  # nothing is earned after the end
        self._stake = float(max(reward.max() for reward in labels)) - self._least
        self._joins: dict[tuple[int, int], Join] = {}

    @property
    def worst(self) -> float:
        """The least return: no plan is worth less."""
        return self._horizon * self._least

    def value(self, subset: Subset = ()) -> float:
        """Mean over start states, with the main data and these candidates, counted from 0."""
        chosen = (0, *(1 + index for index in subset))
        parts = [self._parts[i] for i in chosen]
        offsets = np.cumsum([0, *(len(part.begin) for part in parts)])
        ways = [self._ways([self._join(i, j) for j in chosen], offsets) for i in chosen]
        index, cost = (np.concatenate(column) for column in zip(*ways, strict=True))
        joined = Stretches(*map(np.concatenate, zip(*parts, strict=True)))
        earned, count = joined.reward, len(joined.reward)
        following = np.where(joined.last, count, np.arange(count) + 1)

        value = np.zeros(count)
        for steps in range(self._stride, self._horizon, self._stride):  # that are left after a stretch
            total = np.append(earned + value, -np.inf)  # of each stretch with what comes after it
            best = np.maximum(total[following], (total[index] - cost).max(axis=1))
            value = np.where(joined.final, 0.0, np.maximum(best, steps * self._least))
        index, cost = self._ways([self._beginning(j) for j in chosen], offsets)
        best = ((earned + value)[index] - cost).max(axis=1)
        return float(np.maximum(best, self.worst).mean())

    def _ways(self, joins: Sequence[Join], offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], Array]:
        """Where to go on among the chosen datasets' stretches, one after another, and what the way costs: [n, k]."""
        index = np.concatenate([join.stretch + offset for join, offset in zip(joins, offsets, strict=False)], axis=1)
        distance = np.concatenate([join.distance for join in joins], axis=1)
        return index, self._stake * distance**2

    def _join(self, source: int, target: int) -> Join:
        if (source, target) not in self._joins:
            self._joins[source, target] = self._near(self._parts[source].end, target)
        return self._joins[source, target]

    def _beginning(self, target: int) -> Join:
        """The stretches nearest to the start states, with all that are as near: many episodes may begin alike."""
        begin = self._parts[target].begin
        distance = np.abs(begin - self._starts[:, None]).max(axis=2)
        count = min(NEAREST, len(begin))
        near = distance <= np.partition(distance, count - 1, axis=1)[:, count - 1 : count]
        nearest = distance.argmin(axis=1)[:, None]  # stands in for those farther away
        stretch = np.where(near, np.arange(len(begin)), nearest)
        return Join(stretch, np.take_along_axis(distance, stretch, axis=1))

    def _near(self, states: Floats, target: int) -> Join:
        """The stretches of a dataset that begin nearest to states [n, O]."""
        begin = self._parts[target].begin
        square, count = (begin**2).sum(axis=1), min(NEAREST, len(begin))
        found = []
        for start in range(0, len(states), BLOCK):
            some = states[start : start + BLOCK]
            distance = square - 2 * some @ begin.T  # squared, but for a term that is the same for all
            found.append(np.argpartition(distance, count - 1, axis=1)[:, :count])
        index = np.concatenate(found)
        return Join(index, np.abs(begin[index] - states[:, None]).max(axis=2))

    def _cut(self, data: Dataset, reward: Floats) -> Stretches:
        episodes = self._episodes(data, reward)
        bounds = list(zip(data.starts[episodes], data.starts[episodes + 1], strict=True))
        first = np.concatenate([np.arange(start, end, self._stride) for start, end in bounds])
        ends = np.concatenate([np.full(-(-(end - start) // self._stride), end) for start, end in bounds])
        after = np.minimum(first + self._stride, ends)
        sums = np.concatenate([[0.0], np.cumsum(reward, dtype=np.float64)])
        return Stretches(
            begin=data.observations[data.rows[first]] / self._step,
            end=data.observations[data.rows[after - 1] + 1] / self._step,
            reward=(sums[after] - sums[first]).astype(np.float32),
            last=after == ends,
            final=(after == ends) & data.terminations[after - 1],
        )

    def _episodes(self, data: Dataset, reward: Floats) -> NDArray[np.int64]:
        """All of them, or, of many, as many as give `STRETCHES`: half the best ones, half evenly spread."""
        count = len(data.starts) - 1
        keep = max(1, int(STRETCHES * self._stride * count / data.size))
        if keep >= count:
            return np.arange(count)
        best = np.argsort(-data.returns_with(reward), kind="stable")[: keep // 2]
        return np.union1d(best, spaced(count, keep - keep // 2))


def _task(datasets: Sequence[Dataset]) -> tuple[Floats, int]:
    """Start states [n, O] and steps of the task's episode: the domain's own, or those of the main data and of all."""
    main = datasets[0]
    name = main.metadata.domain
    if name in domains.names() and domains.get(name).observation_size == main.observation_size:
        with Simulator(name, STARTS) as simulator:
            return simulator.reset(0).astype(np.float32), simulator.domain.steps
    episodes = spaced(len(main.starts) - 1, STARTS)
    return main.observations[main.rows[main.starts[episodes]]], max(int(data.lengths.max()) for data in datasets)


def quick_step(datasets: Sequence[Dataset]) -> Floats:
    """How far a quick step moves each feature [O]."""
    rows = [data.rows[spaced(data.size, SAMPLE)] for data in datasets]
    before, after = (
        np.concatenate([data.observations[row + ahead] for data, row in zip(datasets, rows, strict=True)])
        for ahead in (0, 1)
    )
    moved = np.abs(after - before)
    rare = np.sqrt((moved**2).mean(axis=0))  # features that seldom change, and then by much, such as contacts
    step = np.maximum(np.maximum(np.quantile(moved, QUICK, axis=0), rare), STILL * before.std(axis=0))
    return np.where(step > 0, step, 1.0).astype(np.float32)
