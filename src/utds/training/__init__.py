"""Training: the compiled loop, what happens between its bursts, checkpoints and the run directory.

Names are loaded when they are first used, as those of `utds`: reading run directories takes no JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from utds.evaluation.rollout import act
    from utds.training.run import Run
    from utds.training.trainer import Trainer, configuration, train

__all__ = ["Run", "Trainer", "act", "configuration", "train"]

_ELSEWHERE = {"Run": "utds.training.run", "act": "utds.evaluation.rollout"}  # the others are the trainer's

if not TYPE_CHECKING:  # a checker that saw it would take every name for granted

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'utds.training' has no attribute {name!r}")
        module = importlib.import_module(_ELSEWHERE.get(name, "utds.training.trainer"))
        globals()[name] = value = getattr(module, name)
        return value
