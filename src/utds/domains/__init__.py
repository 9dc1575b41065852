"""The robots and their tasks.

`get("walker")` gives a `Domain`, `task("walker-walk")` a domain and one of its tasks. A domain of one's own is one file
that ends in `utds.domains.register(DOMAIN)`; the environment variable `UTDS_DOMAINS` names such files for the command
line (several are separated as in `PATH`). Importing this package registers every task with Gymnasium.
"""

from utds.domains import gym, registry
from utds.domains.base import Domain, Features, Task, add_sensor
from utds.domains.registry import get, names, task, task_ids

__all__ = ["Domain", "Features", "Task", "add_sensor", "get", "names", "register", "task", "task_ids"]


def register(domain: Domain) -> Domain:
    """Make a domain known by its name, here and as Gymnasium environments. Returns it."""
    registry.add(domain)
    gym.register_domain(domain)
    return domain


for _domain in registry.built_in():
    gym.register_domain(_domain)
