"""What tests of several rooms share."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# What one process of a test run compiles, the others load: xdist's workers, commands, kernels of notebooks. It is to be
# set before anything imports JAX, and pytest imports this file first.
if "PYTEST_XDIST_WORKER" not in os.environ:
    COMPILED = tempfile.mkdtemp(prefix="utds-compiled-")
    atexit.register(shutil.rmtree, COMPILED, ignore_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = COMPILED
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    # Networks are tiny here: compiling is what takes time, so let it optimise less; `optimised` is for the others.
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"

# Groups of tests that need more than Python: a word of the reason that they are skipped for, and how to enable them.
GROUPS = {
    "ray engine": "the Ray engine: pip install -c constraints.txt -e '.[dev]'",
    "chrom": "the report's page in a browser: install chromium and chromedriver (Debian: chromium chromium-driver)",
}
TINY = Path(__file__).parent / "tiny.py"


@pytest.fixture
def optimised() -> Iterator[None]:
    """Programs as users get them, for networks of full size."""
    import jax

    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """The domain `tinymass`, known to this process and those it starts, and an empty folder for datasets."""
    import utds.domains

    monkeypatch.setenv("UTDS_DOMAINS", str(TINY))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    if "tinymass" not in utds.domains.registry._DOMAINS:
        utds.domains.registry._load_own.cache_clear()
    return utds.domains.get("tinymass")


def pytest_terminal_summary(terminalreporter) -> None:
    """Which groups of tests were skipped, and how to enable them: a green run must not hide what it left out."""
    skipped: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        found = next((how for word, how in GROUPS.items() if word in reason.lower()), reason)
        skipped[found] = skipped.get(found, 0) + 1
    if skipped:
        terminalreporter.section("skipped, and how to enable it")
        for how, count in skipped.items():
            terminalreporter.line(f"{count} × {how}")
