"""`utds collect` and `utds data generate`: making the benchmark's data."""

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from utds.collection import Collect
from utds.errors import ConfigError

if TYPE_CHECKING:
    from utds.data.dataset import Dataset

Task = Annotated[str, tyro.conf.arg(metavar="TASK")]


def collect(
    config: Annotated[Collect, tyro.conf.arg(name="td3")],
    kinds: tuple[str, ...] = (),
    episodes: int = 1000,
    out: Path | None = None,
    ladder: Path | None = None,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Train TD3 online on a task, record it all, and store the seven kinds of data.

    The same command resumes it after an interruption: nothing recorded is lost.

    Example: utds collect walker-walk --steps 1000000

    Args:
        config: how long it records, and how it learns
        kinds: random, medium, medium-replay, replay, expert, medium-expert, uniform; by default all of them
        episodes: of each kind, at most; replay kinds have no more than were recorded
        out: working folder; by default collections/<task>-<seed>
        ladder: also write the policies from untrained to best to this file
        overwrite: replace stored datasets
        json: print the folder, the file of policies and the datasets as JSON
    """
    from utds import domains, files, terminal
    from utds.collection import kinds as made
    from utds.collection.online import Collection
    from utds.data import store, summary

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
        stored = []
        for kind in wanted:
            if kind in there:
                stored.append(store.load(f"{config.task}/{kind}"))
                _say(f"{config.task}/{kind}: stored already", json)
            else:
                dataset = made.from_collection(collection, policies, kind, episodes)
                stored.append(_store(dataset, f"{config.task}/{kind}", overwrite, json))
    if json:
        where = {"folder": str(collection.folder), "ladder": None if ladder is None else str(ladder)}
        terminal.print_json(where | {"datasets": [summary.stored(dataset) for dataset in stored]})


def generate(
    task: Task,
    /,
    kinds: tuple[str, ...] = (),
    episodes: int = 100,
    seed: int = 0,
    policies: Path | None = None,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Make the seven kinds of data of a task in seconds, from policies that ship.

    Example: utds data generate walker-walk --episodes 100

    Args:
        task: such as walker-walk
        kinds: random, medium, medium-replay, replay, expert, medium-expert, uniform; by default all of them
        episodes: of each kind
        seed: of start states and noise
        policies: a file that `utds collect --ladder` wrote, in place of the shipped one
        overwrite: replace stored datasets
        json: print the datasets as JSON
    """
    from utds import terminal
    from utds.collection import kinds as made
    from utds.data import store, summary

    wanted = made.checked(kinds, episodes)
    found = made.load_ladder(task, policies)
    with contextlib.ExitStack() as held:
        for kind in wanted:
            held.enter_context(store.claim(f"{task}/{kind}", overwrite=overwrite))
        stored = [
            summary.stored(_store(made.generate(found, kind, episodes, seed), f"{task}/{kind}", overwrite, json))
            for kind in wanted
        ]
    if json:
        terminal.print_json(stored)


def _store(dataset: "Dataset", id: str, overwrite: bool, json: bool) -> "Dataset":
    stored = dataset.save(id, overwrite=overwrite)
    returns = stored.returns
    _say(f"{stored.name}: {stored.episodes} episodes, return {returns.mean():.0f} ± {returns.std():.0f}", json)
    return stored


def _say(line: str, json: bool) -> None:
    """Where JSON is asked for, lines for people go to stderr."""
    print(line, file=sys.stderr if json else sys.stdout)
