"""What a worker is given: which GPU, and that several devices change nothing on a CPU."""

import os
import subprocess
import sys

import pytest

from utds.benchmark import cluster, engine, worker

TRAIN = """
import sys
import jax, numpy as np
from utds import algorithms
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.training import train
assert jax.device_count() == int(sys.argv[2]), jax.devices()
random = np.random.default_rng(0)
columns = random.normal(size=(204, 3)), random.uniform(-1, 1, (200, 2)), random.uniform(size=200)
pool = share(Dataset.from_arrays(*columns, lengths=[50] * 4, task="main"))
algorithm = algorithms.make("td3bc", width=8, batch_size=16)
for vmap in (False, True):
    train(pool, algorithm, seeds=2, steps=4, out=f"{sys.argv[1]}/{vmap}", evaluate=None, vmap=vmap)
"""


@pytest.fixture
def cuda(monkeypatch, tmp_path):
    """A machine with JAX for CUDA and three GPUs; what it has under /dev."""
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION", raising=False)
    monkeypatch.setattr(worker, "_for_cuda", lambda: True)
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    return tmp_path


def test_the_gpus_are_those_that_jax_would_see(cuda, monkeypatch):
    assert worker.visible_gpus(cuda) == ("0", "1", "2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, GPU-ab12,-1,0")
    assert worker.visible_gpus(cuda) == ("2", "GPU-ab12")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert worker.visible_gpus(cuda) == ()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    for platforms, expected in (("cpu", ()), ("cuda,cpu", ("0", "1", "2"))):
        monkeypatch.setenv("JAX_PLATFORMS", platforms)
        assert worker.visible_gpus(cuda) == expected
    monkeypatch.setattr(worker, "_for_cuda", lambda: False)
    assert worker.visible_gpus(cuda) == ()


def test_a_worker_a_gpu_by_default_and_several_divide_its_memory(cuda, monkeypatch):
    gpus = ("4", "7")
    assert worker.default_workers(gpus, None, cores=16) == 2
    assert worker.default_workers(gpus, 0.5, cores=16) == 4
    assert worker.default_workers(gpus, 0, cores=16) == worker.default_workers((), None, cores=16) == 16
    assert [worker.gpu_of(i, 2, gpus) for i in (0, 1)] == [{"CUDA_VISIBLE_DEVICES": name} for name in gpus]
    shared = worker.gpu_of(2, 3, gpus)
    assert shared == {"CUDA_VISIBLE_DEVICES": "4", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.450"}
    assert worker.gpu_of(0, 2, None) == {"JAX_PLATFORMS": "cpu"}
    assert worker.gpu_of(0, 2, ()) == {}
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.2")
    assert worker.gpu_of(2, 3, gpus) == {"CUDA_VISIBLE_DEVICES": "4"}


def test_local_workers_start_with_their_gpu(cuda, monkeypatch, tmp_path):
    started = []

    class Process:
        def __init__(self, **_: object) -> None:
            pass

        def start(self) -> None:
            started.append(os.environ.get("CUDA_VISIBLE_DEVICES"))

    monkeypatch.setattr(engine.spawn, "Process", Process)
    local = engine.Local(3, 1, tmp_path, ("4", "7"))
    local._start(local.slots[1])  # one that died
    assert started == ["4", "7", "4", "7"]
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_workers_on_a_cluster_ask_for_a_gpu_where_there_is_one():
    def node(gpus, alive=True):
        return {"Alive": alive, "Resources": {"CPU": 8, **({"GPU": gpus} if gpus else {})}}

    assert cluster._gpus([node(0), node(2)]) == 1
    assert cluster._gpus([node(0), node(2, alive=False)]) == 0


def test_several_devices_change_no_digit(tmp_path):
    """A CPU as two devices, as it is forced to be in tests of programs for several GPUs."""
    for count in (1, 2):
        flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={count}", "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-c", TRAIN, str(tmp_path / str(count)), str(count)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | flags)
        assert done.returncode == 0, done.stderr
    for path in tmp_path.glob("1/*/policy-*.safetensors"):
        assert path.read_bytes() == (tmp_path / "2" / path.relative_to(tmp_path / "1")).read_bytes()
    assert len(list(tmp_path.glob("2/*/policy-*.safetensors"))) == 4
