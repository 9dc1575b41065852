"""Labels that cost time, kept beside a stored dataset under a digest of all that they depend on."""

import contextlib
import functools
import hashlib
import json
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from utds import files
from utds.data import ids
from utds.data.dataset import Dataset
from utds.data.formats import arrays
from utds.errors import DataError


def cached(
    dataset: Dataset, key: Mapping[str, object], shape: tuple[int, ...], compute: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The arrays that `compute` gives, `values` [shape] among them, kept beside a stored dataset under their `key`."""
    path = _path(dataset, key)
    if path is None:
        return compute()
    if path.exists():
        with contextlib.suppress(DataError):  # damaged (a zip file carries checksums): computing it again mends it
            found = arrays.load(path)
            if "values" in found and found["values"].shape == shape and found["values"].dtype == np.float32:
                return found
    made = compute()
    with files.atomic(path) as part, open(part, "wb") as file:
        np.savez(file, **made)  # type: ignore[arg-type]  # floats: nothing to pickle
    return made


def _path(dataset: Dataset, key: Mapping[str, object]) -> Path | None:
    """Beside the dataset, as long as what is stored there is this dataset."""
    if dataset.metadata.id is None:
        return None
    digest = hashlib.sha256(json.dumps(dict(key), sort_keys=True).encode()).hexdigest()
    folder = ids.folder(dataset.metadata.id)
    return folder / "relabelled" / f"{digest}.npz" if (folder / "data").is_dir() else None


_LIBRARIES = ("numpy", "scipy", "jax", "mujoco", "dm_control")  # counted by name alone, not by their code


def code_digest(*functions: Callable[..., Any]) -> str:
    """SHA-256 of what functions do: their bytecode, defaults and captured values, and likewise of what they call.

    Editing a helper or a constant that a function uses changes it; editing a comment or another function doesn't.
    A value that can't be told from another by its content makes the digest unique to the process: better computed
    again than wrong.
    """
    digest = hashlib.sha256()
    _feed(digest, functions, set())
    return digest.hexdigest()


def _feed(digest: Any, value: Any, seen: set[int]) -> None:
    """Write a value, with everything in it that matters, into a digest."""
    digest.update(f"{type(value).__qualname__}:".encode())
    if hasattr(value, "__dict__"):  # a function, a class, an object: it may lead back to itself
        if id(value) in seen:
            return
        seen.add(id(value))
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        digest.update(repr(value).encode())
    elif isinstance(value, np.ndarray) and value.dtype != object:
        digest.update(f"{value.dtype.str} {value.shape}".encode() + value.tobytes())
    elif isinstance(value, tuple | list | set | frozenset):
        for item in sorted(value, key=repr) if isinstance(value, set | frozenset) else value:
            _feed(digest, item, seen)
    elif isinstance(value, dict):
        for name in sorted(value, key=repr):
            _feed(digest, (name, value[name]), seen)
    elif isinstance(value, types.CodeType):
        digest.update(value.co_code + repr((value.co_names, value.co_varnames)).encode())
        _feed(digest, value.co_consts, seen)
    elif isinstance(value, types.ModuleType | type | np.ufunc | types.BuiltinFunctionType):
        digest.update(f"{getattr(value, '__module__', '')}.{value.__name__}".encode())
    elif isinstance(value, functools.partial):
        _feed(digest, (value.func, value.args, value.keywords), seen)
    elif isinstance(value, types.MethodType):
        _feed(digest, (value.__func__, value.__self__), seen)
    elif isinstance(value, types.FunctionType):
        _feed_function(digest, value, seen)
    elif hasattr(value, "__wrapped__"):  # such as a jitted function
        _feed(digest, value.__wrapped__, seen)
    elif callable(value) and hasattr(value, "__dict__"):
        _feed(digest, (type(value).__call__, vars(value)), seen)
    else:
        digest.update(repr(value).encode())


def _feed_function(digest: Any, function: types.FunctionType, seen: set[int]) -> None:
    captured = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # a name that isn't bound yet
            captured.append(cell.cell_contents)
    _feed(digest, (function.__code__, function.__defaults__, function.__kwdefaults__, captured), seen)
    if (function.__module__ or "").partition(".")[0] in _LIBRARIES:
        return
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            _feed(digest, (name, function.__globals__[name]), seen)


def _names(code: types.CodeType) -> set[str]:
    """Global names that code and the functions inside it may read."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*(_names(constant) for constant in inner))
