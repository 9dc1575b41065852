"""`utds domains`, `doctor`, `quickstart`: what there is to run, what is missing, and a first example."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from utds import files, terminal
from utds.errors import ConfigError


def doctor(json: bool = False) -> None:
    """Check this installation: versions, devices, cores, pictures, datasets, extras.

    Ends with exit code 1 if something is missing that training needs.

    Example: utds doctor

    Args:
        json: print the checks as JSON
    """
    from utds import doctor

    with terminal.bar("looking", total=len(doctor.EXTRAS) + 8, unit="checks") as advance:
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


def domains(json: bool = False) -> None:
    """Print the domains and their tasks: dimensions, steps and reference returns.

    Example: utds domains

    Args:
        json: print the table as JSON
    """
    from utds import domains as registry
    from utds.domains.gym import env_id

    found = {name: registry.get(name) for name in registry.names()}
    rows: list[dict[str, Any]] = [
        {
            "task": f"{name}-{task.name}",
            "domain": name,
            "gymnasium": env_id(domain, task),
            "observation_size": domain.observation_size,
            "action_size": domain.action_size,
            "steps": domain.steps,
            "control_timestep": domain.control_timestep,
            "random_return": task.random,
            "reference_return": task.reference,
            "own_reference": task.own_reference,
        }
        for name, domain in found.items()
        for task in domain.tasks
    ]
    if json:
        terminal.print_json(rows)
        return
    table = terminal.table("task", numbers=("obs", "act", "steps", "step (s)", "random", "reference"))
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        reference = row["reference_return"]
        table.add_row(
            row["task"],
            *(str(row[name]) for name in ("observation_size", "action_size", "steps")),
            f"{row['control_timestep']:g}",
            "–" if row["random_return"] is None else f"{row['random_return']:.0f}",
            "–" if reference is None else f"{reference:.0f}{'*' * row['own_reference']}",
            end_section=after is not None and after["domain"] != row["domain"],
        )
    terminal.show(
        table,
        "random, reference: mean return of uniformly random actions, and of a trained expert (*: ours)",
        f"in Gymnasium: {env_id(*registry.task('walker-walk'))} and so on",
    )


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
    from utds import quickstart as story

    out = out or Path("out") / "quickstart" / domain
    files.check_folder(out)
    if episodes < 1:
        raise ConfigError(f"episodes={episodes} must be at least 1")
    found = story.run(domain, out, seed, episodes, Console(stderr=json))
    if json:
        terminal.print_json([{"method": label, **result.to_json()} for label, result in found])
