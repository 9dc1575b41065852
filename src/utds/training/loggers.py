"""What a run logs, also as TensorBoard or Weights & Biases shows it.

A logger is anything with the three methods of `Logger`. It is handed rows as metrics.csv and evaluations.csv get them;
those two stay the record. Whenever training begins or resumes, a logger starts anew with the rows so far, so what it
shows is what the files hold, whatever was killed in between.
"""

import contextlib
import importlib.util
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol

from utds.errors import ConfigError, MissingExtra, hint
from utds.training.run import Row, Run

Group = Literal["train", "evaluation"]  # rows of metrics.csv; rows of evaluations.csv
_KEYS = ("step", "seed")
Log = Callable[[Group, Sequence[Row]], None]


class Logger(Protocol):
    """Where a run's rows go beside its own files."""

    def begin(self, run: Run) -> None:
        """Training begins or resumes; what was shown of this run before is out of date."""

    def log(self, group: Group, rows: Sequence[Row]) -> None:
        """Rows with `step`, `seed` and the metrics' values, one per seed."""

    def end(self) -> None:
        """Training has ended, finished or not."""


class TensorBoard:
    """Event files in <run>/tensorboard/seed-<n>, by the extra `tensorboard`; see them with `tensorboard --logdir`."""

    def __init__(self) -> None:
        _require("tensorboard", "TensorBoard")
        self.writers: dict[int, Any] = {}

    def begin(self, run: Run) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        folder = run.path / "tensorboard"
        shutil.rmtree(folder, ignore_errors=True)
        self.writers = {seed: EventFileWriter(str(folder / f"seed-{seed}")) for seed in run.seeds}

    def log(self, group: Group, rows: Sequence[Row]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        for row in rows:
            values = [Summary.Value(tag=name, simple_value=value) for name, value in _values(group, row).items()]
            self.writers[row["seed"]].add_event(Event(step=row["step"], summary=Summary(value=values)))
        for writer in self.writers.values():
            writer.flush()

    def end(self) -> None:
        for writer in self.writers.values():
            writer.close()


class WandB:
    """Weights & Biases, by the extra `wandb`: a run there for each seed, in a group named after the run directory.

    Without an account set WANDB_MODE=offline: all stays in <run>/wandb, and `wandb sync` can send it later.
    """

    def __init__(self, project: str = "utds") -> None:
        _require("wandb", "Weights & Biases")
        self.project = project
        self.runs: dict[int, Any] = {}

    def begin(self, run: Run) -> None:
        import wandb

        for seed in run.seeds:
            try:
                self.runs[seed] = wandb.init(
                    project=self.project, group=run.path.name, name=f"{run.path.name}-seed-{seed}", dir=run.path,
                    config=run.config | {"seed": seed}, reinit="create_new",
                )  # fmt: skip
            except wandb.errors.Error as error:
                raise ConfigError(
                    f"Weights & Biases: {' '.join(str(error).split()).rstrip('.')}; log in with `wandb login` or set "
                    "WANDB_MODE=offline, and run the same command with --resume"
                ) from None
            self.runs[seed].define_metric("*", step_metric="step")  # evaluations of a step come after its metrics

    def log(self, group: Group, rows: Sequence[Row]) -> None:
        for row in rows:
            self.runs[row["seed"]].log({"step": row["step"], **_values(group, row)})

    def end(self) -> None:
        for run in self.runs.values():
            run.finish()


LOGGERS: dict[str, Callable[[], Logger]] = {"tensorboard": TensorBoard, "wandb": WandB}


def make(given: Sequence[Logger | str] | str) -> tuple[Logger, ...]:
    """Loggers by name, or themselves; a missing extra is said at once rather than after hours of training."""
    given = [given] if isinstance(given, str) else given
    for name in given:
        if isinstance(name, str) and name not in LOGGERS:
            raise ConfigError(f"there is no logger {name!r}{hint(name, LOGGERS)}")
    return tuple(LOGGERS[each]() if isinstance(each, str) else each for each in given)


@contextlib.contextmanager
def opened(loggers: Sequence[Logger], run: Run) -> Iterator[Log]:
    """Begin with the rows so far, and give the function that hands new ones to every logger."""

    def log(group: Group, rows: Sequence[Row]) -> None:
        for logger in loggers:
            logger.log(group, rows)

    with contextlib.ExitStack() as ending:
        for logger in loggers:
            ending.callback(logger.end)
            logger.begin(run)
        if loggers:
            log("train", run.metrics)
            log("evaluation", run.evaluations)
        yield log


def _values(group: Group, row: Row) -> dict[str, float]:
    return {f"{group}/{name}": value for name, value in row.items() if name not in _KEYS and value is not None}


def _require(module: str, name: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise MissingExtra(f"this logger needs {name}: pip install 'utds[{module}]'")
