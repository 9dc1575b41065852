"""A choice and its options in one line, as command lines and config.json have them: "learned:penalty=2,hidden=64"."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from utds.errors import ConfigError

T = TypeVar("T")


def parse(text: str, argument: str) -> tuple[str, dict[str, str]]:
    """The name and the options of a line; `argument` is what messages call it, such as rewards."""
    name, colon, rest = text.partition(":")
    pairs = [pair.partition("=") for pair in rest.split(",")] if colon else []
    if not all(key and equals and value for key, equals, value in pairs):
        raise ConfigError(f"{argument}={text!r}: write options as name:option=value,option=value")
    return name, {key.strip(): value.strip() for key, _, value in pairs}


def build(kind: Callable[..., T], text: str, argument: str, former: Mapping[str, str] | None = None) -> T:
    """A dataclass from a line whose options name its fields, all of which have defaults.

    `former` has names of earlier versions, and what they are called now.
    """
    name, options = parse(text, argument)
    types: dict[str, Any] = {item.name: type(item.default) for item in fields(kind)}  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for key, value in options.items():
        field = (former or {}).get(key, key)
        if field not in types:
            has = f"it has {', '.join(types)}" if types else "it takes none"
            raise ConfigError(f"{argument}={text!r}: {name} has no option {key!r}; {has}")
        try:
            given[field] = tuple(map(int, value.split("-"))) if types[field] is tuple else types[field](value)
        except ValueError:
            raise ConfigError(f"{argument}={text!r}: {value!r} is no value of {key}") from None
    return kind(**given)
