"""The algorithms: one file per idea, each registered with its presets where its class stands.

make("utds")                                   the fast preset: one setting for every robot
make("utds", preset="paper", batch_size=512)   the published values, then your own

Every file of this folder is imported, which registers what it has. The classes are names of this package too, such as
`utds.algorithms.UTDS`; type checkers find them in `utds` itself.
"""

import importlib
import pkgutil

from utds.algorithms.base import Algorithm, Policy, Spec, resolve
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
    shipped,
    spec_of,
    to_config,
)

__all__ = [
    "Algorithm",
    "Entry",
    "Policy",
    "Preset",
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
    "shipped",
    "spec_of",
    "to_config",
]

for _found in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_found.name}")
globals().update({_found.kind.__name__: _found.kind for _found in shipped()})
