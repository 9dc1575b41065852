"""The benchmark of many cells and runs, on a few of them: it must not need hours to find out that it no longer runs."""

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    module = importlib.import_module("load")
    monkeypatch.setattr(module, "MATRIX", module.MATRIX | {"domains": ["pointmass"], "kinds": ["random"]})
    monkeypatch.setattr(module, "RUNS", 50)
    yield module
    for name in ("load", "common"):
        del sys.modules[name]


def test_every_look_at_a_small_matrix_is_timed(load, monkeypatch, tmp_path):
    monkeypatch.setattr(load.cells.store, "load", lambda name: load.Stored())
    found = {name: (seconds, of) for name, seconds, of in load._timed(tmp_path)}
    assert found.keys() == load.SECONDS.keys() and all(0 < seconds < 30 for seconds, _ in found.values())
    (cells, _), done = found["plan"][1].split(), found["status"][1]
    assert f"{cells} of {cells} cells done" in done and found["report"][1].startswith("50 runs")
