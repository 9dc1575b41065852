"""The tables of the results' page are what the kept scores give."""

from pathlib import Path

from utds import report

ROBOTS = Path(__file__).parents[2] / "docs" / "results" / "robots"


def test_tables_of_the_robots_page_are_those_of_its_scores(load_file):
    page = load_file(ROBOTS / "page.py")
    text = page.PAGE.read_text(encoding="utf-8")
    assert {f"<!-- table: {name} -->" for name in page.TABLES} <= set(text.splitlines())
    assert page.filled(text, report.study([ROBOTS / "scores.csv"])) == text
