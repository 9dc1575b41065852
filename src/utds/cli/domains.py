"""`utds domains`: what there is to run."""


def domains() -> None:
    """Print the domains and their tasks: dimensions, steps and reference returns.

    Example: utds domains
    """
    from rich.console import Console
    from rich.table import Table

    from utds import domains as registry
    from utds.domains.gym import env_id

    table = Table("task", "obs", "act", "steps", "step (s)", "random", "reference")
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
                "–" if task.reference is None else f"{task.reference:.0f}",
            )
        table.add_section()
    console = Console()
    console.print(table)
    console.print("random, reference: mean return of an episode of random actions, and of a trained expert")
    console.print(f"in Gymnasium: {env_id(*registry.task('walker-walk'))} and so on")
