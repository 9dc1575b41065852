"""Datasets in the terminal: a list of them, one in detail, its returns as a picture."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from utds import terminal
from utds.data import store
from utds.data.columns import COLUMNS, KNOWN, bounds_text
from utds.data.dataset import Dataset
from utds.data.formats.importing import Imported
from utds.errors import DataError

_BINS = 12
_WIDTH = 40  # characters of the longest bar
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def listing(found: Iterable[tuple[str, dict[str, Any]]]) -> Table:
    """One row per stored dataset."""
    table = terminal.table("id", numbers=("episodes", "steps", "return", "MB"))
    for row in rows(found):
        counts = (row[name] for name in ("episodes", "steps", "megabytes"))
        episodes, steps, size = ("–" if count is None else str(count) for count in counts)
        returns = " ± ".join(terminal.number(row[name]) for name in ("return_mean", "return_std"))
        if row["damaged"]:
            episodes, returns = "damaged", "–"
        table.add_row(terminal.Name(row["id"]), episodes, steps, returns, size)
    return table


def rows(found: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """What `utds data list --json` prints of every stored dataset, from its metadata alone."""
    for name, described in found:
        ours = described.get("utds", {})
        metadata, returns = ours.get("metadata", {}), ours.get("returns") or _returns(name, bool(ours))
        yield {
            "id": name,
            "task": metadata.get("task"),
            "kind": metadata.get("kind"),
            "episodes": described.get("total_episodes"),
            "steps": described.get("total_steps"),
            "return_mean": returns.get("mean"),
            "return_std": returns.get("std"),
            "megabytes": described.get("dataset_size"),
            "digest": ours.get("digest"),
            "damaged": not described,
        }


def _returns(name: str, ours: bool) -> dict[str, float]:
    """Of a dataset whose metadata don't hold them, as earlier versions wrote it: from its rewards."""
    if not ours:
        return {}
    try:
        found = store.load(name).returns
    except DataError:
        return {}
    return {"mean": float(found.mean()), "std": float(found.std())}


def imports(made: Sequence[Imported]) -> Table:
    """What was found in each source, and what became of it."""
    table = terminal.table("id", "from", "actions", "rewards", numbers=("episodes", "steps"))
    for each in made:
        data, meta = each.dataset, each.dataset.metadata
        table.add_row(
            terminal.Name(each.id),
            f"{each.format}: {each.source}",
            f"{data.action_size} in {bounds_text(meta.action_low, meta.action_high)}",
            f"{meta.task}: "
            + (f"{data.rewards.min():.4g} to {data.rewards.max():.4g}" if meta.has_rewards else "none"),
            str(data.episodes),
            str(data.size),
        )
    return table


def imported(each: Imported, digest: str | None) -> dict[str, Any]:
    """What `utds data import --json` prints of a dataset; no digest: it wasn't stored."""
    data, meta = each.dataset, each.dataset.metadata
    return {
        "id": each.id,
        "format": each.format,
        "source": str(each.source),
        "task": meta.task,
        "episodes": data.episodes,
        "steps": data.size,
        "action_low": list(meta.action_low) or [-1.0] * data.action_size,
        "action_high": list(meta.action_high) or [1.0] * data.action_size,
        "labelling": meta.labelling,
        "reward_min": float(data.rewards.min()),
        "reward_max": float(data.rewards.max()),
        "notes": list(each.notes),
        "digest": digest,
    }


def stored(dataset: Dataset) -> dict[str, Any]:
    """What commands that store a dataset print of it with `--json`: names as in `rows`."""
    return {
        "id": dataset.name,
        "task": dataset.metadata.task,
        "kind": dataset.metadata.kind,
        **_counted(dataset),
        "digest": dataset.digest,
    }


def relabelled(dataset: Dataset, stored: Dataset | None) -> dict[str, Any]:
    """What `utds relabel --json` prints of the data with its new rewards; no id: it wasn't stored."""
    return {
        "id": None if stored is None else stored.name,
        "task": dataset.metadata.task,
        "labelling": dataset.metadata.labelling,
        **_counted(dataset),
        "digest": None if stored is None else stored.digest,
    }


def _counted(dataset: Dataset) -> dict[str, Any]:
    """Its size and its returns in four numbers."""
    returns = {"return_mean": float(dataset.returns.mean()), "return_std": float(dataset.returns.std())}
    return {"episodes": dataset.episodes, "steps": dataset.size, **returns}


def as_json(dataset: Dataset) -> dict[str, Any]:
    """What `utds data show --json` prints."""
    return {
        "id": dataset.name,
        "digest": dataset.digest,
        "episodes": dataset.episodes,
        "transitions": dataset.size,
        "metadata": asdict(dataset.metadata),
        "columns": list(ranges(dataset)),
        "lengths": dataset.lengths.tolist(),
        "returns": dataset.returns.tolist(),
    }


def facts(dataset: Dataset) -> Table:
    """The metadata and the size, one per line."""
    meta = dataset.metadata
    table = Table(title=dataset.name, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
    rows = {
        "task": meta.task,
        "rewards from": None if meta.labelling == KNOWN else meta.labelling,
        "actions": bounds_text(meta.action_low, meta.action_high) if meta.action_low else None,
        "domain": meta.domain,
        "kind": meta.kind,
        "seed": meta.seed,
        "episodes": f"{dataset.episodes} of {dataset.lengths.min()} to {dataset.lengths.max()} steps",
        "transitions": dataset.size,
        "terminations": int(dataset.read("terminations").sum()),
        "rewards of": ", ".join(meta.task_names),
        "reference": None
        if meta.random_return is None or meta.expert_return is None
        else f"random {meta.random_return:g}, expert {meta.expert_return:g}",
        "versions": ", ".join(f"{name} {version}" for name, version in meta.versions.items()),
        "digest": dataset.digest,
        "description": meta.description,
    }
    for name, value in rows.items():
        if value not in (None, ""):
            table.add_row(name, str(value))
    return table


def statistics(dataset: Dataset) -> Table:
    """Shape, range and mean of each column."""
    table = terminal.table("column", "dtype", "shape", numbers=("min", "mean", "max", "MB"))
    for row in ranges(dataset):
        numbers = (f"{row[name]:.4g}" for name in ("min", "mean", "max"))
        shape = " × ".join(str(size) for size in row["shape"])
        table.add_row(row["column"], row["dtype"], shape, *numbers, f"{row['bytes'] / 1e6:.1f}")
    return table


def ranges(dataset: Dataset) -> Iterator[dict[str, Any]]:
    """What is known of each column as a whole."""
    for name in dataset.columns:
        values = dataset.read(name)
        yield {
            "column": name,
            "dtype": np.dtype(COLUMNS[name].dtype).name,
            "shape": list(values.shape),
            "min": float(values.min()),
            "mean": float(values.mean(dtype=np.float64)),
            "max": float(values.max()),
            "bytes": values.nbytes,
        }


def picture(returns: np.ndarray, title: str = "returns of the episodes") -> Text:
    """A histogram of the returns [E]: a bar for each of twelve equal intervals."""
    low, high = float(returns.min()), float(returns.max())
    head = f"{title}: mean {returns.mean():.4g}, median {np.median(returns):.4g}, "
    head += f"standard deviation {returns.std():.4g}\n"
    if math.isclose(low, high, rel_tol=1e-12):  # rounding leaves no room for intervals
        return Text(f"{head}all {len(returns)} are {low:.4g}")
    counts, edges = np.histogram(returns, _BINS, (low, high))
    marks = [f"{edge:.4g}" for edge in edges]
    room = max(len(mark) for mark in marks)
    lines = [
        f"{marks[i]:>{room}} – {marks[i + 1]:>{room}}  {_bar(count / counts.max())} {count}"
        for i, count in enumerate(counts.tolist())
    ]
    return Text(head + "\n".join(lines))


def _bar(share: float) -> str:
    """A bar of up to `_WIDTH` characters, drawn in eighths of one."""
    full, eighths = divmod(round(share * _WIDTH * 8), 8)
    return (_EIGHTHS[-1] * full + _EIGHTHS[eighths]).rstrip()
