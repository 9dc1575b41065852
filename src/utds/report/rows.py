"""Results as CSV: a row for every setting, algorithm and seed, for other tools, and to be reported on again.

A CSV takes the place of run directories that are gone or someone else's: `utds report theirs.csv runs/` compares both.
It has no networks, costs or uncertainties.
"""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from utds import files
from utds.algorithms import current_config
from utds.errors import DataError
from utds.report.load import DRAWN, Result, Seed, Series, as_scores, command, scale
from utds.report.table import Study
from utds.training.run_files import PLAIN, TEXT, Each, Maybe, check

COLUMNS = (
    "domain", "task", "kind", "source", "algorithm", "seed", "steps", "final_score", "best_score", "final_return",
    "best_return", "recorded_return", "recorded_best_tenth", "evaluations", "trials", "utds", "run", "command",
    "config",
)  # fmt: skip
POOL = ("rewards", *DRAWN)
CONFIG = {"fields": Each(PLAIN), **dict.fromkeys(POOL, Maybe(TEXT))}
NEEDED = ("domain", "task", "kind", "source", "algorithm", "seed", "steps", "final_return")


def to_csv(study: Study) -> str:
    """A row for every setting, algorithm and seed; scores are empty where a task has no reference.

    `evaluations` are returns and scores along training, as "2500:631.2:63.8 5000:812:83.1". `config` is JSON: the
    algorithm's fields and how its pool draws, which tell runs of one algorithm apart.
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, fieldnames=COLUMNS, lineterminator="\n")
    writer.writeheader()
    for outcome in study.outcomes.values():
        for number, seed in outcome.seeds.items():
            result = next(result for result in outcome.results if number in result.seeds)
            returns, scores = seed.returns.values, seed.scores.values if seed.scores else None
            along = zip(seed.returns.steps, returns, *(() if scores is None else (scores,)), strict=True)
            writer.writerow(
                outcome.setting._asdict()
                | {"algorithm": outcome.algorithm, "seed": number, "steps": result.config["steps"]}
                | {"final_return": returns[-1], "best_return": returns.max()}
                | ({} if scores is None else {"final_score": scores[-1], "best_score": scores.max()})
                | dict(zip(("recorded_return", "recorded_best_tenth"), result.recorded or (), strict=False))
                | {"evaluations": " ".join(":".join([f"{step:.0f}", *(f"{x:.6g}" for x in at)]) for step, *at in along)}
                | {
                    "trials": result.trials,
                    "utds": result.version,
                    "run": result.path,
                    "command": command(result) or "",
                    "config": _config(result),
                }
            )
    return file.getvalue()


def _config(result: Result) -> str:
    """Nothing where an earlier CSV didn't tell it either."""
    if result.unlike is not None:
        return ""
    pool = {name: result.config[name] for name in POOL if result.config.get(name) is not None}
    return json.dumps({"fields": result.fields} | pool, separators=(",", ":"))


def read(path: Path) -> list[Result]:
    """The results of such a CSV, one per row, in their order."""
    with files.explained(f"read {path}"), open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        table = csv.DictReader(file, strict=True)
        lacking = [name for name in NEEDED if name not in (table.fieldnames or ())]
        if lacking:
            raise DataError(
                f"{path} is no table of results: it lacks the column {lacking[0]}; `utds report --csv` writes one"
            )
        found = list(_results(path, table))
    if not found:
        raise DataError(f"{path} has no results in it")
    return found


def _results(path: Path, table: "csv.DictReader[str]") -> Iterator[Result]:
    try:
        for row in table:
            yield _result(row)
    except (ValueError, csv.Error, DataError) as error:
        again = "make the file again with `utds report --csv`"
        raise DataError(f"{path}, line {table.line_num}: {error}; {again}") from None


def _result(row: dict[str, str]) -> Result:
    if any(row[name] is None for name in NEEDED):
        raise ValueError("the row is cut short")
    name, _, unlike = row["algorithm"].partition(" · ")
    steps, limits = int(row["steps"]), scale(row["task"])
    words = [word for word in unlike.split(", ") if not word.endswith(" steps")]  # found anew among the other results
    recorded = [float(row.get(name) or "nan") for name in ("recorded_return", "recorded_best_tenth")]
    config: dict[str, Any] = {"algorithm": {"name": name, "fields": {}}, "steps": steps, "sources": []}
    if told := row.get("config"):  # earlier versions wrote none
        given = json.loads(told)
        check(given, CONFIG, "config")
        config["algorithm"] = current_config({"name": name, "fields": given["fields"]})
        config |= {name: given[name] for name in POOL if given.get(name) is not None}
    return Result(
        path=Path(row.get("run") or "unknown"),
        domain=row["domain"],
        task=row["task"],
        kind=row["kind"],
        source=row["source"],
        config=config,
        version=row.get("utds") or "unknown",
        command=row.get("command") or None,
        scale=limits,
        recorded=(recorded[0], recorded[1]) if np.isfinite(recorded).all() else None,
        trials=int(row.get("trials") or 0),
        cost={},
        seeds={int(row["seed"]): _seed(row, steps, limits)},
        unlike=None if told else ", ".join(words),
    )


def _seed(row: dict[str, str], steps: int, limits: tuple[float, float] | None) -> Seed:
    """The evaluations, or where an older file doesn't have them the last one."""
    last = f"{steps}:{row['final_return']}" + (f":{score}" if (score := row.get("final_score")) else "")
    along = np.array([[float(x) for x in one.split(":")] for one in (row.get("evaluations") or last).split()])  # [T, 3]
    rising = (np.diff(along[:, 0]) > 0).all() and along[-1, 0] == steps
    if along.shape[1] not in (2, 3) or not np.isfinite(along).all() or not rising:
        raise ValueError("the evaluations must be numbers, step:return:score, whose steps rise to the last one")
    returns = Series(along[:, 0], along[:, 1])
    return Seed(returns, Series(along[:, 0], along[:, 2]) if along.shape[1] == 3 else as_scores(returns, limits), {})
