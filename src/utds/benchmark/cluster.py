"""The Ray engine: one actor per worker, wherever the cluster has room for one.

    driver ── actor on node A     holds the lake and the compiled programs of its last jobs
           └─ actor on node B     run directories lie in a folder that all nodes share

Datasets are read from shared storage, or shipped through Ray's object store, which sends each once to a node. An actor
that dies with its node is asked for again and joins when there is room; until then the others do its work.
"""

import os
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax

from utds.benchmark.engine import RETRIES, Slot
from utds.benchmark.plan import missing
from utds.benchmark.worker import CACHE, Job, Worker, attempt, environment, memory, programs
from utds.data import ids, store
from utds.data.columns import Metadata
from utds.data.dataset import Dataset
from utds.errors import ConfigError, DataError, MissingExtra

TOKEN = "cluster-token"  # a file by which workers know that they see the same folder as the driver
ADDRESS_SECONDS = 10.0  # within which the head of a cluster must answer


@dataclass(eq=False)
class _Actor(Slot):
    actor: Any = None
    ready: bool = False
    future: Any = None  # of its check, then of the job


class Remote:
    """What lives on a node."""

    def __init__(self, threads: int, datasets: Mapping[str, Any]) -> None:
        self.datasets = datasets  # id -> reference of a shipped dataset; none where they are read from storage
        self.worker = Worker(threads, self._load if datasets else store.load)

    def check(self, out: Path, token: str, names: Sequence[str]) -> str | None:
        """Whether this node sees what it needs; else what is wrong."""
        host, path = socket.gethostname(), out / TOKEN
        if not path.exists() or path.read_text() != token:
            return f"{host} doesn't see {out}: give --out a folder that all nodes of the cluster share"
        absent = [] if self.datasets else missing(names)
        if absent:
            return f"{host} has no dataset {absent[0]} under {ids.root()}: share that folder, or send data with --ship"
        jax.config.update("jax_compilation_cache_dir", programs(out))  # of this host
        return None

    def run(self, job: Job) -> str | None:
        return attempt(self.worker, job)

    def _load(self, name: str) -> Dataset:
        import ray

        shipped = ray.get(self.datasets[name])  # views into the node's object store
        return Dataset(shipped["columns"], shipped["lengths"], Metadata(**shipped["metadata"]), shipped["digest"])


class Cluster:
    """Actors of `cpus` and `gpus` each, by default as many as the cluster has room for.

    If it isn't said how many GPUs an actor needs, it is one where the cluster has any.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        out: Path,
        address: str | None = None,
        workers: int | None = None,
        cpus: float = 1.0,
        gpus: float | None = None,
        ship: bool = False,
    ) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtra("the ray engine needs Ray: pip install 'utds[ray]'") from None
        self.ray: Any = ray
        self.out, self.token = out.resolve(), uuid.uuid4().hex
        self.names = tuple(dict.fromkeys(name for job in jobs for name in job.lake))
        self.started = not self.ray.is_initialized()
        if self.started:
            _connect(self.ray, address)
        nodes = self.ray.nodes()
        gpus = _gpus(nodes) if gpus is None else gpus
        self.threads = max(1, int(cpus))
        variables = self._variables() | memory(gpus)
        options = {"num_cpus": cpus, "num_gpus": gpus, "runtime_env": {"env_vars": variables}}
        self.actor = self.ray.remote(**options)(Remote)
        room = _room(nodes, cpus, gpus)
        if room == 0:
            raise ConfigError(f"no node of the cluster has {cpus:g} CPUs and {gpus:g} GPUs for a worker")
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / TOKEN).write_text(self.token)
        self.datasets = {name: self.ray.put(_packed(store.load(name))) for name in self.names} if ship else {}
        self.failed_starts = 0  # of actors, since one of them passed its check
        self.all = [_Actor() for _ in range(min(workers or room, len(jobs)))]
        for slot in self.all:
            self._start(slot)

    @property
    def slots(self) -> list[_Actor]:
        return [slot for slot in self.all if slot.ready]

    def submit(self, slot: Slot, job: Job) -> None:
        assert isinstance(slot, _Actor)
        slot.job, slot.program = job, job.program
        slot.future = slot.actor.run.remote(job)

    def wait(self, seconds: float) -> Iterator[tuple[Job, str | None]]:
        futures = {slot.future: slot for slot in self.all if slot.future is not None}
        for future in self.ray.wait(list(futures), num_returns=1, timeout=seconds)[0]:
            slot = futures[future]
            job, slot.job, slot.future = slot.job, None, None
            try:
                error = self.ray.get(future)
            except self.ray.exceptions.RayError as lost:
                said = [line for line in str(lost).splitlines() if line.strip()] or [type(lost).__name__]
                error = f"its worker was lost: {said[0]}"
                self.failed_starts += not slot.ready
                if self.failed_starts > RETRIES * len(self.all) and not self.slots:  # one bad node fails fast
                    why = f"tried {self.failed_starts} times: {said[-1].strip()}"
                    raise ConfigError(f"no worker starts on the cluster, {why}") from None
                self._start(slot)
            else:
                if not slot.ready and error:
                    raise DataError(error)
                slot.ready, self.failed_starts = True, 0
            if job is not None:
                yield job, error

    def close(self) -> None:
        """Actors are ended at once: what they were at goes on from its last checkpoint."""
        for slot in self.all:
            self.ray.kill(slot.actor)
        if self.started:
            self.ray.shutdown()

    def _start(self, slot: _Actor) -> None:
        slot.actor, slot.ready, slot.program = self.actor.remote(self.threads, self.datasets), False, None
        slot.future = slot.actor.check.remote(self.out, self.token, self.names)

    def _variables(self) -> dict[str, str]:
        """What workers must know of the driver's environment."""
        given = {name: os.environ[name] for name in ("JAX_PLATFORMS",) if name in os.environ}
        for name in ("UTDS_DOMAINS", "UTDS_ALGORITHMS"):  # files: a worker runs in another folder
            if paths := os.environ.get(name):
                given[name] = os.pathsep.join(os.path.abspath(path) for path in paths.split(os.pathsep) if path)
        store = {"MINARI_DATASETS_PATH": str(ids.root().resolve())}
        found = environment(self.threads, self.out) | given | store
        if CACHE not in os.environ:  # each node has a folder of its own
            del found[CACHE]
        return found


def _connect(ray: Any, address: str | None) -> None:
    """Join the cluster, or start one on this machine."""
    try:
        _check_address(address)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError, OSError, OverflowError) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        where = "start Ray here" if address is None else f"reach the Ray cluster at {address}"
        raise ConfigError(f"could not {where}: {said}; check --address and that its head is up") from None


def _check_address(address: str | None) -> None:
    """Fail at once where nobody listens: Ray itself would try for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").partition(":")
    if address == "ray://":
        raise ValueError("it names no host")
    if host and colon and port.isdecimal():
        socket.create_connection((host, int(port)), ADDRESS_SECONDS).close()


def _gpus(nodes: Sequence[Mapping[str, Any]]) -> float:
    """How many GPUs a worker asks for by default."""
    return float(any(node["Alive"] and node["Resources"].get("GPU", 0) >= 1 for node in nodes))


def _room(nodes: Sequence[Mapping[str, Any]], cpus: float, gpus: float) -> int:
    """How many workers all nodes together have room for."""
    room = 0
    for node in nodes:
        if node["Alive"]:
            has = node["Resources"]
            shares = [has.get(name, 0) // need for name, need in (("CPU", cpus), ("GPU", gpus)) if need]
            room += int(min(shares, default=0))
    return room


def _packed(dataset: Dataset) -> dict[str, Any]:
    """A dataset as plain arrays: rewards of all tasks if it has them, else the physics that they are computed from."""
    wanted = ["observations", "actions", "rewards", "terminations", "truncations"]
    wanted.append("task_rewards" if "task_rewards" in dataset else "physics")
    return {
        "columns": {name: dataset.column(name) for name in wanted if name in dataset},
        "lengths": dataset.lengths,
        "metadata": asdict(dataset.metadata),
        "digest": dataset.digest,
    }
