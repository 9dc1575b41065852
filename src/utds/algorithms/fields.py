"""What the fields of an algorithm may be: declared as the type of each field, checked when an algorithm is made.

    effort: NonNegative = 0.1  # weight of the mean squared action in the policy's loss
    tau: Annotated[float, interval("(0, 1]")] = 5e-3  # share of the online networks mixed into the targets

`Annotated` adds limits to a type. A subclass that declares a field anew, for another default, keeps its limits.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import fields, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import numpy as np

from utds.errors import ConfigError

T = TypeVar("T")


class Limit(NamedTuple):
    """What a field's value must fulfil besides its type."""

    words: str  # what a value must, such as "be positive"
    holds: Callable[[Any], bool]


def at_least(least: float) -> Limit:
    """No smaller than this."""
    return Limit(f"be at least {least}", lambda value: value >= least)


def at_most(most: float) -> Limit:
    """No larger than this."""
    return Limit(f"be at most {most}", lambda value: value <= most)


def interval(written: str) -> Limit:
    """In an interval as it is written: (0, 1] is without 0 and with 1."""
    low, high = (float(end) for end in written[1:-1].split(","))
    ends = [end for end, bracket in ((low, written[0]), (high, written[-1])) if bracket in "[]"]
    return Limit(f"lie in {written}", lambda value: low < value < high or value in ends)


def percent(text: str) -> float:
    """The number of a word such as 50%; 0 for any other word."""
    try:
        return float(text[:-1]) if text.endswith("%") else 0.0
    except ValueError:
        return 0.0


_STEPS = Limit('be a whole number, or a share of the run such as "50%"', lambda text: 0 < percent(text) <= 100)

Positive = Annotated[float, Limit("be positive", lambda value: value > 0)]
NonNegative = Annotated[float, at_least(0)]
Count = Annotated[int, at_least(1)]
Share = Annotated[str, _STEPS]
Steps = Count | Share  # gradient steps; or "50%" of the run's


def validate(config: Any) -> None:
    """Refuse a configuration, a dataclass, with a field that isn't of its type or not within its limits."""
    for name, kinds in _declared(type(config)).items():  # type: ignore[arg-type]
        value = getattr(config, name)
        wrong = _wrong_type(value, kinds[0]) or _out_of_limits(value, kinds)
        if wrong:
            raise ConfigError(f"{name}={value!r} {wrong}")


def resolve(algorithm: T, steps: int) -> T:
    """The algorithm for a run of so many steps: fields such as anneal_steps="100%" as numbers."""
    declared = _declared(type(algorithm))  # type: ignore[arg-type]
    shares = {
        name: max(1, round(percent(value) / 100 * steps))
        for name, kinds in declared.items()
        if isinstance(value := getattr(algorithm, name), str) and Share in _parts(kinds[0])
    }
    return replace(algorithm, **shares) if shares else algorithm  # type: ignore[type-var]


def concrete(steps: int | str) -> int:
    """A number of steps that `resolve` has settled."""
    if not isinstance(steps, int):
        raise ConfigError(f"{steps!r} is a share of a run's steps: train with `utds.train`, or give a number")
    return steps


@functools.cache
def _declared(config: type) -> dict[str, list[Any]]:
    """The types of every field, as the class itself declares it first and its bases after that."""
    found: dict[str, list[Any]] = {field.name: [] for field in fields(config)}
    for cls in config.__mro__:
        try:
            annotations = inspect.get_annotations(cls, eval_str=True)
        except NameError as error:
            raise ConfigError(f"a field of {cls.__name__} has a type that can't be read: {error}") from None
        for name in found.keys() & annotations.keys():
            found[name].append(annotations[name])
    return found


def _wrong_type(value: Any, kind: Any) -> str | None:
    """What is wrong with a value that isn't of a field's type."""
    parts = _parts(kind)
    if any(_is_a(value, part) for part in parts):
        return None
    if all(get_origin(part) is Literal for part in parts):
        return f"is unknown; use {' or '.join(_words(part) for part in parts)}"
    if Share in parts:
        return f"must {_STEPS.words}"
    *first, last = [_words(part) for part in parts]
    wanted = f"must be {', '.join(first)} or {last}" if first else f"must be {last}"
    numpys = isinstance(value, np.generic) and not isinstance(value, float)
    return f"{wanted} of Python's own: give {value.item()}" if numpys else wanted


def _out_of_limits(value: Any, kinds: list[Any]) -> str | None:
    """The first limit that a value breaks, of any of a field's declarations."""
    parts = [part for kind in kinds for part in _parts(kind) if _is_a(value, part)]
    limits = [each for part in parts for each in getattr(part, "__metadata__", ()) if isinstance(each, Limit)]
    return next((f"must {limit.words}" for limit in limits if not limit.holds(value)), None)


def _parts(kind: Any) -> tuple[Any, ...]:
    """The types of a union; of any other type itself."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _bare(kind: Any) -> Any:
    """A type without its limits."""
    return kind.__origin__ if get_origin(kind) is Annotated else kind


def _is_a(value: Any, kind: Any) -> bool:
    """Whether a value is of a type, limits aside. Whole numbers are numbers, and `true` is neither."""
    kind = _bare(kind)
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind in (int, float) and isinstance(value, int):
        return not isinstance(value, bool)
    if kind is float:
        return isinstance(value, float) and math.isfinite(value)
    return isinstance(value, kind) if isinstance(kind, type) else True  # of others, such as lists, nothing is known


def _words(kind: Any) -> str:
    """A type in words."""
    kind = _bare(kind)
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    known = {bool: "true or false", int: "a whole number", float: "a number", str: "a word", NoneType: "nothing"}
    return known.get(kind, getattr(kind, "__name__", str(kind)))
