"""One policy on dynamics for `utds train`, `utds.train` and the benchmark.

Data of a robot that moves otherwise teaches falsehoods, so shared data is compared with the main data before a run
begins, and refused if it moves differently. A run that is resumed is not checked again, and who knows better trusts the
dynamics: `--trust-dynamics`, `trust_dynamics=True`, or `trust_dynamics = true` in a matrix.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from utds import files
from utds.data.dataset import Dataset
from utds.errors import DataError
from utds.training import run_files


def check_dynamics(datasets: Sequence[Dataset], kept: Path | None = None) -> None:
    """Refuse shared data that doesn't move as the main data, the first, does.

    The comparison trains networks, which takes some seconds: in the folder `kept` its findings are kept by the digests
    of the data, for others who share the same.
    """
    if len(datasets) < 2:
        return
    main, *others = datasets
    path = None if kept is None else kept / f"{_key(datasets)}.json"
    if path is not None and path.exists():
        found = run_files.read(path, {"refused": run_files.Maybe(run_files.Text())}).get("refused")
    else:
        found = _refused(main, others)
        if path is not None:
            files.write_json(path, {"data": [data.name for data in datasets], "refused": found})
    if found:
        raise DataError(
            f"{found}; it seems to be recorded with different dynamics: leave it out, or share it all the same with "
            "--trust-dynamics (trust_dynamics = true in a matrix)"
        )


def _refused(main: Dataset, others: Sequence[Dataset]) -> str | None:
    """What the first dataset that moves differently does, in words."""
    from utds.adviser import dynamics

    return next((x.sentence(main.name) for x in dynamics.checks(main, others) if x.verdict == "different"), None)


def _key(datasets: Sequence[Dataset]) -> str:
    main, *others = (data.digest for data in datasets)
    return hashlib.sha256("/".join([main, *sorted(others)]).encode()).hexdigest()[:16]
