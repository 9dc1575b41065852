"""`utds benchmark plan | run | status`: many settings, algorithms and seeds, on one machine or on a cluster."""

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from utds import files, terminal
from utds.errors import ConfigError, hint

if TYPE_CHECKING:
    from utds.benchmark.engine import Engine
    from utds.benchmark.worker import Job

Matrix = Annotated[str, tyro.conf.arg(metavar="MATRIX")]


def plan(
    matrix: Annotated[tuple[str, ...], tyro.conf.arg(metavar="MATRIX …")],
    /,
    workers: int | None = None,
    measure: bool = True,
    json: bool = False,
) -> None:
    """Count the cells of matrices and estimate how long they take; nothing is run.

    Example: utds benchmark plan walker quadruped jaco

    Args:
        matrix: names of matrices that ship, or paths of TOML files
        workers: processes to estimate for; by default one per core
        measure: estimate the time, which takes some seconds per algorithm
        json: print counts, missing datasets and the estimate as JSON
    """
    from utds.benchmark import plan as planning
    from utds.benchmark.cells import datasets
    from utds.benchmark.matrix import load, shipped
    from utds.benchmark.worker import visible_gpus

    if not matrix:
        terminal.print_json(shipped()) if json else print(f"matrices that ship: {', '.join(shipped())}")
        return
    _check_workers(workers)
    workers, threads = _shares(workers, visible_gpus())
    matrices = [load(name) for name in matrix]
    cells = [cell for found in matrices for cell in found.cells()]
    cells += [cell for found in matrices for cell in found.search_cells()]
    rows, absent = planning.rows(matrices), planning.missing(datasets(cells))
    if not json:
        terminal.show(planning.table(rows), *([planning.complaint(absent)] if absent else []))
    seconds = planning.seconds(cells, threads) / min(workers, len(cells)) if measure else None
    if json:
        terminal.print_json({"matrices": rows, "missing": absent, "workers": workers, "seconds": seconds})
    elif seconds is not None:
        print(f"about {planning.duration(seconds)} here with {workers} workers of {threads} threads")


def run(
    matrix: Matrix,
    /,
    engine: Literal["local", "ray"] = "local",
    workers: int | None = None,
    out: Path | None = None,
    generate: int | None = None,
    retry: bool = False,
    search_only: bool = False,
    algorithms: tuple[str, ...] = (),
    address: str | None = None,
    cpus: float = 1.0,
    gpus: float | None = None,
    ship: bool = False,
    json: bool = False,
) -> None:
    """Run the cells of a matrix that aren't done yet.

    Stop it as you like; the same command resumes it.

    Example: utds benchmark run pointmass --generate 100

    Args:
        matrix: name of a matrix that ships, or path of a TOML file
        engine: local processes, or a Ray cluster (needs utds[ray])
        workers: cells at a time; by default one per GPU, without GPUs one per core, or as many as the cluster has room
            for
        out: folder of the results; by default runs/<name of the matrix>
        generate: make missing datasets with so many episodes from the policies that ship
        retry: try cells again that have failed
        search_only: stop after the matrix's [search], without the cells that are reported
        algorithms: run only the trials and cells of these for now, to have some results early; the same folder takes
            the others
        address: of the Ray cluster, such as auto or ray://host:10001; by default a cluster on this machine
        cpus: of the cluster for each worker
        gpus: for each worker, of this machine or of the cluster: 0.5 puts two on a GPU, 0 leaves GPUs alone; by default
            one where there are any
        ship: send the datasets through Ray's object store, for nodes that can't read the folder of datasets
        json: print the folder and how many cells are done and failed as JSON, each part as `benchmark status` has it
    """
    from utds.benchmark import engine as engines
    from utds.benchmark import plan as planning
    from utds.benchmark.matrix import load
    from utds.benchmark.worker import visible_gpus
    from utds.collection import kinds

    found = load(matrix)
    folder = out or Path("runs") / found.name
    if search_only and found.search is None:
        raise ConfigError(f"the matrix {found.name} has no [search] table; leave out --search-only")
    for name in algorithms:
        if name not in found.algorithms:
            raise ConfigError(f"the matrix {found.name} has no algorithm {name!r}{hint(name, found.algorithms)}")
    files.check_folder(folder)
    if generate is not None:
        kinds.checked((), generate)
    _check_workers(workers)
    _check_cluster(engine, address, cpus, gpus, ship)

    def start(jobs: Sequence["Job"]) -> "Engine":
        if engine == "ray":
            from utds.benchmark.cluster import Cluster

            return Cluster(jobs, folder, address, workers, cpus, gpus, ship)
        names = None if gpus == 0 else visible_gpus()
        count, threads = _shares(workers, names or (), gpus)
        return engines.Local(min(count, len(jobs)), threads, folder, names)

    cells = [] if search_only else found.cells(None, algorithms)
    cells += found.search_cells(algorithms)
    if generate is not None:
        planning.generate(cells, generate)
    planning.require(cells)
    # Where JSON is asked for, the table of a search and what workers of a cluster print go to stderr.
    aside = contextlib.redirect_stdout(sys.stderr) if json else contextlib.nullcontext()
    with files.lock(folder / "lock", f"the matrix {folder}"), aside:
        statuses = engines.run_matrix(found, folder, start, retry, search_only, algorithms)
    if json:
        terminal.print_json({"folder": str(folder), "parts": [status.to_json() for status in statuses]})
    if not search_only and statuses[-1].count("failed"):
        raise SystemExit(1)


def status(matrix: Matrix, /, out: Path | None = None, once: bool = False, json: bool = False) -> None:
    """Show how far a matrix is: in a terminal a live table, until all is done.

    Example: utds benchmark status pointmass

    Args:
        matrix: name of a matrix that ships, or path of a TOML file
        out: folder of the results; by default runs/<name of the matrix>
        once: print the table once
        json: print the state once, as JSON: counts per algorithm, and the cells that are under way or failed
    """
    from utds.benchmark import plan as planning
    from utds.benchmark.matrix import load

    found = load(matrix)
    planning.require([*found.cells(), *found.search_cells()])
    folder = out or Path("runs") / found.name
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; --out names the folder of the results")
    if json:
        terminal.print_json([status.to_json() for status in planning.statuses(found, folder)])
        return
    planning.watch(found, folder, once)


def _check_workers(workers: int | None) -> None:
    if workers is not None and workers < 1:
        raise ConfigError(f"--workers={workers} must be at least 1")


def _check_cluster(engine: str, address: str | None, cpus: float, gpus: float | None, ship: bool) -> None:
    """Options of the cluster make sense, and are given with it alone."""
    given = {"--address": address is not None, "--cpus": cpus != 1.0, "--ship": ship}
    for name, used in given.items():
        if used and engine != "ray":
            raise ConfigError(f"{name} is for a Ray cluster; add: --engine ray")
    if not 0 < cpus <= 10_000:
        raise ConfigError(f"--cpus={cpus:g}: a worker needs more than 0 CPUs, and no more than 10,000")
    if gpus is not None and not (gpus == 0 or 0.01 <= gpus <= 1):
        raise ConfigError(
            f"--gpus={gpus:g}: a worker trains on one GPU, on a share of one from 0.01 on, or on none (0)"
        )


def _shares(workers: int | None, gpus: Sequence[str], each: float | None = None) -> tuple[int, int]:
    """Workers, and the threads of each."""
    from utds.benchmark.worker import default_workers

    cores = os.cpu_count() or 1
    workers = default_workers(gpus, each, cores) if workers is None else workers
    return workers, max(1, cores // workers)
