"""Relabelling from the command line: rewards named by a word, a dataset or a file, and what to say about the result."""

import importlib.util
import time
from pathlib import Path

import numpy as np

from utds.data import relabel, store
from utds.data.dataset import Dataset
from utds.data.relabel import Function, Rewards
from utds.data.reward_model import LearnedReward
from utds.errors import ConfigError, DataError


def report(id: str, task: str, rewards: str, main: str | None, penalty: float) -> tuple[Dataset, list[str]]:
    """The relabelled dataset and a few lines about it."""
    dataset = store.load(id)
    source = store.load(main) if main else None
    if rewards != "learned" and (main is not None or penalty):
        raise ConfigError("main and penalty are for learned rewards; add: --rewards learned")
    if rewards == "learned" and source is None:
        raise ConfigError(f"a learned reward needs data of {task} to learn from; add: --main {task}/medium-replay")
    if source is not None and source.metadata.task != task:
        raise ConfigError(f"{main} carries rewards of {source.metadata.task}; learn {task} from data of {task}")
    chosen = LearnedReward(penalty=penalty) if rewards == "learned" else chosen_rewards(rewards)
    begin = time.perf_counter()
    relabelled = relabel.relabel(dataset, task, chosen, main=source)
    seconds = time.perf_counter() - begin
    notes = [f"{dataset.size} transitions labelled in {seconds:.2f} s"]
    if isinstance(chosen, LearnedReward) and source is not None:
        notes += _confidence(dataset, source, task, chosen)
    return relabelled, notes


def chosen_rewards(text: str) -> Rewards:
    """`known`, `zero`, or the function `name` of `file.py:name`, which is run."""
    if text in ("known", "zero"):
        return text  # type: ignore[return-value]
    path, colon, name = text.rpartition(":")
    if not colon or not path.endswith(".py"):
        raise ConfigError(f"rewards {text!r} is unknown; use known, learned, zero, or a function as file.py:name")
    return _function(Path(path), name)


def _function(path: Path, name: str) -> Function:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise DataError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not callable(found):
        raise DataError(f"{path} has no function {name!r}")
    return found


def _confidence(dataset: Dataset, main: Dataset, task: str, model: LearnedReward) -> list[str]:
    """How sure a learned reward is: on held-out main data, on this data, and against the truth where it is known."""
    found = relabel.predicted(dataset, main, model)
    middle, worst = np.quantile(found.std, (0.5, 0.9))
    notes = [
        f"on episodes of {main.name} kept aside: correlation {found.correlation:.3f}, error {found.error:.3g}",
        f"doubt about {dataset.name}: median {middle:.3g}, worst tenth above {worst:.3g}",
    ]
    if relabel.is_known(dataset, task):
        truth = relabel.known(dataset, task)
        if truth.std() > 0 and found.mean.std() > 0:
            notes.append(f"correlation with the true rewards: {np.corrcoef(found.mean, truth)[0, 1]:.3f}")
    return notes
