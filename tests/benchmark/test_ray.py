"""The Ray engine on two nodes of this machine: the driver stops and comes back, a worker and a node are killed."""

import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

ray = pytest.importorskip("ray", reason="the ray engine needs the extra: pip install 'utds[ray]'")

from utds.benchmark import engine  # noqa: E402
from utds.benchmark.cells import locate  # noqa: E402
from utds.benchmark.cluster import TOKEN, Cluster, Remote, _Actor, _room  # noqa: E402
from utds.benchmark.worker import Worker  # noqa: E402
from utds.errors import ConfigError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own: sockets and subprocesses that it leaves to the end
SCORES = ("evaluations.csv", "metrics.csv", "policy-0.safetensors", "policy-1.safetensors")


@pytest.fixture
def cluster(tiny, monkeypatch):
    """A head without room for work, and two nodes of one core each."""
    from ray.cluster_utils import Cluster as Nodes

    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    monkeypatch.setenv("RAY_agent_register_timeout_ms", "300000")  # a busy machine takes its time to start them
    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    workers = [nodes.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    yield nodes, workers
    ray.shutdown()
    nodes.shutdown()


def checkpoints(out: Path) -> int:
    return len(list(out.glob("cells/*/checkpoint.safetensors")))


class Stopped(Cluster):
    """A driver that is stopped as soon as there is something to go on from."""

    def wait(self, seconds):
        if checkpoints(self.out):
            raise KeyboardInterrupt
        return super().wait(0.05)


def test_a_matrix_survives_the_loss_of_its_driver_of_a_worker_and_of_a_node(stored, matrix, cluster, events, tmp_path):
    nodes, workers = cluster
    cells, out = list(replace(matrix, columns=("each",), steps=1_000).cells()), tmp_path / "ray"
    found = locate(cells, tmp_path / "here")
    here = Worker(threads=1)
    for job in engine.jobs(found, cells):
        here.run(job)
    with pytest.raises(ConfigError, match="no node of the cluster has 64 CPUs"):
        Cluster(engine.jobs(found, cells), out, cpus=64)
    with pytest.raises(KeyboardInterrupt):
        engine.run("ray", cells, out, lambda jobs: Stopped(jobs, out, ship=True))
    running: list[Cluster] = []

    def start(jobs):
        running.append(Cluster(jobs, out, ship=True))
        return running[0]

    def lose() -> None:
        """A worker as soon as there is one at work, then a node once both are."""
        while not (running and any(slot.job for slot in running[0].all)):
            time.sleep(0.01)
        ray.kill(next(slot for slot in running[0].all if slot.job).actor, no_restart=True)
        while checkpoints(out) < 2:
            time.sleep(0.01)
        nodes.remove_node(workers[0], allow_graceful=False)

    thief = threading.Thread(target=lose)
    thief.start()
    status = engine.run("ray", cells, out, start)
    thief.join()
    assert status.count("failed") == 0
    finishes = {place.folder.name: events(place.folder).count("finish") for place in locate(cells, out)}
    assert set(finishes.values()) <= {0, 1}, finishes  # 0: lost between its last file and its last line
    for place in found:
        for name in SCORES:
            assert (place.folder / name).read_bytes() == (out / "cells" / place.folder.name / name).read_bytes(), name


def test_a_cluster_that_is_not_there_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    for address in ("nowhere", "/", "ray://", "127.0.0.1:1"):
        with pytest.raises(ConfigError, match=r"could not reach the Ray cluster at .*; check --address") as error:
            Cluster([], tmp_path, address=address)
        assert "\n" not in str(error.value)


def test_what_a_node_lacks_is_one_line(stored, tmp_path):
    token, names = tmp_path / TOKEN, ["tinymass-reach-top-left/random"]
    assert "share" in Remote(1, {}).check(tmp_path, "abc", names)
    token.write_text("of another folder")
    assert f"doesn't see {tmp_path}" in Remote(1, {}).check(tmp_path, "abc", names)
    token.write_text("abc")
    assert Remote(1, {}).check(tmp_path, "abc", names) is None
    assert "no dataset walker-walk/nope" in Remote(1, {}).check(tmp_path, "abc", [*names, "walker-walk/nope"])
    assert Remote(1, {"walker-walk/nope": "shipped"}).check(tmp_path, "abc", ["walker-walk/nope"]) is None


def test_a_cluster_on_which_no_worker_starts_is_one_line():
    """Such as one whose nodes lack the package: asking for workers again and again would never end."""

    class RayError(Exception):
        pass

    def get(future):
        raise RayError(
            "The actor died in its creation task\n  traceback …\nModuleNotFoundError: No module named 'utds'\n"
        )

    never = object.__new__(Cluster)
    never.ray = SimpleNamespace(
        wait=lambda futures, **_: (futures[:1], []), get=get, exceptions=SimpleNamespace(RayError=RayError)
    )
    never.failed_starts, never.all = 0, [_Actor(future=1), _Actor(future=2)]
    never._start = lambda slot: None

    def restart(times):
        for _ in range(times):
            for slot in never.all:
                slot.future = 1
            list(never.wait(0))

    restart(2 * 3)  # one broken node fails that often before another's worker has loaded its libraries
    with pytest.raises(ConfigError, match=r"no worker starts on the cluster.*: ModuleNotFoundError: No module"):
        restart(1)


def test_nodes_keep_their_own_programs(tmp_path, monkeypatch):
    """One compiled on the driver might not run on another processor."""
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    driver = SimpleNamespace(threads=1, out=tmp_path)
    assert "JAX_COMPILATION_CACHE_DIR" not in Cluster._variables(driver)
    before = jax.config.jax_compilation_cache_dir
    (tmp_path / TOKEN).write_text("abc")
    monkeypatch.setattr("socket.gethostname", lambda: "node-7")
    try:
        assert Remote(1, {"a": "shipped"}).check(tmp_path, "abc", ["a"]) is None
        assert jax.config.jax_compilation_cache_dir == str(tmp_path / "cache" / "node-7")
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/shared/programs")
    assert Cluster._variables(driver)["JAX_COMPILATION_CACHE_DIR"] == "/shared/programs"


def test_room_for_workers():
    def node(cpu, gpu=0, alive=True):
        return {"Alive": alive, "Resources": {"CPU": cpu, "GPU": gpu}}

    nodes = [node(4, 1), node(7, 2), node(64, alive=False), {"Alive": True, "Resources": {}}]
    assert _room(nodes, cpus=2, gpus=0) == 2 + 3
    assert _room(nodes, cpus=2, gpus=1) == 1 + 2
    assert _room(nodes, cpus=2, gpus=0.5) == 2 + 3


def test_workers_find_files_that_were_named_from_the_drivers_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UTDS_ALGORITHMS", f"mine.py{os.pathsep}/elsewhere/yours.py")
    monkeypatch.delenv("UTDS_DOMAINS", raising=False)
    found = Cluster._variables(SimpleNamespace(threads=1, out=tmp_path))
    assert found["UTDS_ALGORITHMS"].split(os.pathsep) == [str(tmp_path / "mine.py"), "/elsewhere/yours.py"]
    assert "UTDS_DOMAINS" not in found
