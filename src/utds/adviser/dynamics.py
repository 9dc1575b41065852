"""Whether a dataset was recorded with the main task's dynamics, told apart from being recorded elsewhere.

1. Networks tell, from all datasets together, what to expect of a transition and whose it is (`robinson.fit_nuisance`).
2. Where both the main data and the candidate have been, the candidate's Δs is held against the main data's at the same
   state and action (`robinson.estimate`). Three questions: does it differ by a constant or in proportion to an action,
   where Δs is most predictable (more gravity)? Does it so anywhere (a weak motor)? Or in proportion to a state
   (damping, a late sensor)?

p is the least p-value of a question times how many there are, and times three.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from utds import files, terminal
from utds.adviser import robinson
from utds.adviser.robinson import STEPS, Floats, Ints, Motion, Nuisance, Residuals, fit_nuisance
from utds.data.columns import spaced
from utds.data.dataset import Dataset
from utds.errors import ConfigError, DataError
from utds.networks import Normalizer, divisor

if TYPE_CHECKING:
    from utds.data.pool import Source

Verdict = Literal["same", "different", "unknown", "trusted"]

LOOKED_AT = 60_000  # transitions of a dataset
_CHECK = "two-sided"  # names the check as it is now: findings that were kept of another are found again
COMMON = 0.05  # least chance of either dataset at a state-action where both count as having been
LEAST_SHARE = 0.05  # of the candidate's transitions that must be comparable, below which nothing can be said
LEAST_EPISODES = 6  # of a dataset, and that tell something of how the two differ
LEVEL = 0.05  # p-value below which dynamics count as different
MARGIN = 0.005  # deviations of Δs: finer than this no network is to be trusted
FINE, COARSE = 0.1, 0.3  # least spread where Δs is most predictable, and anywhere, in deviations of Δs


@dataclass(frozen=True)
class Check:
    """What the check found."""

    name: str  # of the candidate
    verdict: Verdict
    p: float  # how likely so large a difference is by chance, over all that was looked at
    size: float  # of the most evident difference, in deviations of Δs
    feature: int  # of the observation, in whose Δs it shows
    cause: str  # what it is in proportion to: "action 3", "feature 17", or nothing if it is a constant
    comparable: float  # share of the candidate's transitions that lie where the main data has been
    episodes: int  # that tell something of how the two differ

    @property
    def says(self) -> str:
        """The finding in a table's cell."""
        if self.verdict == "unknown":
            return "untested"
        return self.verdict if self.verdict == "trusted" else f"{self.verdict}, p {self.p:.1g}"

    def sentence(self, main: str) -> str:
        """The finding in words."""
        if self.verdict == "unknown":
            return f"{self.name} has too little in common with {main} to compare how they move"
        if self.verdict == "trusted":
            return f"{self.name} is trusted to move as {main} does"
        if self.verdict == "same":
            return f"{self.name} moves as {main} does (p = {self.p:.2g}, {self.comparable:.0%} of it is comparable)"
        per = f" per standard deviation of {self.cause}" if self.cause else ""
        return (
            f"{self.name} doesn't move as {main} does: feature {self.feature} changes in a step by {self.size:+.2f} "
            f"standard deviations{per} more than it should (p = {self.p:.1g})"
        )


def check(main: Dataset, candidate: Dataset, *, seed: int = 0) -> Check:
    """Compare a candidate's dynamics with the main data's."""
    return checks(main, [candidate], seed=seed)[0]


def checks(main: Dataset, candidates: Sequence[Dataset], *, seed: int = 0) -> list[Check]:
    """Compare several candidates with the same main data."""
    enough = [data for data in candidates if min(main.episodes, data.episodes) >= LEAST_EPISODES]
    found = {id(data): _unknown(data) for data in candidates}
    if enough:
        motion = _motion(main, enough)
        with terminal.bar("comparing dynamics", 2 * STEPS) as advance:
            told = fit_nuisance(motion, seed, advance)
        found |= {id(data): _compare(motion, told, which, data) for which, data in enumerate(enough, 1)}
    return [found[id(data)] for data in candidates]


def refuse_different(datasets: Sequence[Dataset], kept: Path | None = None) -> None:
    """Refuse shared data that doesn't move as the main data, the first, does: it would teach falsehoods.

    Training and the benchmark ask before a run begins, and never when one is resumed or its dynamics are trusted. The
    comparison takes some seconds: in the folder `kept` its findings are kept for others who share the same data.
    """
    if len(datasets) < 2:
        return
    main, *others = datasets
    digests = "/".join([_CHECK, main.digest, *sorted(data.digest for data in others)])
    path = None if kept is None else kept / f"{hashlib.sha256(digests.encode()).hexdigest()[:16]}.json"
    if path is not None and (before := _kept_finding(path)):
        found = before["refused"]
    else:
        found = next((x.sentence(main.name) for x in checks(main, others) if x.verdict == "different"), None)
        if path is not None:
            files.write_json(path, {"data": [data.name for data in datasets], "refused": found})
    if found:
        raise DataError(
            f"{found}; it seems to be recorded with different dynamics: leave it out, or share it all the same with "
            "--trust-dynamics (trust_dynamics = true in a matrix)"
        )


def _kept_finding(path: Path) -> dict[str, str | None] | None:
    """What was found before; None where that isn't kept, or was altered, so that it has to be found again."""
    try:
        found = files.read_json(path)
    except DataError:
        return None
    refused = found.get("refused", ...) if isinstance(found, dict) else ...
    return found if refused is None or isinstance(refused, str) else None


def _motion(main: Dataset, candidates: Sequence[Dataset]) -> Motion:
    """Transitions of all, in units of the main data's deviations."""
    normalizer = change = None
    parts, first = [], 0
    for whose, data in enumerate((main, *candidates)):
        index = spaced(data.size, LOOKED_AT)
        pairs, moved = _transitions(data, index)
        if normalizer is None or change is None:
            normalizer, change = Normalizer.fit(pairs), divisor(moved.std(axis=0))
        episode = first + np.searchsorted(data.starts, index, side="right") - 1
        inputs, outputs = np.clip(normalizer(pairs), -6, 6), np.clip(moved / change, -20, 20)
        parts.append(Motion(inputs, outputs, np.full(len(index), whose), episode))
        first += data.episodes
    return Motion(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _compare(motion: Motion, told: Nuisance, which: int, candidate: Dataset) -> Check:
    rows, errors, comparable = _common(motion, told, which)
    theirs = motion.whose[rows] == which
    episodes = min(_effective(errors.episode[theirs == side]) for side in (False, True))
    if episodes < LEAST_EPISODES or comparable < LEAST_SHARE:
        return _unknown(candidate, comparable, episodes)
    inputs = np.concatenate([np.ones((len(rows), 1), np.float32), motion.pairs[rows]], axis=1)
    states = np.arange(1, 1 + candidate.observation_size)
    free = np.setdiff1d(np.arange(inputs.shape[1]), states)  # a constant, and the actions
    coarse = robinson.estimate(errors, inputs, COARSE)
    answers = [
        (robinson.estimate(errors, inputs[:, free], FINE), free),
        (coarse.take(free), free),
        (coarse.take(states), states),
    ]
    found, columns = min(answers, key=lambda answer: answer[0].least(MARGIN))
    feature, column = found.most_evident(MARGIN)
    p = min(1.0, len(answers) * found.least(MARGIN))
    verdict: Verdict = "different" if p < LEVEL else "same"
    size, cause = float(found.effect[feature, column]), _cause(int(columns[column]), candidate.observation_size)
    return Check(candidate.name, verdict, p, size, feature, cause, comparable, episodes)


def _common(motion: Motion, told: Nuisance, which: int) -> tuple[Ints, Residuals, float]:
    """Rows where both the main data and a candidate have been, their errors, and the candidate's share of such rows."""
    both = np.flatnonzero((motion.whose == 0) | (motion.whose == which))
    theirs = motion.whose[both] == which
    chance = told.propensity[both, which] / np.maximum(told.propensity[both, 0] + told.propensity[both, which], 1e-12)
    common = (chance > COMMON) & (chance < 1 - COMMON)
    rows = both[common]
    weight = np.where(theirs, len(both) / theirs.sum(), len(both) / (~theirs).sum())[common] / 2
    errors = Residuals(
        motion.changes[rows] - told.mean[rows],
        told.spread[rows],
        theirs[common] - chance[common],
        weight.astype(np.float32),
        motion.episode[rows],
    )
    return rows, errors, float(common[theirs].mean())


def _effective(episode: Ints) -> int:
    """How many episodes these rows come from, counting those that give few for less."""
    counts = np.unique(episode, return_counts=True)[1].astype(np.float64)
    return int(counts.sum() ** 2 / (counts**2).sum()) if len(counts) else 0


def _cause(regressor: int, features: int) -> str:
    if regressor == 0:
        return ""
    return f"feature {regressor - 1}" if regressor <= features else f"action {regressor - 1 - features}"


def _transitions(dataset: Dataset, index: Ints) -> tuple[Floats, Floats]:
    """State-actions [n, O + A] and Δs [n, O] of these transitions; the dataset's columns aren't kept in memory."""
    rows = dataset.rows[index]
    states = dataset.take("observations", rows)
    pairs = np.concatenate([states, dataset.take("actions", index)], axis=1)
    return pairs, dataset.take("observations", rows + 1) - states


def trusted(candidate: Dataset) -> Check:
    """In place of a check."""
    return Check(candidate.name, "trusted", 1.0, 0.0, 0, "", 0.0, 0)


def _unknown(candidate: Dataset, comparable: float = 0.0, episodes: int = 0) -> Check:
    return Check(candidate.name, "unknown", 1.0, 0.0, 0, "", comparable, episodes)


@dataclass(frozen=True)
class DynamicsWeights:
    """1 for the main data and what moves as it does; p / 0.05, at least `floor`, for data that the check doubts."""

    floor: float = 0.05  # weight of data that certainly moves otherwise
    seed: int = 0  # of the check's networks

    def __post_init__(self) -> None:
        if not 0 < self.floor <= 1:
            raise ConfigError(f"floor is {self.floor}; it lies above 0 and up to 1")

    @property
    def identity(self) -> str:
        return f"dynamics:floor={self.floor},seed={self.seed}"

    def __call__(self, sources: "Sequence[Source]") -> list[np.ndarray]:
        main, others = sources[0].dataset, [source.dataset for source in sources[1:]]
        found = checks(main, others, seed=self.seed) if others else []
        doubted = [max(self.floor, check.p / LEVEL) if check.verdict == "different" else 1.0 for check in found]
        return [np.full(source.dataset.size, weight) for source, weight in zip(sources, [1.0, *doubted], strict=True)]
