"""What this installation can do: versions, devices, cores, pictures, the store, extras; and how to get the rest."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from utds.data import ids
from utds.version import __version__

State = Literal["ok", "optional", "missing"]  # there; not there, and not needed for training; not there, and needed
LIBRARIES = ("jax", "jaxlib", "optax", "numpy", "mujoco", "dm_control", "gymnasium", "minari", "tyro")
EXTRAS = {  # extra -> the modules that it brings, and what it is for
    "onnx": (("onnx", "onnxruntime"), "utds export"),
    "video": (("imageio", "imageio_ffmpeg"), "utds evaluate --video"),
    "parquet": (("pyarrow",), "parquet tables and LeRobot folders"),
    "download": (("huggingface_hub",), "utds data import --download"),
    "tensorboard": (("tensorboard",), "utds train --logger tensorboard"),
    "wandb": (("wandb",), "utds train --logger wandb"),
    "ray": (("ray",), "utds benchmark run --engine ray"),
    "docs": (("mkdocs", "material"), "make docs"),
    "dev": (("pytest", "selenium", "nbclient"), "make test"),
}
PICTURES = {  # MuJoCo's name -> ours, and the packages that bring it
    "egl": ("EGL", "apt install libegl1 libgl1-mesa-dri"),
    "osmesa": ("OSMesa", "apt install libosmesa6"),
}
_DRAW = "from utds.domains import get, gym; gym.Camera(get('pointmass'), 16, 16)"
PATIENCE = 60  # seconds for a first picture


@dataclass(frozen=True)
class Check:
    """One line of the doctor's report."""

    name: str
    state: State
    found: str
    remedy: str = ""  # what to do about it, where something is missing


def examine() -> Iterator[Check]:
    """All checks, one after another; the slow ones come last."""
    yield Check(
        "utds", "ok", f"{__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    )
    yield _libraries()
    yield _cores()
    yield _devices()
    yield _store()
    for name, (modules, purpose) in EXTRAS.items():
        absent = [module for module in modules if importlib.util.find_spec(module) is None]
        remedy = f"pip install 'utds[{name}]'" if absent else ""
        yield Check(f"extra {name}", "optional" if absent else "ok", purpose, remedy)
    yield _browser()
    for backend in PICTURES:
        yield _pictures(backend)


def _libraries() -> Check:
    found, absent = [], []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
            importlib.import_module(name)
        except importlib.metadata.PackageNotFoundError:
            absent.append(name)
        except Exception as error:  # such as a library of the system that it lacks
            remedy = f"pip install --force-reinstall {name}"
            return Check("libraries", "missing", f"{found[-1]} can't be imported: {_reason(error)}", remedy)
    if not absent:
        return Check("libraries", "ok", ", ".join(found))
    remedy = "pip install --no-deps dm_control==1.0.50" if absent == ["dm_control"] else "pip install utds"
    return Check("libraries", "missing", f"{', '.join(found)}; not installed: {', '.join(absent)}", remedy)


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _cores() -> Check:
    total = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else total
    return Check("cores", "ok", f"{usable}" if usable == total else f"{usable} of {total} may be used here")


def _devices() -> Check:
    try:
        import jax
    except Exception as error:
        return Check("devices", "missing", f"no JAX: {_reason(error)}", "pip install utds")
    try:
        found = ", ".join(str(device) for device in jax.devices())
    except RuntimeError as error:  # such as JAX_PLATFORMS=cuda where there is none
        return Check("devices", "missing", f"JAX finds none: {_reason(error)}", "unset JAX_PLATFORMS, or set it to cpu")
    if jax.default_backend() == "cpu" and shutil.which("nvidia-smi"):
        return Check("devices", "optional", f"{found}; JAX doesn't see the NVIDIA GPU", "pip install 'utds[cuda]'")
    return Check("devices", "ok", found)


def _store() -> Check:
    root = ids.root()
    there = next(path for path in (root, *root.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Check("store", "missing", f"{root} can't be written to", "set MINARI_DATASETS_PATH to a folder of yours")
    count, free = sum(1 for _ in ids.stored()), shutil.disk_usage(there).free
    remedy = "" if count else "utds data generate walker-walk"
    found = f"{root}: {count} datasets, {free / 1e9:.1f} GB free"
    return Check("store", "ok" if count else "optional", found, remedy)


def _browser() -> Check:
    names = ("chromium", "chromium-browser", "google-chrome")
    browser, driver = next(filter(None, map(shutil.which, names)), None), shutil.which("chromedriver")
    if browser and driver:
        return Check("browser", "ok", f"{browser}, {driver} (tests of the report)")
    return Check("browser", "optional", "none for tests of the report", "apt install chromium chromium-driver")


def _pictures(backend: str) -> Check:
    """Draw one picture in a process of its own: a broken driver can take its process with it."""
    name, package = PICTURES[backend]
    source = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"MUJOCO_GL": backend, "PYTHONPATH": path}
    try:
        done = subprocess.run([sys.executable, "-c", _DRAW], env=environment, capture_output=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return Check(name, "optional", f"no picture within {PATIENCE} s", package)
    if done.returncode:
        return Check(name, "optional", "no off-screen pictures with it; one of EGL and OSMesa is enough", package)
    return Check(name, "ok", "pictures and videos")
