"""Findings in words, for people in a hurry, and as Markdown for a repository."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from utds.report import aggregate, findings
from utds.report.aggregate import Interval
from utds.report.findings import SHOWN, WHICH, Gain
from utds.report.load import OWN, shown
from utds.report.table import RECORDED, Study
from utds.training.offline import Comparison

WORST = 3  # settings in which sharing hurts that are named
TITLES = {
    "helps": "sharing helps",
    "hurts": "sharing hurts",
    "unclear": "sharing has no clear effect",
    "unknown": "too few runs to tell whether sharing helps",
}


def title(study: Study, gain: Gain | None) -> str:
    """With which algorithm, by how much, from how many seeds and steps."""
    if gain is None and not study.results:
        return "Judged from data alone" if study.comparisons else "Not judged yet"
    if gain is None:
        return "Nothing to compare sharing with"
    who, _, rest = shown(gain.algorithm).partition(" · ")
    who += f" ({rest})" if rest else ""
    when = "so far" if gain.verdict == "unknown" else "on average"
    few, many = gain.seeds
    seeds = f"{few} seed{'s' * (few > 1)}" if few == many else f"{few} to {many} seeds"
    steps = " or ".join(f"{count:,}" for count in gain.steps)
    change = f"{signed(gain.gain.value)} {unit(study)} {when}"
    return f"With {who}, {TITLES[gain.verdict]}: {change} ({seeds}, {steps} steps)"


def unit(study: Study) -> str:
    return "points" if study.measure == "score" else "units of return"


def sentence(study: Study, gain: Gain | None) -> str:
    """By how much, how sure, and where it hurts."""
    if gain is None and not study.results:
        commands = [f"{task} isn't judged yet: {command}" for task, command in study.unjudged.items()]
        return " ".join([line for found in study.comparisons[:1] for line in found.verdict] + commands)
    if gain is None:
        return (
            "No setting ran both with and without shared data. Run the same main dataset without --share "
            "(or with the benchmark's single-task column) and make the report again."
        )
    what = "normalised score" if study.measure == "score" else "return"
    over = f"{gain.settings} setting{'s' * (gain.settings > 1)}"
    verb = "changes" if abs(gain.gain.value) < SHOWN else "raises" if gain.gain.value > 0 else "lowers"
    change = f"{verb} the {what} by {abs(gain.gain.value):.1f} {unit(study)}"
    text = f"With {shown(gain.algorithm)}, sharing another task's data {change}{_range(gain)}, averaged over {over}, "
    text += f"against {shown(gain.single)} on the task's own data alone. "
    chance = gain.probability
    text += f"A run with sharing beats one without with probability {chance.value:.2f}"
    if math.isnan(chance.low) and gain.over == "data":
        text += ". One side or both have a single seed everywhere: the interval is over main datasets. It tells what "
        text += "to expect of other data, not how much another seed would change."
    elif math.isnan(chance.low):
        text += ". One side or both have a single seed everywhere, so there is no interval: run more seeds."
    else:
        text += f" (95 % interval {chance.low:.2f} to {chance.high:.2f})."
        text += f" Taken one by one, {gain.up} of the settings gain clearly and {gain.down} lose clearly."
    return f"{text} {_hurts(gain)}"


def _hurts(gain: Gain) -> str:
    """Where the mean is lower with sharing, the worst by name."""
    if not gain.losses:
        return "Nowhere is the mean lower with sharing."
    worst = ", ".join(f"{name} ({signed(change)})" for name, change in gain.losses[:WORST])
    most = " most of all" if len(gain.losses) > WORST else ""
    where = f"in {len(gain.losses)} of {gain.settings} settings"
    return f"The mean is lower with sharing {where}:{most} {worst}."


def to_json(study: Study, gain: Gain | None) -> dict[str, Any]:
    """What `utds report --json` prints: the headline, the numbers behind it, and what is missing or to be wary of."""
    numbers = None
    if gain is not None:
        intervals = {"gain": gain.gain._asdict(), "probability": gain.probability._asdict()}
        numbers = asdict(gain) | intervals | {"unit": unit(study)}
    return {
        "headline": title(study, gain),
        "sentence": sentence(study, gain),
        "verdict": gain and gain.verdict,
        "sharing": numbers,
        "runs": len(study.results),
        "warnings": study.warnings,
        "missing": study.missing,
    }


def tuning(study: Study) -> str:
    """How many trials each algorithm's fields were searched for with; nothing to say where none was."""
    counts: dict[str, int] = {}
    for result in study.results:
        counts[result.algorithm] = max(result.trials, counts.get(result.algorithm, 0))
    if not any(counts.values()):
        return ""
    if len(set(counts.values())) == 1:
        count = max(counts.values())
        return f"The fields of every algorithm were chosen by a search of {count} trials on other settings."
    each = ", ".join(f"{shown(name)} {count or 'none'}" for name, count in sorted(counts.items()))
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


def _range(gain: Gain) -> str:
    found, over = gain.gain, " over main datasets" if gain.over == "data" else ""
    return "" if math.isnan(found.low) else f" (95 % interval{over} {signed(found.low)} to {signed(found.high)})"


def to_markdown(study: Study) -> str:
    """The headline, gains, aggregates, and a table of all settings."""
    gains = [g for a in study.sharing if (g := findings.gain(study, a))]
    lead = gains[0] if gains else None
    lines = [f"# {title(study, lead)}", "", sentence(study, lead), ""]
    lines += [told, ""] if (told := tuning(study)) else []
    for judged in study.comparisons:
        about = f"{judged.task}: {judged.horizon} steps discounted by {judged.discount:g}"
        about += f", on {', '.join(judged.sources)}. {' '.join(judged.verdict)}"
        lines += ["## Judged without a simulator", "", about, ""]
        lines += _table(("run", "shares", "seed", "step", "value [95 %]", "outside the data"), _candidates(judged))
        lines += [f"- {line}" for line in judged.warnings] + [""] * bool(judged.warnings)
    if gains:
        header = ("algorithm", "against", "settings", "gain [95 %]", "probability of improvement [95 %]")
        lines += _table(header, [_gain(g) for g in gains])
    for which in WHICH:
        if found := findings.aggregates(study, which, findings.scopes(study)[0]):
            names = list(found.rows[0].statistics)
            lines += [f"## Aggregates of {which} {study.measure}s over {len(found.settings)} settings", ""]
            averages = [(row.name, *(interval(row.statistics[n]) for n in names)) for row in found.rows]
            lines += _table(("algorithm", *(f"{name} [95 %]" for name in names)), averages)
            lines += ["Some have one seed everywhere: intervals are over main datasets.", ""] * (found.over == "data")
    if study.outcomes:
        columns = ("main", "shared", "algorithm", "seeds", "final", "best", "gain [95 %]")
        lines += ["## Settings", "", *_table(columns, _settings(study))]
    for heading, named in (("To be wary of", study.warnings), ("Missing", study.missing)):
        lines += [f"## {heading}", "", *(f"- {line}" for line in named), ""] if named else []
    return "\n".join(lines)


def _gain(found: Gain) -> tuple[object, ...]:
    numbers = found.settings, interval(found.gain, plus=True), interval(found.probability, 2)
    return shown(found.algorithm), f"{shown(found.single)}, own data", *numbers


def _candidates(found: Comparison) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = [
        (c.run, "yes" if c.shares else "no", c.seed, c.step, c.estimate, f"{c.outside:.0%}") for c in found.candidates
    ]
    return [*rows, (f"recorded, {found.recorded.episodes} episodes", "", "", "", found.recorded, "")]


def _settings(study: Study) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for outcome in study.outcomes.values():
        alone = study.single(outcome.setting, outcome.algorithm) if outcome.setting.source != OWN else None
        gain = interval(aggregate.welch(outcome.final, alone.final), 1, True) if alone else "–"
        numbers = (f"{outcome.final.mean():z.1f}", f"{outcome.best.mean():z.1f}", gain)
        who = shown(outcome.algorithm)
        rows.append((outcome.setting.main, outcome.setting.source, who, len(outcome.seeds), *numbers))
    for main in dict.fromkeys(outcome.setting.main for outcome in study.outcomes.values()):
        for name, value in zip(RECORDED, study.recorded(main) or (), strict=False):
            rows.append((main, main.source, name, "–", f"{value:z.1f}", "–", "–"))
    return rows


def _table(header: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> list[str]:
    lines = [header, ("---",) * len(header), *rows]
    return [*(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines), ""]
