"""A run's metrics and evaluations as TensorBoard event files, by the extra `tensorboard`."""

import importlib.util
import shutil
from pathlib import Path

from utds.errors import MissingExtra
from utds.training.run import Run


def check() -> None:
    """Say at once if the extra is missing, rather than after hours of training."""
    if importlib.util.find_spec("tensorboard") is None:
        raise MissingExtra("event files need TensorBoard: pip install 'utds[tensorboard]'")


def write(run: Run) -> Path:
    """Write <run>/tensorboard/seed-<n> anew from the CSV files; returns <run>/tensorboard."""
    check()
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    folder = run.path / "tensorboard"
    shutil.rmtree(folder, ignore_errors=True)
    for seed in run.seeds:
        writer = EventFileWriter(str(folder / f"seed-{seed}"))
        for group, rows in (("train", run.metrics), ("evaluation", run.evaluations)):
            for row in (row for row in rows if row["seed"] == seed):
                values = [
                    Summary.Value(tag=f"{group}/{name}", simple_value=value)
                    for name, value in row.items()
                    if name not in ("step", "seed")
                ]
                writer.add_event(Event(step=row["step"], summary=Summary(value=values)))
        writer.close()
    return folder
