"""The kinds of data of a task, from a finished collection or from a ladder of policies.

random          rollouts of freshly initialised policies, another one in each episode, with a little noise
medium          rollouts of the medium policy, with a little noise
medium-replay   what the run saw until it had the medium policy
replay          what the run saw
expert          rollouts of the best policy, with a little noise
medium-expert   half and half
uniform         uniformly random actions
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from utds import domains
from utds.collection import FORMER_NAMES, Collect
from utds.collection.ladder import Ladder
from utds.collection.online import Collection
from utds.data import ids, store
from utds.data.columns import Episode, spaced
from utds.data.dataset import Dataset
from utds.data.ids import KINDS
from utds.domains.base import Domain
from utds.errors import ConfigError, DataError
from utds.evaluation import rollout
from utds.evaluation.rollout import Act, Episodes

NOISE = 0.1  # standard deviation on the actions of rollouts: without any, data has no breadth
# Of the random numbers. `random` used to be what `uniform` is now: `uniform` has its numbers, and makes the same data.
OFFSETS = {"uniform": 0, "random": 6000} | {kind: 1000 * i for i, kind in enumerate(KINDS[1:6], start=1)}


def generate(ladder: Ladder, kind: str, episodes: int, seed: int, origin: str | None = None) -> Dataset:
    """One kind of data by rolling out a ladder's policies.

    The replay kinds walk up the ladder with the noise of collection; a rung gets as many episodes as the run had until
    the next one, so the mixture of qualities is the run's. What they lack is everything between two rungs.
    """
    checked([kind], episodes)
    domain, _ = domains.task(ladder.task)
    parts, offset = _plan(ladder, kind, episodes, seed), OFFSETS[kind]
    blocks = (
        rollout.record(domain, _noisy(act, domain, noise, [seed, offset + i]), count, _seed(seed, offset + i), explore)
        for i, (act, count, noise, explore) in enumerate(parts)
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


def from_collection(collection: Collection, ladder: Ladder, kind: str, episodes: int) -> Dataset:
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


def _spaced(collection: Collection, steps: int, episodes: int) -> Iterator[Episodes]:
    """The episodes of the first `steps` steps; if they are more than asked for, evenly spaced ones."""
    copies = collection.config.copies
    recorded = steps // collection.domain.steps
    wanted = spaced(recorded, episodes)
    for index in np.unique(wanted // copies):
        block = collection.load_round(int(index))
        rows = wanted[wanted // copies == index] % copies
        yield Episodes(*(column[rows] for column in block))


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
    return Dataset.from_episodes(
        _each(blocks, domain.tasks.index(found)),
        task=task,
        domain=domain.name,
        kind=kind,
        seed=seed,
        task_names=domains.task_ids(domain),
        random_return=found.random,
        expert_return=found.reference,
        description=description,
    )


def _each(blocks: Iterable[Episodes], column: int) -> Iterator[Episode]:
    for block in blocks:
        for observations, actions, rewards, physics in zip(*block, strict=True):
            yield Episode(observations, actions, rewards[:, column], False, physics, rewards)


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
