"""What came out of a tree of runs, on one self-contained page.

load      run directories -> results, their labels and commands
table     results -> one table of outcomes    findings        gains, aggregates, costs, ablations
text      findings in words, CSV, Markdown    figures, page   drawing and the page
"""

from collections.abc import Sequence
from pathlib import Path

from utds import files, progress
from utds.report import load, page, text
from utds.report.table import Study


def study(folders: Sequence[Path]) -> Study:
    """The finished runs below the folders as one table."""
    return Study(*load.read(list(folders)))


def write(found: Study, out: Path, csv: Path | None = None, markdown: Path | None = None) -> None:
    """Write the page, and the tables that are asked for."""
    with progress.bar("report", total=page.work(found), unit="statistics") as advance:
        documents = {out: page.render(found, advance)}
    if csv:
        documents[csv] = text.to_csv(found)
    if markdown:
        documents[markdown] = text.to_markdown(found)
    for path, document in documents.items():
        files.write_text(path, document)
