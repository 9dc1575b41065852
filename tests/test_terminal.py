"""Tables, JSON and progress where they are read: on the terminal, in a notebook, in a log."""

import io
import json
import re
import sys
import time
from types import SimpleNamespace

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


class ZMQInteractiveShell:
    """What IPython's shell is called in a notebook."""


@pytest.fixture
def notebook(monkeypatch):
    """A notebook that keeps what is shown below a cell."""
    shown = []

    def display(first, display_id):
        shown.append(first)
        return SimpleNamespace(update=shown.append)

    module = SimpleNamespace(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell, display=module))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(terminal, "INTERVAL", 0.0)
    return shown


def test_a_bar_in_a_notebook(notebook, capsys):
    with terminal.bar("training <b>", total=4) as advance:
        advance(1)
        advance(1, note="return 7")
        advance(2)
        terminal.line("not shown twice")
    first, second, third, end = notebook[1:]
    assert 'value="1.0" max="4"' in first and "25%" in first and "training &lt;b&gt;" in first
    assert "50%" in second and "steps/s" in second and "return 7" in second
    assert "100%" in third and "return 7" in third and end == ""
    assert capsys.readouterr().err == ""


def test_what_was_done_before_counts_for_no_rate(notebook, monkeypatch):
    monkeypatch.setattr(terminal, "time", SimpleNamespace(monotonic=iter([0.0, 2.0]).__next__))
    with terminal.bar("training", total=1000, done=900) as advance:
        advance(20)
    assert "92%" in notebook[1] and "10 steps/s, 8 s left" in notebook[1]


def test_numbers_that_round_up_have_no_exponent():
    numbers = [terminal.number(value) for value in (999.4, 999.6, -999.7, 0.9996, 12.34, 0.0)]
    assert numbers == ["999", "1000", "-1000", "1", "12.3", "0"] and terminal.number(9999.7, 4) == "10000"
    assert [terminal._short(rate) for rate in (999.4, 999.7, 999_700.0)] == ["999", "1k", "1M"]


def test_a_bar_on_80_columns_is_one_line_with_everything_but_the_end_of_its_title(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(terminal, "Console", lambda file: Console(file=out, force_terminal=True, width=80))
    with terminal.bar("training utds on pointmass-reach-bottom-right", total=4000) as advance:
        for _ in range(5):
            time.sleep(0.01)
            advance(100, note="return [100]")
    last = re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", out.getvalue()).rstrip("\r\n").splitlines()[-1]
    assert re.search(r"^training utds on .*… ━.* 12% \S+ steps/s \d:\d\d:\d\d return \[100\] *$", last), last


def test_no_bar_but_lines_in_a_log(capsys):
    with terminal.bar("training", total=4) as advance:
        advance(4)
        terminal.line("step 4")
    assert capsys.readouterr().err == "step 4\n"
