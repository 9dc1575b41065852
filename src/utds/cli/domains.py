"""`utds domains`."""


def domains() -> None:
    """Print the table of domains and tasks: dimensions, steps and reference returns.

    Example: utds domains
    """
