"""Multi-task data sharing in offline reinforcement learning.

Names are loaded when they are first used, so `import utds` and `utds --help` are quick.
"""

import importlib
from typing import Any

from utds.errors import Error
from utds.version import __version__

# Public name -> the module that has it.
_PUBLIC = {
    "Dataset": "utds.data.dataset",
    "Pool": "utds.data.pool",
    "Simulator": "utds.domains.simulator",
    "domains": "utds.domains",
}

__all__ = ["Error", "__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'utds' has no attribute {name!r}")
    module = importlib.import_module(_PUBLIC[name])
    value = module if module.__name__ == f"utds.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
