"""Multi-task data sharing in offline reinforcement learning.

Names are loaded when they are first used, so `import utds` and `utds --help` are quick. Type checkers and editors read
them from the imports below; a test holds both lists together.
"""

import importlib
from typing import TYPE_CHECKING, Any

from utds.errors import Error
from utds.version import __version__

if TYPE_CHECKING:
    from utds import domains
    from utds.adviser import advise
    from utds.algorithms import Preset, register_algorithm
    from utds.algorithms import make as make_algorithm
    from utds.algorithms.awac import AWAC
    from utds.algorithms.bc import BC
    from utds.algorithms.cds import CDS, CDSZero
    from utds.algorithms.cql import CQL, UDS
    from utds.algorithms.edac import EDAC, SACN
    from utds.algorithms.iql import IQL
    from utds.algorithms.rebrac import ReBRAC
    from utds.algorithms.td3 import TD3
    from utds.algorithms.td3bc import TD3BC
    from utds.algorithms.utds import PBRL, UTDS
    from utds.data.dataset import Dataset
    from utds.data.lake import Lake, share
    from utds.data.pool import Pool
    from utds.data.reward_model import LearnedReward
    from utds.data.store import load
    from utds.domains.simulator import Simulator
    from utds.training import Run, train
    from utds.training.offline import evaluate_offline

__all__ = [
    "AWAC",
    "BC",
    "CDS",
    "CQL",
    "EDAC",
    "IQL",
    "PBRL",
    "SACN",
    "TD3",
    "TD3BC",
    "UDS",
    "UTDS",
    "CDSZero",
    "Dataset",
    "Error",
    "Lake",
    "LearnedReward",
    "Pool",
    "Preset",
    "ReBRAC",
    "Run",
    "Simulator",
    "__version__",
    "advise",
    "domains",
    "evaluate_offline",
    "load",
    "make_algorithm",
    "register_algorithm",
    "share",
    "train",
]

_ELSEWHERE = {  # module of the names that are no algorithm's
    "Dataset": "utds.data.dataset",
    "Lake": "utds.data.lake",
    "LearnedReward": "utds.data.reward_model",
    "Pool": "utds.data.pool",
    "Run": "utds.training",
    "Simulator": "utds.domains.simulator",
    "advise": "utds.adviser",
    "evaluate_offline": "utds.training.offline",
    "load": "utds.data.store",
    "share": "utds.data.lake",
    "train": "utds.training",
}


def _load(name: str) -> Any:
    """A public name's value; loads the module that has it."""
    if name == "domains":
        return importlib.import_module("utds.domains")
    if name == "algorithm":
        raise AttributeError("utds.algorithm is called utds.make_algorithm now")
    if name not in __all__:
        raise AttributeError(f"module 'utds' has no attribute {name!r}")
    module = importlib.import_module(_ELSEWHERE.get(name, "utds.algorithms"))
    return getattr(module, "make" if name == "make_algorithm" else name)


if not TYPE_CHECKING:  # a checker that saw it would take every name for granted

    def __getattr__(name: str) -> Any:
        globals()[name] = value = _load(name)
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
