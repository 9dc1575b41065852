"""What tests of several rooms share."""

import atexit
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

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
    "chrom": "pages in a browser: install chromium and chromedriver (Debian: chromium chromium-driver)",
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
def load_file(monkeypatch) -> Callable[[Path], ModuleType]:
    """A function that runs a Python file which is no part of the package, and returns it as a module."""

    def load(path: Path) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"file_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)  # its dataclasses look here
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """The domain `tinymass`, known to this process and those it starts, and an empty folder for datasets."""
    import utds.domains

    monkeypatch.setenv("UTDS_DOMAINS", str(TINY))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    if "tinymass" not in utds.domains._DOMAINS:
        utds.domains._load_own.cache_clear()
    return utds.domains.get("tinymass")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Chromium without a network."""
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install 'utds[dev]'")
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium, driver = next(filter(None, map(shutil.which, names)), None), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("no browser: apt-get install chromium chromium-driver")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    profile = tmp_path_factory.mktemp("profile")
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", f"user-data-dir={profile}"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    started.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    started.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    yield started
    started.quit()


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
