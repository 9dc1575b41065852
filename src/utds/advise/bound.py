"""How far sharing shrinks the bound of Corollary 1: E_π*[Γ_lcb], before and after.

π* is unknown before training. Its stand-in is the best behaviour on record: the best episodes, under the main task's
reward, of all datasets at hand. It is the same for every candidate, so that bounds can be compared.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from utds import progress
from utds.advise import features as space
from utds.advise.features import Array, Features, Width
from utds.advise.transitions import Floats, pairs, spaced
from utds.data.dataset import Dataset

GOOD = 0.05  # share of all episodes that count as good behaviour
AT_LEAST = 5  # episodes of good behaviour, where there are as many
_QUERIES = 4000  # state-actions of good behaviour at which Γ is measured
_OWN = 2000  # state-actions of a dataset at which coverage is measured
_ALL_SUBSETS = 4  # candidates up to which every combination is measured; beyond, they are added greedily


class Good(NamedTuple):
    """Good behaviour for the main task."""

    pairs: Floats  # [n, O + A] its state-actions
    others: Floats  # [n, O + A] its states, each with an action drawn at random
    value: float  # mean return of its episodes
    sources: tuple[int, ...]  # how many of its episodes come from the main data and each candidate


class Bound(NamedTuple):
    """E_π*[Γ_lcb] of the main data joined with some candidates."""

    members: tuple[int, ...]  # candidates, counted from 0; () is the main data alone
    gamma: float
    others: float  # the same for any action in π*'s states: who knows only the good one can't tell why it is good


def good_behaviour(datasets: Sequence[Dataset], returns: Sequence[Array]) -> Good:
    """The best episodes of all datasets, given the returns [E] of each dataset's episodes under the main task."""
    source = np.repeat(np.arange(len(datasets)), [len(found) for found in returns])
    episode = np.concatenate([np.arange(len(found)) for found in returns])
    joined = np.concatenate(returns)
    count = min(len(joined), max(AT_LEAST, round(GOOD * len(joined))))
    best = np.argsort(-joined, kind="stable")[:count]
    parts = []
    for index in best:
        data = datasets[source[index]]
        first, last = data.starts[episode[index] : episode[index] + 2]
        parts.append(pairs(data, first + spaced(last - first, -(-_QUERIES // count))))
    sources = np.bincount(source[best], minlength=len(datasets))
    found = np.concatenate(parts)
    others = found.copy()
    actions = others[:, datasets[0].observation_size :]
    actions[:] = np.random.default_rng(0).uniform(-1, 1, actions.shape)
    return Good(found, others, float(joined[best].mean()), tuple(sources.tolist()))


class Ruler:
    """Measures Γ_lcb of the main data joined with any candidates, in one space of features."""

    def __init__(self, datasets: Sequence[Dataset], width: int, seed: int, reach: float, limit: int) -> None:
        self.features: Features = space.make(datasets, width, seed, reach)
        self._moments: list[Array] = []
        with progress.bar("measuring coverage", len(datasets), "datasets") as advance:
            for data in datasets:
                self._moments.append(space.moments(data, self.features, limit))
                advance(note=data.name)

    def width(self, members: Iterable[int] = ()) -> Width:
        """Γ_lcb of the main data and these candidates, counted from 0."""
        return Width.of(self._moments[0] + sum(self._moments[1 + index] for index in members))

    def bound(self, good: Good, members: tuple[int, ...] = ()) -> Bound:
        width = self.width(members)
        gamma, others = (float(width(self.features(found)).mean()) for found in (good.pairs, good.others))
        return Bound(members, gamma, others)

    def overlap(self, main: Dataset, other: Dataset) -> float:
        """Share of the other data's state-actions that the main data knows as well as 95 % of its own."""
        alone = self.width()
        own = alone.left_out(self.features(pairs(main, spaced(main.size, _OWN))))
        theirs = alone(self.features(pairs(other, spaced(other.size, _OWN))))
        return float((theirs <= np.quantile(own, 0.95)).mean())


def combinations_of(ruler: Ruler, good: Good, singles: Sequence[Bound]) -> list[Bound]:
    """Bounds of two candidates and more: of every combination, or, of many candidates, of those added one by one."""
    allowed = [bound.members[0] for bound in singles]
    if len(allowed) <= _ALL_SUBSETS:
        sets = [chosen for size in range(2, len(allowed) + 1) for chosen in combinations(allowed, size)]
        return [ruler.bound(good, chosen) for chosen in sets]
    members: tuple[int, ...] = min(singles, key=lambda bound: bound.gamma).members
    found = []
    while len(members) < len(allowed):
        steps = [ruler.bound(good, (*members, index)) for index in allowed if index not in members]
        best = min(steps, key=lambda bound: bound.gamma)
        found.append(best._replace(members=tuple(sorted(best.members))))
        members = best.members
    return found
