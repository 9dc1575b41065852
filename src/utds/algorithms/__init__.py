"""The algorithms: one file an idea, each registered with its presets where its class stands.

make("utds")                                   the fast preset: one setting for every robot
make("utds", preset="paper", batch_size=512)   the published values, then your own
"""

from __future__ import annotations

from utds.algorithms.awac import AWAC
from utds.algorithms.base import Algorithm, Policy, Spec
from utds.algorithms.bc import BC
from utds.algorithms.cds import CDS, CDSZero
from utds.algorithms.cql import CQL, UDS
from utds.algorithms.edac import EDAC, SACN
from utds.algorithms.fields import resolve
from utds.algorithms.iql import IQL
from utds.algorithms.rebrac import ReBRAC
from utds.algorithms.registry import (
    Entry,
    Preset,
    current_config,
    default_steps,
    entries,
    entry,
    from_config,
    make,
    name_of,
    nearest_preset,
    register_algorithm,
    to_config,
)
from utds.algorithms.td3 import TD3
from utds.algorithms.td3bc import TD3BC
from utds.algorithms.utds import PBRL, UTDS

__all__ = [
    "AWAC",
    "BC",
    "CDS",
    "CQL",
    "EDAC",
    "IQL",
    "PBRL",
    "SACN",
    "TD3",
    "TD3BC",
    "UDS",
    "UTDS",
    "Algorithm",
    "CDSZero",
    "Entry",
    "Policy",
    "Preset",
    "ReBRAC",
    "Spec",
    "current_config",
    "default_steps",
    "entries",
    "entry",
    "from_config",
    "make",
    "name_of",
    "nearest_preset",
    "register_algorithm",
    "resolve",
    "to_config",
]
