"""Which datasets to share with a task's own data, before anything is trained.

value.py      what each dataset is worth under the main task's reward
bound.py      how far sharing it shrinks the bound of Corollary 1, in the random features of features.py
plan.py       what a cautious planner would get out of the data with it
prospect.py   what training promises, from plan and bound: the prediction of the gain
dynamics.py   whether it follows the main task's dynamics: what is to be expected of a transition (expected.py), and how
              far the candidate differs from it (difference.py)
ranking.py    the advice, in numbers and words; figure.py draws it
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

from utds.advise import value
from utds.advise.bound import Bound, Good, Ruler, combinations_of, good_behaviour
from utds.advise.dynamics import Check, check, checks, trusted
from utds.advise.features import Array
from utds.advise.plan import Members
from utds.advise.prospect import Prospect, prospects
from utds.advise.ranking import Advice, Candidate, Option
from utds.advise.transitions import Floats, check_same_robot
from utds.data.dataset import Dataset
from utds.data.relabel import Rewards, rewards_for
from utds.errors import ConfigError

__all__ = ["Advice", "Candidate", "Check", "Option", "advise", "check", "checks"]


def advise(
    main: Dataset,
    candidates: Sequence[Dataset],
    *,
    rewards: Rewards = "known",
    width: int = 1024,
    reach: float = 0.5,
    limit: int = 200_000,
    seed: int = 0,
    trust_dynamics: bool = False,
) -> Advice:
    """Rank `candidates` by what sharing them with `main` promises; nothing is trained but a model of the dynamics.

    `rewards` labels the candidates as in `utds.share`. `width` random features with a length scale of `reach` median
    distances span the space in which Γ_lcb is measured, over at most `limit` transitions a dataset. `trust_dynamics`
    leaves out the check of dynamics, which takes most of the time.
    """
    if not candidates:
        raise ConfigError("there is no candidate to advise on; name at least one dataset after --from")
    for other in candidates:
        check_same_robot(main, other)
    started = time.perf_counter()
    own = value.worth(main.returns)
    labels = [rewards_for(other, main.metadata.task, rewards, main=main) for other in candidates]
    returns = [value.returns_of(other, found) for other, found in zip(candidates, labels, strict=True)]
    dynamics = [trusted(other) for other in candidates] if trust_dynamics else checks(main, candidates, seed=seed)
    allowed = [index for index, found in enumerate(dynamics) if found.verdict != "different"]

    ruler = Ruler([main, *candidates], width, seed, reach, limit)
    sight = _look_ahead(main, candidates, labels, returns, allowed, ruler)
    alone = sight.prospects[()]
    counts = dict(zip(allowed, sight.good.sources[1:], strict=True))
    ranked = [
        Candidate(
            name=other.name,
            worth=value.worth(returns[index], own.best),
            dynamics=dynamics[index],
            overlap=ruler.overlap(main, other),
            good=counts.get(index, 0),
            after=sight.singles[index].gamma,
            plan=sight.prospects[index,].plan if index in allowed else None,
            score=sight.prospects[index,].value - alone.value if index in allowed else None,
        )
        for index, other in enumerate(candidates)
    ]
    return Advice(
        main=main.name,
        task=main.metadata.task,
        worth=own,
        good_value=sight.good.value,
        good_own=sight.good.sources[0],
        good_episodes=sum(sight.good.sources),
        before=sight.before.gamma,
        plan=alone.plan,
        value=alone.value,
        candidates=tuple(sorted(ranked, key=lambda c: (c.score is None, -(c.score or 0), c.after))),
        options=_options(candidates, sight),
        seconds=time.perf_counter() - started,
    )


class _Sight(NamedTuple):
    """What bound and plan say of every choice of data."""

    good: Good
    before: Bound  # of the main data alone
    singles: list[Bound]  # of each candidate, refused ones too
    choices: list[Bound]  # of all that may be shared: candidates and combinations of them
    prospects: dict[Members, Prospect]  # of these, and of the main data alone


def _look_ahead(
    main: Dataset,
    candidates: Sequence[Dataset],
    labels: Sequence[Floats],
    returns: Sequence[Array],
    allowed: Sequence[int],
    ruler: Ruler,
) -> _Sight:
    """Measure and plan with every choice of the candidates that are allowed."""
    # Behaviour that the robot can't show is no example: good episodes come from data with the main task's dynamics.
    known = [main, *(candidates[index] for index in allowed)]
    good = good_behaviour(known, [main.returns, *(returns[index] for index in allowed)])
    before = ruler.bound(good)
    singles = [ruler.bound(good, (index,)) for index in range(len(candidates))]
    choices = [singles[index] for index in allowed]
    choices += combinations_of(ruler, good, choices)
    found = prospects(known, [main.rewards, *(labels[index] for index in allowed)], allowed, [before, *choices])
    return _Sight(good, before, singles, choices, found)


def _options(candidates: Sequence[Dataset], sight: _Sight) -> tuple[Option, ...]:
    """What can be shared, best first."""
    options = [
        Option(
            names=tuple(candidates[index].name for index in bound.members),
            after=bound.gamma,
            shrinkage=1 - bound.gamma / sight.before.gamma,
            plan=sight.prospects[bound.members].plan,
            score=sight.prospects[bound.members].value - sight.prospects[()].value,
        )
        for bound in sight.choices
    ]
    return tuple(sorted(options, key=lambda option: (-option.score, option.after)))
