"""What a JSON file must hold: a small typed validator, whose errors are one line that names the file and the field.

    check({"seeds": [0, -1]}, {"seeds": [COUNT], "domain": Maybe(TEXT)}, "config.json")
    # DataError: config.json: seeds[1] is -1, where it must be a whole number of 0 or more; it was altered

A schema is a `Kind` of value, `{name: schema}`, `[schema]` for a list of one or more, `Each` or `Maybe`. Names that it
doesn't mention are not looked at.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from utds import files
from utds.errors import DataError


@dataclass(frozen=True)
class Kind:
    words: str  # what a value must be, such as "a number"
    fits: Callable[[Any], bool]


@dataclass(frozen=True)
class Each:
    """An object of any names, whose values all fit one schema."""

    schema: Any


@dataclass(frozen=True)
class Maybe:
    """It may be null, or missing."""

    schema: Any


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    small = isinstance(value, float) or -(2**63) <= value < 2**63  # as JSON has them, integers know no bound
    return small and math.isfinite(value)


def _is_text(value: Any) -> bool:
    """Half of a surrogate pair can be read from JSON, and written nowhere."""
    return isinstance(value, str) and bool(value) and value == value.encode("utf-8", "replace").decode()


def _is_plain(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(v is None or isinstance(v, bool) or v == "" or _is_number(v) or _is_text(v) for v in values)


def _whole(least: int) -> Kind:
    return Kind(f"a whole number of {least} or more", lambda v: _is_number(v) and isinstance(v, int) and v >= least)


NUMBER = Kind("a number", _is_number)
NON_NEGATIVE = Kind("a number of 0 or more", lambda value: _is_number(value) and value >= 0)
COUNT, POSITIVE = _whole(0), _whole(1)
NUMBERS = Kind("a list of numbers", lambda value: isinstance(value, list) and all(map(_is_number, value)))
TEXT = Kind("text", _is_text)
PLAIN = Kind("a number, text, true, false, null or a list of these", _is_plain)


def read(path: Path, schema: Any) -> Any:
    """A JSON file that fits the schema; anything else is a `DataError` that names file and field."""
    value = files.read_json(path)
    check(value, schema, str(path))
    return value


def check(value: Any, schema: Any, path: str, where: str = "") -> None:
    """Raise a `DataError` where the value doesn't fit the schema; `where` is the field's dotted name."""
    if isinstance(schema, Maybe):
        if value is not None:
            check(value, schema.schema, path, where)
    elif isinstance(schema, Each):
        if not isinstance(value, dict) or not all(map(_is_text, value)):
            raise _wrong(path, where, value, "an object of named values")
        for name, item in value.items():
            check(item, schema.schema, path, f"{where}.{name}")
    elif isinstance(schema, Mapping):
        if not isinstance(value, dict):
            raise _wrong(path, where, value, "an object")
        for name, inner in schema.items():
            field = f"{where}.{name}" if where else name
            if name in value:
                check(value[name], inner, path, field)
            elif not isinstance(inner, Maybe):
                raise DataError(f"{path} lacks the field {field}; it was altered: restore it, or train again")
    elif isinstance(schema, list):
        if not isinstance(value, list) or not value:
            raise _wrong(path, where, value, "a list of one or more")
        for index, item in enumerate(value):
            check(item, schema[0], path, f"{where}[{index}]")
    elif not schema.fits(value):
        raise _wrong(path, where, value, schema.words)


def _wrong(path: str, where: str, value: Any, expected: str) -> DataError:
    shown = repr(value) if isinstance(value, int | float | str | bool | None) else f"of type {type(value).__name__}"
    shown = shown if len(shown) < 60 else f"{shown[:57]}…"
    return DataError(f"{path}: {where or 'the whole'} is {shown}, where it must be {expected}; it was altered")
