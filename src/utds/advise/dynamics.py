"""Whether a dataset was recorded with the main task's dynamics, told apart from being recorded elsewhere.

1. Take those of the candidate's transitions that lie among the main data's state-actions.
2. Ask the main data's local laws of motion (`law.py`) how far each of them is off, and as many of the main data's own.
3. In cells of state-actions where both have been (`cells.py`), compare the errors:
   `push`     the candidate's Δs differs by a constant or in proportion to an action: gravity, mass, a weak motor;
   `scatter`  one feature is off much farther than the others are: it is measured late, or with noise.

p is the least p-value of either, times how many there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from utds import progress
from utds.advise import cells, law
from utds.advise.law import Floats, Motion
from utds.advise.transitions import pairs, spaced
from utds.data.dataset import Dataset

Array = NDArray[np.float64]
Verdict = Literal["same", "different", "unknown"]

REFERENCE = 40_000  # transitions of the main data that the laws are fitted on
LOOKED_AT = 40_000  # transitions of the candidate of which the comparable ones are sought
ASKED = 5_000  # transitions of either whose errors are computed
NEIGHBOURS = 3  # of a local fit, for each of its regressors
LEVERAGE = 3.0  # beyond it a transition lies outside the main data
NEAR = 0.85  # share of the main data's transitions that lie near enough to a cell's centre
CELLS = 200  # around transitions of the main data, and one for every …
PER_CELL = 20  # … transitions asked about, where there are fewer
FLOOR = 0.05  # least spread, in deviations of Δs: robots that lie still would outweigh all else
LEAST_EPISODES = 6  # of the main data
LEAST_CELLS = 20  # in common, below which nothing can be said
LEVEL = 0.01  # p-value below which dynamics count as different
PUSH = 0.01  # margin, in deviations of Δs: finer than this no model is to be trusted
SCATTER = 1.15  # margin, as a ratio


@dataclass(frozen=True)
class Check:
    """What the check found."""

    name: str  # of the candidate
    verdict: Verdict
    p: float  # how likely so large a difference is by chance, over all features of the observation
    kind: Literal["push", "scatter"]  # of the most evident difference
    size: float  # of it: a push in deviations of Δs, a scatter as a ratio
    feature: int  # of the observation, in which it shows
    action: int | None  # in proportion to which it is, if any
    comparable: float  # share of the candidate's transitions that lie among the main data
    cells: int  # that both datasets share

    def sentence(self, main: str) -> str:
        """The finding in words."""
        if self.verdict == "unknown":
            return f"{self.name} has too little in common with {main} to compare how they move ({self.cells} cells)"
        if self.verdict == "same":
            return f"{self.name} moves as {main} does (p = {self.p:.2g}, {self.comparable:.0%} of it is comparable)"
        how = f"is off {self.size:.1f} times as far as the others"
        if self.kind == "push":
            per = "" if self.action is None else f" times action {self.action}"
            how = f"changes in a step by {self.size:+.2f} deviations{per} more than it should"
        return f"{self.name} doesn't move as {main} does: feature {self.feature} {how} (p = {self.p:.1g})"


class _Reference(NamedTuple):
    """The main data as the yardstick."""

    mean: Floats  # [X]
    deviation: Floats  # [X]
    change: Floats  # [O], deviation of Δs
    motion: Motion  # that the laws are fitted on
    centres: Floats  # [C, X] of the cells
    near: float  # distance from a centre within which transitions are comparable
    own: cells.Matched  # the main data's own errors


def check(main: Dataset, candidate: Dataset, *, seed: int = 0) -> Check:
    """Compare a candidate's dynamics with the main data's."""
    return checks(main, [candidate], seed=seed)[0]


def checks(main: Dataset, candidates: Sequence[Dataset], *, seed: int = 0) -> list[Check]:
    """Compare several candidates with the same main data."""
    if main.episodes < LEAST_EPISODES:
        return [_unknown(candidate) for candidate in candidates]
    reference = _reference(main, seed)
    found = []
    with progress.bar("comparing dynamics", len(candidates), "datasets") as advance:
        for candidate in candidates:
            found.append(_compare(reference, candidate, np.random.default_rng(seed)))
            advance(note=candidate.name)
    return found


def _reference(main: Dataset, seed: int) -> _Reference:
    index = spaced(main.size, REFERENCE)
    found, rows = pairs(main, index), main.rows[index]
    change = main.observations[rows + 1] - main.observations[rows]
    scale = found.mean(axis=0), _positive(found.std(axis=0)), _positive(change.std(axis=0))
    motion = _scaled(main, index, *scale)
    asked = motion.take(spaced(len(index), ASKED))
    random = np.random.default_rng(seed)
    count = min(CELLS, -(-len(asked.pairs) // PER_CELL))
    centres = asked.pairs[np.sort(random.permutation(len(asked.pairs))[:count])]
    near = float(np.quantile(_nearest(asked.pairs, centres)[1], NEAR))
    own, _ = _errors(motion, asked, centres, other=False)
    return _Reference(*scale, motion, centres, near, own)


def _compare(reference: _Reference, candidate: Dataset, random: np.random.Generator) -> Check:
    scale = reference.mean, reference.deviation, reference.change
    looked = _scaled(candidate, spaced(candidate.size, LOOKED_AT), *scale)
    near = np.flatnonzero(_nearest(looked.pairs, reference.centres)[1] <= reference.near)
    asked = looked.take(np.sort(random.permutation(near)[:ASKED]))
    theirs, inside = _errors(reference.motion, asked, reference.centres, other=True)
    comparable = inside * len(near) / len(looked.pairs)
    found = cells.shared_only(cells.joined(reference.own, theirs))
    if found.cells < LEAST_CELLS:
        return _unknown(candidate, comparable, found.cells)
    pushed, (ratio, ratio_p) = cells.push(found, PUSH), cells.scatter(found, SCATTER)
    trials = pushed.p.size + ratio_p.size
    push_p, scatter_p = (float(min(1, p.min() * trials)) for p in (pushed.p, ratio_p))
    p = min(push_p, scatter_p)
    verdict: Verdict = "different" if p < LEVEL else "same"
    if scatter_p < push_p:
        worst = int(ratio_p.argmin())
        return Check(candidate.name, verdict, p, "scatter", float(ratio[worst]), worst, None, comparable, found.cells)
    feature, term = np.unravel_index(pushed.p.argmin(), pushed.p.shape)
    size, action = float(pushed.effect[feature, term]), None if term == 0 else int(term) - 1
    return Check(candidate.name, verdict, p, "push", size, int(feature), action, comparable, found.cells)


def _errors(reference: Motion, asked: Motion, centres: Floats, other: bool) -> tuple[cells.Matched, float]:
    """How far transitions are off the local laws, where these know; and of which share they do."""
    found = law.surprise(reference, asked, _neighbours(reference), same=not other)
    inside = found.leverage.mean(axis=1) < LEVERAGE if len(asked.pairs) else np.zeros(0, bool)
    spread = found.spread[inside].astype(np.float64)
    matched = cells.Matched(
        found.score[inside] * spread,
        np.maximum(spread, FLOOR),
        asked.pairs[inside, asked.changes.shape[1] :].astype(np.float64),
        _nearest(asked.pairs[inside], centres)[0],
        np.full(int(inside.sum()), other),
    )
    return matched, float(inside.mean()) if len(inside) else 0.0


def _neighbours(motion: Motion) -> int:
    regressors = 1 + motion.pairs.shape[1] + motion.changes.shape[1]
    return min(NEIGHBOURS * regressors, len(motion.pairs) // 2)


def _nearest(asked: Floats, centres: Floats) -> tuple[NDArray[np.int64], Floats]:
    """The nearest centre of each row [n] and the distance to it [n]."""
    squares = (centres**2).sum(axis=1)
    cell, distance = np.empty(len(asked), np.int64), np.empty(len(asked), np.float32)
    for start in range(0, len(asked), 1 << 13):
        rows = slice(start, start + (1 << 13))
        gap = squares - 2 * asked[rows] @ centres.T
        cell[rows] = gap.argmin(axis=1)
        distance[rows] = gap.min(axis=1) + (asked[rows] ** 2).sum(axis=1)
    return cell, np.sqrt(np.maximum(distance, 0))


def _scaled(dataset: Dataset, index: NDArray[np.int64], mean: Floats, deviation: Floats, change: Floats) -> Motion:
    rows = dataset.rows[index]
    moved = (dataset.observations[rows + 1] - dataset.observations[rows]) / change
    inputs = np.clip((pairs(dataset, index) - mean) / deviation, -6, 6)
    return Motion(inputs, np.clip(moved, -20, 20), np.searchsorted(dataset.starts, index, side="right") - 1)


def _positive(deviation: Floats) -> Floats:
    return np.where(deviation < 1e-6, 1, deviation).astype(np.float32)


def _unknown(candidate: Dataset, comparable: float = 0.0, shared: int = 0) -> Check:
    return Check(candidate.name, "unknown", 1.0, "push", 0.0, 0, None, comparable, shared)
