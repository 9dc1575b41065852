"""`advise`: measure every candidate, plan with every choice of them, and rank what comes out."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from utds.adviser.advice import Advice, Candidate, Option, worth
from utds.adviser.bound import Array, Bound, Coverage, Floats, Subset, combinations_of, good_behaviour
from utds.adviser.dynamics import checks, trusted
from utds.adviser.score import Prediction, predictions
from utds.data.columns import KNOWN
from utds.data.dataset import Dataset
from utds.data.labelling import Rewards, make, rewards_for
from utds.data.lake import check_compatible
from utds.errors import ConfigError


def advise(
    main: Dataset,
    candidates: Sequence[Dataset],
    *,
    rewards: Rewards = KNOWN,
    width: int = 1024,
    reach: float = 0.5,
    limit: int = 200_000,
    seed: int = 0,
    trust_dynamics: bool = False,
) -> Advice:
    """Rank datasets by what sharing them with a task's own data promises; no policy is trained.

    Args:
        main: data of the task to learn.
        candidates: data of other tasks of the same robot. Those that equal another one byte for byte count once.
        rewards: how the candidates are labelled for the main task, as in `utds.share`.
        width: number of random features that span the space in which Γ is measured.
        reach: their length scale, as a share of the median distance between state-actions.
        limit: transitions per dataset that are read for Γ.
        seed: of the features and of the model of the dynamics.
        trust_dynamics: leave out the check of dynamics, which takes most of the time.

    Returns:
        An `Advice`: `candidates` and `options`, best first, `choice` and `recommendation`.

    Example:
        >>> advice = utds.advise(utds.load("walker-flip/medium-replay"), [utds.load("walker-run/replay")])
        >>> print(advice.recommendation)
    """
    started = time.perf_counter()
    candidates, duplicates = _distinct(main, candidates)
    check_compatible([main, *candidates])
    own = worth(main.returns)
    labelling = make(rewards)
    labels = [rewards_for(other, main, labelling) for other in candidates]
    returns = [other.returns_with(found) for other, found in zip(candidates, labels, strict=True)]
    dynamics = [trusted(other) for other in candidates] if trust_dynamics else checks(main, candidates, seed=seed)
    allowed = [index for index, found in enumerate(dynamics) if found.verdict != "different"]

    coverage = Coverage([main, *candidates], width, seed, reach, limit)
    sight = _look_ahead(main, candidates, labels, returns, allowed, coverage)
    alone = sight.predictions[()]
    ranked = [
        Candidate(
            name=other.name,
            worth=worth(returns[index], own.best),
            dynamics=dynamics[index],
            overlap=coverage.overlap(main, other),
            after=sight.singles[index].gamma,
            plan=sight.predictions[index,].plan if index in allowed else None,
            score=sight.predictions[index,].value - alone.value if index in allowed else None,
        )
        for index, other in enumerate(candidates)
    ]
    return Advice(
        main=main.name,
        task=main.metadata.task,
        worth=own,
        before=sight.before.gamma,
        plan=alone.plan,
        value=alone.value,
        candidates=tuple(sorted(ranked, key=lambda c: (c.score is None, -(c.score or 0), c.after))),
        options=_options(candidates, sight),
        duplicates=duplicates,
        seconds=time.perf_counter() - started,
    )


def _distinct(main: Dataset, candidates: Sequence[Dataset]) -> tuple[list[Dataset], tuple[tuple[str, str], ...]]:
    """The candidates whose content differs from the main data's and from each other's, and what the others equal."""
    if not candidates:
        raise ConfigError("there is no candidate to advise on; name at least one dataset after --from")
    first = {main.digest: main.name}
    distinct, duplicates = [], []
    for other in _named_apart(main, candidates):
        if other.digest in first:
            duplicates.append((other.name, first[other.digest]))
        else:
            first[other.digest] = other.name
            distinct.append(other)
    if not distinct:
        raise ConfigError(
            f"every candidate is {main.name} itself (equal digests): name at least one other dataset after --from"
        )
    return distinct, tuple(duplicates)


def _named_apart(main: Dataset, candidates: Sequence[Dataset]) -> Iterator[Dataset]:
    """The candidates; datasets that were never stored have the names of their tasks, and several may have one."""
    taken = {main.name}
    for other in candidates:
        names = (other.name, *(f"{other.name} ({number})" for number in range(2, len(candidates) + 2)))
        name = next(name for name in names if name not in taken)
        taken.add(name)
        named = other.name == name
        yield other if named else Dataset(other._columns, other.lengths, replace(other.metadata, id=name), other.digest)


class _Sight(NamedTuple):
    """What bound and plan say of every choice of data."""

    before: Bound  # of the main data alone
    singles: list[Bound]  # of each candidate, refused ones too
    choices: list[Bound]  # of all that may be shared: candidates and combinations of them
    predictions: dict[Subset, Prediction]  # of these, and of the main data alone


def _look_ahead(
    main: Dataset,
    candidates: Sequence[Dataset],
    labels: Sequence[Floats],
    returns: Sequence[Array],
    allowed: Sequence[int],
    coverage: Coverage,
) -> _Sight:
    """Measure and plan with every choice of the candidates that are allowed."""
    # Behaviour that the robot can't show is no example: good episodes come from data with the main task's dynamics.
    known = [main, *(candidates[index] for index in allowed)]
    good = good_behaviour(known, [main.returns, *(returns[index] for index in allowed)])
    before = coverage.bound(good)
    singles = [coverage.bound(good, (index,)) for index in range(len(candidates))]
    choices = [singles[index] for index in allowed]
    choices += combinations_of(coverage, good, choices)
    found = predictions(known, [main.rewards, *(labels[index] for index in allowed)], allowed, [before, *choices])
    return _Sight(before, singles, choices, found)


def _options(candidates: Sequence[Dataset], sight: _Sight) -> tuple[Option, ...]:
    """What can be shared, best first."""
    options = [
        Option(
            names=tuple(candidates[index].name for index in bound.subset),
            after=bound.gamma,
            shrinkage=1 - bound.gamma / sight.before.gamma,
            plan=sight.predictions[bound.subset].plan,
            score=sight.predictions[bound.subset].value - sight.predictions[()].value,
        )
        for bound in sight.choices
    ]
    return tuple(sorted(options, key=lambda option: (-option.score, option.after)))
