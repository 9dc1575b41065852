"""Which datasets to share with a task's own data, before anything is trained.

ranking.py      `advise`: measures, plans and ranks; advice.py is its result, in numbers, words and a picture
coverage.py     how well data is known: Γ of Corollary 1 in a fixed space of random features
score.py        what training promises: a cautious plan through the data, less what is uncertain about it
dynamics.py     whether a dataset follows the main task's dynamics: what to expect of a transition, and how far the
                candidate differs from it at the same state and action (robinson.py)
"""

from utds.adviser.advice import Advice, Candidate
from utds.adviser.dynamics import Check, check, checks
from utds.adviser.ranking import advise

__all__ = ["Advice", "Candidate", "Check", "advise", "check", "checks"]
