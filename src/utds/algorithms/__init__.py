"""The algorithms by name, and the presets of each.

make("utds")                              every field at its default: the paper's value
make("utds", preset="cpu", batch=512)     a preset's values, then your own
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from utds.algorithms.base import Algorithm, Policy, Spec
from utds.algorithms.bc import BC
from utds.algorithms.cds import CDS, CDSZero
from utds.algorithms.cql import CQL, UDS
from utds.algorithms.td3 import TD3
from utds.algorithms.td3bc import TD3BC
from utds.algorithms.utds import PBRL, UTDS
from utds.errors import ConfigError, hint

ALGORITHMS: dict[str, type] = {
    "utds": UTDS,
    "pbrl": PBRL,
    "cql": CQL,
    "cds": CDS,
    "cds-zero": CDSZero,
    "uds": UDS,
    "bc": BC,
    "td3bc": TD3BC,
    "td3": TD3,
}

_SMALL = {"batch": 256, "layers": 2}
_RELEASED_UTDS = {
    "layers": 2,
    "policy_delay": 2,
    "bootstrap": "online",
    "ood_next": True,
    "ood_floor": 0.0,
    "shared_ratio": 1.5,
    "sampling": "episodes",
}
_CPU_UTDS = _SMALL | {
    "layer_norm": True,
    "actor_rate": 3e-4,
    "critic_rate": 3e-4,
    "tau": 1e-2,
    "beta_ood": 1.0,  # with the paper's 3.0 and slow decay, values stay at the floor for tens of thousands of steps
    "beta_ood_decay": 0.9995,  # 0.1 after 4,600 steps
    "ood_actions": 1,
    "floor": "auto",
    "ood_floor": "auto",
}
_CPU_CQL = _SMALL | {"actions": 4, "actor_rate": 3e-4}

# What each preset changes of the defaults, by algorithm. `paper` is the defaults themselves: for UTDS its Table 1.
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "paper": {name: {} for name in ALGORITHMS},
    "released": {"utds": _RELEASED_UTDS, "pbrl": _RELEASED_UTDS},
    "cpu": {
        "utds": _CPU_UTDS,
        "pbrl": _CPU_UTDS,
        "cql": _CPU_CQL,
        "cds": _CPU_CQL,
        "cds-zero": _CPU_CQL,
        "uds": _CPU_CQL,
        "bc": {},
        "td3bc": {},
        "td3": {},
    },
}


def make(name: str, preset: str = "paper", **overrides: Any) -> Algorithm:
    """The algorithm `name` with a preset's fields, some of them overridden."""
    kind = _pick(name, ALGORITHMS, "algorithm")
    available = [p for p, table in PRESETS.items() if name in table]
    _pick(preset, {p: p for p in available}, f"preset of {name}")
    known = {field.name: field for field in fields(kind)}
    for field in overrides:
        _pick(field, known, f"field of {name}")
    return kind(**PRESETS[preset][name] | overrides)


def to_config(algorithm: Algorithm) -> dict[str, Any]:
    """An algorithm as JSON: its name and every field."""
    names = {kind: name for name, kind in ALGORITHMS.items()}
    return {"name": names[type(algorithm)], "fields": asdict(algorithm)}  # type: ignore[call-overload]


def from_config(config: Mapping[str, Any]) -> Algorithm:
    """The algorithm that `to_config` described."""
    return make(config["name"], **config["fields"])


def _pick(name: str, table: Mapping[str, Any], what: str) -> Any:
    if name in table:
        return table[name]
    raise ConfigError(f"there is no {what} called {name!r}{hint(name, table)}")


__all__ = [
    "ALGORITHMS",
    "BC",
    "CDS",
    "CQL",
    "PBRL",
    "PRESETS",
    "TD3",
    "TD3BC",
    "UDS",
    "UTDS",
    "Algorithm",
    "CDSZero",
    "Policy",
    "Spec",
    "from_config",
    "make",
    "to_config",
]
