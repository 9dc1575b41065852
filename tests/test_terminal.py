"""Tables and JSON on the terminal."""

import io
import json
import sys

import pytest
from rich.console import Console

from utds import terminal


@pytest.mark.parametrize(
    ("name", "width", "lines"),
    [
        ("walker-run/medium-replay", 24, ["walker-run/medium-replay"]),
        ("walker-run/medium-replay", 23, ["walker-run/", "medium-replay"]),
        ("pointmass-reach-bottom-left/replay", 30, ["pointmass-reach-bottom-left/", "replay"]),
        ("pointmass-reach-bottom-left/replay", 26, ["pointmass-reach-bottom-", "left/replay"]),
        ("/tmp/runs/utds", 10, ["/tmp/runs/", "utds"]),
        ("flip_expert_alone_utds-4f9b", 14, ["flip_expert_", "alone_utds-", "4f9b"]),
        ("own", 2, ["own"]),
        ("", 2, [""]),
    ],
)
def test_names_break_where_a_reader_would(name, width, lines):
    assert terminal.Name(name).lines(width) == lines


@pytest.mark.parametrize("width", [80, 40, 24])
def test_names_in_a_table_are_never_cut(width):
    table = terminal.table("run", "task", numbers=("return",))
    names = "runs/pointmass-reach-top-right-utds", "pointmass-reach-top-right"
    table.add_row(*map(terminal.Name, names), "0 ± 0")
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    rows = console.file.getvalue().splitlines()
    first = [row[: rows[1].index("task")].strip() for row in rows[3:]]
    assert "".join(first) == names[0] and max(map(len, rows)) <= width
    if width == 40:
        assert first[:3] == ["runs/", "pointmass-", "reach-top-"]


def test_json_in_an_encoding_that_lacks_a_character_is_the_same_document(monkeypatch):
    for encoding in ("ascii", "utf-8"):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace"))
        terminal.print_json({"what": "1 ± 2", "mean": float("nan")})
        sys.stdout.seek(0)
        assert json.load(sys.stdout) == {"what": "1 ± 2", "mean": None}
