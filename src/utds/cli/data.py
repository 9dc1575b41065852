"""`utds data …` and `utds relabel`: what is stored, what is in it, and whose rewards it carries."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from utds.errors import ConfigError

Id = Annotated[str, tyro.conf.arg(metavar="ID")]


def list_() -> None:
    """List the stored datasets.

    Example: utds data list
    """
    from rich.console import Console

    from utds.data import ids, store, summary

    found = list(store.listed())
    if found:
        Console().print(summary.listing(found))
    print(f"{len(found)} datasets under {ids.root()}")


def show(id: Id, /) -> None:
    """Show a dataset: its metadata, the range of every column, and a picture of its returns.

    Example: utds data show walker-walk/medium

    Args:
        id: the dataset, such as walker-walk/medium
    """
    from rich.console import Console

    from utds.data import store, summary

    dataset = store.load(id)
    console = Console()
    for part in (summary.facts(dataset), summary.statistics(dataset), summary.picture(dataset.returns)):
        console.print(part)


def verify(id: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ID …")], /, threads: int | None = None) -> None:
    """Check datasets byte by byte against their digest, and rewards against the simulator where physics is stored.

    Example: utds data verify walker-walk/medium walker-run/replay

    Args:
        id: the datasets
        threads: for recomputing rewards from physics; by default one a core
    """
    from utds.data import store

    if not id:
        raise ConfigError("name at least one dataset to verify; see: utds data list")
    for name in id:
        found = store.verify(name, threads)
        rewards = "no physics to check rewards with"
        if found.reward_error is not None:
            rewards = f"rewards within {found.reward_error:.1e} of the simulator's"
        print(f"{name}: {len(found.columns)} columns right, {rewards}, digest {found.digest[:12]}")


def import_(
    source: Annotated[str, tyro.conf.arg(metavar="SOURCE")],
    id: Id,
    /,
    task: str | None = None,
    kind: str | None = None,
    format: Literal["auto", "exorl", "npz", "minari"] = "auto",
    relabel: bool = False,
    overwrite: bool = False,
) -> None:
    """Import an ExORL/UTDS folder of episode files, a file of arrays, or a Minari dataset.

    Example: utds data import ./walker/proto/buffer walker-walk/proto --task walker-walk --relabel

    Args:
        source: folder of episode_<index>_<length>.npz files, .npz file of arrays, or id of a Minari dataset
        id: to store it under, such as walker-walk/proto
        task: whose rewards the data carries, such as walker-walk
        kind: such as replay; by default the last part of the id
        format: of the source; auto tells a folder, a .npz file and an id apart
        relabel: recompute the rewards of the task from physics (exorl only)
        overwrite: replace a dataset of that id
    """
    from utds.data import importers

    if format == "auto":
        path = Path(source)
        format = "exorl" if path.is_dir() else "npz" if path.suffix == ".npz" else "minari"
    named = {"kind": kind or id.rsplit("/", 1)[-1]} | ({"task": task} if task else {})
    if relabel and format != "exorl":
        raise ConfigError("--relabel is for exorl folders, which carry physics; use: utds relabel")
    if format == "exorl":
        if task is None:
            raise ConfigError(f"say whose rewards {source} carries, such as --task walker-walk")
        dataset = importers.from_exorl(source, relabel=relabel, **named)
    else:
        dataset = (importers.from_npz if format == "npz" else importers.from_minari)(source, **named)
    stored = dataset.save(id, overwrite=overwrite)
    print(f"{stored.name}: {stored.episodes} episodes, {stored.size} transitions, digest {stored.digest[:12]}")


def export(id: Id, target: Annotated[Path, tyro.conf.arg(metavar="TARGET")], /) -> None:
    """Export a dataset as an ExORL folder of episodes, or as one file of arrays if the target ends in .npz.

    Example: utds data export walker-walk/medium ./walker-walk-medium

    Args:
        id: the dataset
        target: folder, or file ending in .npz, to be made
    """
    from utds.data import exporters, store

    dataset = store.load(id)
    written = (exporters.to_npz if target.suffix == ".npz" else exporters.to_exorl)(dataset, target)
    print(f"{dataset.name}: {dataset.episodes} episodes written to {written}")


def relabel(
    id: Id,
    task: Annotated[str, tyro.conf.arg(metavar="TASK")],
    /,
    rewards: str = "known",
    main: str | None = None,
    penalty: float = 0.0,
    save: str | None = None,
    overwrite: bool = False,
) -> None:
    """Give a dataset the rewards of another task; results are kept beside it, so that sharing finds them ready.

    Example: utds relabel walker-run/replay walker-walk

    Args:
        id: the dataset to relabel
        task: whose rewards it shall get, such as walker-walk
        rewards: known, learned, zero, or a function of your own as file.py:name
        main: dataset of the task that a learned reward is regressed on
        penalty: standard deviations to subtract from a learned reward
        save: store the relabelled dataset under this id
        overwrite: replace a dataset of that id
    """
    from rich.console import Console

    from utds.data import relabel_report, summary

    console = Console()
    relabelled, notes = relabel_report.report(id, task, rewards, main, penalty)
    console.print(summary.picture(relabelled.returns, f"returns of {id} as {task}"))
    for note in notes:
        console.print(note)
    if save:
        print(f"stored as {relabelled.save(save, overwrite=overwrite).name}")
