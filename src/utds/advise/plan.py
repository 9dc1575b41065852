"""What a cautious planner would get out of the data, alone and shared: the adviser's prediction of the gain.

The data is cut into stretches of a few recorded steps. A plan starts where the task starts, follows a stretch to its
end, and goes on with the next one of the episode or with any stretch, of any dataset, that begins near; the way there
costs what it is long. The best plan over the task's episode is found by backward induction, its value is in units of
return: where good episodes are on record it is near theirs, and sharing raises it where another dataset knows a stretch
that the task's own data lacks.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from utds import domains, progress
from utds.advise.features import Array
from utds.advise.transitions import Floats, Scale, spaced
from utds.data.dataset import Dataset
from utds.domains.simulator import Simulator

Members = tuple[int, ...]  # candidates, counted from 0; () is the main data alone

PRICE = 8.0  # of a way as long as the median distance between states, in steps of the greatest reward
STRIDE = 10  # most steps of a stretch
STRETCHES = 6000  # of a dataset, at most: episodes beyond are left out, half of the rest are the best ones
NEAREST = 4  # stretches of each dataset that a plan can go on with
_STARTS = 32  # start states
_ROWS = 1000  # states whose distances are computed at once


class Stretches(NamedTuple):
    """Recorded stretches of one dataset, those of an episode one after another."""

    begin: Floats  # [n, O] scaled
    end: Floats  # [n, O] scaled
    reward: Floats  # [n] summed
    last: NDArray[np.bool_]  # [n] of its episode
    final: NDArray[np.bool_]  # [n] nothing comes after it: the episode terminated


class Join(NamedTuple):
    """Where plans can go on: stretches of one dataset that begin near some states."""

    stretch: NDArray[np.int64]  # [n, k]
    distance: Floats  # [n, k]


class Planner:
    """Values of the best plans with the main data and any candidates; `labels` are rewards under the main task."""

    def __init__(self, datasets: Sequence[Dataset], labels: Sequence[Floats], scale: Scale) -> None:
        self._mean, self._deviation = (part[: datasets[0].observation_size] for part in scale)
        self._stride = min(STRIDE, max(-(-data.size // STRETCHES) for data in datasets))
        self._parts = [self._cut(data, reward) for data, reward in zip(datasets, labels, strict=True)]
        starts, self._horizon = _task(datasets[0])
        self._starts = self._scaled(starts)
        self._least = float(min(reward.min() for reward in labels))
        self._stake = float(max(reward.max() for reward in labels)) - self._least
        self._unit = _typical_distance(np.concatenate([part.begin for part in self._parts]))
        self._joins: dict[tuple[int, int], Join] = {}

    def values(self, choices: Iterable[Members]) -> dict[Members, float]:
        """The value of each choice of candidates to share."""
        chosen, found = list(dict.fromkeys(choices)), {}
        with progress.bar("planning", len(chosen), "plans") as advance:
            for members in chosen:
                found[members] = self.value(members)
                advance()
        return found

    def value(self, members: Members = ()) -> float:
        """Mean over start states, with the main data and these candidates, counted from 0."""
        chosen = (0, *(1 + index for index in members))
        parts = [self._parts[i] for i in chosen]
        offsets = np.cumsum([0, *(len(part.begin) for part in parts)])
        ways = [self._ways([self._join(i, j) for j in chosen], offsets) for i in chosen]
        index, cost = (np.concatenate(column) for column in zip(*ways, strict=True))
        last, final = (np.concatenate(column) for column in zip(*((p.last, p.final) for p in parts), strict=True))
        following = np.where(last, len(last), np.arange(len(last)) + 1)
        earned = np.concatenate([part.reward for part in parts])

        value = np.zeros(len(earned))
        for steps in range(self._stride, self._horizon, self._stride):  # that are left after a stretch
            total = np.append(earned + value, -np.inf)  # of each stretch with what comes after it
            best = np.maximum(total[following], (total[index] - cost).max(axis=1))
            value = np.where(final, 0.0, np.maximum(best, steps * self._least))
        index, cost = self._ways([self._beginning(j) for j in chosen], offsets)
        best = ((earned + value)[index] - cost).max(axis=1)
        return float(np.maximum(best, self._horizon * self._least).mean())

    def _ways(self, joins: Sequence[Join], offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], Array]:
        """Where to go on among the chosen datasets' stretches, one after another, and what the way costs: [n, k]."""
        index = np.concatenate([join.stretch + offset for join, offset in zip(joins, offsets, strict=False)], axis=1)
        distance = np.concatenate([join.distance for join in joins], axis=1)
        return index, PRICE * self._stake / self._unit * distance

    def _join(self, source: int, target: int) -> Join:
        if (source, target) not in self._joins:
            self._joins[source, target] = self._near(self._parts[source].end, target)
        return self._joins[source, target]

    def _beginning(self, target: int) -> Join:
        """The stretches nearest to the start states, with all that are as near: many episodes may begin alike."""
        begin = self._parts[target].begin
        distance = np.linalg.norm(begin - self._starts[:, None], axis=2)
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
        for start in range(0, len(states), _ROWS):
            some = states[start : start + _ROWS]
            distance = square - 2 * some @ begin.T  # squared, but for a term that is the same for all
            found.append(np.argpartition(distance, count - 1, axis=1)[:, :count])
        index = np.concatenate(found)
        return Join(index, np.linalg.norm(begin[index] - states[:, None], axis=2))

    def _cut(self, data: Dataset, reward: Floats) -> Stretches:
        episodes = self._episodes(data, reward)
        bounds = list(zip(data.starts[episodes], data.starts[episodes + 1], strict=True))
        first = np.concatenate([np.arange(start, end, self._stride) for start, end in bounds])
        ends = np.concatenate([np.full(-(-(end - start) // self._stride), end) for start, end in bounds])
        after = np.minimum(first + self._stride, ends)
        sums = np.concatenate([[0.0], np.cumsum(reward, dtype=np.float64)])
        return Stretches(
            begin=self._scaled(data.observations[data.rows[first]]),
            end=self._scaled(data.observations[data.rows[after - 1] + 1]),
            reward=(sums[after] - sums[first]).astype(np.float32),
            last=after == ends,
            final=(after == ends) & data.terminations[after - 1],
        )

    def _scaled(self, observations: Floats) -> Floats:
        return (observations - self._mean) / self._deviation

    def _episodes(self, data: Dataset, reward: Floats) -> NDArray[np.int64]:
        """All of them, or, of many, as many as give `STRETCHES`: half the best ones, half evenly spread."""
        count = len(data.starts) - 1
        keep = max(1, int(STRETCHES * self._stride * count / data.size))
        if keep >= count:
            return np.arange(count)
        returns = np.add.reduceat(reward, data.starts[:-1], dtype=np.float64)
        best = np.argsort(-returns, kind="stable")[: keep // 2]
        return np.union1d(best, spaced(count, keep - keep // 2))


def _task(main: Dataset) -> tuple[Floats, int]:
    """Start states [n, O] and steps of the task's episode: the domain's own, or those of the main data."""
    name = main.metadata.domain
    if name in domains.names() and domains.get(name).observation_size == main.observation_size:
        with Simulator(name, _STARTS) as simulator:
            return simulator.reset(0).astype(np.float32), simulator.domain.steps
    episodes = spaced(len(main.starts) - 1, _STARTS)
    return main.observations[main.rows[main.starts[episodes]]], int(np.diff(main.starts).max())


def _typical_distance(states: Floats) -> float:
    """The median distance between two states drawn at random."""
    random = np.random.default_rng(0)
    left, right = random.integers(0, len(states), (2, 2000))
    return max(float(np.median(np.linalg.norm(states[left] - states[right], axis=1))), 1e-6)
