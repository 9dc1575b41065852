"""Findings in words, for people in a hurry."""

import math

from utds.algorithms import entries
from utds.benchmark.aggregate import Interval
from utds.report.findings import Gain
from utds.report.table import Study

TITLES = {
    "helps": "sharing helps",
    "hurts": "sharing hurts",
    "unclear": "sharing has no clear effect",
    "unknown": "too few runs to tell whether sharing helps",
}


def title(study: Study, gain: Gain | None) -> str:
    """With which algorithm, by how much, from how many seeds and steps."""
    if gain is None:
        return "Nothing to compare sharing with"
    name, _, rest = gain.algorithm.partition(" · ")
    known = entries().get(name)  # none where it is of a file that isn't loaded
    who = (known.label if known else name.upper()) + (f" ({rest})" if rest else "")
    when = "so far" if gain.verdict == "unknown" else "on average"
    few, many = gain.seeds
    seeds = f"{few} seed{'s' * (few > 1)}" if few == many else f"{few} to {many} seeds"
    steps = " or ".join(f"{count:,}" for count in gain.steps)
    change = f"{signed(gain.gain.value)} {unit(study)} {when}"
    return f"With {who}, {TITLES[gain.verdict]}: {change} ({seeds}, {steps} steps)"


def unit(study: Study) -> str:
    return "points" if study.measure == "score" else "units of return"


def sentence(study: Study, gain: Gain | None) -> str:
    """By how much, and how sure."""
    if gain is None:
        return (
            "No setting ran both with and without shared data. Run the same main dataset without --share "
            "(or with the benchmark's single-task column) and make the report again."
        )
    what = "normalised score" if study.measure == "score" else "return"
    over = f"{gain.settings} setting{'s' * (gain.settings > 1)}"
    change = f"{'raises' if gain.gain.value >= 0 else 'lowers'} the {what} by {abs(gain.gain.value):.1f} {unit(study)}"
    text = f"With {gain.algorithm}, sharing another task's data {change}{_range(gain.gain)}, averaged over {over}, "
    text += f"against {gain.single} on the task's own data alone. "
    chance = gain.probability
    text += f"A run with sharing beats one without with probability {chance.value:.2f}"
    if math.isnan(chance.low):
        return f"{text}. One side or both have a single seed everywhere, so there is no interval: run more seeds."
    text += f" (95 % interval {chance.low:.2f} to {chance.high:.2f})."
    return f"{text} Taken one by one, {gain.up} of the settings gain clearly and {gain.down} lose clearly."


def tuning(study: Study) -> str:
    """How many trials each algorithm's fields were searched for with; nothing to say where none was."""
    trials: dict[str, set[int]] = {}
    for result in study.results:
        trials.setdefault(result.algorithm, set()).add(result.trials)
    if set().union(*trials.values()) == {0}:
        return ""
    counts = {name: max(found) for name, found in trials.items()}
    if len(set(counts.values())) == 1:
        return (
            f"The fields of every algorithm were chosen by a search of {max(counts.values())} trials on other settings."
        )
    each = ", ".join(f"{name} {count or 'none'}" for name, count in sorted(counts.items()))
    return f"The fields were chosen by searches on other settings with unequal numbers of trials: {each}."


def signed(value: float, digits: int = 1) -> str:
    """+3.1, −0.4, 0.0."""
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text[1:] if float(f"{value:.{digits}f}") == 0 else text


def interval(found: Interval, digits: int = 1, plus: bool = False) -> str:
    """12.3 [8.1, 16.5], or the value alone where there is no interval."""
    write = signed if plus else lambda x, d: f"{x:z.{d}f}".replace("-", "−")
    value = write(found.value, digits)
    return value if math.isnan(found.low) else f"{value} [{write(found.low, digits)}, {write(found.high, digits)}]"


def _range(found: Interval) -> str:
    return "" if math.isnan(found.low) else f" (95 % interval {signed(found.low)} to {signed(found.high)})"
