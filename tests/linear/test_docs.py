"""docs/theory.md: its figures exist, the code it quotes is the code, its example runs."""

import re
from pathlib import Path

import pytest

from utds.linear import page

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")


def test_every_figure_is_there_and_used():
    shown = set(re.findall(r"\(figures/theory/([\w-]+)\.svg\)", TEXT))
    assert shown == {path.stem for path in (ROOT / "docs" / "figures" / "theory").glob("*.svg")}
    assert len(shown) == 15


def test_every_statement_has_its_section():
    titles = re.findall(r"^## (\([a-g]\)) (.+)$", TEXT, flags=re.MULTILINE)
    assert [label for label, _ in titles] == [statement.TITLE[:3] for statement in page.STATEMENTS]


@pytest.mark.parametrize(
    ("path", "lines"), re.findall(r"Code, \[`([^`]+)`\]\([^)]+\):\n((?:`[^`\n]+`[^\n]*\n)+)", TEXT)
)
def test_quoted_lines_are_in_the_source(path, lines):
    source = (ROOT / path).read_text(encoding="utf-8")
    for line in re.findall(r"`([^`]+)`", lines):
        assert line in source


def test_every_statement_quotes_its_code():
    assert len(re.findall(r"^Code, \[", TEXT, flags=re.MULTILINE)) == len(page.STATEMENTS)


def test_the_example_runs_and_sharing_lowers_its_bound(capsys):
    exec(compile(re.search(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)[1], "docs/theory.md", "exec"), {})
    alone, shared = (float(value) for value in re.findall(r"bound ([\d.]+)", capsys.readouterr().out))
    assert shared < alone
