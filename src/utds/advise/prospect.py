"""What training promises with a choice of data: the return of a cautious plan, less what is uncertain about it.

Corollary 1 bounds what a pessimistic policy falls short of the best one by the expected uncertainty in the best one's
states. The plan stands in for the best policy that the data allows, and what may be lost is a share of what it earns:
where it earns nothing, there is nothing to lose. The uncertainty is that of any action there, not of the plan's alone:
a policy is found by comparing actions, and a few episodes of an expert say nothing about the others.
"""

from collections.abc import Sequence
from typing import NamedTuple

from utds.advise.bound import Bound
from utds.advise.plan import Members, Planner
from utds.advise.transitions import Floats
from utds.data.dataset import Dataset

CAUTION = 0.5  # share of what a plan earns that is lost where nothing is known, Γ = 1


class Prospect(NamedTuple):
    plan: float  # return of the best plan
    value: float  # what is left of it, for what is uncertain


def prospects(
    known: Sequence[Dataset], labels: Sequence[Floats], allowed: Sequence[int], bounds: Sequence[Bound]
) -> dict[Members, Prospect]:
    """The prospect of each bound's choice. `known` are the main data and the allowed candidates, in their order."""
    planner = Planner(known, labels)
    places = [tuple(allowed.index(index) for index in bound.members) for bound in bounds]
    return {
        bound.members: Prospect(plan, planner.worst + (plan - planner.worst) * (1 - CAUTION * bound.others))
        for bound, plan in zip(bounds, planner.values(places), strict=True)
    }
