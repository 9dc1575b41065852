"""Pytrees of arrays as safetensors files: names, shapes, numbers and a little JSON. Loading one never runs code."""

import json
import os
from typing import Any, TypeVar

import jax
import numpy as np
import safetensors
import safetensors.numpy

from utds import files
from utds.errors import DataError

T = TypeVar("T")

# Parts of arrays' names as files of earlier versions have them, shipped policies among them, and their names now.
FORMER_NAMES = {
    "normal": "normalizer",
    "actor_moments": "actor_opt_state",
    "critic_moments": "critic_opt_state",
    "temperature_moments": "temperature_opt_state",
}


def save(path: str | os.PathLike[str], tree: Any, meta: dict[str, Any] | None = None) -> None:
    """Write the arrays of `tree`, each under its path in the tree, and `meta` as JSON. Atomic."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    arrays = {_name(where): np.require(leaf, requirements="C") for where, leaf in leaves}
    data = safetensors.numpy.save(arrays, metadata={"utds": json.dumps(meta or {}, allow_nan=False)})
    with files.atomic(path) as part:
        part.write_bytes(data)  # not `save_file`, which raises errors of its own where the disk is full


def load(path: str | os.PathLike[str], like: T) -> tuple[T, dict[str, Any]]:
    """Read arrays into the structure of `like` (whose leaves need only shape and dtype), and the JSON beside them.

    Floating-point arrays are widened or narrowed to the dtype asked for; anything else that differs is an error.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    arrays, meta = read(path)
    names = [_name(where) for where, _ in leaves]
    for name in sorted(set(names) ^ set(arrays)):
        raise DataError(
            f"{path} {'has an unexpected' if name in arrays else 'lacks the'} array {name}: it is of another kind"
        )
    found = [_cast(arrays[name], leaf, name, path) for name, (_, leaf) in zip(names, leaves, strict=True)]
    return jax.tree_util.tree_unflatten(structure, found), meta


def read(path: str | os.PathLike[str], arrays: bool = True) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a file by name, none of them if not wanted, and the JSON beside them."""
    with files.explained(f"read {path}"):
        try:
            with safetensors.safe_open(path, framework="numpy") as file:
                found = {_current(name): file.get_tensor(name) for name in file.keys() if arrays}
                meta = json.loads((file.metadata() or {}).get("utds", "{}"))
        except (safetensors.SafetensorError, ValueError, AttributeError, RecursionError) as error:  # of odd types too
            raise DataError(f"{path} is no readable safetensors file ({error}); it was cut short or altered") from None
    if not isinstance(meta, dict):
        raise DataError(f"{path}: the metadata beside the arrays are {meta!r}, no table; the file was altered")
    return found, meta


def _cast(array: np.ndarray, leaf: Any, name: str, path: object) -> np.ndarray:
    if array.shape != leaf.shape:
        raise DataError(f"{path}: array {name} has shape {array.shape}, expected {leaf.shape}")
    if array.dtype == leaf.dtype:
        return array
    if array.dtype.kind == "f" and np.dtype(leaf.dtype).kind == "f":
        return array.astype(leaf.dtype)
    raise DataError(f"{path}: array {name} holds {array.dtype}, expected {leaf.dtype}")


def _current(name: str) -> str:
    """An array's name today: 0.state.normal.mean -> 0.state.normalizer.mean."""
    return ".".join(FORMER_NAMES.get(part, part) for part in name.split("."))


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".") or "value"
