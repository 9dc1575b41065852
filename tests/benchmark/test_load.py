"""Benchmarks that take long, on little of their work: it must not need hours to find out that one no longer runs."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from utds import domains

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    """A function that imports a benchmark; forgotten afterwards."""
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if (BENCHMARKS / f"{name}.py").exists():
            del sys.modules[name]


def test_every_look_at_a_small_matrix_is_timed(benchmark, monkeypatch, tmp_path):
    load = benchmark("load")
    monkeypatch.setattr(load, "MATRIX", load.MATRIX | {"domains": ["pointmass"], "kinds": ["random"]})
    monkeypatch.setattr(load, "RUNS", 50)
    monkeypatch.setattr(load.cells.store, "load", lambda name: load.Stored())
    found = {name: (seconds, of) for name, seconds, of in load._timed(tmp_path)}
    assert found.keys() == load.SECONDS.keys() and all(0 < seconds < 30 for seconds, _ in found.values())
    (cells, _), done = found["plan"][1].split(), found["status"][1]
    assert f"{cells} of {cells} cells done" in done and found["report"][1].startswith("50 runs")


def test_collecting_is_timed_against_one_environment(benchmark, monkeypatch):
    collect = benchmark("collect")
    monkeypatch.setattr(collect, "STEPS", 4)
    monkeypatch.setattr(collect, "REPEATS", 1)
    monkeypatch.setattr(domains, "_DOMAINS", dict(domains._DOMAINS))
    short = domains.register(replace(domains.get("walker"), name="walkershort", steps=4))
    row = collect.measured(short.name, ratio=0.5)
    assert row["gradient steps per step"] == 0.5 and row["steps/s"] > 0 and row["one environment, our TD3"] > 0
