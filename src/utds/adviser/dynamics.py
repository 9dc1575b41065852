"""Whether a dataset was recorded with the main task's dynamics, told apart from being recorded elsewhere.

Where both the main data and the candidate have been, the candidate's Δs is held against the main data's at the same
state and action, by Robinson's partialling out. With z = 1 for one dataset's transitions and 0 for the other's,
e(x) = P(z = 1 | x) and m(x) = E[Δs | x] at x = (s, a),

    Δs − m(x) = (z − e(x)) · τᵀ(1, x) + noise

is a linear regression, feature by feature: τ is how much more Δs is in one dataset than in the other, by a constant
(gravity), or in proportion to an action (a weak motor) or to a state (damping, a late sensor). Errors of m alone or of
e alone average out, since they are the same for both datasets at the same x; only their product is left (double
machine learning, Chernozhukov et al., 2018). Where no more than one of the datasets has been, z − e is 0: nothing is
compared there.

m and e are networks of (s, a), fitted to all datasets together: one tells E[Δs] and the expected |Δs − E[Δs]|, the
other the probability of every dataset. Episodes are halved, and each half is told by networks that saw the other one
alone: what a network says of a transition never depends on that transition (cross-fitting).

Three questions are asked: does Δs differ by a constant or in proportion to an action, where it is most predictable
(more gravity)? Does it so anywhere (a weak motor)? Or in proportion to a state? p is the least p-value of a question
times how many there are, and times three.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray
from scipy import special  # its Student's t: scipy.stats takes half a second to load

from utds import files, terminal
from utds.data.columns import spaced
from utds.data.dataset import Dataset
from utds.errors import ConfigError, DataError
from utds.networks import MLP, Normalizer, divisor, fit, init_mlp, mlp
from utds.terminal import Advance

if TYPE_CHECKING:
    from utds.data.pool import Source

Verdict = Literal["same", "different", "unknown", "trusted"]
Floats = NDArray[np.float32]
Reals = NDArray[np.floating]
Ints = NDArray[np.int64]

LOOKED_AT = 60_000  # transitions of a dataset
VERSION = "two-sided"  # of the check: findings that were kept of another are found again
COMMON = 0.05  # least chance of either dataset at a state-action where both count as having been
LEAST_SHARE = 0.05  # of the candidate's transitions that must be comparable, below which nothing can be said
LEAST_EPISODES = 6  # of a dataset, and that tell something of how the two differ
LEVEL = 0.05  # p-value below which dynamics count as different
MARGIN = 0.005  # deviations of Δs: finer than this no network is to be trusted
FINE, COARSE = 0.1, 0.3  # least spread where Δs is most predictable, and anywhere, in deviations of Δs

WIDTH = 256  # units of the two hidden layers
STEPS = 3000  # gradient steps; with fewer, genuine data is refused
BATCH = 256  # transitions of each
LEARNING_RATE = 2e-3  # of Adam at the start; falls to 0 along a cosine
LOG_SPREAD = (-4.0, 2.0)  # bounds of the expected error's logarithm
BLOCK = 1 << 14  # transitions predicted at once
CLIP = 3.0  # errors count as so many spreads at most: collisions are rare and large
RIDGE = 1e-2  # of the regressions, as a share of their regressors' mean square


@dataclass(frozen=True)
class Check:
    """What the check found."""

    name: str  # of the candidate
    verdict: Verdict
    p: float = 1.0  # how likely so large a difference is by chance, over all that was looked at
    size: float = 0.0  # of the most evident difference, in deviations of Δs
    feature: int = 0  # of the observation, in whose Δs it shows
    cause: str = ""  # what it is in proportion to: "action 3", "feature 17", or nothing if it is a constant
    comparable: float = 0.0  # share of the candidate's transitions that lie where the main data has been
    episodes: int = 0  # that tell something of how the two differ

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
    found = {id(data): Check(data.name, "unknown") for data in candidates}
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
    digests = "/".join([VERSION, main.digest, *sorted(data.digest for data in others)])
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
    parts, first = [], 0
    for whose, data in enumerate((main, *candidates)):
        index = spaced(data.size, LOOKED_AT)
        rows = data.rows[index]
        states, actions = data.take("observations", rows), data.take("actions", index)  # doesn't keep the columns
        pairs, changes = np.concatenate([states, actions], axis=1), data.take("observations", rows + 1) - states
        episode = first + np.searchsorted(data.starts, index, side="right") - 1
        parts.append(Motion(pairs, changes, np.full(len(index), whose), episode))
        first += data.episodes
    found, own = Motion(*(np.concatenate(column) for column in zip(*parts, strict=True))), len(parts[0].pairs)
    pairs = np.clip(Normalizer.fit(found.pairs[:own])(found.pairs), -6, 6)
    changes = np.clip(found.changes / divisor(found.changes[:own].std(axis=0)), -20, 20)
    return found._replace(pairs=pairs, changes=changes)


def _compare(motion: Motion, told: Nuisance, which: int, candidate: Dataset) -> Check:
    rows, errors, comparable = _common(motion, told, which)
    theirs = motion.whose[rows] == which
    episodes = min(_effective(errors.episode[theirs == side]) for side in (False, True))
    if episodes < LEAST_EPISODES or comparable < LEAST_SHARE:
        return Check(candidate.name, "unknown", comparable=comparable, episodes=episodes)
    inputs = np.concatenate([np.ones((len(rows), 1), np.float32), motion.pairs[rows]], axis=1)
    states = np.arange(1, 1 + candidate.observation_size)
    free = np.setdiff1d(np.arange(inputs.shape[1]), states)  # a constant, and the actions
    coarse = estimate(errors, inputs, COARSE)
    answers = [
        (estimate(errors, inputs[:, free], FINE), free),
        (coarse.take(free), free),
        (coarse.take(states), states),
    ]
    found, columns = min(answers, key=lambda answer: answer[0].most_evident(MARGIN)[0])
    least, feature, column = found.most_evident(MARGIN)
    p = min(1.0, len(answers) * least)
    verdict: Verdict = "different" if p < LEVEL else "same"
    names = ["", *(f"feature {i}" for i in range(len(states))), *(f"action {i}" for i in range(candidate.action_size))]
    size, cause = float(found.effect[feature, column]), names[columns[column]]
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


class Motion(NamedTuple):
    """Transitions of D datasets, one after the other."""

    pairs: Floats  # [n, X] state-actions, at unit deviation
    changes: Floats  # [n, O] Δs, at unit deviation
    whose: Ints  # [n] 0 … D − 1, in ascending order
    episode: Ints  # [n] counted over all datasets


class Nuisance(NamedTuple):
    """What networks say that never saw the transition."""

    mean: Floats  # [n, O] E[Δs | s, a]
    spread: Floats  # [n, O] E[|Δs − E[Δs]| | s, a]
    propensity: Floats  # [n, D] chance of each dataset, given (s, a), if all were equally large


class Networks(NamedTuple):
    motion: MLP  # [X] -> [2 O]: the change, and the logarithm of the spread
    origin: MLP  # [X] -> [D]: logits


def fit_nuisance(motion: Motion, seed: int, advance: Advance) -> Nuisance:
    """Tell each half of the episodes by what the other half taught; `advance` hears of the steps of both halves."""
    half = motion.episode % 2 == 0
    columns = jnp.asarray(motion.pairs), jnp.asarray(motion.changes)
    with ThreadPoolExecutor(2) as pool:  # compiled steps release the interpreter: a core for each half
        rows = [np.flatnonzero(half == part) for part in (0, 1)]
        halves = list(pool.map(lambda part: _fit(columns, rows[part], motion.whose, seed + part, advance), (0, 1)))
    widths = motion.changes.shape[1], motion.changes.shape[1], int(motion.whose[-1]) + 1
    told = Nuisance(*(np.empty((len(half), width), np.float32) for width in widths))
    for networks, others in zip(halves, reversed(rows), strict=True):
        for start in range(0, len(others), BLOCK):
            block = others[start : start + BLOCK]
            for column, values in zip(told, _predict(networks, motion.pairs[block]), strict=True):
                column[block] = values
    return told


def _fit(columns: tuple[jax.Array, jax.Array], rows: Ints, whose: Ints, seed: int, advance: Advance) -> Networks:
    """Both networks, from these rows of the pairs and changes; in a batch every dataset counts alike."""
    first = np.searchsorted(whose[rows], np.arange(int(whose[-1]) + 2))  # [D + 1]
    data = (*columns, jnp.asarray(rows), jnp.asarray(first))
    motion_key, origin_key, key = jax.random.split(jax.random.key(seed), 3)
    inputs, outputs = (column.shape[1] for column in columns)
    networks = Networks(
        init_mlp(motion_key, (inputs, WIDTH, WIDTH, 2 * outputs), layer_norm=False),
        init_mlp(origin_key, (inputs, WIDTH, WIDTH, len(first) - 1), layer_norm=False),
    )
    return fit(networks, _loss, data, jax.random.split(key, STEPS), LEARNING_RATE, advance)


def _loss(networks: Networks, data: tuple[jax.Array, jax.Array, jax.Array, jax.Array], key: jax.Array) -> jax.Array:
    """Huber's loss of the change, Laplace's likelihood of the spread about it, and the cross-entropy of the origin.

    `first` [D + 1] tells where each dataset begins among the rows that are fitted; a batch draws a dataset first, then
    a transition of it.
    """
    pairs, changes, chosen, first = data
    which, where = jax.random.split(key)
    whose = jax.random.randint(which, (BATCH,), 0, len(first) - 1)
    size = first[whose + 1] - first[whose]
    rows = chosen[first[whose] + (jax.random.uniform(where, (BATCH,)) * size).astype(int)]
    change, log_spread = _expected(networks, pairs[rows])
    error = jnp.abs(jax.lax.stop_gradient(changes[rows] - change))
    spread = jnp.mean(error * jnp.exp(-log_spread) + log_spread)
    origin = optax.softmax_cross_entropy_with_integer_labels(mlp(networks.origin, pairs[rows]), whose)
    return jnp.mean(optax.huber_loss(change, changes[rows])) + 0.1 * spread + jnp.mean(origin)


@jax.jit
def _predict(networks: Networks, pairs: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The columns of `Nuisance`."""
    change, log_spread = _expected(networks, pairs)
    return change, jnp.exp(log_spread), jax.nn.softmax(mlp(networks.origin, pairs))


def _expected(networks: Networks, pairs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The change at state-actions [n, X], and the logarithm of its spread: [n, O], [n, O]."""
    change, log_spread = jnp.split(mlp(networks.motion, pairs), 2, axis=-1)
    return change, jnp.clip(log_spread, *LOG_SPREAD)


class Effects(NamedTuple):
    """τ of O features of Δs in K regressors, and what is known of it."""

    effect: Reals  # [O, K] in deviations of Δs, per deviation of the regressor
    error: Reals  # [O, K] standard error, from leaving out one episode at a time
    episodes: Reals  # [O, K] how many tell something of it

    def p(self, margin: float) -> Reals:
        """P-values [O, K], two-sided, of effects that are no larger than the margin."""
        size, error, freedom = np.abs(self.effect), np.maximum(self.error, 1e-12), np.maximum(self.episodes - 1, 1)
        above, below = (special.stdtr(freedom, -(size + shift) / error) for shift in (-margin, margin))
        return np.minimum(1.0, above + below)

    def most_evident(self, margin: float) -> tuple[float, int, int]:
        """The least of them, times how many there are; its feature and its regressor."""
        found = self.p(margin)
        feature, regressor = np.unravel_index(found.argmin(), found.shape)
        return float(found.min() * found.size), int(feature), int(regressor)

    def take(self, regressors: Ints) -> Effects:
        """What is known of some regressors, the others being accounted for."""
        return Effects(*(column[:, regressors] for column in self))


class Residuals(NamedTuple):
    """n transitions of both datasets; those of an episode lie together."""

    error: Reals  # [n, O] Δs − m, in deviations of Δs
    spread: Reals  # [n, O] how large an error is to be expected
    side: Reals  # [n] z − e
    weight: Reals  # [n] with which both datasets count alike
    episode: Ints  # [n]


def estimate(found: Residuals, regressors: Reals, floor: float) -> Effects:
    """Regress every feature's errors on z − e times the regressors [n, K].

    Transitions count by how predictable they are, but no spread is taken for less than the floor: a low one shows a
    small push where the robot moves freely, a high one lets all states count about alike.
    """
    starts = np.flatnonzero(np.diff(found.episode, prepend=-1))
    features = range(found.error.shape[1])
    with ThreadPoolExecutor(2) as pool:
        fits = list(pool.map(lambda feature: _regress(found, regressors, starts, floor, feature), features))
    return Effects(*(np.array(column, np.float64) for column in zip(*fits, strict=True)))


def _regress(
    found: Residuals, regressors: Reals, starts: Ints, floor: float, feature: int
) -> tuple[Reals, Reals, Reals]:
    """One feature: effects, standard errors and numbers of episodes, [K] each."""
    spread = np.maximum(found.spread[:, feature], floor)
    root = np.sqrt(found.weight)
    columns = (root * found.side / spread)[:, None] * regressors
    target = root * np.clip(found.error[:, feature] / spread, -CLIP, CLIP)
    ends = np.append(starts[1:], len(target))
    parts = [slice(*bounds) for bounds in zip(starts, ends, strict=True)]
    grams = np.array([columns[part].T @ columns[part] for part in parts], np.float64)  # [episodes, K, K]
    slopes = np.array([columns[part].T @ target[part] for part in parts], np.float64)  # [episodes, K]
    gram, slope = grams.sum(axis=0), slopes.sum(axis=0)
    gram += RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram))
    effect = np.linalg.solve(gram, slope)
    without = np.linalg.solve(gram - grams, (slope - slopes)[:, :, None])[:, :, 0]  # [episodes, K]
    error = np.sqrt((len(parts) - 1) / len(parts) * ((without - effect) ** 2).sum(axis=0))
    shares = np.diagonal(grams, axis1=1, axis2=2)
    return effect, error, shares.sum(axis=0) ** 2 / np.maximum((shares**2).sum(axis=0), 1e-300)


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

    def __call__(self, sources: Sequence[Source]) -> list[np.ndarray]:
        main, others = sources[0].dataset, [source.dataset for source in sources[1:]]
        found = checks(main, others, seed=self.seed) if others else []
        doubted = [max(self.floor, check.p / LEVEL) if check.verdict == "different" else 1.0 for check in found]
        return [np.full(source.dataset.size, weight) for source, weight in zip(sources, [1.0, *doubted], strict=True)]
