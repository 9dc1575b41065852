"""The Ray engine on two nodes of this machine, one of which is killed in the middle."""

import threading
import time
from collections import Counter
from dataclasses import replace

import pytest

ray = pytest.importorskip("ray", reason="the ray engine needs the extra: pip install 'utds[ray]'")

from utds.benchmark import engine  # noqa: E402
from utds.benchmark.cells import locate  # noqa: E402
from utds.benchmark.cluster import TOKEN, Cluster, Remote, _room  # noqa: E402
from utds.benchmark.worker import Worker  # noqa: E402
from utds.errors import ConfigError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own: sockets and subprocesses that it leaves to the end
SCORES = ("evaluations.csv", "metrics.csv", "policy-0.safetensors", "policy-1.safetensors")


@pytest.fixture
def cluster(tiny, tmp_path, monkeypatch):
    """A head without room for work, and two nodes of one core each."""
    from ray.cluster_utils import Cluster as Nodes

    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "compiled"))
    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    workers = [nodes.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    yield nodes, workers
    ray.shutdown()
    nodes.shutdown()


def test_a_matrix_survives_the_loss_of_a_node(stored, matrix, cluster, tmp_path):
    nodes, workers = cluster
    cells, out = list(replace(matrix, columns=("each",), steps=1_000).cells()), tmp_path / "ray"
    found = locate(cells, tmp_path / "here")
    here = Worker(threads=1)
    for job in engine.jobs(found, cells):
        here.run(job)
    with pytest.raises(ConfigError, match="no node of the cluster has 64 CPUs"):
        Cluster(engine.jobs(found, cells), out, cpus=64)

    def lose_a_node() -> None:
        while len(list(out.glob("cells/*/checkpoint.safetensors"))) < 2:  # until both nodes are at work
            time.sleep(0.01)
        nodes.remove_node(workers[0], allow_graceful=False)

    thief = threading.Thread(target=lose_a_node)
    thief.start()
    failed = engine.run("ray", cells, out, lambda jobs: Cluster(jobs, out, ship=True))
    thief.join()
    assert failed == 0
    events = {place.folder.name: place.events() for place in locate(cells, out)}
    finishes = {name: Counter(line["event"] for line in lines)["finish"] for name, lines in events.items()}
    assert set(finishes.values()) <= {0, 1}, finishes  # 0: lost between its last file and its last line
    for place in found:
        for name in SCORES:
            assert (place.folder / name).read_bytes() == (out / "cells" / place.folder.name / name).read_bytes(), name


def test_what_a_node_lacks_is_one_line(stored, tmp_path):
    token, names = tmp_path / TOKEN, ["tinymass-reach-top-left/random"]
    assert "share" in Remote(1, {}).greet(tmp_path, "abc", names)
    token.write_text("of another folder")
    assert f"doesn't see {tmp_path}" in Remote(1, {}).greet(tmp_path, "abc", names)
    token.write_text("abc")
    assert Remote(1, {}).greet(tmp_path, "abc", names) is None
    assert "no dataset walker-walk/nope" in Remote(1, {}).greet(tmp_path, "abc", [*names, "walker-walk/nope"])
    assert Remote(1, {"walker-walk/nope": "shipped"}).greet(tmp_path, "abc", ["walker-walk/nope"]) is None


def test_room_for_workers():
    def node(cpu, gpu=0, alive=True):
        return {"Alive": alive, "Resources": {"CPU": cpu, "GPU": gpu}}

    nodes = [node(4, 1), node(7, 2), node(64, alive=False), {"Alive": True, "Resources": {}}]
    assert _room(nodes, cpus=2, gpus=0) == 2 + 3
    assert _room(nodes, cpus=2, gpus=1) == 1 + 2
    assert _room(nodes, cpus=2, gpus=0.5) == 2 + 3
