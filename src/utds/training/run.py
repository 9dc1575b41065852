"""The run directory: what was asked for, what it was made from, what came out.

config.json              algorithm with every field, steps, seeds, the pool's sources
provenance.json          versions and dataset digests; the same on every host
metrics.csv              a row for every seed and `log_every` steps
evaluations.csv          a row for every seed and evaluation
checkpoint.safetensors   to resume from
policy-0.safetensors …   the last policy of each seed: normalisation, actor, critics
policies/                those of the evaluations, <seed>-<step>.safetensors, without critics
result.json              once finished
offline.json             once judged from data alone
lock                     held while a process is at work on it
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
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import NDArray

from utds import algorithms, files, serialization
from utds.algorithms import Algorithm, Policy, Spec
from utds.data.columns import to_raw
from utds.errors import ConfigError, DataError
from utds.evaluation.rollout import act
from utds.networks import parameter_count
from utds.training import run_files
from utds.training.run_files import Row, read
from utds.version import __version__

if TYPE_CHECKING:
    from utds.data.dataset import Dataset
    from utds.data.labelling import Rewards
    from utds.data.pool import Pool
    from utds.evaluation import Evaluation

# Every seed's state and its running totals of metrics; beside them the step and the seeds. No random state is kept: the
# randomness of step t is a function of the seed and t.
CHECKPOINT = "checkpoint.safetensors"
VERSIONED = ("jax", "jaxlib", "optax", "numpy", "safetensors")


class Run:
    """A run directory. `Run(path)` opens one that exists; `Run.claim` makes or resumes one."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = run_files.check_run(Path(path))
        self.config: dict[str, Any] = run_files.config(self.path)
        try:
            self.algorithm: Algorithm = algorithms.from_config(self.config["algorithm"])
        except (ConfigError, TypeError) as error:  # a value that makes no sense, a field that doesn't exist
            raise ConfigError(f"{self.path / 'config.json'}: algorithm: {error}") from None
        self._policies: dict[int, tuple[Any, Policy]] = {}  # seed -> which file it was, and what it held

    @classmethod
    def claim(cls, path: str | os.PathLike[str], config: dict[str, Any], resume: bool) -> Run:
        """A new run, or with `resume` the one that is there, if it was asked for the same."""
        folder = Path(path)
        if run_files.is_run(folder):
            if not resume:
                raise ConfigError(f"{folder} already holds a run; resume it, or give another folder")
            run_files.check_same(folder, run_files.config(folder), config)
            reached = max(run_files.last_step(folder), _saved_step(folder / CHECKPOINT))
            if config["steps"] < reached:
                raise ConfigError(f"{folder} has reached step {reached}; resume it with steps={reached} or more")
        files.write_json(folder / "config.json", config)
        _write_provenance(folder / "provenance.json", config)
        return cls(folder)

    def __repr__(self) -> str:
        config, result = self.config, self.result
        seeds = f"{len(self.seeds)} seed{'s' * (len(self.seeds) > 1)}"
        found = result.get("evaluation", {}).get("return", {}).get("mean")
        state = "unfinished" if not self.finished else "finished" if found is None else f"return {found:.1f}"
        what = f"{config['algorithm']['name']} on {config['task']}, {config['steps']} steps, {seeds}, {state}"
        return f"<Run {self.path}: {what}>"

    def _repr_html_(self) -> str:
        from utds import html, terminal

        config, rows = self.config, self.evaluations
        own, *shared = [source["id"] for source in config["sources"]]
        about = {
            "task": config["task"],
            "algorithm": config["algorithm"]["name"],
            "data": own,
            "shared": ", ".join(shared) or None,
            "steps": f"{config['steps']:,}" + ("" if self.finished else ", unfinished"),
        }
        end = max((row["step"] for row in rows), default=None)
        last = [row for row in rows if row["step"] == end]
        names = [name for name in ("return", "standard_error", "score") if any(name in row for row in last)]
        cells = [(row["seed"], *(terminal.number(row.get(name), 4) for name in names)) for row in last]
        lines = {}
        for seed in self.seeds:
            mine = [row for row in rows if row["seed"] == seed and "return" in row]
            lines[f"seed {seed}"] = [row["step"] for row in mine], [row["return"] for row in mine]
        parts = [html.facts(about)]
        if cells:
            head = ("seed", *(name.replace("_", " ") for name in names))
            parts += [html.table(head, cells), html.curves(lines, "gradient steps", "return")]
        return html.block(f"Run {self.path}", *parts)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self.config["seeds"])

    @property
    def finished(self) -> bool:
        return run_files.is_finished(self.config, self.result)

    @property
    def result(self) -> dict[str, Any]:
        """The last evaluation over seeds, steps and seconds; empty until the run has finished once."""
        return run_files.result(self.path)

    @property
    def metrics(self) -> list[Row]:
        """Rows of metrics.csv, numbers as numbers; what there was nothing to average of is left out."""
        return run_files.rows(self.path / "metrics.csv")

    @property
    def evaluations(self) -> list[Row]:
        """Rows of evaluations.csv, numbers as numbers."""
        return run_files.rows(self.path / "evaluations.csv")

    def policy(self, seed: int | None = None, step: int | None = None) -> Policy:
        """A seed's policy as last saved, or as it was evaluated at a step; by default the first seed's.

        No pool is needed. A policy of an evaluation has no critics.
        """
        seed = self.seeds[0] if seed is None else seed
        path = self._policy_path(seed, step)
        if not path.exists():
            if step is None:
                raise ConfigError(f"{self.path} has no policy of seed {seed} (seeds: {list(self.seeds)}) saved yet")
            kept = ", ".join(map(str, self.kept_steps)) or "none"
            raise ConfigError(f"{self.path} kept no policy of seed {seed} at step {step}; it has steps {kept}")
        if step is not None:
            return serialization.load(path, self._policy_like()._replace(critic=None))[0]
        written = path.stat().st_mtime_ns, path.stat().st_ino
        if seed not in self._policies or self._policies[seed][0] != written:  # a call of `act` must not read a file
            self._policies[seed] = written, jax.device_put(serialization.load(path, self._policy_like())[0])
        return self._policies[seed][1]

    def datasets(self) -> list[Dataset]:
        """The stored datasets that the run was trained on, the main task's first; each must be what it was then."""
        from utds.data import ids, store

        found = []
        for source in self.config["sources"]:
            dataset = store.load(ids.exact(source["id"]))  # not a version stored since
            if dataset.digest != source["digest"]:
                raise DataError(
                    f"{dataset.name} is not the data that {self.path} was trained on (digest {dataset.digest[:8]}, "
                    f"then {source['digest'][:8]}); restore it, or train again"
                )
            found.append(dataset)
        return found

    def pool(self, rewards: Rewards | None = None) -> Pool:
        """The pool that the run was trained on, made again from the stored datasets.

        A reward function isn't stored: give it as `rewards`, as at training.
        """
        from utds.data import labelling, lake
        from utds.data.pool import UNIFORM, can_be_remade

        then = self.config["rewards"]
        if rewards is None:
            if labelling.is_function(then):
                raise ConfigError(
                    f"{self.path} was trained with a reward function, {then}, which is not stored: give it"
                )
            rewards = then
        now = labelling.make(rewards).identity
        if now != then and then != labelling.FunctionReward.name:
            raise ConfigError(f"{self.path} was trained with rewards={then!r}, not {now!r}")
        sampling, weights = self.config["sampling"], self.config["weights"]
        if not can_be_remade(weights):
            weights = UNIFORM  # they say what to train on, not what is there
        return lake.share(*self.datasets(), rewards=rewards, sampling=sampling, weights=weights)

    def act(
        self, observations: NDArray[np.floating], seed: int | None = None, step: int | None = None
    ) -> NDArray[np.float32]:
        """Actions [B, A] of a seed's policy at observations [B, O], without noise, in the robot's unit.

        By default the policy after the last step; `step` names one that was kept along training.
        """
        return self._actor(seed, step)(observations)

    def evaluate(self, episodes: int = 10, seed: int | None = None, env: Any = None) -> Evaluation:
        """Every seed's policy over `episodes` episodes of the run's task, or of a Gymnasium environment.

        With several seeds the interval is over seeds, as the standard error in result.json is.
        """
        from utds import evaluation

        if env is None and evaluation.evaluator(self.config["task"]) is None:
            raise ConfigError(
                f"{self.config['task']} has no simulator here; judge {self.path} from its data with --offline, "
                f"or on a Gymnasium environment with --env ID"
            )
        seed = evaluation.SEED if seed is None else seed
        if env is None:
            policies = [functools.partial(act, self.algorithm, self.policy(trained)) for trained in self.seeds]
            found = [evaluation.evaluate(policy, self.config["task"], episodes, seed) for policy in policies]
        else:
            raw = bool(self.config["action_low"])
            with evaluation.opened_env(env) as opened:
                self._check_fits(opened)
                actors = [self._actor(trained) for trained in self.seeds]
                found = [evaluation.evaluate_env(actor, opened, episodes, seed, raw=raw) for actor in actors]
        return evaluation.over_seeds(found)

    def _check_fits(self, env: Any) -> None:
        """Observations and actions of an environment must be as wide as the policy's."""
        if env.observation_space.shape is None:
            return  # such as a dictionary's, which have no width: `evaluate_env` says what to do
        widths = [math.prod(space.shape or ()) for space in (env.observation_space, env.action_space)]
        mine = [self.config["observation_size"], self.config["action_size"]]
        if widths != mine:
            name = env.spec.id if env.spec else type(env.unwrapped).__name__
            raise ConfigError(
                f"{name} has {widths[0]} observations and {widths[1]} actions, but the policy of {self.path} takes "
                f"{mine[0]} and gives {mine[1]}; choose an environment of the same robot"
            )

    def _actor(
        self, seed: int | None, step: int | None = None
    ) -> Callable[[NDArray[np.floating]], NDArray[np.float32]]:
        """A seed's policy as `act` has it, its file read once."""
        policy, bounds = self.policy(seed, step), (self.config["action_low"], self.config["action_high"])
        size = self.config["observation_size"]

        def chosen(observations: NDArray[np.floating]) -> NDArray[np.float32]:
            shape = np.shape(observations)
            if len(shape) != 2 or shape[1] != size:
                raise ConfigError(f"act takes observations of shape (n, {size}), one row each, and got shape {shape}")
            return to_raw(act(self.algorithm, policy, observations), *bounds)

        return chosen

    def export(
        self, path: str | os.PathLike[str], seed: int | None = None, ensemble: bool = False, step: int | None = None
    ) -> Path:
        """A seed's policy as an ONNX file, the last or that of a `step`; with `ensemble`, Γ as a second output."""
        from utds import export  # which needs an extra

        policy = self.policy(seed, step)
        if ensemble and step is not None:
            raise ConfigError(f"{self.path} kept the policy of step {step} without its critics; leave out the ensemble")
        if ensemble and (policy.critic is None or len(policy.critic[0].weight) < 2):
            name = self.config["algorithm"]["name"]
            raise ConfigError(f"{self.path} has no ensemble of critics: its algorithm is {name}")
        return export.export(self.algorithm, policy, self.config, path, ensemble)

    @property
    def kept_steps(self) -> tuple[int, ...]:
        """The steps of the evaluations whose policies were kept, of the first seed."""
        found = (self.path / "policies").glob(f"{self.seeds[0]}-*.safetensors")
        steps = (path.stem.partition("-")[2] for path in found)
        return tuple(sorted(int(step) for step in steps if step.isdecimal()))  # others are a user's own

    def keep_policy(self, seed: int, policy: Policy, step: int) -> None:
        """Keep the policy of an evaluation, without its critics, so that one can be chosen afterwards."""
        serialization.save(self._policy_path(seed, step), policy._replace(critic=None), {"step": step, "seed": seed})

    def save_policy(self, seed: int, policy: Policy, step: int) -> None:
        serialization.save(self._policy_path(seed), policy, {"step": step, "seed": seed})

    def _policy_path(self, seed: int, step: int | None = None) -> Path:
        """Of a seed's last policy, or of the one kept at a step."""
        return self.path / (f"policy-{seed}.safetensors" if step is None else f"policies/{seed}-{step}.safetensors")

    def log(self, name: str, rows: Sequence[Row]) -> None:
        """Append rows to metrics.csv or evaluations.csv and flush them to the disk; columns that it lacks are added."""
        path = self.path / name
        with files.explained(f"write {path}"):
            columns = _widened(path, list(dict.fromkeys(column for row in rows for column in row)))
        with files.explained(f"write {path}"), open(path, "a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            if file.tell() == 0:
                writer.writeheader()
            writer.writerows(rows)
            file.flush()
            os.fsync(file.fileno())

    def finish(self, steps: int, seconds: float, timed_steps: int | None = None) -> None:
        """Write result.json: the last evaluation's mean and standard error over seeds, and what it cost.

        A resumed run knows the time of its last stretch alone: of `timed_steps` steps.
        """
        last = [row for row in self.evaluations if row["step"] == steps]
        names = [name for name in dict.fromkeys(name for row in last for name in row) if name not in ("step", "seed")]
        scores = {name: summary([row[name] for row in last if name in row]) for name in names}
        policy = self._policy_like()
        files.write_json(
            self.path / "result.json",
            {
                "steps": steps,
                "seeds": list(self.seeds),
                "seconds": round(seconds, 1),
                "timed_steps": steps if timed_steps is None else timed_steps,
                "peak_memory_mb": round(_peak_memory(), 1),
                "parameters": parameter_count((policy.actor, policy.critic)),  # without target networks
                "evaluation": scores,
            },
        )

    def _policy_like(self) -> Policy:
        """The shapes of a policy."""
        spec = Spec(self.config["observation_size"], self.config["action_size"])
        return jax.eval_shape(lambda: Policy.of(self.algorithm.init(jax.random.key(0), spec)))


def _saved_step(path: Path) -> int:
    """The step of a checkpoint, which a signal saves between two rows of metrics.csv; 0 without one."""
    if not path.exists():
        return 0
    _, meta = serialization.read(path, False)
    run_files.check(meta, run_files.CHECKPOINT, str(path))
    return int(meta["step"])


def _widened(path: Path, names: Sequence[str]) -> list[str]:
    """A log's columns and then those of the names that it lacks, which are empty in the rows so far."""
    if not path.exists():
        return list(names)
    with open(path, newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        header = next(lines, [])
        added = [name for name in names if name not in header]
        if header and added:
            wider = [header + added, *(line + [""] * len(added) for line in lines)]
            with files.atomic(path) as part, open(part, "w", newline="", encoding="utf-8") as new:
                csv.writer(new, lineterminator="\n").writerows(wider)
    return header + added


def _write_provenance(path: Path, config: dict[str, Any]) -> None:
    """What a result depends on beside its config, nothing of the host; versions that it was resumed with are added."""
    versions = {"utds": __version__, "python": platform.python_version()} | {name: version(name) for name in VERSIONED}
    found: dict[str, Any] = {"versions": versions, "sources": config["sources"], "seeds": config["seeds"]}
    if path.exists():
        found = read(path, run_files.PROVENANCE)
        earlier = found.get("resumed") or []
        if [found["versions"], *earlier][-1] == versions:
            return
        found["resumed"] = [*earlier, versions]
    files.write_json(path, found)


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Mean and standard error (none for a single value) over seeds, and the values."""
    finite = all(math.isfinite(value) for value in values)  # JSON has no NaN, such as one episode's standard error
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 and finite else None
    return {
        "mean": statistics.fmean(values) if finite else None,
        "standard_error": error,
        "seeds": [value if math.isfinite(value) else None for value in values],
    }


def _peak_memory() -> float:
    """The most memory that this process has held so far, in MB of 2²⁰ bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # bytes there, kilobytes elsewhere
