"""The command that makes a run again, worked out from its configuration."""

import functools
import json
import shlex
from dataclasses import asdict
from typing import Any

from utds import algorithms
from utds.report.reading import Result


def command(result: Result) -> str:
    """As the benchmark recorded it, else from the run's config. Seeds that don't follow each other get no command."""
    if result.command:
        return result.command
    config = result.config
    main, *shared = [source["id"] for source in config["sources"]]
    preset, differences = nearest_preset(result.algorithm, result.fields)
    words = ["utds", "train", main, *(["--share", *shared] if shared else [])]
    words += ["--algo", result.algorithm, "--preset", preset]
    if shared and config.get("rewards", "known") != "known":
        words += ["--rewards", config["rewards"]]
    if differences:
        words += ["--set", *(f"{name}={_word(value)}" for name, value in differences.items())]
    words += ["--seeds", len(config["seeds"]), "--first-seed", min(config["seeds"])]
    words += ["--steps", config["steps"], "--eval-every", config["eval_every"]]
    if config.get("episodes"):
        words += ["--episodes", config["episodes"]]
    return shlex.join(map(str, words))


def nearest_preset(name: str, fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The preset from which an algorithm's fields differ least, and those that differ from it."""
    presets = {preset: fields_of for preset in algorithms.PRESETS if (fields_of := _preset(name, preset))}
    differences = {
        preset: {k: v for k, v in fields.items() if k not in known or known[k] != v}
        for preset, known in presets.items()
    }
    if not differences:  # an algorithm that this version doesn't know
        return "paper", fields
    return min(differences.items(), key=lambda item: len(item[1]))


@functools.cache
def _preset(name: str, preset: str) -> dict[str, Any]:
    if name not in algorithms.PRESETS[preset]:
        return {}
    return asdict(algorithms.make(name, preset=preset))  # type: ignore[call-overload]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
