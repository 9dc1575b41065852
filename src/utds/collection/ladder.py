"""The ladder: up to nine policies of one TD3 run from untrained to expert, in one small file.

    rung       0          1     …    medium    …    last
    policy     untrained                            the best that was found

Arrays have a leading axis of rungs and half precision; beside them stand the returns that the half-precision policies
themselves reach, the environment steps at which the run had them, and the command that made them.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from utds import domains, serialization
from utds.errors import DataError
from utds.evaluation import rollout
from utds.evaluation.rollout import Act
from utds.networks import MLP, Layer, Normalizer, deterministic, init_ensemble

FOLDER = Path(__file__).parent / "policies"  # those that ship with the package
RUNGS = 9
EPISODES = 20  # over which a rung's return is measured
SEED = 20_000  # of those episodes
FINALISTS, FINAL_EPISODES, FINAL_SEED = 3, 40, 30_000  # how the best policy is found


@dataclass(frozen=True)
class Ladder:
    """Policies of one task in the order in which the run had them; the last is the best."""

    task: str
    policies: Any  # {"normalizer": Normalizer, "actor": MLP}, every array [rungs, …]
    returns: tuple[float, ...]  # mean over `EPISODES` episodes, without noise
    errors: tuple[float, ...]  # standard errors of those
    steps: tuple[int, ...]  # environment steps of the run at each rung
    total_steps: int  # of the whole run
    noise: float  # exploration noise of the run
    seed: int  # of the run
    command: str  # that made the run

    def __len__(self) -> int:
        return len(self.returns)

    def act(self, rung: int) -> Act:
        """The policy on a rung, without noise."""
        return functools.partial(_act, _rungs(self.policies)[rung])

    def fresh(self, count: int, seed: int) -> Act:
        """As many freshly initialised policies of the run's architecture; policy i acts on row i of `count` rows.

        They see observations as the run's own untrained policy did, scaled by the statistics of its warm-up.
        """
        actor = self.policies["actor"]
        sizes = (actor[0].weight.shape[-2], *(layer.weight.shape[-1] for layer in actor))
        layer_norm = [layer.gain is not None for layer in actor[:-1]]
        normalizer = _rungs(self.policies)[0]["normalizer"]
        return functools.partial(_act_each, init_ensemble(jax.random.key(seed), count, sizes, layer_norm), normalizer)

    @property
    def medium(self) -> int:
        """The rule for "medium", the same for every task: see `medium_of`."""
        return medium_of(self.returns)

    def save(self, path: Path) -> None:
        meta = {name: getattr(self, name) for name in _META}
        serialization.save(path, self.policies, {"kind": "ladder", **meta})


_META = ("task", "returns", "errors", "steps", "total_steps", "noise", "seed", "command")


def medium_of(returns: tuple[float, ...]) -> int:
    """The policy whose return is nearest to half the way from the first one's to the best one's."""
    return nearest(returns, (returns[0] + max(returns)) / 2)


def nearest(returns: Sequence[float], level: float) -> int:
    """The first policy whose return comes nearest to a level."""
    return int(np.argmin(np.abs(np.asarray(returns) - level)))


def load(task: str, path: Path | None = None) -> Ladder:
    """A task's ladder: the one that ships with the package, or a file."""
    domains.task(task)
    shipped = FOLDER / f"{task}.safetensors"
    if path is None and not shipped.exists():
        raise DataError(f"no policies for {task} ship with this version; make your own with: utds collect {task}")
    path = path or shipped
    if not path.exists():
        raise DataError(f"there is no file {path}; give one that utds collect {task} --ladder FILE wrote")
    arrays, meta = serialization.read(path)
    if meta.get("kind") != "ladder" or meta.get("task") != task:
        raise DataError(f"{path} is no ladder of policies for {task}")
    try:
        fields: dict[str, Any] = {n: tuple(meta[n]) if isinstance(meta[n], list) else meta[n] for n in _META}
        return Ladder(policies=_policies(arrays), **fields)
    except (KeyError, ValueError, IndexError) as error:
        raise DataError(
            f"{path} is damaged ({error!r}); make it again with: utds collect {task} --ladder FILE"
        ) from None


def best_of(task: str, policies: list[Path], returns: list[float]) -> int:
    """Which policy is the best: of those with the highest evaluations, the one that does best in fresh episodes.

    An evaluation's few episodes flatter the policy that happened to be lucky in them.
    """
    finalists = sorted(np.argsort(returns)[-FINALISTS:])
    acts = [functools.partial(_act, rung) for rung in _rungs(_stacked([policies[i] for i in finalists]))]
    means = [np.mean(_returns(task, act, FINAL_EPISODES, FINAL_SEED)) for act in acts]
    return int(finalists[np.argmax(means)])


def choose(returns: list[float], best: int) -> list[int]:
    """Which of a run's evaluated policies become rungs: those nearest to `RUNGS` equal steps of return, up to the best.

    Learning goes in leaps and falls back, so rungs are in the order of the run, not of return.
    """
    levels = np.linspace(returns[0], returns[best], RUNGS)
    return sorted({0, best} | {nearest(returns[: best + 1], level) for level in levels})


def build(task: str, policies: list[Path], **meta: Any) -> Ladder:
    """A ladder from policy files, in half precision, its returns measured in that precision."""
    stacked = _stacked(policies)
    measured = [_returns(task, functools.partial(_act, rung), EPISODES, SEED) for rung in _rungs(stacked)]
    returns = tuple(round(float(np.mean(m)), 2) for m in measured)
    errors = tuple(round(float(np.std(m, ddof=1) / EPISODES**0.5), 2) for m in measured)
    steps = tuple(serialization.read(path)[1]["steps"] for path in policies)
    return Ladder(task, stacked, returns, errors, steps, **meta)


def _stacked(policies: list[Path]) -> dict[str, Any]:
    """Policy files as one tree of half-precision arrays [rungs, …]."""
    found = [serialization.read(path)[0] for path in policies]
    return _policies({name: np.stack([arrays[name].astype(np.float16) for arrays in found]) for name in found[0]})


def _rungs(policies: dict[str, Any]) -> list[dict[str, Any]]:
    """The policies one by one, in single precision."""
    count = jax.tree.leaves(policies)[0].shape[0]
    return [jax.tree.map(lambda array, i=i: np.asarray(array[i], np.float32), policies) for i in range(count)]


def _returns(task: str, act: Act, episodes: int, seed: int) -> np.ndarray:
    """Returns of a task's episodes: [episodes]."""
    domain, wanted = domains.task(task)
    return rollout.returns(domain, act, episodes, seed)[:, domain.tasks.index(wanted)]


def _policies(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The tree that `online.policy_of` flattened, from its names."""
    count = 1 + max(int(name.split(".")[1]) for name in arrays if name.startswith("actor."))
    parts = ("weight", "bias", "gain", "offset")
    actor: MLP = tuple(Layer(*(arrays.get(f"actor.{i}.{part}") for part in parts)) for i in range(count))  # type: ignore[arg-type]
    return {"normalizer": Normalizer(arrays["normalizer.mean"], arrays["normalizer.std"]), "actor": actor}


@jax.jit
def _act_jit(policy: dict[str, Any], observations: jax.Array) -> jax.Array:
    return deterministic(policy["actor"], policy["normalizer"](observations))


def _act(policy: dict[str, Any], observations: np.ndarray) -> np.ndarray:
    return np.asarray(_act_jit(policy, observations))


@jax.jit
def _act_each_jit(actors: MLP, normalizer: Normalizer, observations: jax.Array) -> jax.Array:
    rows = jax.vmap(deterministic)(actors, normalizer(observations)[:, None])  # [n, 1, A]
    return rows[:, 0]


def _act_each(actors: MLP, normalizer: Normalizer, observations: np.ndarray) -> np.ndarray:
    """Actor i on row i: [n, …], [n, O] -> [n, A]."""
    return np.asarray(_act_each_jit(actors, normalizer, observations))
