"""Checkpoints: everything a run needs to go on bit-exactly, in one safetensors file that is replaced atomically.

    checkpoint.safetensors    arrays: every seed's state and its running totals of metrics
                              JSON:   the step, the seeds

No random state is kept: step t's randomness is a function of the seed and t.
"""

from pathlib import Path
from typing import TypeVar

from utds import trees
from utds.errors import TrainingError

NAME = "checkpoint.safetensors"

T = TypeVar("T")


def save(folder: Path, lanes: T, step: int, seeds: tuple[int, ...]) -> None:
    """Replace the folder's checkpoint."""
    trees.save(folder / NAME, lanes, {"step": step, "seeds": list(seeds)})


def load(folder: Path, like: T, seeds: tuple[int, ...]) -> tuple[T, int] | None:
    """The lanes in the structure of `like` and the step at which they were saved; None where nothing was saved yet."""
    if not (folder / NAME).exists():
        return None
    lanes, meta = trees.load(folder / NAME, like)
    if meta["seeds"] != list(seeds):
        raise TrainingError(f"{folder / NAME} holds seeds {meta['seeds']}, not {list(seeds)}; give the run's own seeds")
    return lanes, meta["step"]
