"""`advise`: measure every candidate, plan with it, and rank what comes out."""

import time
from collections.abc import Iterator, Sequence

from utds.adviser.advice import Advice, Candidate, worth
from utds.adviser.coverage import Coverage, any_action, good_behaviour
from utds.adviser.dynamics import checks, trusted
from utds.adviser.score import predictions
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
    seed: int = 0,
    trust_dynamics: bool = False,
) -> Advice:
    """Rank datasets by what sharing them with a task's own data promises; no policy is trained.

    Args:
        main: data of the task to learn.
        candidates: data of other tasks of the same robot. Those that equal another one byte for byte count once.
        rewards: how the candidates are labelled for the main task, as in `utds.share`.
        seed: of the random features and of the model of the dynamics.
        trust_dynamics: leave out the check of dynamics, which takes most of the time.

    Returns:
        An `Advice`: `candidates`, the highest score first, `choice` and `recommendation`.

    Example:
        >>> advice = utds.advise(utds.load("walker-flip/medium-replay"), [utds.load("walker-run/replay")])
        >>> print(advice.recommendation)
    """
    started = time.perf_counter()
    candidates, duplicates = _distinct(main, candidates)
    check_compatible([main, *candidates])
    labelling = make(rewards)
    labels = [rewards_for(other, main, labelling) for other in candidates]
    returns = [other.returns_with(found) for other, found in zip(candidates, labels, strict=True)]
    dynamics = [trusted(other) for other in candidates] if trust_dynamics else checks(main, candidates, seed=seed)

    # What the robot can't do is no example, and changes nothing: only data with the main task's dynamics is looked at.
    allowed = [index for index, found in enumerate(dynamics) if found.verdict != "different"]
    known = [main, *(candidates[index] for index in allowed)]
    coverage = Coverage(known, seed)
    good = good_behaviour(known, [main.returns, *(returns[index] for index in allowed)])
    others = any_action(good, main.action_size)
    gammas = [coverage.gamma(others, subset) for subset in ((), *((place,) for place in range(len(allowed))))]
    alone, *shared = predictions(known, [main.rewards, *(labels[index] for index in allowed)], gammas)
    found = dict(zip(allowed, shared, strict=True))

    ranked = [
        Candidate(
            name=other.name,
            worth=worth(returns[index]),
            dynamics=dynamics[index],
            plan=found[index].plan if index in found else None,
            score=found[index].value - alone.value if index in found else None,
        )
        for index, other in enumerate(candidates)
    ]
    return Advice(
        main=main.name,
        task=main.metadata.task,
        worth=worth(main.returns),
        plan=alone.plan,
        value=alone.value,
        candidates=tuple(sorted(ranked, key=lambda c: (c.score is None, -(c.score or 0), -c.worth.best))),
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
        yield other if other.name == name else other.named(name)
