"""The results as plain files: CSV for other tools, Markdown for a repository."""

import csv
import io
from collections.abc import Sequence

from utds.benchmark import aggregate
from utds.report import findings, text
from utds.report.findings import EVERYTHING, WHICH, Gain
from utds.report.load import OWN, command
from utds.report.table import RECORDED, Study

COLUMNS = (
    "domain", "task", "kind", "source", "algorithm", "seed", "steps", "final_score", "best_score", "final_return",
    "best_return", "recorded_return", "recorded_best_tenth", "utds", "run", "command",
)  # fmt: skip


def to_csv(study: Study) -> str:
    """A row for every setting, algorithm and seed; scores are empty where a task has no reference."""
    file = io.StringIO()
    writer = csv.DictWriter(file, fieldnames=COLUMNS, lineterminator="\n")
    writer.writeheader()
    for cell in study.cells.values():
        for number, seed in cell.seeds.items():
            result = next(result for result in cell.results if number in result.seeds)
            returns, scores = seed.returns.values, seed.scores.values if seed.scores else None
            writer.writerow(
                cell.setting._asdict()
                | {"algorithm": cell.algorithm, "seed": number, "steps": result.config["steps"]}
                | {"final_return": returns[-1], "best_return": returns.max()}
                | ({} if scores is None else {"final_score": scores[-1], "best_score": scores.max()})
                | dict(zip(("recorded_return", "recorded_best_tenth"), result.recorded or (), strict=False))
                | {"utds": result.version, "run": result.path, "command": command(result)}
            )
    return file.getvalue()


def to_markdown(study: Study) -> str:
    """The headline, gains, aggregates, and a table of all settings."""
    gains = [g for a in study.sharing if (g := findings.gain(study, a))]
    lead = gains[0] if gains else None
    lines = [f"# {text.title(study, lead)}", "", text.sentence(study, lead), ""]
    lines += [text.tuning(study), ""] if text.tuning(study) else []
    if gains:
        header = ("algorithm", "against", "settings", "gain [95 %]", "probability of improvement [95 %]")
        rows = [(g.algorithm, f"{g.single}, own data", g.settings, *_intervals(g)) for g in gains]
        lines += _table(header, rows)
    for which in WHICH:
        if found := findings.aggregates(study, which, findings.scopes(study)[0] if study.domains else EVERYTHING):
            names = list(found.rows[0].statistics)
            lines += [f"## Aggregates of {which} {study.measure}s over {len(found.settings)} settings", ""]
            averages = [
                (r.algorithm + ", own data" * r.alone, *(text.interval(r.statistics[n]) for n in names))
                for r in found.rows
            ]
            lines += _table(("algorithm", *(f"{name} [95 %]" for name in names)), averages)
    lines += [
        "## Settings",
        "",
        *_table(("main", "shared", "algorithm", "seeds", "final", "best", "gain [95 %]"), _settings(study)),
    ]
    for title, named in (("To be wary of", study.warnings), ("Missing", study.missing)):
        lines += [f"## {title}", "", *(f"- {line}" for line in named), ""] if named else []
    return "\n".join(lines)


def _intervals(gain: Gain) -> tuple[str, str]:
    return text.interval(gain.gain, 1, plus=True), text.interval(gain.probability, 2)


def _settings(study: Study) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for cell in study.cells.values():
        alone = study.single(cell.setting, cell.algorithm) if cell.setting.source != OWN else None
        gain = text.interval(aggregate.welch(cell.final, alone.final), 1, True) if alone else "–"
        numbers = (f"{cell.final.mean():.1f}", f"{cell.best.mean():.1f}", gain)
        rows.append((cell.setting.main, cell.setting.source, cell.algorithm, len(cell.seeds), *numbers))
    for main in dict.fromkeys(cell.setting.main for cell in study.cells.values()):
        for name, value in zip(RECORDED, study.recorded(main) or (), strict=False):
            rows.append((main, main.source, name, "–", f"{value:.1f}", "–", "–"))
    return rows


def _table(header: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> list[str]:
    lines = [header, ("---",) * len(header), *rows]
    return [*(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines), ""]
