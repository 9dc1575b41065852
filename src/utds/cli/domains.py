"""`utds domains`: what there is to run."""


def domains() -> None:
    """Print the domains and their tasks: dimensions, steps and reference returns.

    Example: utds domains
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from utds import domains as registry
    from utds.domains.gym import env_id

    table = Table("task", "obs", "act", "steps", "step (s)", "random", "reference", box=box.SIMPLE_HEAD)
    table.padding, table.pad_edge = (0, 1, 0, 0), False
    table.columns[0].overflow = "fold"  # an id that is cut off can't be told from the next one
    for column in table.columns[1:]:
        column.justify = "right"
    for name in registry.names():
        domain = registry.get(name)
        for task in domain.tasks:
            table.add_row(
                f"{name}-{task.name}",
                str(domain.observation_size),
                str(domain.action_size),
                str(domain.steps),
                f"{domain.control_timestep:g}",
                f"{task.random:.0f}",
                "–" if task.reference is None else f"{task.reference:.0f}{'*' * task.own_reference}",
            )
        table.add_section()
    console = Console()
    console.print(table)
    console.print("random, reference: mean return of uniformly random actions, and of a trained expert (*: ours)")
    console.print(f"in Gymnasium: {env_id(*registry.task('walker-walk'))} and so on")
