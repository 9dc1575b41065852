"""Checkpoints: everything a run needs to resume bit-exactly, in one safetensors file that is replaced atomically.

    checkpoint.safetensors    arrays: every seed's state and its running totals of metrics
                              JSON:   the step, the seeds

No random state is kept: step t's randomness is a function of the seed and t.
"""

from pathlib import Path
from typing import TypeVar

from utds import serialization
from utds.errors import TrainingError
from utds.training import run_files

NAME = "checkpoint.safetensors"

T = TypeVar("T")


def save(folder: Path, states: T, step: int, seeds: tuple[int, ...]) -> None:
    """Replace the folder's checkpoint."""
    serialization.save(folder / NAME, states, {"step": step, "seeds": list(seeds)})


def load(folder: Path, like: T, seeds: tuple[int, ...]) -> tuple[T, int] | None:
    """States in the structure of `like`, and the step at which they were saved; None where nothing was saved yet."""
    if not (folder / NAME).exists():
        return None
    states, meta = serialization.load(folder / NAME, like)
    run_files.check(meta, run_files.CHECKPOINT, str(folder / NAME))
    if meta["seeds"] != list(seeds):
        raise TrainingError(f"{folder / NAME} holds seeds {meta['seeds']}, not {list(seeds)}; give the run's own seeds")
    return states, meta["step"]
