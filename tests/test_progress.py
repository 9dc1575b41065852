"""Progress where it is read: a bar in a notebook, lines in a log."""

import io
import re
import sys
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from utds import progress, terminal


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
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    return shown


def test_a_bar_in_a_notebook(notebook, capsys):
    with progress.bar("training <b>", total=4) as advance:
        advance(1)
        advance(1, note="return 7")
        advance(2)
        progress.line("not shown twice")
    first, second, third, end = notebook[1:]
    assert 'value="1.0" max="4"' in first and "25%" in first and "training &lt;b&gt;" in first
    assert "50%" in second and "steps/s" in second and "return 7" in second
    assert "100%" in third and "return 7" in third and end == ""
    assert capsys.readouterr().err == ""


def test_what_was_done_before_counts_for_no_rate(notebook, monkeypatch):
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=iter([0.0, 2.0]).__next__))
    with progress.bar("training", total=1000, done=900) as advance:
        advance(20)
    assert "92%" in notebook[1] and "10 steps/s, 8 s left" in notebook[1]


def test_numbers_that_round_up_have_no_exponent():
    numbers = [terminal.number(value) for value in (999.4, 999.6, -999.7, 0.9996, 12.34, 0.0)]
    assert numbers == ["999", "1000", "-1000", "1", "12.3", "0"] and terminal.number(9999.7, 4) == "10000"
    assert [progress._short(rate) for rate in (999.4, 999.7, 999_700.0)] == ["999", "1k", "1M"]


def test_a_bar_on_80_columns_is_one_line_with_everything_but_the_end_of_its_title(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(progress, "Console", lambda file: Console(file=out, force_terminal=True, width=80))
    with progress.bar("training utds on pointmass-reach-bottom-right", total=4000) as advance:
        for _ in range(5):
            time.sleep(0.01)
            advance(100, note="return [100]")
    last = re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", out.getvalue()).rstrip("\r\n").splitlines()[-1]
    assert re.search(r"^training utds on .*… ━.* 12% \S+ steps/s \d:\d\d:\d\d return \[100\] *$", last), last


def test_no_bar_but_lines_in_a_log(capsys):
    with progress.bar("training", total=4) as advance:
        advance(4)
        progress.line("step 4")
    assert capsys.readouterr().err == "step 4\n"
