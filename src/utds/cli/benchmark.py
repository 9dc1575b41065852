"""`utds benchmark plan | run | status`: many settings, algorithms and seeds, on one machine or on a cluster."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from utds.errors import ConfigError

if TYPE_CHECKING:
    from utds.benchmark.engines import Engine
    from utds.benchmark.work import Job

Matrix = Annotated[str, tyro.conf.arg(metavar="MATRIX")]


def plan(
    matrix: Annotated[tuple[str, ...], tyro.conf.arg(metavar="MATRIX …")],
    /,
    workers: int | None = None,
    measure: bool = True,
) -> None:
    """Count the cells of one or more matrices and estimate their time from a short measurement; nothing is run.

    Example: utds benchmark plan walker quadruped jaco

    Args:
        matrix: names of matrices that ship, or paths of TOML files
        workers: processes to estimate for; by default one a core
        measure: estimate the time, which takes some seconds an algorithm
    """
    from rich.console import Console

    from utds.benchmark import board, prepare
    from utds.benchmark import measure as measured
    from utds.benchmark.matrix import load, shipped
    from utds.benchmark.places import datasets, missing

    console = Console()
    if not matrix:
        console.print(f"matrices that ship: {', '.join(shipped())}")
        return
    matrices = [load(name) for name in matrix]
    cells = [cell for found in matrices for cell in found.cells()]
    console.print(board.plan(matrices))
    if absent := missing(datasets(cells)):
        console.print(prepare.complaint(absent), highlight=False, soft_wrap=True)
    if measure:
        workers, threads = _shares(workers)
        seconds = measured.seconds(cells, threads) / workers
        console.print(f"about {board.duration(seconds)} here with {workers} workers of {threads} threads")


def run(
    matrix: Matrix,
    /,
    engine: Literal["local", "ray"] = "local",
    workers: int | None = None,
    out: Path | None = None,
    generate: int | None = None,
    together: int = 1,
    retry: bool = False,
    address: str | None = None,
    cpus: float = 1.0,
    gpus: float = 0.0,
    ship: bool = False,
) -> None:
    """Run the cells of a matrix that aren't done yet. Stop it as you like; the same command goes on.

    Example: utds benchmark run pointmass --generate 100

    Args:
        matrix: name of a matrix that ships, or path of a TOML file
        engine: local processes, or a Ray cluster (needs utds[ray])
        workers: cells at a time; by default one a core, or as many as the cluster has room for; on one GPU give 1
        out: folder of the results; by default runs/<name of the matrix>
        generate: make missing datasets with so many episodes from the policies that ship
        together: train so many cells of one algorithm in one program, which pays on accelerators
        retry: try cells again that have failed
        address: of the Ray cluster, such as auto or ray://host:10001; by default a cluster on this machine
        cpus: of the cluster for each worker
        gpus: of the cluster for each worker
        ship: send the datasets through Ray's object store, for nodes that can't read the folder of datasets
    """
    from utds.benchmark import prepare
    from utds.benchmark.matrix import load
    from utds.benchmark.runner import run as execute

    if together < 1:
        raise ConfigError(f"together={together} must be at least 1")
    found = load(matrix)
    cells = list(found.cells())
    if generate is not None:
        prepare.generate(cells, generate)
    prepare.require(cells)
    folder = out or Path("runs") / found.name

    def start(jobs: Sequence["Job"]) -> "Engine":
        if engine == "ray":
            from utds.benchmark.cluster import Cluster

            return Cluster(jobs, folder, address, workers, cpus, gpus, ship)
        from utds.benchmark.local import Local

        count, threads = _shares(workers)
        return Local(min(count, len(jobs)), threads, folder)

    if execute(found.name, cells, folder, start, together, retry):
        raise SystemExit(1)


def status(matrix: Matrix, /, out: Path | None = None, once: bool = False) -> None:
    """Show how far a matrix is: a live table in a terminal, until all is done or Ctrl-C.

    Example: utds benchmark status pointmass

    Args:
        matrix: name of a matrix that ships, or path of a TOML file
        out: folder of the results; by default runs/<name of the matrix>
        once: print the table once
    """
    from utds.benchmark import prepare, runner
    from utds.benchmark.matrix import load

    found = load(matrix)
    cells = list(found.cells())
    prepare.require(cells)
    runner.watch(found.name, cells, out or Path("runs") / found.name, once)


def _shares(workers: int | None) -> tuple[int, int]:
    """Workers, and the threads of each."""
    import os

    cores = os.cpu_count() or 1
    workers = cores if workers is None else workers
    if workers < 1:
        raise ConfigError(f"workers={workers} must be at least 1")
    return workers, max(1, cores // workers)
