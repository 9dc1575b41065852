"""Labels that cost time, kept beside a stored dataset under a digest of all that they depend on."""

import contextlib
import dis
import functools
import hashlib
import importlib
import json
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    id = dataset.metadata.id
    if id is None or not (ids.folder(id) / "data").is_dir():
        return compute()
    digest = hashlib.sha256(json.dumps(dict(key), sort_keys=True).encode()).hexdigest()
    path = ids.folder(id) / "relabelled" / f"{digest}.npz"
    if path.exists():
        with contextlib.suppress(DataError):  # damaged (a zip file carries checksums): computing it again mends it
            found = arrays.load(path)
            if "values" in found and found["values"].shape == shape and found["values"].dtype == np.float32:
                return found
    made = compute()
    with contextlib.suppress(DataError):  # a store that is read-only, or a full disk: the labels are there all the same
        with files.atomic(path) as part, open(part, "wb") as file:
            np.savez(file, **made)  # type: ignore[arg-type]  # floats: nothing to pickle
    return made


OWN = "utds_rewards_"  # begins the names of modules made from reward files, which may be called as a library is
DIGITS = 16  # hexadecimal ones of the digest of a function's code that stand in its identity
Seen = dict[int, Any]  # values that lead back to themselves by their `id`; kept, lest another one get the same
# Counted by name alone, not by their code, as is the standard library.
_LIBRARIES = {"numpy", "scipy", "jax", "mujoco", "dm_control", "gymnasium", "torch", "pandas", "sklearn", "numba"}


def code_digest(*functions: Callable[..., Any]) -> str:
    """SHA-256 of what functions do: their bytecode, defaults and captured values, and likewise of what they use.

    Editing a helper or a constant that a function uses changes it, also one in a module or a class of the user's own;
    editing a comment or another function doesn't. A value that can't be told from another by its content makes the
    digest unique to the process: better computed again than wrong.
    """
    digest = hashlib.sha256()
    try:
        _feed(digest, functions, {})
    except RecursionError:  # a value without end can't be told from another
        digest.update(repr(functions).encode())
    return digest.hexdigest()


def function_identity(function: Callable[..., Any], source: str = "") -> str:
    """A function by its source, or else its own name, and its code: "function:reach@1f2e…"."""
    called = getattr(function, "__name__", type(function).__name__)
    return f"{source or f'function:{called}'}@{code_digest(function)[:DIGITS]}"


def _feed(digest: Any, value: Any, seen: Seen) -> None:
    """Write a value, with everything in it that matters, into a digest."""
    digest.update(f"{type(value).__qualname__}:".encode())
    if hasattr(value, "__dict__"):  # a function, a class, an object: it may lead back to itself
        if id(value) in seen:
            return
        seen[id(value)] = value
        if not vars(value) and hasattr(value, "__array__") and not isinstance(value, np.ndarray | type):
            # JAX's arrays, PyTorch's. What can't be had as NumPy's, for whatever reason, is told as other objects are.
            with contextlib.suppress(Exception):
                value = np.asarray(value)
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
        module = str(getattr(value, "__module__", "")).removeprefix(OWN)  # as digests have always had it
        digest.update(f"{module}.{value.__name__}".encode())
        if isinstance(value, type) and not _is_library(value.__module__):
            _feed(digest, (value.__bases__, _members(value)), seen)
    elif isinstance(value, functools.partial):
        _feed(digest, (value.func, value.args, value.keywords), seen)
    elif isinstance(value, types.MethodType):
        _feed(digest, (value.__func__, value.__self__), seen)
    elif isinstance(value, types.FunctionType):
        _feed_function(digest, value, seen)
    elif isinstance(value, property):
        _feed(digest, value.fget, seen)
    elif isinstance(value, functools.cached_property):
        _feed(digest, value.func, seen)
    elif hasattr(value, "__wrapped__"):  # such as a jitted function or a static method
        _feed(digest, value.__wrapped__, seen)
    elif any(kind.__name__ == "cKDTree" for kind in type(value).__mro__):  # whose state has addresses in it
        _feed(digest, (value.data, value.leafsize, value.boxsize), seen)
    elif hasattr(value, "__dict__"):
        _feed(digest, (type(value), _state(value)), seen)
    else:
        digest.update(repr(value).encode())


def _state(value: Any) -> Any:
    """What tells an object from others of its class: attributes and slots, or else what a copy would be made from.

    Nothing is copied. What can't be copied is told by its `repr`, which is unique to the process for most classes.
    """
    state = object.__getstate__(value)
    if state is not None:
        return state
    try:
        made = value.__reduce_ex__(4)
    except Exception:  # of any kind: the class is somebody else's
        return repr(value)
    if isinstance(made, str):
        return made
    parts = [list(part) if isinstance(part, Iterator) else part for part in made[1:]]
    return parts if any(part is not None for part in parts[1:]) or parts[0] != (type(value),) else {}


def _feed_function(digest: Any, function: types.FunctionType, seen: Seen) -> None:
    captured = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # a name that isn't bound yet
            captured.append(cell.cell_contents)
    code = function.__code__
    _feed(digest, (code, function.__defaults__, function.__kwdefaults__, captured), seen)
    if _is_library(function.__module__ or ""):
        return
    names = sorted({name for part in _codes(code) for name in part.co_names})  # global names that it may read
    used = {name: function.__globals__[name] for name in names if name in function.__globals__}
    for item in used.items():
        _feed(digest, item, seen)
    for module in (*captured, *used.values(), *_imported(code)):
        _feed_attributes(digest, module, names, seen)


def _feed_attributes(digest: Any, module: Any, names: Sequence[str], seen: Seen) -> None:
    """What code that reads these names takes from a module, as `helpers.distance` does, and from modules in it."""
    if isinstance(module, types.ModuleType) and not _is_library(module.__name__):
        for name in names:
            if name in vars(module):
                _feed(digest, (name, vars(module)[name]), seen)
                _feed_attributes(digest, vars(module)[name], [other for other in names if other != name], seen)


def _members(kind: type) -> dict[str, Any]:
    """The methods and values of a class, without what Python notes about it, such as its line in the file."""
    special = types.FunctionType | staticmethod | classmethod
    return {
        name: value
        for name, value in vars(kind).items()
        if isinstance(value, special) or not name.startswith(("__", "_abc_"))
    }


def _is_library(module: str) -> bool:
    top = module.partition(".")[0]
    return top in _LIBRARIES or top in sys.stdlib_module_names


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Code and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _imported(code: types.CodeType) -> Iterator[types.ModuleType]:
    """Modules that code imports when it runs."""
    for part in _codes(code):
        for step in dis.get_instructions(part):
            if step.opname == "IMPORT_NAME":
                with contextlib.suppress(ImportError):
                    yield importlib.import_module(step.argval)
