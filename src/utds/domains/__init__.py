"""The robots and their tasks.

`get("walker")` gives a `Domain`, `task("walker-walk")` a domain and one of its tasks. A domain of one's own is one file
that ends in `utds.domains.register(DOMAIN)`; the environment variable `UTDS_DOMAINS` names such files for the command
line (several are separated as in `PATH`). Importing this package registers every task with Gymnasium.
"""

import functools
import re

from utds import files
from utds.domains import gym, jaco, pointmass, quadruped, walker
from utds.domains.base import Domain, Features, Task, add_sensor
from utds.errors import DomainError

__all__ = ["Domain", "Features", "Task", "add_sensor", "get", "names", "register", "task", "task_ids"]

BUILT_IN = walker.DOMAIN, quadruped.DOMAIN, jaco.DOMAIN, pointmass.DOMAIN  # those that the package ships

_DOMAINS: dict[str, Domain] = {}  # by name
_loading = False  # whether the user's own files are being run: they may ask for domains themselves


def register(domain: Domain) -> Domain:
    """Make a domain known by its name, here and as Gymnasium environments. Returns it."""
    known = _DOMAINS.get(domain.name)
    if known is not None and known is not domain:
        raise DomainError(f"a domain named {domain.name!r} exists already; give yours another name")
    if not re.fullmatch(r"[A-Za-z_]\w*", domain.name, re.ASCII):
        raise DomainError(
            f"domain name {domain.name!r} must be letters, digits and underscores: task ids join with '-'"
        )
    for name in domain.task_names:
        if not re.fullmatch(r"[\w-]+", name, re.ASCII):
            raise DomainError(f"{domain.name}: task name {name!r} must be letters, digits, '-' and '_'")
    alike = [name.replace("_", "-").lower() for name in domain.task_names]  # what environments are called after
    if not alike:
        raise DomainError(f"{domain.name} has no task; give it at least one")
    if len(set(alike)) < len(alike):
        raise DomainError(
            f"{domain.name}: tasks {', '.join(domain.task_names)} must differ in more than case, '-' and '_'"
        )
    _DOMAINS[domain.name] = domain
    gym.register_domain(domain)
    return domain


@functools.cache
def _load_own() -> None:
    """Run the files that `UTDS_DOMAINS` names, once."""
    global _loading
    _loading = True
    try:
        files.run_named("UTDS_DOMAINS")
    finally:
        _loading = False


def names() -> tuple[str, ...]:
    """The names of all domains."""
    if not _loading:
        _load_own()
    return tuple(_DOMAINS)


def get(name: str) -> Domain:
    """The domain of that name."""
    if name not in names():
        raise DomainError(f"there is no domain {name!r}; there are {', '.join(names())}")
    return _DOMAINS[name]


def task_ids(domain: Domain) -> tuple[str, ...]:
    """The ids of a domain's tasks, such as walker-walk."""
    return tuple(f"{domain.name}-{task.name}" for task in domain.tasks)


def task(task_id: str) -> tuple[Domain, Task]:
    """The domain and the task of an id such as walker-walk or jaco-reach-top-left."""
    name, dash, rest = task_id.partition("-")
    if not dash or name not in names():
        raise DomainError(
            f"there is no task {task_id!r}; a task is <domain>-<task>, such as walker-walk (see: utds domains)"
        )
    domain = get(name)
    return domain, domain.task(rest)


for _domain in BUILT_IN:
    register(_domain)
