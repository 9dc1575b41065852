"""`utds collect` and `utds data generate`: making the benchmark's data."""

import contextlib
from pathlib import Path
from typing import Annotated

import tyro

from utds.collection import Collect
from utds.errors import ConfigError

Task = Annotated[str, tyro.conf.arg(metavar="TASK")]


def collect(
    config: Collect,
    kinds: tuple[str, ...] = (),
    episodes: int = 1000,
    out: Path | None = None,
    ladder: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Train TD3 online on a task, record everything, and store the seven kinds of data.

    Run the same command again to resume after an interruption: nothing recorded is lost.

    Example: utds collect walker-walk --steps 1000000

    Args:
        config: how to collect
        kinds: random, medium, medium-replay, replay, expert, medium-expert, uniform; by default all of them
        episodes: of each kind, at most; replay kinds have no more than were recorded
        out: working folder; by default collections/<task>-<seed>
        ladder: also write the policies from untrained to best to this file
        overwrite: replace stored datasets
    """
    from utds import domains, files
    from utds.collection import kinds as made
    from utds.collection.online import Collection
    from utds.data import store

    domains.task(config.task)
    wanted = made.checked(kinds, episodes)
    if ladder is not None:
        files.check_file(ladder)
    there = [] if overwrite else [kind for kind in wanted if made.stored(config, kind, episodes)]
    with contextlib.ExitStack() as held:
        for kind in wanted:
            if kind not in there:  # an interrupted start may have stored some
                held.enter_context(store.claim(f"{config.task}/{kind}", overwrite=overwrite))
        collection = Collection(out or Path("collections") / f"{config.task}-{config.seed}", config)
        held.enter_context(collection.lock())
        if collection.total_steps < config.warmup:
            raise ConfigError(f"steps={config.steps} end before the warm-up of {config.warmup} does; ask for more")
        collection.run()
        policies = collection.ladder()
        if ladder is not None:
            policies.save(ladder)
        for kind in wanted:
            if kind in there:
                print(f"{config.task}/{kind}: stored already")
            else:
                _store(made.from_collection(collection, policies, kind, episodes), config.task, kind, overwrite)


def generate(
    task: Task,
    /,
    kinds: tuple[str, ...] = (),
    episodes: int = 100,
    seed: int = 0,
    policies: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Make the seven kinds of data of a task in seconds, by rolling out policies that ship with the package.

    Example: utds data generate walker-walk --episodes 100

    Args:
        task: such as walker-walk
        kinds: random, medium, medium-replay, replay, expert, medium-expert, uniform; by default all of them
        episodes: of each kind
        seed: of start states and noise
        policies: a file that `utds collect --ladder` wrote, in place of the shipped one
        overwrite: replace stored datasets
    """
    from utds.collection import kinds as made
    from utds.collection import ladder
    from utds.data import store

    wanted = made.checked(kinds, episodes)
    found = ladder.load(task, policies)
    with contextlib.ExitStack() as held:
        for kind in wanted:
            held.enter_context(store.claim(f"{task}/{kind}", overwrite=overwrite))
        for kind in wanted:
            _store(made.generate(found, kind, episodes, seed), task, kind, overwrite)


def _store(dataset, task: str, kind: str, overwrite: bool) -> None:
    stored = dataset.save(f"{task}/{kind}", overwrite=overwrite)
    returns = stored.returns
    print(f"{stored.name}: {stored.episodes} episodes, return {returns.mean():.0f} ± {returns.std():.0f}")
