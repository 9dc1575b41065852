"""`utds quickstart`."""

from pathlib import Path
from typing import Literal

from utds.errors import ConfigError


def quickstart(
    domain: Literal["pointmass", "walker"] = "pointmass",
    out: Path | None = None,
    seed: int = 0,
    episodes: int = 10,
    json: bool = False,
) -> None:
    """See what sharing does: make data, train four methods on it, print a table and draw pictures.

    Example: utds quickstart
    Example: utds quickstart --domain walker

    Args:
        domain: pointmass takes minutes on two cores, walker about half an hour
        out: folder for runs and pictures; by default out/quickstart/<domain>
        seed: of data and training
        episodes: over which each policy is evaluated
        json: print every method's returns as JSON; the rest goes to stderr
    """
    from rich.console import Console

    from utds import files, terminal
    from utds import quickstart as story

    out = out or Path("out") / "quickstart" / domain
    files.check_folder(out)
    if episodes < 1:
        raise ConfigError(f"episodes={episodes} must be at least 1")
    found = story.run(domain, out, seed, episodes, Console(stderr=json))
    if json:
        terminal.print_json([{"method": label, **result.to_json()} for label, result in found])
