"""Scripts that make the results' pages and the benchmarks are rarely run: they must at least fit the package."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted([*(ROOT / "docs" / "results").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")])


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_script_imports(path, load_file, monkeypatch):
    if path.name == "torch_td3.py":
        pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    assert load_file(path).__doc__
