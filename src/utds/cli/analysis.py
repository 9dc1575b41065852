"""`utds advise`, `report`, `uncertainty`, `theory`: what data and runs tell, in tables, pages and pictures."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro
from rich.text import Text

from utds import files, terminal
from utds.cli.parsing import Id
from utds.errors import ConfigError

SHOWN = 8  # missing cells that `report` names on the terminal; the page names all


def advise(
    main: Id,
    /,
    from_: Annotated[tuple[str, ...], tyro.conf.arg(name="from", metavar="ID …")],
    rewards: str = "known",
    seed: int = 0,
    trust_dynamics: bool = False,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Rank datasets by what sharing them promises, before any policy is trained.

    Example: utds advise walker-flip/medium-replay --from walker-stand/replay walker-walk/replay walker-run/replay

    Args:
        main: dataset of the task to learn, such as walker-flip/medium-replay
        from_: datasets of other tasks of the same robot that might be shared
        rewards: of the candidates, as in `utds train`: known, learned, zero, goal:0=0.5 or file.py:function
        seed: of the random features and of the model of the dynamics
        trust_dynamics: leave out the check of dynamics, which takes most of the time
        out: folder for advice.json and the figure, as SVG and PNG
        json: print the advice as JSON in place of the table
    """
    from utds import adviser, figures
    from utds.adviser.advice import LEGEND, RELIABILITY, draw, number
    from utds.data import store

    if out is not None:
        files.check_folder(out)
    candidates = [store.load(name) for name in from_]
    found = adviser.advise(store.load(main), candidates, rewards=rewards, seed=seed, trust_dynamics=trust_dynamics)
    if out is not None:
        files.write_json(out / "advice.json", found.to_json())
        figures.write(draw(found), out / "advice")
    if json:
        terminal.print_json(found.to_json())
        return
    title = f"{found.main}: best tenth {number(found.worth.best)}, plan {number(found.plan)}"
    table = terminal.table("share", numbers=("best tenth", "dynamics", "plan", "score"), title=title)
    for candidate in found.candidates:
        table.add_row(
            terminal.Name(candidate.name),
            found.best_tenth(candidate),
            candidate.dynamics.says,
            "–" if candidate.plan is None else number(candidate.plan),
            "refused" if candidate.score is None else number(candidate.score, "+"),
        )
    terminal.show(table, Text(LEGEND, "dim"), Text(found.recommendation, "bold"), Text(RELIABILITY, "dim"))
    if out is not None:
        terminal.show(f"written to {out}: advice.json, advice.svg, advice.png")


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
    from utds import report as reporting
    from utds.report import findings, text

    written = [path for path in (out, csv, markdown) if path]
    for path in written:
        files.check_file(path)
    if len({path.resolve() for path in written}) < len(written):
        raise ConfigError(f"{', '.join(map(str, written))}: two of these are one file; give page and tables one each")
    found = reporting.study(runs)
    for line in found.warnings:
        print(f"utds: warning: {line}", file=sys.stderr)
    for line in found.missing[:SHOWN]:
        print(f"utds: missing: {line}", file=sys.stderr)
    if len(found.missing) > SHOWN:
        print(f"utds: missing: {len(found.missing) - SHOWN} more, all named on the page", file=sys.stderr)
    reporting.write(found, out, csv, markdown)
    lead = next(filter(None, (findings.gain(found, a) for a in found.sharing)), None)
    if json:
        terminal.print_json(text.to_json(found, lead) | {"written": list(map(str, written))})
        return
    print(f"{text.title(found, lead)}. {text.sentence(found, lead)}")
    print("wrote " + ", ".join(map(str, written)))


def uncertainty(
    run: Annotated[Path, tyro.conf.arg(metavar="RUN|toy")],
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
    files.check_folder(out)
    if str(run) == "toy":
        if against is not None:
            raise ConfigError("the toy has no run to compare against: leave out --against")
        holds, figures = _toy(out, seed, networks, json)
    elif networks:
        raise ConfigError("--networks is an option of the toy; a run's critics are networks anyway: leave it out")
    else:
        holds, figures = True, _measured(run, against, out, json)
    for path in figures:
        print(f"figure: {path}", file=sys.stderr if json else sys.stdout)
    if not holds:
        sys.exit(1)


def _toy(out: Path, seed: int, networks: bool, json: bool) -> tuple[bool, Sequence[Path]]:
    """Whether it shows what it must, and the figures."""
    from utds.uncertainty import toy

    kind: toy.Kind = "networks" if networks else "linear"
    found = toy.run(seed, kind)
    holds = all(found.requirements.values())
    if json:
        numbers = {"fall": found.fall, "rise": found.rise, "left": found.left}
        terminal.print_json({"kind": kind, "seed": seed, **numbers, "holds": holds})
    else:
        for what, held in found.requirements.items():
            print(f"{'✓' if held else '✗'} {what}")
    return holds, toy.draw(found, out)


def _measured(run: Path, against: Path | None, out: Path, json: bool) -> Sequence[Path]:
    """The figures of a run; its table is printed."""
    from utds.training.run import Run
    from utds.uncertainty import measure, pictures
    from utds.uncertainty.measure import DEFINITIONS, MEASURES

    found = measure.compare(Run(run), None if against is None else Run(against))
    rows = found.rows()
    if json:
        terminal.print_json({"task": found.task, "changes": found.changes, "means": rows, "definitions": DEFINITIONS})
    else:
        shown = {"common": "common Γ", "relative": "Γ/σ_Q", "gamma": "Γ", "q": "Q"}
        title = f"{found.task}: uncertainty, means"
        table = terminal.table("run", "state-actions", numbers=tuple(shown.values()), title=title)
        for row in rows:
            table.add_row(row["run"], row["part"], *(f"{row[name]:.3g}" for name in shown))
        notes = [f"{shown[name]}: {DEFINITIONS[name]}" for name in ("common", "relative")]
        notes.append("Γ, Q: the critics' own, in the unit of values: not comparable between runs")
        terminal.show(table, *filter(None, map(found.sentence, MEASURES)), *(Text(note, "dim") for note in notes))
    return list(pictures.draw(found, out))


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
