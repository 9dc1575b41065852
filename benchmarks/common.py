"""What every benchmark shares: timing side by side, one table, and requirements that are checked."""

import statistics
import time
from collections.abc import Callable, Sequence

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


def table(title: str, rows: Sequence[dict[str, object]]) -> None:
    """Print rows as a table; the keys of the first are the header."""
    shown = Table(*rows[0], title=title)
    for row in rows:
        shown.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()))
    Console(width=110).print(shown)
