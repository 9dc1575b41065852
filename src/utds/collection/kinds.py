"""The kinds of data of a task, from a finished collection or from a ladder of policies.

random          rollouts of freshly initialised policies, another one in each episode, with a little noise
medium          rollouts of the medium policy, with a little noise
medium-replay   what the run saw until it had the medium policy
replay          what the run saw
expert          rollouts of the best policy, with a little noise
medium-expert   half and half
uniform         uniformly random actions

A ladder holds up to nine policies of one TD3 run from untrained to expert, in one small file:

    rung       0          1     …    medium    …    last
    policy     untrained                            the best that was found

Arrays have a leading axis of rungs and half precision; beside them stand the returns that the half-precision policies
themselves reach, the environment steps at which the run had them, and the command that made them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from utds import domains, serialization
from utds.algorithms import Policy
from utds.algorithms.td3 import TD3
from utds.collection import FORMER_NAMES, Collect
from utds.data import ids, store
from utds.data.columns import Episode, spaced
from utds.data.dataset import Dataset
from utds.data.ids import KINDS
from utds.domains.base import Domain
from utds.errors import ConfigError, DataError
from utds.evaluation import rollout
from utds.evaluation.rollout import Act, Episodes
from utds.networks import MLP, Layer, Normalizer, deterministic, init_ensemble

if TYPE_CHECKING:
    from utds.collection.online import Collection

NOISE = 0.1  # standard deviation on the actions of rollouts: without any, data has no breadth
# Of the random numbers. `random` used to be what `uniform` is now: `uniform` has its numbers, and makes the same data.
OFFSETS = {"uniform": 0, "random": 6000} | {kind: 1000 * i for i, kind in enumerate(KINDS[1:6], start=1)}

FOLDER = Path(__file__).parent / "policies"  # ladders that ship with the package
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
        return _acts(self.policies)[rung]

    def fresh(self, count: int, seed: int) -> Act:
        """As many freshly initialised policies of the run's architecture; policy i acts on row i of `count` rows.

        They see observations as the run's own untrained policy did, scaled by the statistics of its warm-up.
        """
        actor = self.policies["actor"]
        sizes = (actor[0].weight.shape[-2], *(layer.weight.shape[-1] for layer in actor))
        layer_norm = [layer.gain is not None for layer in actor[:-1]]
        normalizer = _rungs(self.policies)[0]["normalizer"]
        return partial(_act_each, init_ensemble(jax.random.key(seed), count, sizes, layer_norm), normalizer)

    @property
    def medium(self) -> int:
        """The rule for "medium", the same for every task: the rung half the way from the first return to the best."""
        return _nearest(self.returns, (self.returns[0] + max(self.returns)) / 2)

    def save(self, path: Path) -> None:
        meta = {name: getattr(self, name) for name in _META}
        serialization.save(path, self.policies, {"kind": "ladder", **meta})


_META = tuple(field.name for field in fields(Ladder) if field.name != "policies")


def load_ladder(task: str, path: Path | None = None) -> Ladder:
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
        known: dict[str, Any] = {n: tuple(meta[n]) if isinstance(meta[n], list) else meta[n] for n in _META}
        return Ladder(policies=_policies(arrays), **known)
    except (KeyError, ValueError, IndexError) as error:
        raise DataError(
            f"{path} is damaged ({error!r}); make it again with: utds collect {task} --ladder FILE"
        ) from None


def build_ladder(task: str, policies: list[Path], **meta: Any) -> Ladder:
    """A ladder from policy files, in half precision, its returns measured in that precision."""
    stacked = _stacked(policies)
    measured = [_returns(task, act, EPISODES, SEED) for act in _acts(stacked)]
    returns = tuple(round(float(np.mean(m)), 2) for m in measured)
    errors = tuple(round(float(np.std(m, ddof=1) / EPISODES**0.5), 2) for m in measured)
    steps = tuple(serialization.read(path)[1]["steps"] for path in policies)
    return Ladder(task, stacked, returns, errors, steps, **meta)


def best_of(task: str, policies: list[Path], returns: list[float]) -> int:
    """Which policy is the best: of those with the highest evaluations, the one that does best in fresh episodes.

    An evaluation's few episodes flatter the policy that happened to be lucky in them.
    """
    finalists = sorted(np.argsort(returns)[-FINALISTS:])
    acts = _acts(_stacked([policies[i] for i in finalists]))
    return int(finalists[np.argmax([np.mean(_returns(task, act, FINAL_EPISODES, FINAL_SEED)) for act in acts])])


def choose(returns: list[float], best: int) -> list[int]:
    """Which of a run's evaluated policies become rungs: those nearest to `RUNGS` equal steps of return, up to the best.

    Learning goes in leaps and falls back, so rungs are in the order of the run, not of return.
    """
    levels = np.linspace(returns[0], returns[best], RUNGS)
    return sorted({0, best} | {_nearest(returns[: best + 1], level) for level in levels})


def _nearest(returns: Sequence[float], level: float) -> int:
    """The first policy whose return comes nearest to a level."""
    return int(np.argmin(np.abs(np.asarray(returns) - level)))


def _stacked(policies: list[Path]) -> dict[str, Any]:
    """Policy files as one tree of half-precision arrays [rungs, …]."""
    found = [serialization.read(path)[0] for path in policies]
    return _policies({name: np.stack([arrays[name].astype(np.float16) for arrays in found]) for name in found[0]})


def _policies(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The tree that `Collection` flattened, from its names."""
    count = 1 + max(int(name.split(".")[1]) for name in arrays if name.startswith("actor."))
    parts = ("weight", "bias", "gain", "offset")
    actor: MLP = tuple(Layer(*(arrays.get(f"actor.{i}.{part}") for part in parts)) for i in range(count))  # type: ignore[arg-type]
    return {"normalizer": Normalizer(arrays["normalizer.mean"], arrays["normalizer.std"]), "actor": actor}


def _rungs(policies: dict[str, Any]) -> list[dict[str, Any]]:
    """The policies one by one, in single precision."""
    count = jax.tree.leaves(policies)[0].shape[0]
    return [jax.tree.map(lambda array, i=i: np.asarray(array[i], np.float32), policies) for i in range(count)]


def _acts(policies: dict[str, Any]) -> list[Act]:
    return [partial(rollout.act, TD3(), Policy(**rung, critic=None)) for rung in _rungs(policies)]


def _returns(task: str, act: Act, episodes: int, seed: int) -> np.ndarray:
    """Returns of a task's episodes: [episodes]."""
    domain, wanted = domains.task(task)
    return rollout.returns(domain, act, episodes, seed)[:, domain.tasks.index(wanted)]


@jax.jit
def _act_each_jit(actors: MLP, normalizer: Normalizer, observations: jax.Array) -> jax.Array:
    rows = jax.vmap(deterministic)(actors, normalizer(observations)[:, None])  # [n, 1, A]
    return rows[:, 0]


def _act_each(actors: MLP, normalizer: Normalizer, observations: np.ndarray) -> np.ndarray:
    """Actor i on row i: [n, …], [n, O] -> [n, A]."""
    return np.asarray(_act_each_jit(actors, normalizer, observations))


def generate(ladder: Ladder, kind: str, episodes: int, seed: int, origin: str | None = None) -> Dataset:
    """One kind of data by rolling out a ladder's policies.

    The replay kinds walk up the ladder with the noise of collection; a rung gets as many episodes as the run had until
    the next one, so the mixture of qualities is the run's. What they lack is everything between two rungs.
    """
    checked([kind], episodes)
    domain, _ = domains.task(ladder.task)
    parts, offset = _plan(ladder, kind, episodes, seed), OFFSETS[kind]
    blocks = (
        rollout.record(domain, _noisy(act, domain, noise, [seed, part]), count, _seed(seed, part), explore)
        for part, (act, count, noise, explore) in enumerate(parts, start=offset)
        if count
    )
    origin = origin or _origin(kind, f"rolled out from the policies of: {ladder.command}")
    return to_dataset(ladder.task, kind, blocks, seed, origin)


def checked(kinds: Sequence[str], episodes: int = 2) -> Sequence[str]:
    """The kinds asked for, all of them if none; an unknown one is an error before anything is computed."""
    if episodes < 2:
        raise ConfigError(f"episodes={episodes} must be at least 2: medium-expert needs one of each")
    for kind in kinds:
        if kind not in KINDS:
            raise ConfigError(f"there is no kind of data called {kind!r}; there are {', '.join(KINDS)}")
    return kinds or KINDS


def from_collection(collection: "Collection", ladder: Ladder, kind: str, episodes: int) -> Dataset:
    """One kind of data of a finished collection: its rounds as they were recorded, or rollouts of its ladder."""
    seed, origin = collection.config.seed, _collected(collection.config, kind, episodes)
    if kind not in ("replay", "medium-replay"):
        return generate(ladder, kind, episodes, seed, origin)
    steps = ladder.total_steps if kind == "replay" else ladder.steps[ladder.medium]
    return to_dataset(ladder.task, kind, _spaced(collection, steps, episodes), seed, origin)


def stored(config: Collect, kind: str, episodes: int) -> bool:
    """Whether a kind of data of this very collection is stored already."""
    try:
        found = store.load(ids.full(f"{config.task}/{kind}"))
    except DataError:
        return False
    command = found.metadata.description
    for former, now in FORMER_NAMES.items():
        command = command.replace(f"--{former} ", f"--{now.replace('_', '-')} ")
    command = command.replace("--layer-norm False", "--no-layer-norm")  # as earlier versions wrote it
    return command == _collected(config, kind, episodes)


def _collected(config: Collect, kind: str, episodes: int) -> str:
    """What the data of a collection say of themselves: the command that makes them again."""
    return _origin(kind, f"collected by: {config.command} --episodes {episodes}")


def _origin(kind: str, made: str) -> str:
    """`random` says which kind it is: stored data without these words is of the time when it was uniform actions."""
    return f"a freshly initialised policy per episode; {made}" if kind == "random" else made


def _spaced(collection: "Collection", steps: int, episodes: int) -> Iterator[Episodes]:
    """The episodes of the first `steps` steps; if they are more than asked for, evenly spaced ones."""
    rounds, copies = np.divmod(spaced(steps // collection.domain.steps, episodes), collection.config.copies)
    for index in np.unique(rounds):
        yield Episodes(*(column[copies[rounds == index]] for column in collection.load_round(int(index))))


def _plan(ladder: Ladder, kind: str, episodes: int, seed: int) -> Iterable[tuple[Act | None, int, float, bool]]:
    """(policy or None for uniform actions, episodes, noise, whether to start as in exploration) of each part."""
    medium, best = ladder.medium, len(ladder) - 1
    if kind == "uniform":
        return [(None, episodes, 0.0, False)]
    if kind == "random":
        blocks = (min(rollout.LOCKSTEP, episodes - first) for first in range(0, episodes, rollout.LOCKSTEP))
        return ((ladder.fresh(count, _seed(seed, i)), count, NOISE, False) for i, count in enumerate(blocks))
    if kind == "medium":
        return [(ladder.act(medium), episodes, NOISE, False)]
    if kind == "expert":
        return [(ladder.act(best), episodes, NOISE, False)]
    if kind == "medium-expert":
        return [(ladder.act(medium), episodes // 2, NOISE, False), (ladder.act(best), -(-episodes // 2), NOISE, False)]
    ends = [*ladder.steps[1:], ladder.total_steps] if kind == "replay" else list(ladder.steps[1 : medium + 1])
    spent = np.diff([0, ladder.steps[0], *ends])  # the warm-up, then each rung until the next
    acts = [None, *(ladder.act(i) for i in range(len(ends)))]
    counts = _apportion(spent, episodes)
    return [(act, count, ladder.noise, True) for act, count in zip(acts, counts, strict=True)]


def to_dataset(task: str, kind: str, blocks: Iterable[Episodes], seed: int, description: str = "") -> Dataset:
    """Recorded episodes as a dataset of a task, with the rewards of all tasks of the domain."""
    domain, found = domains.task(task)
    own = domain.tasks.index(found)
    return Dataset.from_episodes(
        (
            Episode(observations, actions, rewards[:, own], False, physics, rewards)
            for block in blocks
            for observations, actions, rewards, physics in zip(*block, strict=True)
        ),
        task=task,
        domain=domain.name,
        kind=kind,
        seed=seed,
        task_names=domains.task_ids(domain),
        random_return=found.lowest,
        expert_return=found.reference,
        description=description,
    )


def _noisy(act: Act | None, domain: Domain, noise: float, seed: list[int]) -> Callable[[np.ndarray], np.ndarray]:
    random = np.random.default_rng(seed)
    if act is None:
        return lambda observations: random.uniform(-1, 1, (len(observations), domain.action_size))
    return lambda observations: (
        act(observations) + noise * random.standard_normal((len(observations), domain.action_size))
    )


def _seed(seed: int, part: int) -> int:
    """The seed of a part's start states or fresh policies, apart from those of evaluations."""
    return int(np.random.SeedSequence([seed, part, 3]).generate_state(1)[0])


def _apportion(weights: np.ndarray, total: int) -> list[int]:
    """Whole numbers in proportion to the weights that sum to the total: largest remainders."""
    exact = total * np.asarray(weights, float) / np.sum(weights)
    counts = np.floor(exact).astype(int)
    short = total - counts.sum()
    counts[np.argsort(counts - exact, kind="stable")[:short]] += 1
    return counts.tolist()
