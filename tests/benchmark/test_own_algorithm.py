"""An algorithm of one's own in a matrix: its workers find it, a second run resumes it, and a report shows it."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from utds.algorithms import registry
from utds.cli import main
from utds.errors import ConfigError

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_algorithm.py"


@pytest.fixture
def own(monkeypatch):
    """`own(file)` names a file of algorithms for this process and those it starts; forgotten afterwards."""

    def name(file: Path) -> None:
        monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
        monkeypatch.setenv("UTDS_ALGORITHMS", str(file))
        registry._load_own.cache_clear()

    return name


def test_it_trains_resumes_and_is_reported(own, start, stored, path, events, tmp_path):
    own(EXAMPLE)
    text = path.read_text().replace('["bc", "td3"]', '["gentle-td3"]').replace('["random", "medium"]', '["random"]')
    text = text.replace("steps = 300", "steps = 1000")  # so that it is at work when it is stopped
    path.write_text(text + "[fields.gentle-td3]\neffort = 0.3\n")
    out = tmp_path / "out"
    process = start(out, "--workers=1")
    while process.poll() is None and not any(file.stat().st_size for file in out.glob("cells/*/metrics.csv")):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait() == 130, process.stderr.read()
    process = start(out, "--workers=1")
    _, said = process.communicate()
    assert process.returncode == 0 and "2 of 2 cells done" in said, said
    starts = [events(cell).count("start") for cell in (out / "cells").iterdir()]
    assert sorted(starts) == [1, 2]  # one of the two cells was begun twice
    main(["report", str(out), "-o", str(tmp_path / "report.html"), "--csv", str(tmp_path / "report.csv")])
    assert 'data-algorithm="gentle-td3"' in (tmp_path / "report.html").read_text()
    rows = (tmp_path / "report.csv").read_text().splitlines()[1:]
    assert len(rows) == 4 and all("--algo gentle-td3" in row and "effort=0.3" in row for row in rows)


def test_a_field_of_several_values_varies(tiny, own, path, tmp_path, capsys):
    text = EXAMPLE.read_text(encoding="utf-8")
    (tmp_path / "sizes.py").write_text(
        text.replace("    effort:", "    sizes: tuple[int, ...] = (16, 16)\n    effort:", 1)
    )
    own(tmp_path / "sizes.py")
    matrix = path.read_text().replace('["bc", "td3"]', '["gentle-td3"]')
    path.write_text(matrix + "[vary]\nsizes = [[16, 16], [32, 32]]\n")
    main(["benchmark", "plan", str(path), "--no-measure", "--json"])
    (row,) = json.loads(capsys.readouterr().out)["matrices"]
    assert (row["algorithms"], row["cells"]) == (2, 8)


def test_a_file_may_postpone_its_annotations(own, tmp_path):
    """Such types are text, read where the class was defined."""
    text = EXAMPLE.read_text(encoding="utf-8").replace(
        "from dataclasses", "from __future__ import annotations\n\nfrom dataclasses", 1
    )
    (tmp_path / "postponed.py").write_text(text, encoding="utf-8")
    own(tmp_path / "postponed.py")
    assert registry.make("gentle-td3", effort=0.2).effort == 0.2
    with pytest.raises(ConfigError, match=r"effort=-1 must be at least 0"):
        registry.make("gentle-td3", effort=-1)
