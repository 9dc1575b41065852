"""Datasets in the terminal: a list of them, one in detail, its returns as a picture."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from utds.data import actions as units
from utds.data.columns import COLUMNS, KNOWN
from utds.data.dataset import Dataset
from utds.data.importing import Imported

_BINS = 12
_WIDTH = 40  # characters of the longest bar
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def listing(found: Iterable[tuple[str, dict[str, Any]]]) -> Table:
    """One line a stored dataset, from its metadata alone."""
    table = Table("id", "kind", "episodes", "steps", "MB", "digest")
    table.columns[0].no_wrap = True
    for column in table.columns[2:5]:
        column.justify = "right"
    for name, described in found:
        ours = described.get("utds", {})
        table.add_row(
            name,
            (ours.get("metadata", {}).get("kind") or "–") if described else "damaged",
            str(described.get("total_episodes", "–")),
            str(described.get("total_steps", "–")),
            str(described.get("dataset_size", "–")),
            ours.get("digest", "–")[:8],
        )
    return table


def imports(made: Sequence[Imported]) -> Table:
    """What was found in each source, and what became of it."""
    table = Table("id", "from", "task", "episodes", "steps", "actions", "rewards")
    table.columns[0].no_wrap = True
    for column in table.columns[3:5]:
        column.justify = "right"
    for each in made:
        data, meta = each.dataset, each.dataset.metadata
        table.add_row(
            each.id,
            f"{each.format}: {each.source}",
            meta.task,
            str(data.episodes),
            str(data.size),
            f"{data.action_size} in {units.text(meta.action_low, meta.action_high)}",
            "none" if meta.labelling == "zero" else f"{data.rewards.min():.4g} to {data.rewards.max():.4g}",
        )
    return table


def facts(dataset: Dataset) -> Table:
    """The metadata and the size, a line each."""
    meta = dataset.metadata
    table = Table(title=dataset.name, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
    rows = {
        "task": meta.task,
        "rewards from": None if meta.labelling == KNOWN else meta.labelling,
        "actions": units.text(meta.action_low, meta.action_high) if meta.action_low else None,
        "domain": meta.domain,
        "kind": meta.kind,
        "seed": meta.seed,
        "episodes": f"{dataset.episodes} of {dataset.lengths.min()} to {dataset.lengths.max()} steps",
        "transitions": dataset.size,
        "terminations": int(dataset.read("terminations").sum()),
        "rewards of": ", ".join(meta.task_names),
        "reference": None
        if meta.expert_return is None
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
    table = Table("column", "dtype", "shape", "min", "mean", "max", "MB")
    for column in table.columns[3:]:
        column.justify = "right"
    for name in dataset.columns:
        values = dataset.read(name)
        numbers = [f"{float(value):.4g}" for value in (values.min(), values.mean(dtype=np.float64), values.max())]
        shape = " × ".join(str(size) for size in values.shape)
        table.add_row(name, np.dtype(COLUMNS[name].dtype).name, shape, *numbers, f"{values.nbytes / 1e6:.1f}")
    return table


def picture(returns: np.ndarray, title: str = "returns of the episodes") -> Text:
    """A histogram of the returns [E]: a bar for each of twelve equal intervals."""
    low, high = float(returns.min()), float(returns.max())
    head = f"{title}: mean {returns.mean():.4g}, median {np.median(returns):.4g}, deviation {returns.std():.4g}\n"
    if low == high:
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
