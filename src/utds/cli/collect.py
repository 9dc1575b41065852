"""`utds collect` and `utds data generate`: making the benchmark's data."""

from pathlib import Path
from typing import Annotated

import tyro

from utds.collection.options import Collect

Task = Annotated[str, tyro.conf.arg(metavar="TASK")]


def collect(
    config: Collect,
    kinds: tuple[str, ...] = (),
    episodes: int = 1000,
    out: Path | None = None,
    ladder: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Train TD3 online on a task, record everything, and store the six kinds of data.

    Run the same command again to go on after an interruption: nothing recorded is lost.

    Example: utds collect walker-walk --steps 1000000

    Args:
        config: how to collect
        kinds: random, medium, medium-replay, replay, expert, medium-expert; by default all of them
        episodes: of each kind, at most; replay kinds have no more than were recorded
        out: working folder; by default collections/<task>-<seed>
        ladder: also write the policies from untrained to best to this file
        overwrite: replace stored datasets
    """
    from utds.collection import kinds as made
    from utds.collection.online import Collection

    wanted = made.checked(kinds)
    collection = Collection(out or Path("collections") / f"{config.task}-{config.seed}", config)
    collection.run()
    policies = collection.ladder()
    if ladder is not None:
        policies.save(ladder)
    for kind in wanted:
        dataset = made.from_collection(collection, policies, kind, episodes)
        _store(dataset, config.task, kind, overwrite)


def generate(
    task: Task,
    /,
    kinds: tuple[str, ...] = (),
    episodes: int = 100,
    seed: int = 0,
    policies: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Make the six kinds of data of a task in seconds, by rolling out policies that ship with the package.

    Example: utds data generate walker-walk --episodes 100

    Args:
        task: such as walker-walk
        kinds: random, medium, medium-replay, replay, expert, medium-expert; by default all of them
        episodes: of each kind
        seed: of start states and noise
        policies: a file that `utds collect --ladder` wrote, in place of the shipped one
        overwrite: replace stored datasets
    """
    from utds.collection import kinds as made
    from utds.collection import ladder

    wanted = made.checked(kinds)
    found = ladder.load(task, policies)
    for kind in wanted:
        _store(made.generate(found, kind, episodes, seed), task, kind, overwrite)


def _store(dataset, task: str, kind: str, overwrite: bool) -> None:
    stored = dataset.save(f"{task}/{kind}", overwrite=overwrite)
    returns = stored.returns
    print(f"{stored.name}: {stored.episodes} episodes, return {returns.mean():.0f} ± {returns.std():.0f}")
