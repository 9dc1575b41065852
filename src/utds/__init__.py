"""Multi-task data sharing in offline reinforcement learning.

Names are loaded when they are first used, so `import utds` and `utds --help` are quick.
"""

import importlib
from typing import Any

from utds.errors import Error
from utds.version import __version__

# Public name -> the module that has it.
_PUBLIC = {
    "AWAC": "utds.algorithms",
    "BC": "utds.algorithms",
    "CDS": "utds.algorithms",
    "CDSZero": "utds.algorithms",
    "CQL": "utds.algorithms",
    "Dataset": "utds.data.dataset",
    "EDAC": "utds.algorithms",
    "IQL": "utds.algorithms",
    "Lake": "utds.data.lake",
    "LearnedReward": "utds.data.reward_model",
    "PBRL": "utds.algorithms",
    "Pool": "utds.data.pool",
    "Preset": "utds.algorithms",
    "ReBRAC": "utds.algorithms",
    "Run": "utds.training",
    "SACN": "utds.algorithms",
    "Simulator": "utds.domains.simulator",
    "TD3": "utds.algorithms",
    "TD3BC": "utds.algorithms",
    "UDS": "utds.algorithms",
    "UTDS": "utds.algorithms",
    "advise": "utds.adviser",
    "algorithm": "utds.algorithms",
    "domains": "utds.domains",
    "evaluate_offline": "utds.training.offline",
    "load": "utds.data.store",
    "register_algorithm": "utds.algorithms",
    "share": "utds.data.lake",
    "train": "utds.training",
}

__all__ = ["Error", "__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'utds' has no attribute {name!r}")
    module = importlib.import_module(_PUBLIC[name])
    attribute = {"algorithm": "make"}.get(name, name)  # utds.algorithm("cql", preset="paper")
    value = module if module.__name__ == f"utds.{name}" else getattr(module, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
