"""What a worker is given: its share of the cores, a GPU, and where compiled programs are kept.

A worker trains on one GPU. Several workers on the same one divide its memory, of which JAX takes a share at its start.
Nothing here starts JAX: the process that hands GPUs out must not take memory of one.
"""

import contextlib
import importlib.util
import math
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

CACHE = "JAX_COMPILATION_CACHE_DIR"
MEMORY = 0.9  # of a GPU, that workers divide; the rest is for its other users
_ON_GPU = {"cuda", "gpu"}  # in JAX_PLATFORMS


def visible_gpus(devices: Path = Path("/dev")) -> tuple[str, ...]:
    """The GPUs that JAX would see in a new process: those of CUDA_VISIBLE_DEVICES, else all of this machine."""
    asked = os.environ.get("JAX_PLATFORMS", "")
    if asked and not _ON_GPU & {name.strip() for name in asked.split(",")}:
        return ()
    if not _for_cuda():
        return ()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return tuple(str(number) for number in range(len(list(devices.glob("nvidia[0-9]*")))))
    names = [name.strip() for name in named.split(",")]
    return tuple(names[: names.index("-1")] if "-1" in names else filter(None, names))  # CUDA reads up to a -1


def _for_cuda() -> bool:
    """Whether JAX was installed with what it needs for NVIDIA's GPUs."""
    return any(importlib.util.find_spec(f"jax_cuda{version}_plugin") for version in (12, 13))


def workers(gpus: Sequence[str], each: float | None, cores: int) -> int:
    """The default number of workers: one a GPU, or as many as `each` leaves room for; without GPUs, one a core."""
    if not gpus or each == 0:
        return cores
    return max(1, math.floor(len(gpus) / (each or 1)))


def gpu_of(worker: int, workers: int, gpus: Sequence[str] | None) -> dict[str, str]:
    """Environment variables that give a worker its GPU: they take turns, and those on one GPU divide its memory.

    None holds it to the CPU; an empty list says nothing.
    """
    if gpus is None:
        return {"JAX_PLATFORMS": "cpu"}
    if not gpus:
        return {}
    sharing = math.ceil(workers / len(gpus))
    return {"CUDA_VISIBLE_DEVICES": gpus[worker % len(gpus)]} | memory(1 / sharing)


def memory(share: float) -> dict[str, str]:
    """The variable that holds JAX to a share of a GPU; none for a whole one, or where the user has set one."""
    name = "XLA_PYTHON_CLIENT_MEM_FRACTION"
    if not 0 < share < 1 or name in os.environ:
        return {}
    return {name: f"{MEMORY * share:.3f}"}


def environment(threads: int, out: Path) -> dict[str, str]:
    """Environment variables of a worker: its share of the cores, and where compiled programs are kept."""
    return threads_of(threads) | {CACHE: programs(out), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2"}


def programs(out: Path) -> str:
    """Where compiled programs are kept, by host: one compiled for another processor might not run here."""
    return os.environ.get(CACHE) or str(out.resolve() / "cache" / socket.gethostname())


def threads_of(count: int) -> dict[str, str]:
    """Environment variables that hold XLA (the first) and the linear algebra of NumPy and SciPy to so many threads."""
    return dict.fromkeys(("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(count))


@contextlib.contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for processes that start within the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
