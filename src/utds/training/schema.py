"""A small typed validator for JSON that is read back from disk: what is wrong is said with the file and the field.

A schema is a value's kind: a `Number`, a `Text`, a `Table` (any object), a list `[kind]` of at least one value, or a
dict of fields. A field whose kind is `Maybe(kind)` may be missing or null. Fields that a schema doesn't name are left
alone, so that files of later versions can be read.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from utds import files
from utds.errors import DataError


@dataclass(frozen=True)
class Number:
    least: float = -math.inf
    whole: bool = False

    def __str__(self) -> str:
        least = "" if self.least == -math.inf else f" of {self.least:g} or more"
        return ("a whole number" if self.whole else "a number") + least

    def fits(self, value: Any) -> bool:
        kind = isinstance(value, int if self.whole else int | float) and not isinstance(value, bool)
        return kind and self.least <= value < 2**63 and math.isfinite(value)


@dataclass(frozen=True)
class Text:
    def __str__(self) -> str:
        return "text"

    def fits(self, value: Any) -> bool:
        return isinstance(value, str) and bool(value)


@dataclass(frozen=True)
class Table:
    def __str__(self) -> str:
        return "an object"

    def fits(self, value: Any) -> bool:
        return isinstance(value, dict)


@dataclass(frozen=True)
class Maybe:
    kind: Any


COUNT, POSITIVE = Number(0, whole=True), Number(1, whole=True)


def read(path: Path, schema: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON file that fits the schema; anything else is a `DataError` that names file and field."""
    try:
        value = files.read_json(path)
    except (RecursionError, ValueError) as error:  # nested without end; a number of thousands of digits
        raise DataError(f"{path} can't be read ({type(error).__name__}); it was altered") from None
    check(value, schema, str(path))
    return value


def check(value: Any, kind: Any, path: str, where: str = "") -> None:
    """Raise a `DataError` where the value is not of its kind; `where` is the field's dotted name."""
    if isinstance(kind, Mapping):
        if not isinstance(value, dict):
            raise _wrong(path, where, value, "an object")
        for name, inner in kind.items():
            field = f"{where}.{name}" if where else name
            if isinstance(inner, Maybe):
                if value.get(name) is not None:
                    check(value[name], inner.kind, path, field)
            elif name not in value:
                raise DataError(f"{path} lacks the field {field}; it was altered: restore it, or train again")
            else:
                check(value[name], inner, path, field)
    elif isinstance(kind, list):
        if not isinstance(value, list) or not value:
            raise _wrong(path, where, value, "a list of one or more")
        for index, item in enumerate(value):
            check(item, kind[0], path, f"{where}[{index}]")
    elif not kind.fits(value):
        raise _wrong(path, where, value, str(kind))


def _wrong(path: str, where: str, value: Any, expected: str) -> DataError:
    shown = repr(value) if isinstance(value, int | float | str | bool | None) else f"of type {type(value).__name__}"
    shown = shown if len(shown) < 60 else f"{shown[:57]}…"
    return DataError(f"{path}: {where or 'the whole'} is {shown}, where it must be {expected}; it was altered")
