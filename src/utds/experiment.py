"""The main road in one call: train on a pool and evaluate on its task, where the task has a simulator."""

from typing import Any

from utds import evaluation, training
from utds.algorithms import UTDS, Algorithm
from utds.data.pool import Pool
from utds.runs import Run


def train(pool: Pool, algorithm: Algorithm | None = None, *, episodes: int = 10, **options: Any) -> Run:
    """Train `algorithm`, by default UTDS as in the paper, on a pool and return the run.

    Evaluates `episodes` episodes at intervals if the pool's task belongs to a known domain. `options` are those of
    `utds.training.train`: seeds, steps, out, eval_every, checkpoint_every, resume and the rest.
    """
    options.setdefault("evaluate", evaluation.evaluator(pool.info.task, episodes))
    return training.train(pool, algorithm or UTDS(), **options)
