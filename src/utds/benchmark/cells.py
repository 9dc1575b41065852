"""A cell of a matrix: one setting, one algorithm, all seeds; in the end one run directory.

Its fingerprint covers everything that its results depend on: the configuration, the datasets' digests and the version
of this package. Two cells with one fingerprint are the same work; a cell with another one is new work.
"""

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from utds import algorithms
from utds.algorithms import Algorithm
from utds.version import __version__


@dataclass(frozen=True)
class Cell:
    matrix: str  # name of the matrix
    task: str  # the main task, such as walker-walk
    kind: str  # of its own data
    sources: tuple[str, ...]  # tasks that share their data; none in the single-task column
    column: str  # single, each or all
    source_kind: str  # kind of the shared data
    rewards: str  # of the shared data: known, learned or zero
    algorithm_name: str
    preset: str
    fields: Mapping[str, Any] = field(hash=False)  # of the algorithm, beside its preset
    varied: tuple[str, ...]  # those of the fields that differ between cells of the matrix
    seeds: int
    first_seed: int
    steps: int
    eval_every: int
    checkpoint_every: int
    episodes: int  # of an evaluation

    @property
    def domain(self) -> str:
        return self.task.partition("-")[0]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Ids of the data, the main task's own first."""
        return (f"{self.task}/{self.kind}", *(f"{task}/{self.source_kind}" for task in self.sources))

    @property
    def algorithm(self) -> Algorithm:
        return algorithms.make(self.algorithm_name, preset=self.preset, **self.fields)

    @property
    def log_every(self) -> int:
        return min(1_000, self.eval_every)

    @property
    def seed_numbers(self) -> tuple[int, ...]:
        return tuple(range(self.first_seed, self.first_seed + self.seeds))

    @property
    def name(self) -> str:
        """What tells the cell from the others of its matrix, for people and for folders."""
        source = {"single": "alone", "all": "from-all"}.get(self.column)
        if source is None:
            source = f"from-{self.sources[0].partition('-')[2]}"
        varied = [f"{name}={self.fields[name]}" for name in self.varied]
        return "_".join([self.task, self.kind, source, self.algorithm_name, *varied])

    @property
    def program(self) -> tuple[Any, ...]:
        """Cells with equal programs share one compilation on one lake."""
        return self.domain, self.algorithm, len(self.sources)

    def fingerprint(self, digests: Mapping[str, str]) -> str:
        """SHA-256 of all that matters; `digests` maps ids of datasets to theirs."""
        matters = {
            "version": __version__,
            "algorithm": algorithms.to_config(self.algorithm),
            "data": [[name, digests[name]] for name in self.datasets],
            "rewards": self.rewards,
            "seeds": self.seed_numbers,
            "steps": self.steps,
            "eval_every": self.eval_every,
            "episodes": self.episodes,
        }
        return hashlib.sha256(json.dumps(matters, sort_keys=True).encode()).hexdigest()

    def command(self) -> str:
        """What reproduces the cell by itself."""
        words = ["utds", "train", self.datasets[0]]
        if self.sources:
            words += ["--share", *self.datasets[1:]]
        words += ["--algo", self.algorithm_name, "--preset", self.preset]
        if self.sources and self.rewards != "known":
            words += ["--rewards", self.rewards]
        if self.fields:
            words += ["--set", *(f"{name}={_word(value)}" for name, value in self.fields.items())]
        for name in ("seeds", "first_seed", "steps", "eval_every", "episodes"):
            words += [f"--{name.replace('_', '-')}", str(getattr(self, name))]
        return shlex.join(words)

    def facts(self, fingerprint: str) -> dict[str, Any]:
        """What a reader of the run directory should know beside its configuration: cell.json."""
        return {
            "matrix": self.matrix,
            "name": self.name,
            "fingerprint": fingerprint,
            "task": self.task,
            "kind": self.kind,
            "column": self.column,
            "sources": list(self.sources),
            "source_kind": self.source_kind,
            "algorithm": self.algorithm_name,
            "preset": self.preset,
            "fields": dict(self.fields),
            "varied": list(self.varied),
            "episodes": self.episodes,
            "version": __version__,
            "command": self.command(),
        }


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
