"""Training: the compiled loop, what happens between its bursts, checkpoints and the run directory."""

from utds.evaluation.rollout import act
from utds.training.run import Run
from utds.training.trainer import Trainer, configuration, train

__all__ = ["Run", "Trainer", "act", "configuration", "train"]
