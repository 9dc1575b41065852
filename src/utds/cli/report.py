"""`utds report`: what a tree of runs says, on one page."""

import sys
from pathlib import Path
from typing import Annotated

import tyro

SHOWN = 8  # missing cells named on the terminal; the page names all


def report(
    runs: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUNS")],
    /,
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html"),
    csv: Path | None = None,
    markdown: Path | None = None,
) -> None:
    """Make one self-contained HTML page of all finished runs below a folder: does sharing help, and how sure is it?

    Example: utds report runs/ -o report.html --csv results.csv

    Args:
        runs: folders with run directories at any depth
        out: the page to write; it opens anywhere, with no server and no network
        csv: also write every seed's result to this file
        markdown: also write the tables to this file
    """
    from utds import files
    from utds import report as room
    from utds.report import findings, text

    for path in filter(None, (out, csv, markdown)):
        files.check_file(path)
    found = room.study(runs)
    for line in found.warnings:
        print(f"utds: warning: {line}", file=sys.stderr)
    for line in found.missing[:SHOWN]:
        print(f"utds: missing: {line}", file=sys.stderr)
    if len(found.missing) > SHOWN:
        print(f"utds: missing: {len(found.missing) - SHOWN} more, all named on the page", file=sys.stderr)
    room.write(found, out, csv, markdown)
    lead = next(filter(None, (findings.gain(found, a) for a in found.sharing)), None)
    print(f"{text.title(found, lead)}. {text.sentence(found, lead)}")
    print("wrote " + ", ".join(str(path) for path in (out, csv, markdown) if path))
