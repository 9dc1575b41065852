"""One self-contained page: findings and figures put into the template."""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from utds.evaluation import fqe
from utds.report import aggregate, figures, findings, text
from utds.report.aggregate import Interval
from utds.report.figures import colours, numbered, swatch
from utds.report.findings import WHICH, Ablation, Gain
from utds.report.load import BETA, OWN, shown
from utds.report.table import ALL, RECORDED, Outcome, Setting, Study
from utds.version import __version__

FOLDED = 24  # panels of a kind beyond which all but the first task's are folded away
COLUMNS = ("domain", "task", "kind", "source", "algorithm", "seeds", "final", "best", "alone", "gain", "gain, 95 %")
NUMERIC = range(5, 10)
HATCHINGS = (
    "",
    "M0 3.5H7",
    "M-1 8L8-1",
    "M3.5 0V7",
    "M-1-1L8 8",
    "M0 3.5H7M3.5 0V7",
    "M-1 8L8-1M-1-1L8 8",
    "M0 1H3M4 5H7",
    "M1 0V3M5 4V7",
)
SECTIONS = (
    ("offline", "Without a simulator"),
    ("gains", "Gain"),
    ("bars", "Settings"),
    ("aggregates", "Aggregates"),
    ("curves", "Learning curves"),
    ("uncertainty", "Uncertainty"),
    ("ablations", "β2"),
)
LAST = (("costs", "Cost"), ("numbers", "Every number"), ("method", "Method"))
Advance = Callable[[], None]
Cell = tuple[str, Any]  # of the table of results: what it shows, and what it is sorted by; None for words
NOTHING: Cell = ("–", "")


def render(study: Study, advance: Advance = lambda: None) -> str:
    """The page as text; `advance` is called `work(study)` times."""
    parts = _statistics(study, advance)
    content = parts | {
        "offline": bool(study.offline),
        "maps": [(domain, maps) for domain in study.domains if (maps := list(_maps(study, domain)))],
        "bars": _panels(_mains(study), partial(figures.bars, study)),
        "curves": _panels(study.settings, partial(figures.curves, study)),
        **_uncertainty(study),
        "ablations": _ablations(study),
        "costs": list(findings.costs(study)),
        "rows": [*(_row(study, outcome) for outcome in study.outcomes.values()), *_recorded_rows(study)],
    }
    folder = Path(__file__).parent
    environment = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined)
    environment.filters["shown"] = shown
    sections = [(id, name) for id, name in SECTIONS if content[id]]
    return environment.get_template("page.html").render(
        content,
        study=study,
        contents=[*sections, *(LAST if study.results else ())],
        value_text=fqe.text,
        facts=_facts(study),
        tuning=text.tuning(study),
        filters=_filters(study),
        everything=findings.scopes(study)[0],
        own=OWN,
        folded=len(study.settings) > FOLDED,
        hatchings=HATCHINGS,
        algorithm_legend=[(a, swatch(figures.look_of(study, a)), "algorithm") for a in study.algorithms],
        interval=text.interval,
        columns=COLUMNS,
        numeric=NUMERIC,
        version=__version__,
        css=Markup((folder / "style.css").read_text(encoding="utf-8")) + colours(),
        js=Markup((folder / "script.js").read_text(encoding="utf-8")),
    )


def work(study: Study) -> int:
    """How many times `render` calls `advance`."""
    return len(findings.scopes(study)) * len(WHICH)


def _statistics(study: Study, advance: Advance) -> dict[str, Any]:
    headlines, gains, aggregates = [], [], []
    for scope in findings.scopes(study):
        for which in WHICH:
            found = [g for a in study.sharing if (g := findings.gain(study, a, which, scope))]
            here = {"scope": scope, "which": which}
            lead: Gain | None = found[0] if found else None
            verdict = {"title": text.title(study, lead), "sentence": text.sentence(study, lead)}
            headlines.append(here | verdict | {"verdict": lead.verdict if lead else "unknown"})
            gains += [here | {"gains": found}] if found else []
            if together := findings.aggregates(study, which, scope):
                statistics = {name: figures.statistic(study, together, name) for name in together.rows[0].statistics}
                profiles = {
                    "of runs": figures.profile(study, together, "profile"),
                    "of settings' means": figures.profile(study, together, "mean_profile"),
                }
                aggregates.append(here | {"found": together, "statistics": statistics, "profiles": profiles})
            advance()
    return {"headlines": headlines, "gains": gains, "aggregates": aggregates}


def _maps(study: Study, domain: str) -> Iterator[dict[str, Any]]:
    """The heat maps of a domain, one per algorithm, all on one scale."""
    gains: dict[str, dict[Setting, dict[str, Interval]]] = {}
    singles: dict[str, str] = {}
    for (setting, label), outcome in study.compared.items():
        alone = study.single(setting, label)
        if label in study.sharing and setting.domain == domain and setting.source != OWN and alone:
            each = {which: aggregate.welch(outcome.runs(which), alone.runs(which)) for which in WHICH}
            gains.setdefault(label, {})[setting] = each
            singles[label] = alone.algorithm
    shared = [s for s in study.settings if s.domain == domain and s.source != OWN]
    sources = sorted({s.source for s in shared}, key=lambda source: (source == ALL, source))
    scale = max((abs(each["final"].value) for found in gains.values() for each in found.values()), default=0.0)
    for label in study.sharing:
        if found := gains.get(label):
            mains = dict.fromkeys(setting.main for setting in shared if setting.main in {s.main for s in found})
            rows = [(m, [_heat(m._replace(source=s), found, scale or 1.0, shared) for s in sources]) for m in mains]
            tasks = [(task, list(group)) for task, group in groupby(rows, key=lambda row: row[0].task)]
            yield {"domain": domain, "algorithm": label, "single": singles[label], "sources": sources, "tasks": tasks}


def _heat(setting: Setting, gains: dict[Setting, dict[str, Interval]], scale: float, shared: list[Setting]) -> Any:
    """A cell of a heat map for final and best scores, or a word on why there is none."""
    if setting not in gains:
        return {"source": setting.source, "both": [], "hole": "missing" if setting in shared else "–"}
    both = []
    for which, found in gains[setting].items():
        up, sure = found.value >= 0, findings.clear(found)
        mark = ("▲ " if up else "▼ ") * sure
        css = f"{'up' if up else 'down'}{' sure' * sure}"
        tip = f"{setting}: {text.interval(found, 1, plus=True)}"
        depth = f"{min(1.0, abs(found.value) / scale):.2f}"
        both.append((which, {"text": mark + text.signed(found.value), "css": css, "depth": depth, "tip": tip}))
    return {"source": setting.source, "both": both}


def _mains(study: Study) -> Iterable[Setting]:
    """Own data of the settings in which an algorithm that is compared ran with sharing."""
    shared = [s for s in study.settings if s.source != OWN and any((s, a) in study.outcomes for a in study.sharing)]
    return dict.fromkeys(setting.main for setting in shared)


def _panels(settings: Iterable[Setting], draw: Callable[[Setting], Markup | None]) -> list[tuple[str, list[Any]]]:
    """A panel for every setting that there is something to draw of, by task."""
    panels: list[dict[str, Any]] = [{"setting": s, "svg": svg} for s in settings if (svg := draw(s))]
    return [(task, list(group)) for task, group in groupby(panels, key=lambda panel: panel["setting"].task)]


def _uncertainty(study: Study) -> dict[str, Any]:
    """Panels of the first algorithm that logs its uncertainty."""
    for algorithm in study.algorithms:
        mine = [s for s, label in study.outcomes if label == algorithm]
        sources = sorted({OWN} | {s.source for s in mine}, key=lambda source: (source != OWN, source == ALL, source))
        draw = partial(figures.uncertainty, study, algorithm=algorithm, sources=sources)
        if panels := _panels(dict.fromkeys(s.main for s in mine), draw):
            legend = [(source, swatch(numbered(i)), "source") for i, source in enumerate(sources)]
            return {"uncertainty": panels, "uncertainty_of": algorithm, "source_legend": legend}
    return {"uncertainty": []}


def _ablations(study: Study) -> list[dict[str, Any]]:
    return [
        {
            "field": found.field,
            "meaning": BETA[found.field],
            "svg": figures.ablation(study, found),
            "legend": [(name, swatch(numbered(i)), "setting") for i, name in enumerate(_lines(found))],
        }
        for found in findings.ablations(study)
    ]


def _lines(found: Ablation) -> list[str]:
    """Settings, with labels where one of them has several lines."""
    settings = [setting for setting, _ in found.lines]
    return [f"{s}, {shown(label)}" if settings.count(s) > 1 else str(s) for s, label in found.lines]


def _row(study: Study, outcome: Outcome) -> dict[str, Any]:
    setting, alone = outcome.setting, study.single(outcome.setting, outcome.algorithm)
    cells: list[Cell] = [(word, None) for word in (*setting, shown(outcome.algorithm))]
    cells += [(str(len(outcome.seeds)), len(outcome.seeds)), _number(outcome.final.mean())]
    cells.append(_number(outcome.best.mean()))
    if alone and setting.source != OWN:
        found = aggregate.welch(outcome.final, alone.final)
        between = "–" if math.isnan(found.low) else f"{text.signed(found.low)} to {text.signed(found.high)}"
        cells += [_number(alone.final.mean()), (text.signed(found.value), round(found.value, 4)), (between, None)]
    else:
        cells += [NOTHING, NOTHING, ("–", None)]
    return {"setting": setting, "algorithm": outcome.algorithm, "cells": cells, "commands": outcome.commands}


def _recorded_rows(study: Study) -> Iterator[dict[str, Any]]:
    """What each task's own data reached as recorded, beside what was learnt from it."""
    for main in dict.fromkeys(outcome.setting.main for outcome in study.outcomes.values()):
        for name, value in zip(RECORDED, study.recorded(main) or (), strict=False):
            cells: list[Cell] = [(word, None) for word in (*main, name)]
            cells += [NOTHING, _number(value), *[NOTHING] * 3, ("–", None)]
            yield {"setting": main, "algorithm": name, "cells": cells, "commands": []}


def _number(value: float) -> Cell:
    return f"{value:z.1f}".replace("-", "−"), round(float(value), 4)


def _filters(study: Study) -> list[tuple[str, list[str]]]:
    outcomes = study.outcomes.values()
    names = [(n, list(dict.fromkeys(getattr(c.setting, n) for c in outcomes))) for n in Setting._fields]
    labels = dict.fromkeys((*study.algorithms, *(c.algorithm for c in outcomes)))
    return [*names, ("algorithm", list(labels))]


def _facts(study: Study) -> dict[str, Any]:
    evaluated = {result.path for result in study.results}
    offline = [run for run in study.offline if run.path not in evaluated]
    return {
        "runs": sum(len(outcome.seeds) for outcome in study.outcomes.values())
        + sum(len(run.config["seeds"]) for run in offline),
        "settings": len({outcome.setting for outcome in study.outcomes.values()}),
        "algorithms": study.algorithms or sorted({run.config["algorithm"]["name"] for run in offline}),
        "domains": study.domains or sorted({run.config["task"] for run in offline}),
        "versions": sorted({result.version for result in study.results}),
    }
