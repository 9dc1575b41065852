"""What to call the runs of an algorithm that were not all asked for the same."""

import json
from collections import Counter
from typing import Any, Literal

from utds.report.commands import nearest_preset
from utds.report.load import OWN, Result

Role = Literal["figure", "ablation", "apart"]  # compared everywhere; only among β2's values; only listed

BETA = ("beta_ood", "beta_ood_end", "beta_ood_decay")


def labels_of(results: list[Result]) -> list[tuple[str, Role]]:
    """A label and a role for every result; what most runs of an algorithm have in common goes without saying."""
    fields: dict[str, dict[str, Any]] = {}
    rewards: dict[str, Any] = {}
    for name in {result.algorithm for result in results}:
        mine = [result for result in results if result.algorithm == name]
        fields[name] = _most([result.fields for result in mine])
        # The rewards of shared data say nothing about runs that share none.
        rewards[name] = _most([r.config.get("rewards") for r in mine if r.source != OWN] or ["known"])
    steps = {d: _most([r.config["steps"] for r in results if r.domain == d]) for d in {r.domain for r in results}}
    labels = []
    for result in results:
        common = fields[result.algorithm]
        unlike = {k: v for k, v in result.fields.items() if k not in common or common[k] != v}
        if result.source != OWN and result.config.get("rewards") != rewards[result.algorithm]:
            unlike["rewards"] = result.config.get("rewards")
        labels.append(_label(result, unlike, result.config["steps"] != steps[result.domain]))
    return labels


def _label(result: Result, unlike: dict[str, Any], other_steps: bool) -> tuple[str, Role]:
    role: Role = "figure"
    words = [f"{name}={value}" for name, value in unlike.items()]
    if unlike and set(unlike) <= set(BETA):
        role = "ablation"
    elif unlike:
        preset, differences = nearest_preset(result.algorithm, result.fields)
        words = words if differences or len(words) < 2 else [preset]
    if other_steps:
        role = "apart"
        words.append(f"{result.config['steps']:,} steps")
    return " · ".join([result.algorithm, *([", ".join(words)] if words else [])]), role


def _most(values: list[Any]) -> Any:
    """The value that comes up most often, the first of equals."""
    keys = [json.dumps(value, sort_keys=True) for value in values]
    return values[keys.index(Counter(keys).most_common(1)[0][0])]
