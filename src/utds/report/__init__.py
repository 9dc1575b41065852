"""What came out of a tree of runs, on one self-contained page.

load       run directories -> results, their labels and commands
table      results -> one table of outcomes; results from CSV, the table to CSV
aggregate  statistics of runs with intervals
findings   gains, averages, costs, ablations
text       findings in words and as Markdown
figures    findings as SVG
page       all of it on one page
"""

from collections.abc import Sequence
from pathlib import Path

from utds import files, terminal
from utds.errors import DataError
from utds.report import load, page, table, text
from utds.report.table import Study


def study(sources: Sequence[Path]) -> Study:
    """The finished runs below folders, and what CSV files of earlier reports tell of others, as one table.

    A run that is in both is read from its folder, which has more to tell.
    """
    what = "name folders with runs, or CSV files that `utds report --csv` wrote"
    if not sources:
        raise DataError(f"nothing to report on: {what}")
    for source in sources:
        if not source.exists():
            raise DataError(f"there is no file or folder {source}; {what}")
    tables = [source for source in sources if source.is_file()]
    folders = [source for source in sources if source not in tables]
    results, problems, offline = load.read(folders) if folders else ([], [], [])
    return Study(results + [found for path in tables for found in table.from_csv(path)], problems, offline)


def write(found: Study, out: Path, csv: Path | None = None, markdown: Path | None = None) -> None:
    """Write the page, and the tables that are asked for."""
    with terminal.bar("report", total=page.work(found), unit="statistics") as advance:
        documents = {out: page.render(found, advance)}
    if csv:
        documents[csv] = table.to_csv(found)
    if markdown:
        documents[markdown] = text.to_markdown(found)
    for path, document in documents.items():
        files.write_text(path, document)
