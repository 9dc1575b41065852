"""What `utds` raises when something a user can mend is wrong.

Every message is one line that says what is wrong, where, and what to do. The command line prints it and ends with
exit code 2; in Python, `except utds.Error` catches them all.
"""

import difflib
from collections.abc import Iterable


class Error(Exception):
    """The base of every error that `utds` raises on purpose."""


class DataError(Error):
    """A dataset, or a file that should hold one, is not what it must be."""


class DomainError(Error):
    """A domain, task or dataset id that doesn't exist, or tasks that don't belong together."""


class SimulationError(Error):
    """Actions or states that the simulator can't take, or physics that left the finite numbers."""


class ConfigError(Error):
    """An option or a combination of options that makes no sense."""


class TrainingError(Error):
    """Learning went wrong: a NaN, a diverging Q, a checkpoint of another run."""


class BusyError(Error):
    """Another process is at work on the same run, dataset, collection or matrix."""


class MissingExtra(Error):
    """An optional dependency is needed; the message says which extra to install."""


def hint(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or all of them."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; choose from {', '.join(known)}"
