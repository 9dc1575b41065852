"""Run directories from outside: what each is and has reached, how they differ, and removing them."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from utds import files
from utds.errors import ConfigError, DataError
from utds.training import run_files


def find(root: Path) -> Iterator[dict[str, Any]]:
    """What `row` says of every run below a folder."""
    for path in run_files.folders(root):
        found = row(path)
        if found["state"] != "collection":
            yield found


def row(path: Path) -> dict[str, Any]:
    """A run in a few values; of a damaged one, the error."""
    try:
        if not run_files.is_run(path):
            failed = run_files.error(path)
            raise DataError(f"{path} failed: {failed}" if failed else f"{path} is half-written: it has no config.json")
        if run_files.is_collection(path):
            return {"run": str(path), "state": "collection"}
        config, result = run_files.config_as_written(path), run_files.result(path)
    except DataError as error:
        return {"run": str(path), "state": "damaged", "error": str(error)}
    own, *shared = [source["id"] for source in config["sources"]]
    finished = run_files.is_finished(config, result)
    running = files.locked(path / "lock")
    reached: dict[str, Any] = result.get("evaluation", {}) if finished else {}
    return {
        "run": str(path),
        "state": "running" if running else "finished" if finished else "unfinished",
        "task": config["task"],
        "algorithm": config["algorithm"]["name"],
        "main": own,
        "shared": shared,
        "seeds": config["seeds"],
        "steps": config["steps"],
        "step": config["steps"] if finished else run_files.last_step(path),
        "seconds": result.get("seconds"),
        "returns": reached.get("return", {}).get("seeds", []),
        **{f"return_{name}": reached.get("return", {}).get(name) for name in ("mean", "standard_error")},
        "score_mean": reached.get("score", {}).get("mean"),
    }


def differences(paths: Sequence[Path]) -> dict[str, list[Any]]:
    """What the runs were asked for and don't have in common: name -> the value of each run.

    A field that an algorithm doesn't have is None, and counts as a difference among the others alone.
    """
    asked = [_flat(run_files.config(run_files.check_run(path))) for path in paths]
    names = dict.fromkeys(name for config in asked for name in config)
    unlike = (name for name in names if len({json.dumps(config[name]) for config in asked if name in config}) > 1)
    return {name: [config.get(name) for config in asked] for name in unlike}


def remove(path: Path) -> None:
    """Remove a run directory that nobody is at work on."""
    check_removable(path)
    with files.lock(path / "lock", f"the run {path}"):
        files.remove(path)


def check_removable(path: Path) -> None:
    """Only a folder of one run may be removed: a mistyped path must cost nothing else."""
    if path.is_symlink():
        raise ConfigError(f"{path} is a link to {path.resolve()}; name the run itself")
    found = list(run_files.folders(path))
    if path not in found or not {"config.json", "result.json"} & {p.name for p in path.iterdir()}:
        raise ConfigError(f"{path} is no run directory (no config.json); nothing was removed")
    if len(found) > 1:
        raise ConfigError(f"{path} holds another run, {found[1]}; nothing was removed: move or remove that one first")
    with contextlib.suppress(DataError):  # a damaged config is removed with the rest
        if run_files.is_run(path) and run_files.is_collection(path):
            raise ConfigError(f"{path} is a collection of `utds collect`, no run; nothing was removed")


def size(path: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(file.lstat().st_size for file in path.rglob("*") if not file.is_dir())


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """A config as single values, the algorithm's fields among them."""
    algorithm, sources = config["algorithm"], config["sources"]
    return {
        "task": config["task"],
        "main": sources[0]["id"],
        "shared": [source["id"] for source in sources[1:]],
        "digests": [source["digest"][:8] for source in sources],
        "algorithm": algorithm["name"],
        **{name: config[name] for name in ("steps", "seeds", "rewards", "weights", "eval_every")},
        "pool sampling": config["sampling"],  # some algorithms have a field of the same name
        **algorithm["fields"],
    }
