"""The command that makes a run again, worked out from its configuration."""

from typing import Any

from utds import algorithms
from utds.report.load import Result
from utds.training import run_files


def command(result: Result) -> str:
    """As the benchmark recorded it, else from the run's config. Seeds that don't follow each other get no command."""
    if result.command:
        return result.command
    config = result.config
    preset, differences = nearest_preset(result.algorithm, result.fields)
    weights = {"weights": config["weights"]} if config.get("weights", "uniform") != "uniform" else {}
    return run_files.command(
        datasets=[source["id"] for source in config["sources"]],
        algorithm=result.algorithm,
        preset=preset,
        fields=differences,
        rewards=config.get("rewards", "known"),
        seeds=config["seeds"],
        options={name: config[name] for name in ("steps", "eval_every", "episodes") if config.get(name)} | weights,
    )


def nearest_preset(name: str, fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The preset from which an algorithm's fields differ least, and those that differ from it."""
    if name not in algorithms.entries():  # an algorithm that this version doesn't know
        return "paper", fields
    return algorithms.nearest_preset(name, fields)
