"""`utds theory`."""

from pathlib import Path


def theory(out: Path, seed: int = 0, size: float = 1.0) -> None:
    """Show the linear-MDP theory numerically and write one page of figures with what each shows.

    Prints a line for every requirement and ends with exit code 1 if one of them does not hold.

    Example: utds theory --out out/theory

    Args:
        out: folder for index.html and the figures (SVG)
        seed: seed of every random problem and dataset
        size: multiplies the number of datasets and problems; 1 takes under a minute
    """
    import sys

    from utds import files, progress
    from utds.linear import page

    files.check_folder(out)
    with progress.bar("theory", total=len(page.STATEMENTS), unit="statements") as advance:
        reports = page.write(out, seed, size, advance)
    required = [fact for report in reports for fact in report.facts if fact.holds is not None]
    for fact in required:
        print(f"{'✓' if fact.holds else '✗'} {fact.what}: {fact.value} (required {fact.required})")
    held = sum(bool(fact.holds) for fact in required)
    print(f"{held} of {len(required)} requirements hold; see {out / 'index.html'}")
    if held < len(required):
        sys.exit(1)
