"""The run directory: what was asked for, what it was made from, what came out.

config.json              algorithm with every field, steps, seeds, the pool's sources
provenance.json          versions and dataset digests; the same on every host
metrics.csv              a row for every seed and `log_every` steps
evaluations.csv          a row for every seed and evaluation
checkpoint.safetensors   to go on from
policy-0.safetensors …   a policy a seed: normalisation, actor, critics
result.json              once finished
"""

from __future__ import annotations

import csv
import functools
import math
import os
import platform
import resource
import statistics
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import NDArray

from utds import algorithms, files, trees
from utds.algorithms import Algorithm, Policy, Spec
from utds.errors import ConfigError, DataError
from utds.version import __version__

if TYPE_CHECKING:
    from utds.data.dataset import Dataset
    from utds.data.pool import Pool
    from utds.evaluation import Evaluation

Row = dict[str, Any]
VERSIONED = ("jax", "jaxlib", "optax", "numpy", "safetensors")
MAY_CHANGE = {"steps", "eval_every", "checkpoint_every", "divergence"}  # between a run's start and its resumption


class Run:
    """A run directory. `Run(path)` opens one that exists; `Run.claim` makes or takes up one."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not (self.path / "config.json").exists():
            raise ConfigError(f"{self.path} holds no run (no config.json); give the folder that `train` wrote")
        self.config: dict[str, Any] = files.read_json(self.path / "config.json")
        self.algorithm: Algorithm = algorithms.from_config(self.config["algorithm"])

    @classmethod
    def claim(cls, path: str | os.PathLike[str], config: Row, resume: bool) -> Run:
        """A new run, or with `resume` the one that is there, if it was asked for the same."""
        folder = Path(path)
        if (folder / "config.json").exists():
            if not resume:
                raise ConfigError(f"{folder} already holds a run; resume it, or give another folder")
            _check_same(folder, files.read_json(folder / "config.json"), config)
        files.write_json(folder / "config.json", config)
        files.write_json(folder / "provenance.json", provenance(config))
        return cls(folder)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self.config["seeds"])

    @property
    def finished(self) -> bool:
        return self.result.get("steps") == self.config["steps"]

    @property
    def result(self) -> dict[str, Any]:
        """The last evaluation over seeds, steps and seconds; empty until the run has finished once."""
        path = self.path / "result.json"
        return files.read_json(path) if path.exists() else {}

    @property
    def metrics(self) -> list[Row]:
        """Rows of metrics.csv, numbers as numbers; what there was nothing to average of is left out."""
        return _read_rows(self.path / "metrics.csv")

    @property
    def evaluations(self) -> list[Row]:
        """Rows of evaluations.csv, numbers as numbers."""
        return _read_rows(self.path / "evaluations.csv")

    def policy(self, seed: int | None = None) -> Policy:
        """A seed's policy as last saved; by default the first seed's. No pool is needed."""
        seed = self.seeds[0] if seed is None else seed
        path = self.path / f"policy-{seed}.safetensors"
        if not path.exists():
            raise ConfigError(f"{self.path} has no policy of seed {seed} (seeds: {list(self.seeds)}) saved yet")
        return trees.load(path, self._policy_like())[0]

    def datasets(self) -> list[Dataset]:
        """The stored datasets that the run was trained on, the main task's first; each must be what it was then."""
        from utds.data import store

        found = []
        for source in self.config["sources"]:
            dataset = store.load(source["id"])
            if dataset.digest != source["digest"]:
                raise DataError(
                    f"{dataset.name} is not the data that {self.path} was trained on (digest {dataset.digest[:8]}, "
                    f"then {source['digest'][:8]}); restore it, or train again"
                )
            found.append(dataset)
        return found

    def pool(self) -> Pool:
        """The pool that the run was trained on, made again from the stored datasets."""
        from utds.data import lake

        rewards = self.config["rewards"]
        if rewards == "function":
            raise ConfigError(f"{self.path} was trained with a reward function, which is not stored: share in Python")
        return lake.share(*self.datasets(), rewards=rewards, sampling=self.config["sampling"])

    def act(self, observations: NDArray[np.floating], seed: int | None = None) -> NDArray[np.float32]:
        """Actions [B, A] of a seed's policy at observations [B, O], without noise."""
        return act(self.algorithm, self.policy(seed), observations)

    def evaluate(self, episodes: int = 10, seed: int | None = None, env: Any = None) -> Evaluation:
        """Every seed's policy over `episodes` episodes of the run's task, or of a Gymnasium environment."""
        from utds import evaluation

        seed = evaluation.SEED if seed is None else seed
        found = []
        for trained in self.seeds:
            policy = functools.partial(act, self.algorithm, self.policy(trained))
            if env is None:
                found.append(evaluation.evaluate(policy, self.config["task"], episodes, seed))
            else:
                found.append(evaluation.evaluate_env(policy, env, episodes, seed))
        return evaluation.pooled(found)

    def export(self, path: str | os.PathLike[str], seed: int | None = None, ensemble: bool = False) -> Path:
        """A seed's policy as an ONNX file; with `ensemble`, Γ as a second output."""
        from utds import export

        return export.export(self, path, seed, ensemble)

    def save_policy(self, seed: int, policy: Policy, step: int) -> None:
        trees.save(self.path / f"policy-{seed}.safetensors", policy, {"step": step, "seed": seed})

    def log(self, name: str, rows: Sequence[Row]) -> None:
        """Append rows to metrics.csv or evaluations.csv and flush them to the disk."""
        path = self.path / name
        with files.explained(f"write {path}"), open(path, "a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
            if file.tell() == 0:
                writer.writeheader()
            writer.writerows(rows)
            file.flush()
            os.fsync(file.fileno())

    def forget_after(self, step: int) -> None:
        """Drop rows past `step`, which a killed run logged after its last checkpoint and will log again."""
        for name in ("metrics.csv", "evaluations.csv"):
            path = self.path / name
            if not path.exists():
                continue
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = lines[:1] + [x for x in lines[1:] if x.endswith("\n") and int(x.split(",", 1)[0]) <= step]
            if not kept or not kept[0].endswith("\n"):  # killed while the header was written
                path.unlink()
            elif kept != lines:
                with files.atomic(path) as part:
                    part.write_text("".join(kept), encoding="utf-8")

    def finish(self, steps: int, seconds: float, timed_steps: int | None = None) -> None:
        """Write result.json: the last evaluation's mean and standard error over seeds, and what it cost.

        A run that was taken up again knows the time of its last stretch alone: of `timed_steps` steps.
        """
        last = [row for row in self.evaluations if row["step"] == steps]
        scores = {k: summary([row[k] for row in last]) for k in (last[0] if last else ()) if k not in ("step", "seed")}
        files.write_json(
            self.path / "result.json",
            {
                "steps": steps,
                "seeds": list(self.seeds),
                "seconds": round(seconds, 1),
                "timed_steps": steps if timed_steps is None else timed_steps,
                "peak_memory_mb": round(_peak_memory(), 1),
                "parameters": self._parameters(),
                "evaluation": scores,
            },
        )

    def _parameters(self) -> int:
        """Of a seed's actor and critics, without target networks."""
        policy = self._policy_like()
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves((policy.actor, policy.critic)))

    def _policy_like(self) -> Policy:
        """The shapes of a policy."""
        spec = Spec(self.config["observation_size"], self.config["action_size"])
        return jax.eval_shape(lambda: Policy.of(self.algorithm.init(jax.random.key(0), spec)))


def act(algorithm: Algorithm, policy: Any, observations: NDArray[np.floating]) -> NDArray[np.float32]:
    """Actions [B, A] at observations [B, O]; compiled once an algorithm and shape."""
    return np.asarray(_act(algorithm, policy, np.asarray(observations, np.float32)))


def provenance(config: Row) -> dict[str, Any]:
    """What a result depends on beside its config; nothing of the host."""
    versions = {name: version(name) for name in VERSIONED}
    return {
        "versions": {"utds": __version__, "python": platform.python_version(), **versions},
        "sources": config["sources"],
        "seeds": config["seeds"],
    }


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Mean and standard error (none for a single value) over seeds, and the values."""
    finite = all(math.isfinite(value) for value in values)  # JSON has no NaN, such as one episode's standard error
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 and finite else None
    return {
        "mean": statistics.fmean(values) if finite else None,
        "standard_error": error,
        "seeds": [value if math.isfinite(value) else None for value in values],
    }


@functools.partial(jax.jit, static_argnums=0)
def _act(algorithm: Algorithm, policy: Any, observations: jax.Array) -> jax.Array:
    return algorithm.act(policy, observations)


def _peak_memory() -> float:
    """The most memory that this process has held so far, in MB of 2²⁰ bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # bytes there, kilobytes elsewhere


def _read_rows(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return [{k: _number(v) for k, v in row.items() if v} for row in csv.DictReader(file)]


def _number(text: str) -> float | int | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _check_same(folder: Path, theirs: Row, mine: Row) -> None:
    for name, before, now in _differences(theirs, mine):
        raise ConfigError(f"{folder} holds a run with {name}={before!r}, not {now!r}; resume with the same options")


def _differences(theirs: Row, mine: Row, prefix: str = "") -> Iterable[tuple[str, Any, Any]]:
    """(dotted name, theirs, mine) of everything that differs and may not."""
    for name in sorted({*theirs, *mine} - MAY_CHANGE):
        before, now = theirs.get(name), mine.get(name)
        if isinstance(before, dict) and isinstance(now, dict):
            yield from _differences(before, now, f"{prefix}{name}.")
        elif before != now:
            yield f"{prefix}{name}", before, now
