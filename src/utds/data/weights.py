"""How often each transition of a pool is drawn: weights from arrays, a function, returns or dynamics.

    share(…, weights=[own, other])       an array [n] of non-negative numbers for each dataset, the main one's first
    share(…, weights=function)           function(sources) -> such arrays; a source has dataset, rewards [n] and own
    share(…, weights="returns")          `ReturnWeights`: good episodes more often
    share(…, weights="dynamics")         `utds.adviser.dynamics.DynamicsWeights`: data of other dynamics less often

A pool keeps the running sum of the weights as whole numbers, so a draw is one random number and one binary search.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from utds.data.cache import code_digest
from utds.data.dataset import Dataset
from utds.data.labelling import with_options
from utds.errors import ConfigError, DataError

UNIFORM, RETURNS, DYNAMICS = "uniform", "returns", "dynamics"  # weights that have a name
_TOTAL = 2**31 - 2  # of the whole numbers: what 32 bits can count


class Source(NamedTuple):
    """A dataset of a pool, as weights see it."""

    dataset: Dataset
    rewards: np.ndarray  # [n] of the pool's task
    own: bool  # whether it is the main task's own data


Function = Callable[[Sequence[Source]], Sequence[object]]
Weights = Function | Sequence[object] | str | None  # what `share` takes


@dataclass(frozen=True)
class ReturnWeights:
    """exp(g / temperature) for the transitions of an episode of return g, returns brought to [0, 1] over the pool.

    Trajectory weighting (Hong et al., 2023): a learner that stays near its data stays near the better part of it.
    """

    temperature: float = 0.2  # the lower, the more the best episodes count

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ConfigError(f"temperature is {self.temperature}; give a positive number")

    @property
    def identity(self) -> str:
        return f"{RETURNS}:temperature={self.temperature}"

    def __call__(self, sources: Sequence[Source]) -> list[np.ndarray]:
        returns = [source.dataset.returns_with(source.rewards) for source in sources]
        low, high = min(g.min() for g in returns), max(g.max() for g in returns)
        width = high - low or 1.0
        return [
            np.repeat(np.exp((g - high) / width / self.temperature), source.dataset.lengths)
            for g, source in zip(returns, sources, strict=True)
        ]


def make(weights: Weights, sources: Callable[[], Sequence[Source]]) -> tuple[str, np.ndarray | None]:
    """What a pool notes of its weights, and their running sum [M] int32; none where they are uniform."""
    if weights is None or (isinstance(weights, str) and weights == UNIFORM):
        return UNIFORM, None
    if isinstance(weights, str):
        weights = _named(weights)
    found = sources()
    if callable(weights):
        called = getattr(weights, "__name__", type(weights).__name__)
        identity = getattr(weights, "identity", None) or f"function:{called}@{code_digest(weights)[:16]}"
        return identity, running(weights(found), found)
    digest = hashlib.sha256()
    for part in weights:
        digest.update(np.ascontiguousarray(part, np.float64).tobytes())
    return f"arrays@{digest.hexdigest()[:16]}", running(weights, found)


def running(parts: Sequence[object], sources: Sequence[Source]) -> np.ndarray:
    """The running sum [M] int32 of weights for the transitions of each source, one source after the other.

    Weights are rounded to about a two-billionth of their sum, and none that is positive to 0.
    """
    if len(parts) != len(sources):
        raise DataError(f"weights of {len(parts)} datasets were given for {len(sources)}; give one array for each")
    arrays = []
    for part, source in zip(parts, sources, strict=True):
        array = np.asarray(part, np.float64)
        if array.shape != (source.dataset.size,):
            raise DataError(
                f"weights of {source.dataset.name} have shape {list(array.shape)}; [{source.dataset.size}] is needed"
            )
        bad = ~(np.isfinite(array) & (array >= 0))
        if bad.any():
            row = int(np.argmax(bad))
            raise DataError(f"weights of {source.dataset.name}, transition {row}: {array[row]}; give numbers from 0 on")
        if not array.any():
            raise DataError(f"all weights of {source.dataset.name} are 0; leave it out")
        arrays.append(array)
    joined = np.concatenate(arrays)
    joined = np.ldexp(joined, -np.frexp(joined.max())[1])  # by a power of two: exact, and no sum overflows
    counts = np.ceil(joined * ((_TOTAL - len(joined)) / joined.sum())).astype(np.int64)
    return np.cumsum(counts).astype(np.int32)


def _named(text: str) -> Function:
    """Weights from a line such as "returns" or "returns:temperature=0.2"."""
    from utds.adviser.dynamics import DynamicsWeights  # which compares data: more than most pools need

    kinds: dict[str, Callable[..., Function]] = {RETURNS: ReturnWeights, DYNAMICS: DynamicsWeights}
    name = _name(text)
    if name not in kinds:
        raise ConfigError(f"weights={text!r} is unknown; use {UNIFORM}, {', '.join(kinds)}, or returns:temperature=0.2")
    return with_options(kinds[name], text, "weights")


def can_be_remade(identity: str) -> bool:
    """Whether weights are made again from their identity in no time; functions and arrays aren't stored."""
    return _name(identity) in (UNIFORM, RETURNS)


def weigh_dynamics(identity: str) -> bool:
    """Whether weights draw data that moves otherwise less often, so that it needn't be refused."""
    return _name(identity) == DYNAMICS


def _name(identity: str) -> str:
    return identity.partition("@")[0].partition(":")[0]
