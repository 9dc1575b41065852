"""Whether a dataset was recorded with the main task's dynamics, told apart from being recorded elsewhere.

1. Of the candidate's transitions take those that lie among the main data's state-actions.
2. Ask the main data's local laws of motion (`law.py`) how much each of them surprises; drop those of high leverage.
3. Under the same dynamics a surprise is an error of the fit. Other dynamics show in one of two ways:
   `push`     surprises are alike everywhere: gravity pulls down, a weak motor falls short of every command. So a
              correction linear in (s, a), fitted to half the episodes, explains squared surprise of the other half;
   `scatter`  one feature surprises far more than the others do: it is measured late, or with noise.

Both are tested over episodes against a margin that errors of the local fits reach too, times the number of features.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from utds import progress
from utds.advise import law
from utds.advise.law import Floats, Motion
from utds.advise.transitions import pairs, spaced
from utds.data.dataset import Dataset

Array = NDArray[np.float64]
Verdict = Literal["same", "different", "unknown"]

REFERENCE = 40_000  # transitions of the main data that the laws are fitted on
LOOKED_AT = 40_000  # transitions of the candidate of which the comparable ones are sought
ASKED = 3_000  # transitions whose surprise is computed
THINNED = 20  # every so-manieth reference transition stands for its neighbourhood when comparable ones are sought
NEIGHBOURS = 3  # of a local fit, for each of its regressors
LEVERAGE = 3.0  # beyond it a transition lies outside the main data
LEAST = 100  # transitions below which nothing can be said
LEAST_EPISODES = 5  # likewise
CLIP = 4.0  # surprises beyond it count as this much: collisions are rare and large
SHRINK = 0.5  # ridge of the linear correction, as a share of the mean square of its regressors
LEVEL = 0.01  # p-value below which a difference counts
PUSH = (0.05, 0.15)  # share explained: the margin that is tested against, and the least that counts
MATERIAL = 0.02  # least size of the correction, in deviations of Δs: finer than this no local fit is to be trusted
SCATTER = (1.5, 2.0)  # a feature's surprise over the others': likewise


@dataclass(frozen=True)
class Check:
    """What the check found."""

    name: str  # of the candidate
    verdict: Verdict
    p: float  # how likely so large a difference is by chance, over all features of the observation
    push: float  # share of a feature's squared surprise that a linear correction explains
    size: float  # of that correction, in deviations of the feature's change in one step
    scatter: float  # a feature's surprise over that of the others
    feature: int  # of the observation, where the difference is most evident
    comparable: float  # share of the candidate's transitions that lie among the main data

    def sentence(self, main: str) -> str:
        """The finding in words."""
        if self.verdict == "unknown":
            return f"{self.name} lies where {main} has no data ({self.comparable:.1%} of it is comparable)"
        if self.verdict == "same":
            return f"{self.name} moves as {main} does (p = {self.p:.2g}, {self.comparable:.0%} of it is comparable)"
        how = f"a constant difference explains {self.push:.0%} of its errors"
        if self.push < PUSH[1] or self.size < MATERIAL:
            how = f"it is off {self.scatter:.1f} times as far as the other features"
        return f"{self.name} doesn't move as {main} does: in feature {self.feature} {how} (p = {self.p:.1g})"


class _Reference(NamedTuple):
    """The main data as the yardstick."""

    motion: Motion
    mean: Floats  # [X]
    deviation: Floats  # [X]
    change: Floats  # [O], deviation of Δs
    near: float  # distance to the nearest other episode, the main data's median
    typical: Array  # [O] mean size of the main data's own surprises

    def scaled(self, dataset: Dataset, index: NDArray[np.int64]) -> Motion:
        found = pairs(dataset, index)
        rows = dataset.rows[index]
        change = dataset.observations[rows + 1] - dataset.observations[rows]
        episode = np.searchsorted(dataset.starts, index, side="right") - 1
        return Motion(
            np.clip((found - self.mean) / self.deviation, -6, 6), np.clip(change / self.change, -20, 20), episode
        )


def check(main: Dataset, candidate: Dataset, *, seed: int = 0) -> Check:
    """Compare a candidate's dynamics with the main data's."""
    return checks(main, [candidate], seed=seed)[0]


def checks(main: Dataset, candidates: Sequence[Dataset], *, seed: int = 0) -> list[Check]:
    """Compare several candidates with the same main data."""
    reference = _reference(main)
    found = []
    with progress.bar("comparing dynamics", len(candidates), "datasets") as advance:
        for candidate in candidates:
            found.append(_compare(reference, candidate, np.random.default_rng(seed)))
            advance(note=candidate.name)
    return found


def _reference(main: Dataset) -> _Reference:
    index = spaced(main.size, REFERENCE)
    found, rows = pairs(main, index), main.rows[index]
    change = main.observations[rows + 1] - main.observations[rows]
    deviations = [values.std(axis=0) for values in (found, change)]
    deviation, moved = (np.where(d < 1e-6, 1, d).astype(np.float32) for d in deviations)
    empty = Motion(found[:0], change[:0], index[:0])
    bare = _Reference(empty, found.mean(axis=0), deviation, moved, np.inf, np.zeros(len(moved)))
    motion = bare.scaled(main, index)
    some = motion.take(spaced(len(index), ASKED))
    own = law.surprise(motion, some, _neighbours(motion), same=True)
    inside = own.leverage.mean(axis=1) < LEVERAGE
    return bare._replace(
        motion=motion,
        near=float(np.median(_nearest(motion, some, same=True))),
        typical=_size(own.score[inside if inside.any() else slice(None)]).mean(axis=0),
    )


def _compare(reference: _Reference, candidate: Dataset, random: np.random.Generator) -> Check:
    looked = reference.scaled(candidate, spaced(candidate.size, LOOKED_AT))
    distance = _nearest(reference.motion, looked, same=False)
    order = random.permutation(len(distance))
    order = order[np.argsort(np.maximum(distance[order], reference.near), kind="stable")]  # at random among the near
    asked = looked.take(order[:ASKED])
    found = law.surprise(reference.motion, asked, _neighbours(reference.motion), same=False)
    inside = found.leverage.mean(axis=1) < LEVERAGE
    comparable = max(float((distance <= reference.near).mean()), float(inside.sum()) / len(distance))
    episodes, episode = np.unique(asked.episode[inside], return_inverse=True)
    if inside.sum() < LEAST or len(episodes) < LEAST_EPISODES:
        return Check(candidate.name, "unknown", 1.0, 0.0, 0.0, 1.0, 0, comparable)
    score = np.clip(found.score[inside], -CLIP, CLIP).astype(np.float64)
    half = (random.permutation(len(episodes)) % 2).astype(bool)[episode]
    within = law.Surprise(score, found.leverage[inside], found.spread[inside])
    push, size, push_p = _push(within, asked.pairs[inside], episode, half)
    scatter, scatter_p = _scatter(_size(score) / reference.typical, episode)
    pushed = (push >= PUSH[1]) & (size >= MATERIAL)
    p = np.where(pushed, push_p, np.where(scatter >= SCATTER[1], scatter_p, 1.0))
    worst = int(p.argmin()) if p.min() < 1 else int(np.argmax(push / PUSH[1]))
    return Check(
        candidate.name,
        "different" if p[worst] < LEVEL else "same",
        float(p[worst]),
        float(push[worst]),
        float(size[worst]),
        float(scatter[worst]),
        worst,
        comparable,
    )


def _neighbours(motion: Motion) -> int:
    regressors = 1 + motion.pairs.shape[1] + motion.changes.shape[1]
    return min(NEIGHBOURS * regressors, len(motion.pairs) // 2)


def _size(score: NDArray[np.floating]) -> Array:
    return np.minimum(np.abs(score), CLIP).astype(np.float64)


def _nearest(reference: Motion, asked: Motion, same: bool) -> Floats:
    """Distance [n] to the nearest reference state-action; with `same` data, of another episode."""
    reference = reference.take(slice(None, None, THINNED))
    squares = (reference.pairs**2).sum(axis=1)
    nearest = np.empty(len(asked.pairs), np.float32)
    for start in range(0, len(nearest), 1000):
        rows = slice(start, start + 1000)
        distance = squares - 2 * asked.pairs[rows] @ reference.pairs.T
        if same:
            distance[asked.episode[rows, None] == reference.episode] = np.inf
        nearest[rows] = distance.min(axis=1) + (asked.pairs[rows] ** 2).sum(axis=1)
    return np.sqrt(np.maximum(nearest, 0))


def _push(
    found: law.Surprise, asked: Floats, episode: NDArray[np.int64], half: NDArray[np.bool_]
) -> tuple[Array, Array, Array]:
    """What a correction linear in (s, a) explains of the squared surprise in unseen episodes.

    Gives for each feature [O] that share, the correction's root mean square in deviations of Δs, and the p-value.
    """
    regressors = np.concatenate([np.ones((len(asked), 1)), asked], axis=1)
    share, size, p = (np.empty(found.score.shape[1]) for _ in range(3))
    for feature in range(len(p)):
        # A fixed error is the less surprising the farther the transition lies from the reference data.
        weighted = regressors / np.sqrt(1 + found.leverage[:, [feature]])
        target = found.score[:, feature]
        predicted = np.empty(len(target))
        for part in (half, ~half):
            left = weighted[~part]
            ridge = SHRINK * (left**2).mean() * len(left) * np.eye(left.shape[1])
            slopes = np.linalg.solve(left.T @ left + ridge, left.T @ target[~part])
            predicted[part] = weighted[part] @ slopes
        saved = target**2 - (target - predicted) ** 2
        size[feature] = np.sqrt(np.mean((predicted * found.spread[:, feature]) ** 2))
        share[feature] = saved.sum() / max((target**2).sum(), 1e-12)
        p[feature] = _beyond_chance(saved - PUSH[0] * target**2, episode)
    return share, size, np.minimum(1, p * len(p))


def _scatter(size: Array, episode: NDArray[np.int64]) -> tuple[Array, Array]:
    """How much more each feature surprises, relative to the main data, than the middle one does, [O]; p-values."""
    middle = np.median(size.mean(axis=0))
    excess = size - SCATTER[0] * middle
    p = np.array([_beyond_chance(column, episode) for column in excess.T])
    return size.mean(axis=0) / max(middle, 1e-12), np.minimum(1, p * len(p))


def _beyond_chance(values: Array, episode: NDArray[np.int64]) -> float:
    """p-value of a one-sided t-test that values [n], summed over each episode, are positive on average."""
    each = np.bincount(episode, values)
    error = each.std(ddof=1) / np.sqrt(len(each))
    return float(stats.t.sf(each.mean() / max(error, 1e-12), len(each) - 1))
