"""`utds doctor`: what is there, what is missing, and how to get it."""


def doctor(json: bool = False) -> None:
    """Check this installation: versions, devices, cores, pictures, the store of datasets, extras.

    Ends with exit code 1 if something is missing that training needs.

    Example: utds doctor

    Args:
        json: print the checks as JSON
    """
    from dataclasses import asdict

    from utds import doctor, progress, terminal

    with progress.bar("looking", total=len(doctor.EXTRAS) + 8, unit="checks") as advance:
        found = []
        for check in doctor.examine():
            found.append(check)
            advance(note=check.name)
    if json:
        terminal.print_json([asdict(check) for check in found])
    else:
        table = terminal.table("", "", "found", "to get it")
        marks = {"ok": "✓", "optional": "–", "missing": "✗"}
        for check in found:
            table.add_row(marks[check.state], check.name, check.found, check.remedy)
        terminal.show(table, "✓ there, – not there and not needed for training, ✗ missing")
    if any(check.state == "missing" for check in found):
        raise SystemExit(1)
