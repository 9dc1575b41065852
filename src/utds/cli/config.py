"""Options of a command from a TOML file: they become its defaults, so the command line wins.

main = "walker-walk/medium"
share = ["walker-run/replay"]
algo = "utds"
seeds = 3

[set]
batch_size = 512
"""

import functools
import inspect
import json
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from utds.errors import ConfigError, hint

OPTION = "--config"
FIELDS = "set"  # given in both places, fields of the command line are added to the file's


def with_file(command: Callable[..., None], args: Sequence[str]) -> Callable[..., None]:
    """The command with defaults from the file that its arguments name; itself if they name none."""
    path = _named(args)
    if path is None:
        return command
    values = _read(path, command)
    fields = values.pop(FIELDS, ())
    signature = inspect.signature(command)

    @functools.wraps(command)
    def call(*given: Any, **options: Any) -> None:
        command(*given, **options | {FIELDS: (*fields, *options[FIELDS])})

    changed = [p.replace(default=values.get(name, p.default)) for name, p in signature.parameters.items()]
    call.__signature__ = signature.replace(parameters=changed)  # type: ignore[attr-defined]  # what tyro reads
    return call


def _named(args: Sequence[str]) -> Path | None:
    """The file after `--config`, the last one if there are several."""
    found = None
    for index, arg in enumerate(args):
        if arg.startswith(f"{OPTION}="):
            found = arg.partition("=")[2]
        elif arg == OPTION and index + 1 < len(args):
            found = args[index + 1]
    return Path(found) if found else None


def _read(path: Path, command: Callable[..., None]) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            given = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}; {OPTION} names a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no TOML: {error}") from None
    hints = get_type_hints(command)
    known = [name for name in inspect.signature(command).parameters if name != OPTION.strip("-")]
    found = {}
    for key, value in given.items():
        name = key.replace("-", "_")
        if name not in known:
            raise ConfigError(f"{path}: there is no option {key!r}{hint(name, known)}")
        found[name] = _checked(f"{path}: {key}", value, hints[name])
    return found


def _checked(where: str, value: Any, kind: Any) -> Any:
    """A value of the type that an option has."""
    if get_origin(kind) is tuple:
        if isinstance(value, dict):
            return tuple(f"{name}={json.dumps(field)}" for name, field in value.items())
        if not isinstance(value, list):
            raise ConfigError(f"{where} is {value!r}; give a list")
        return tuple(_checked(where, each, get_args(kind)[0]) for each in value)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise ConfigError(f"{where} is {value!r}{hint(str(value), get_args(kind))}")
        return value
    kinds = [each for each in get_args(kind) or (kind,) if each is not type(None)]
    if Path in kinds and isinstance(value, str):
        return Path(value)
    if type(value) not in kinds:
        words = {int: "a whole number", bool: "true or false", str: "text", Path: "a path"}
        raise ConfigError(f"{where} is {value!r}; give {words.get(kinds[0], kinds[0])}")
    return value
