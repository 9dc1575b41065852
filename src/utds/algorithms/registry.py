"""The algorithms by name, with everything that the rest of the package needs to know about each.

Your own algorithm is one file that ends in `utds.register_algorithm("mine", Mine, …)`. Import it in Python, or
let the environment variable `UTDS_ALGORITHMS` name it for the command line (several are separated as in `PATH`): it
then trains, resumes, evaluates, exports, runs in a matrix and appears in reports like those that ship.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from types import MemberDescriptorType
from typing import Any

from utds import files
from utds.algorithms.base import Algorithm, Spec
from utds.data.pool import Pool
from utds.errors import ConfigError, hint

# Fields as runs of earlier versions name them in config.json, and their names now. No algorithm has both.
FORMER_FIELDS = {
    "members": "num_critics",
    "batch": "batch_size",
    "actor_rate": "actor_lr",
    "critic_rate": "critic_lr",
    "saturation": "pretanh_l2",
    "greed": "alpha",  # td3bc
    "weight": "cql_alpha",  # this and the next two: cql and those built on it
    "actions": "num_actions",
    "entropy": "target_entropy",
}

_PRESET = "_preset"  # beside the fields of an algorithm that `make` made: the preset that was asked for
BATCHES_PER_TRANSITION = 10 / 256  # the data's size decides how long to train: ten passes in batches of 256 …
LEAST_STEPS, MOST_STEPS = 3_500, 10_000  # … within these bounds, rounded to hundreds


@dataclass(frozen=True)
class Preset:
    """What a preset changes of an algorithm's defaults, and how long it trains."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    steps: int | None = None  # gradient steps; None: by the size of the data, see `default_steps`


def usual_presets(fast: Mapping[str, Any] | None = None) -> dict[str, Preset]:
    """The paper's values, which are an algorithm's defaults, and what the fast preset changes of them."""
    return {"paper": Preset(steps=1_000_000), "fast": Preset(fast or {})}


@dataclass(frozen=True)
class Entry:
    """What is known about an algorithm."""

    name: str  # such as utds
    kind: type  # its class, a frozen dataclass
    label: str  # in tables and figures
    presets: Mapping[str, Preset]
    reads_shared: bool  # False: a pool's shared data makes no difference
    single_task: str  # the algorithm that remains when nothing is shared; often itself
    colour: str  # of its curves and bars, such as #d55e00
    order: int  # in tables and figures, the smallest first


_ENTRIES: dict[str, Entry] = {}
_COLOURS = ("#cc6677", "#117733", "#6699cc", "#661100", "#888888", "#ddcc77")  # for those registered without one


def register_algorithm(
    name: str,
    kind: type,
    *,
    label: str | None = None,
    presets: Mapping[str, Preset] | None = None,
    reads_shared: bool = True,
    single_task: str | None = None,
    colour: str | None = None,
    order: int = 50,
) -> type:
    """Make an algorithm known by its name. Returns its class.

    Args:
        name: how the command line, matrices and run directories call it.
        kind: a frozen dataclass with `init`, `draw`, `update` and `act`; see `utds.algorithms.base`.
        label: how tables and figures call it; the name in capitals if not given.
        presets: by name; `paper` and `fast`, both the defaults, if not given.
        reads_shared: whether the shared data of a pool makes a difference to it.
        single_task: the algorithm it becomes when nothing is shared; itself if not given.
        colour: of its curves and bars, such as "#d55e00"; reports lighten or darken it where the page asks for it.
        order: its place in tables and figures, the smallest first.

    Returns:
        `kind`, so that this can stand below a class or be called on it.
    """
    known = _ENTRIES.get(name)
    if known is not None and known.kind is not kind and known.kind.__qualname__ != kind.__qualname__:
        raise ConfigError(f"an algorithm named {name!r} exists already; give yours another name")
    _check_declaration(kind)
    if colour is not None and not re.fullmatch("#[0-9a-fA-F]{6}", colour):
        raise ConfigError(f"the colour of {name} is {colour!r}; write it as #d55e00")
    for preset in (presets or {}).values():
        for given in preset.fields:
            _pick(given, {found.name: found for found in fields(kind)}, f"field of {name}")
    taken = {found.colour for found in _ENTRIES.values() if found.name != name}
    _ENTRIES[name] = Entry(
        name=name,
        kind=kind,
        label=label or name.upper(),
        presets=presets or usual_presets(),
        reads_shared=reads_shared,
        single_task=single_task or name,
        colour=colour or next((free for free in _COLOURS if free not in taken), _COLOURS[0]),
        order=order,
    )
    return kind


def _check_declaration(kind: type) -> None:
    """Refuse what Python takes without a word: a class that can't be compiled for, or a default that has no effect."""
    if not is_dataclass(kind) or not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise ConfigError(f"{kind.__name__} must be a frozen dataclass: its fields are its hyper-parameters")
    declared = {name for name, type_ in inspect.get_annotations(kind).items() if "ClassVar" not in str(type_)}
    if declared and "__dataclass_params__" not in vars(kind):
        raise ConfigError(f"{kind.__name__} declares {min(declared)}: write @dataclass(frozen=True) above the class")
    for found in fields(kind):
        value = vars(kind).get(found.name, MISSING)
        if found.name not in declared and value is not MISSING and not isinstance(value, MemberDescriptorType):
            raise ConfigError(
                f"{kind.__name__} sets {found.name}={value!r} without a type, which changes no default: "
                f"write {found.name}: {type(value).__name__} = {value!r}"
            )


def entries() -> dict[str, Entry]:
    """Everything that is registered, by name, in the order of tables and figures."""
    _load_own()
    return {found.name: found for found in sorted(_ENTRIES.values(), key=lambda found: found.order)}


def shipped() -> list[Entry]:
    """What is registered of this package itself."""
    return [found for found in _ENTRIES.values() if found.kind.__module__.startswith("utds.algorithms.")]


def entry(name: str) -> Entry:
    """What is known about the algorithm of that name."""
    return _pick(name, entries(), "algorithm")


def make(name: str, preset: str = "fast", **overrides: Any) -> Algorithm:
    """The algorithm `name` with a preset's fields, some of them overridden.

    Args:
        name: such as utds; `utds.algorithms.entries()` lists them.
        preset: fast (one setting for every robot, minutes on two cores), paper (the published values) or released
            (what the authors' code does); not every algorithm has all of them.
        overrides: fields of the algorithm.

    Returns:
        The algorithm, a frozen dataclass. It trains as long as the preset says, if `train` isn't told how long.
    """
    found = entry(name)
    if preset == "cpu":
        raise ConfigError("the preset cpu is called fast now")
    chosen = _pick(preset, found.presets, f"preset of {name}")
    known = {field.name: field for field in fields(found.kind)}
    for given in overrides:
        if given not in known and (now := FORMER_FIELDS.get(given)) in known:
            raise ConfigError(f"there is no field of {name} called {given!r}; it is called {now} now")
        _pick(given, known, f"field of {name}")
    made: Algorithm = found.kind(**_hashable({**chosen.fields, **overrides}))
    if hasattr(made, "__dict__"):  # a class with slots takes no more than its fields
        vars(made)[_PRESET] = preset
    return made


def nearest_preset(name: str, config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The preset from which an algorithm's fields differ least, `fast` where several do, and the fields that differ.

    Of an algorithm that isn't registered here, all fields.
    """
    found = entries().get(name)
    if found is None:
        return "paper", dict(config)
    differences = {}
    for preset, chosen in found.presets.items():
        known = _all_fields(found.kind, tuple(_hashable(chosen.fields).items()))
        differences[preset] = {k: v for k, v in config.items() if k not in known or known[k] != _as_json(v)}
    return min(differences.items(), key=lambda item: (len(item[1]), item[0] != "fast"))


@functools.cache
def _all_fields(kind: type[Algorithm], given: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Every field of an algorithm that was given some; cached, for a report asks once for each of its runs."""
    return {name: _as_json(value) for name, value in asdict(kind(**dict(given))).items()}  # type: ignore[call-overload]


def default_steps(algorithm: Algorithm, pool: Pool) -> int:
    """Gradient steps for an algorithm on a pool where none are asked for: those of the preset that `make` was given.

    One that was made otherwise takes those of the preset that it is nearest to. The fast preset takes ten passes over
    the data in batches of 256, at least 3,500 and at most 10,000 steps.
    """
    found = entry(name_of(algorithm))
    nearest, _ = nearest_preset(found.name, asdict(algorithm))  # type: ignore[call-overload]
    steps = found.presets[getattr(algorithm, _PRESET, nearest)].steps
    if steps is not None:
        return steps
    transitions = pool.size if found.reads_shared else pool.info.sizes[0]
    return int(min(max(round(transitions * BATCHES_PER_TRANSITION, -2), LEAST_STEPS), MOST_STEPS))


def spec_of(algorithm: Algorithm, pool: Pool) -> Spec:
    """What an algorithm must know of a pool: of its own data alone where it reads no other."""
    return Spec.of(pool, own=not entry(name_of(algorithm)).reads_shared)


def name_of(algorithm: Algorithm) -> str:
    """The name that an algorithm's class is registered under."""
    for name, found in entries().items():
        if found.kind is type(algorithm):
            return name
    raise ConfigError(
        f"{type(algorithm).__name__} is not registered; call utds.register_algorithm(name, {type(algorithm).__name__})"
    )


def to_config(algorithm: Algorithm) -> dict[str, Any]:
    """An algorithm as JSON: its name and every field."""
    found = asdict(algorithm)  # type: ignore[call-overload]
    return {"name": name_of(algorithm), "fields": {name: _as_json(value) for name, value in found.items()}}


def from_config(config: Mapping[str, Any]) -> Algorithm:
    """The algorithm that `to_config` described, also one that an earlier version did."""
    found = current_config(config)
    return entry(found["name"]).kind(**_hashable(found["fields"]))


def current_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same description with today's names of the fields, and the defaults of those that it doesn't know yet."""
    given = {FORMER_FIELDS.get(name, name): value for name, value in config["fields"].items()}
    if "policy_delay" in given:  # the target networks used to move with the policy
        given.setdefault("target_delay", given["policy_delay"])
    found = entries().get(config["name"])  # none where it is of a file that isn't loaded
    added = {f.name: _as_json(f.default) for f in fields(found.kind) if f.default is not MISSING} if found else {}
    return {**config, "fields": added | given}


def _hashable(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as an algorithm has them, which is static under jit: tuples where JSON and TOML know only lists."""

    def tupled(value: Any) -> Any:
        return tuple(map(tupled, value)) if isinstance(value, list) else value

    return {name: tupled(value) for name, value in given.items()}


def _as_json(value: Any) -> Any:
    """A field's value as JSON gives it back: with lists for tuples."""
    return list(map(_as_json, value)) if isinstance(value, tuple | list) else value


@functools.cache
def _load_own() -> None:
    """Run the files that `UTDS_ALGORITHMS` names, once."""
    files.run_named("UTDS_ALGORITHMS")


def _pick(name: str, table: Mapping[str, Any], what: str) -> Any:
    if name in table:
        return table[name]
    raise ConfigError(f"there is no {what} called {name!r}{hint(name, table)}")
