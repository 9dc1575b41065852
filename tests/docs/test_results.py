"""The tables of the results' page are what the kept scores give."""

import importlib.util
from pathlib import Path

from utds import report

ROBOTS = Path(__file__).parents[2] / "docs" / "results" / "robots"


def test_tables_of_the_robots_page_are_those_of_its_scores():
    spec = importlib.util.spec_from_file_location("robots_page", ROBOTS / "page.py")
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    text = page.PAGE.read_text(encoding="utf-8")
    assert {f"<!-- table: {name} -->" for name in page.TABLES} <= set(text.splitlines())
    assert page.filled(text, report.study([ROBOTS / "scores.csv"])) == text
