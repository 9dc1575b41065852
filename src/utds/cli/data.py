"""`utds data …`, `relabel`, `collect`: what is stored, whose rewards it carries, and how it is made."""

import contextlib
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.text import Text

from utds import files, terminal
from utds.cli.parsing import Id
from utds.collection import Collect
from utds.errors import ConfigError, DataError

if TYPE_CHECKING:
    from utds.data.dataset import Dataset
    from utds.data.formats.importing import Imported
    from utds.data.labelling import Labelling

Task = Annotated[str, tyro.conf.arg(metavar="TASK")]


def list_(json: bool = False) -> None:
    """List the stored datasets: episodes, steps, mean ± deviation of returns, size.

    Example: utds data list

    Args:
        json: print the list as JSON, with tasks, kinds and digests
    """
    from utds.data import ids, store, summary

    found = list(store.listed())
    if json:
        terminal.print_json(list(summary.rows(found)))
        return
    if found:
        terminal.show(summary.listing(found))
    print(f"{len(found)} dataset{'s' * (len(found) != 1)} under {ids.root()}")


def show(id: Id, /, json: bool = False) -> None:
    """Show a dataset: metadata, the range of every column, a picture of its returns.

    Example: utds data show walker-walk/medium

    Args:
        id: the dataset, such as walker-walk/medium
        json: print metadata, columns and the return of every episode as JSON
    """
    from utds.data import store, summary

    dataset = store.load(id)
    if json:
        terminal.print_json(summary.as_json(dataset))
        return
    terminal.show(summary.facts(dataset), summary.statistics(dataset), summary.picture(dataset.returns))


def verify(
    id: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ID …")],
    /,
    threads: int | None = None,
    json: bool = False,
) -> None:
    """Check datasets byte by byte against their digests.

    Where physics is stored, rewards are checked against the simulator too.

    Example: utds data verify walker-walk/medium walker-run/replay

    Args:
        id: the datasets
        threads: for recomputing rewards from physics; by default one per core
        json: print what was found as JSON
    """
    from utds.data import store

    if not id:
        raise ConfigError("name at least one dataset to verify; see: utds data list")
    if threads == 0:
        raise ConfigError("--threads=0 must be at least 1")
    if json:
        terminal.print_json([{"id": name} | asdict(store.verify(name, threads)) for name in id])
        return
    for name in id:
        found = store.verify(name, threads)
        rewards = "no physics to check rewards with"
        if found.reward_error is not None:
            rewards = f"rewards within {found.reward_error:.1e} of the simulator's"
        print(f"{name}: {len(found.columns)} columns right, {rewards}, digest {found.digest[:12]}")


def import_(
    source_and_id: Annotated[tuple[str, ...], tyro.conf.arg(metavar="SOURCE ID …")],
    /,
    task: str | None = None,
    kind: str | None = None,
    format: str = "auto",
    actions: str | None = None,
    columns: tuple[str, ...] = (),
    task_from: str | None = None,
    relabel: bool = False,
    download: bool = False,
    dry_run: bool = False,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Import D4RL, OGBench, ExORL, LeRobot, RLDS, Minari, tables or array files.

    Tables are .csv or .parquet files, arrays an .npz file.

    Example: utds data import ./walker/proto/buffer walker-walk/proto --task walker-walk --relabel

    Args:
        source_and_id: file, folder or Minari id, and the id to store it under; several such pairs at once
        task: whose rewards the data carries, such as walker-walk; by default the first part of the id
        kind: such as replay; by default the last part of the id
        format: auto, arrays, d4rl, exorl, lerobot, minari, ogbench, rlds or table
        actions: bounds of the actions in the robot's unit: LOW:HIGH, one for each as LOW,LOW:HIGH,HIGH, or auto
        columns: of a table, such as observations='q*,dq*' actions='u*' episode=ep reward=r
        task_from: column of a table that names the task: a dataset for each
        relabel: recompute the rewards of the task from physics
        download: fetch a Minari dataset that isn't stored yet
        dry_run: only report what would be done
        overwrite: replace datasets of these ids
        json: print what was found, and under which digest it was stored, as JSON
    """
    from utds.data import ids, summary
    from utds.data.columns import parse_bounds
    from utds.data.formats import importing

    if not source_and_id or len(source_and_id) % 2:
        raise ConfigError("give pairs of a source and the id to store it under, such as ./logs.csv robot-walk/logs")
    for name, what in ((task, "task"), (kind, "kind")):
        if name is not None:
            ids.check_name(name, what)
    options = importing.Options(
        format=format,
        columns=_columns(columns),
        task_from=task_from,
        actions=None if actions is None else parse_bounds(actions),
        download=download,
    )
    pairs = list(zip(source_and_id[::2], source_and_id[1::2], strict=True))
    made = importing.load(pairs, options, task, kind)
    if relabel:
        made = [_recomputed(each) for each in made]
    if json:
        stored = [None] * len(made) if dry_run else [dataset.digest for dataset in importing.save(made, overwrite)]
        terminal.print_json([summary.imported(*each) for each in zip(made, stored, strict=True)])
        return
    notes = [Text(f"{each.id}: {note}", style="dim") for each in made for note in each.notes]
    terminal.show(summary.imports(made), *notes)
    if dry_run:
        print("a dry run: nothing was stored")
        return
    for dataset in importing.save(made, overwrite):
        print(f"{dataset.name}: {dataset.episodes} episodes, {dataset.size} transitions, digest {dataset.digest[:12]}")


def export(
    id: Id,
    target: Annotated[str, tyro.conf.arg(metavar="TARGET")],
    /,
    format: str = "auto",
    json: bool = False,
) -> None:
    """Export a dataset for other tools, its actions in the robot's unit.

    Example: utds data export walker-walk/medium ./walker-walk-medium.hdf5

    Args:
        id: the dataset
        target: a folder to be made (exorl), or a file ending in .npz (arrays), .hdf5 (d4rl) or .parquet (table);
            with --format minari the id of a dataset in Minari's store, such as robot/walk-v0
        format: auto, exorl, arrays, d4rl, table or minari
        json: print what was written, and where, as JSON
    """
    from utds.data import store, summary
    from utds.data.formats import importing

    dataset = store.load(id)
    importing.export(dataset, target, format)
    if json:
        terminal.print_json(summary.stored(dataset) | {"target": target})
        return
    print(f"{dataset.name}: {dataset.episodes} episodes written to {target}")


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
    from utds import domains
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


def relabel(
    id: Id,
    task: Task,
    /,
    rewards: str = "known",
    main: str | None = None,
    penalty: float = 0.0,
    save: str | None = None,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Give a dataset the rewards of a different task.

    They are kept beside it, so that sharing finds them ready.

    Example: utds relabel walker-run/replay walker-walk

    Args:
        id: the dataset to relabel
        task: whose rewards it shall get, such as walker-walk
        rewards: known, learned (learned:penalty=2 subtracts twice its doubt), zero, the distance from a goal as
            goal:0=0.5,1=0 (observation features), or a function of your own as file.py:name, which is run
        main: dataset of the task that a learned reward is regressed on
        penalty: standard deviations to subtract from a learned reward
        save: store the relabelled dataset under this id
        overwrite: replace a dataset of that id
        json: print the returns, notes on the labels, and under which digest it was stored, as JSON
    """
    from utds.data import labelling, store, summary

    if penalty and rewards != "learned":
        raise ConfigError("--penalty is for learned rewards; add: --rewards learned")
    chosen = labelling.make(f"learned:penalty={penalty}" if penalty else rewards)
    dataset, source = store.load(id), store.load(main) if main else None
    _check_source(source, task, chosen)
    with store.claim(save, overwrite=overwrite) if save else contextlib.nullcontext():
        begin = time.perf_counter()
        relabelled = labelling.relabel(dataset, task, chosen, main=source)
        seconds = time.perf_counter() - begin
        truth = labelling.Known().label(dataset, task) if labelling.is_known(dataset, task) else None
        notes = chosen.notes(dataset, source, truth)
        if not json:
            picture = summary.picture(relabelled.returns, f"returns of {id} as {task}")
            terminal.show(picture, f"{dataset.size} transitions labelled in {seconds:.2f} s", *notes)
        stored = relabelled.save(save, overwrite=overwrite) if save else None
    if json:
        terminal.print_json({"from": id, **summary.relabelled(relabelled, stored), "seconds": seconds, "notes": notes})
    elif stored is not None:
        print(f"stored as {stored.name}")


def _check_source(source: "Dataset | None", task: str, rewards: "Labelling") -> None:
    """A learned reward has data of the task to learn from, and no other kind of reward has."""
    if source is not None and not rewards.uses_main:
        raise ConfigError("--main is for learned rewards; add: --rewards learned")
    if source is None and rewards.uses_main:
        raise ConfigError(f"a learned reward needs data of {task} to learn from; add: --main {task}/medium-replay")
    if source is not None and source.metadata.task != task:
        raise ConfigError(f"{source.name} carries rewards of {source.metadata.task}; learn {task} from data of {task}")


def _columns(given: tuple[str, ...]) -> dict[str, str] | None:
    found = {}
    for pair in given:
        role, equals, patterns = pair.partition("=")
        if not equals or not patterns:
            raise ConfigError(f"--columns takes role=columns pairs such as actions='u*', got {pair!r}")
        found[role] = patterns.strip("'\"")
    return found or None


def _recomputed(made: "Imported") -> "Imported":
    """The same with the rewards that its physics gives."""
    from utds.data import labelling

    dataset, task = made.dataset, made.dataset.metadata.task
    if "physics" not in dataset or dataset.metadata.domain is None:
        raise DataError(
            f"{made.source} can't be relabelled: it holds no physics, or {task} is no task of a known domain"
        )
    names, table = labelling.from_physics(dataset)
    return replace(made, dataset=dataset.with_rewards(task, table[:, names.index(task)]))


def _store(dataset: "Dataset", id: str, overwrite: bool, json: bool) -> "Dataset":
    stored = dataset.save(id, overwrite=overwrite)
    returns = stored.returns
    _say(f"{stored.name}: {stored.episodes} episodes, return {returns.mean():.0f} ± {returns.std():.0f}", json)
    return stored


def _say(line: str, json: bool) -> None:
    """Where JSON is asked for, lines for people go to stderr."""
    print(line, file=sys.stderr if json else sys.stdout)
