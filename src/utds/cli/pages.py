"""`utds report`, `uncertainty`, `theory`, `quickstart`: what came out, as pages and pictures."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro

from utds.errors import ConfigError

Place = Annotated[Path, tyro.conf.arg(metavar="RUN|toy")]


def uncertainty(
    run: Place,
    /,
    out: Path,
    against: Path | None = None,
    seed: int = 0,
    networks: bool = False,
    json: bool = False,
) -> None:
    """Draw a run's uncertainty Γ, alone or against another run; or a toy's.

    The toy ends with exit code 1 if it does not show what it must.

    Example: utds uncertainty runs/walker-walk-utds --against runs/walker-walk-pbrl --out out/uncertainty

    Args:
        run: the directory that training wrote; or the word toy, for the experiment with clusters in the plane
        out: folder for the figures, each as SVG and PNG
        against: a run on the same task and main data to compare with, such as one without sharing
        seed: of the toy
        networks: the toy with an ensemble of small networks, as in the paper, in place of linear regressions
        json: print the numbers as JSON
    """
    import sys

    from utds import files

    files.check_folder(out)
    holds = True
    if str(run) == "toy":
        if against is not None:
            raise ConfigError("the toy has no run to compare against: leave out --against")
        holds, figures = _toy(out, seed, "networks" if networks else "linear", json)
    elif networks:
        raise ConfigError("--networks is an option of the toy; a run's critics are networks anyway: leave it out")
    else:
        figures = _run(run, against, out, json)
    for path in figures:
        print(f"figure: {path}", file=sys.stderr if json else sys.stdout)
    if not holds:
        sys.exit(1)


def _toy(out: Path, seed: int, kind: Literal["linear", "networks"], json: bool) -> tuple[bool, Sequence[Path]]:
    """Whether it shows what it must, and the figures."""
    from utds import terminal
    from utds.uncertainty import toy

    found = toy.run(seed, kind)
    holds = all(found.requirements.values())
    if json:
        numbers = {"fall": found.fall, "rise": found.rise, "left": found.left}
        terminal.print_json({"kind": kind, "seed": seed, **numbers, "holds": holds})
    else:
        for what, held in found.requirements.items():
            print(f"{'✓' if held else '✗'} {what}")
    return holds, toy.draw(found, out)


def _run(run: Path, against: Path | None, out: Path, json: bool) -> Sequence[Path]:
    from utds import terminal
    from utds.training.run import Run
    from utds.uncertainty import measure, pictures
    from utds.uncertainty.measure import DEFINITIONS

    found = measure.compare(Run(run), None if against is None else Run(against))
    if json:
        terminal.print_json(
            {"task": found.task, "changes": found.changes, "means": found.rows(), "definitions": DEFINITIONS}
        )
    else:
        _print_table(found)
    return list(pictures.draw(found, out))


def _print_table(found) -> None:
    from rich.console import Console

    from utds import terminal
    from utds.uncertainty.measure import DEFINITIONS, MEASURES

    heads = ("common Γ", "Γ/σ_Q", "Γ", "Q")
    table = terminal.table("run", "state-actions", numbers=heads, title=f"{found.task}: uncertainty, means")
    for row in found.rows():
        values = (row[name] for name in ("common", "relative", "gamma", "q"))
        table.add_row(row["run"], row["part"], *(f"{value:.3g}" for value in values))
    console = Console(markup=False, emoji=False)  # paths may hold brackets
    console.print(table)
    for measure in MEASURES:
        if sentence := found.sentence(measure):
            console.print(sentence, highlight=False)
    for column, measure in (("common Γ", "common"), ("Γ/σ_Q", "relative")):
        console.print(f"{column}: {DEFINITIONS[measure]}", style="dim", highlight=False)
    console.print("Γ, Q: the critics' own, in the unit of values: not comparable between runs", style="dim")


SHOWN = 8  # missing cells named on the terminal; the page names all


def report(
    runs: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUNS")],
    /,
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html"),
    csv: Path | None = None,
    markdown: Path | None = None,
    json: bool = False,
) -> None:
    """Make one HTML page of all finished runs: does sharing help, and how sure is it?

    Example: utds report runs/ -o report.html --csv results.csv

    Args:
        runs: folders with run directories at any depth, where links are not followed, or CSV files that --csv wrote,
            for runs that are elsewhere
        out: the page to write; it opens anywhere, with no server and no network
        csv: also write every seed's result to this file
        markdown: also write the tables to this file
        json: print the headline, the verdict on sharing with its numbers, and the files as JSON
    """
    from utds import files, terminal
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
    written = [str(path) for path in (out, csv, markdown) if path]
    if json:
        terminal.print_json(text.to_json(found, lead) | {"written": written})
        return
    print(f"{text.title(found, lead)}. {text.sentence(found, lead)}")
    print("wrote " + ", ".join(written))


def theory(out: Path, seed: int = 0, size: float = 1.0, json: bool = False) -> None:
    """Show the linear-MDP theory in numbers, and write a page of figures.

    Ends with exit code 1 if one of the requirements does not hold.

    Example: utds theory --out out/theory

    Args:
        out: folder for index.html and the figures (SVG)
        seed: seed of every random problem and dataset
        size: multiplies the number of datasets and problems; 1 takes under a minute
        json: print every statement with what was measured and whether it holds as JSON
    """
    from utds import files, terminal
    from utds.linear import page

    files.check_folder(out)
    with terminal.bar("theory", total=len(page.STATEMENTS), unit="statements") as advance:
        reports = page.write(out, seed, size, advance)
    required = [fact for report in reports for fact in report.facts if fact.holds is not None]
    held = sum(bool(fact.holds) for fact in required)
    if json:
        statements = [report.to_json() for report in reports]
        terminal.print_json({"page": str(out / "index.html"), "seed": seed, "size": size, "statements": statements})
    else:
        for fact in required:
            print(f"{'✓' if fact.holds else '✗'} {fact.what}: {fact.value} (required {fact.required})")
        print(f"{held} of {len(required)} requirements hold; see {out / 'index.html'}")
    if held < len(required):
        sys.exit(1)


def quickstart(
    domain: Literal["pointmass", "walker"] = "pointmass",
    out: Path | None = None,
    seed: int = 0,
    episodes: int = 10,
    json: bool = False,
) -> None:
    """See what sharing does: data, four methods trained on it, a table, pictures.

    Example: utds quickstart

    Example: utds quickstart --domain walker

    Args:
        domain: pointmass takes minutes on two cores, walker about half an hour
        out: folder for runs and pictures; by default out/quickstart/<domain>
        seed: of data and training
        episodes: over which each policy is evaluated
        json: print every method's returns as JSON; the rest goes to stderr
    """
    from rich.console import Console

    from utds import files, terminal
    from utds import quickstart as story

    out = out or Path("out") / "quickstart" / domain
    files.check_folder(out)
    if episodes < 1:
        raise ConfigError(f"episodes={episodes} must be at least 1")
    found = story.run(domain, out, seed, episodes, Console(stderr=json))
    if json:
        terminal.print_json([{"method": label, **result.to_json()} for label, result in found])
