"""Which datasets to share with a task's own data, before anything is trained.

advice.py       `advise` measures, plans and ranks; `Advice` is its result, in numbers, words and a picture
score.py        what training promises: a cautious plan through the data, less what is uncertain about it, which is Γ of
                Corollary 1 in a fixed space of random features
dynamics.py     whether a dataset follows the main task's dynamics: what to expect of a transition, and how far the
                candidate differs from it at the same state and action
"""

from utds.adviser.advice import Advice, Candidate, advise
from utds.adviser.dynamics import Check, check, checks

__all__ = ["Advice", "Candidate", "Check", "advise", "check", "checks"]
