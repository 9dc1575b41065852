"""What every benchmark shares: timing side by side, memory, one table, and requirements that are checked."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

# By how much a measurement that is repeated may differ, as a share of what is required. Ratios of two times that are
# taken in turn, seconds on the clock of a machine that others use too, and bytes.
RATIO, CLOCK, BYTES = 0.1, 0.25, 0.02

_missed: list[str] = []


def require(what: str, value: float, *, least: float | None = None, most: float | None = None, noise: float) -> None:
    """Note a requirement that a measurement misses by more than its noise; `verdict` ends with exit code 1 then."""
    if least is not None and not value >= least * (1 - noise):
        _missed.append(f"{what}: {value:.3g}, required at least {least:g} (noise {noise:.0%})")
    if most is not None and not value <= most * (1 + noise):
        _missed.append(f"{what}: {value:.3g}, required at most {most:g} (noise {noise:.0%})")


def verdict() -> None:
    """After the last table: what falls short, and exit code 1 if anything does."""
    for line in _missed:
        print(f"✗ {line}")
    if _missed:
        raise SystemExit(1)


def rounds(
    works: dict[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each piece of work in each round; they run in turn, so that a busy machine slows all alike."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            start = clock()
            work()
            times[name].append(clock() - start)
    return times


def fastest(works: dict[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """The least time in seconds of each piece of work."""
    return {name: min(found) for name, found in rounds(works, repeats).items()}


def ratio(times: dict[str, list[float]], above: str, below: str) -> float:
    """The median over rounds of one work's time over another's."""
    return statistics.median(a / b for a, b in zip(times[above], times[below], strict=True))


def memory_from_here() -> int:
    """Bytes that this process holds; `peak_memory` counts from here on."""
    Path("/proc/self/clear_refs").write_text("5")
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def peak_memory() -> int:
    """The most bytes that this process has held at a time."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def printed_by(script: str, *arguments: object) -> list[float]:
    """The numbers that a script prints last, in a process of its own that can import this module."""
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path})
    return [float(number) for number in done.stdout.split()]


def dm_control_environment(name: str, **options: Any) -> Any:
    """A domain of dm_control's as its users load it."""
    from utds.domains.base import quiet_import

    if name == "jaco":
        return quiet_import("dm_control.manipulation").load("reach_site_features", seed=0)
    domain, task = ("point_mass", "easy") if name == "pointmass" else (name, "walk")
    return quiet_import("dm_control.suite").load(domain, task, {"random": 0}, **options)


def table(title: str, rows: Sequence[dict[str, object]]) -> None:
    """Print rows as a table; the keys of the first are the header."""
    shown = Table(*rows[0], title=title)
    for row in rows:
        shown.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()))
    Console(width=110).print(shown)
