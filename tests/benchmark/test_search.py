"""Searches: what is drawn, what is refused, how trials are ranked, and a small one from beginning to end."""

import csv
import json
import math
import tomllib

import numpy as np
import pytest

from utds.benchmark import search as searching
from utds.benchmark.cells import CellDir
from utds.benchmark.matrix import load, parse
from utds.cli import main
from utds.errors import ConfigError, DataError

MATRIX = {
    "tasks": ["walker-walk"],
    "kinds": ["medium"],
    "columns": ["single"],
    "algorithms": ["utds", "cql"],
    "preset": "paper",
    "steps": 100,
    "search": {
        "trials": 4,
        "tasks": ["walker-run", "walker-flip"],
        "fields": {
            "tau": [0.005, 0.01, 0.02],
            "utds": {"beta_ood": {"uniform": [0.0, 2.0]}, "num_critics": {"uniform": [2, 8]}},
            "cql": {"actor_lr": {"log_uniform": [1e-4, 1e-2]}},
        },
    },
}


def changed(**search):
    return MATRIX | {"search": MATRIX["search"] | search}


def test_cells_are_every_setting_algorithm_and_trial():
    matrix = parse(MATRIX, "m")
    cells = matrix.search_cells()
    assert len(cells) == 2 * 2 * 4 and len({cell.name for cell in cells}) == len(cells)
    assert {(cell.task, cell.trial) for cell in cells} == {
        (task, trial) for task in ("walker-run", "walker-flip") for trial in range(4)
    }
    assert all(cell.eval_every == cell.steps == 100 for cell in cells)  # the last returns alone count
    fields = {(cell.algorithm_name, cell.trial): cell.fields for cell in cells}
    assert fields["utds", 0] == {} and set(fields["utds", 1]) == {"tau", "beta_ood", "num_critics"}
    assert set(fields["cql", 3]) == {"tau", "actor_lr"}
    assert {cell.trials for cell in matrix.cells({})} == {4} and {cell.trial for cell in matrix.cells({})} == {None}


def test_a_search_may_begin_with_seed_0_where_its_matrix_does_not():
    matrix = parse(changed(first_seed=0) | {"first_seed": 5}, "m")
    assert {cell.first_seed for cell in matrix.search_cells()} == {0}
    assert {cell.first_seed for cell in matrix.cells()} == {5}


def test_draws_depend_on_seed_algorithm_and_trial_alone():
    search = parse(MATRIX, "m").search
    drawn = search.draw("utds", "paper", 2)
    assert drawn == search.draw("utds", "paper", 2)
    more = parse(changed(trials=40, fields=MATRIX["search"]["fields"] | {"width": [64, 128]}), "m").search
    assert more.draw("utds", "paper", 2).items() > drawn.items()  # neither more trials nor another field changes it
    assert parse(changed(seed=1), "m").search.draw("utds", "paper", 2) != drawn
    assert search.draw("utds", "paper", 3) != drawn


def test_draws_follow_their_distributions():
    search = parse(changed(trials=400), "m").search
    utds = [search.draw("utds", "paper", trial) for trial in range(1, 400)]
    rates = np.log10([search.draw("cql", "paper", trial)["actor_lr"] for trial in range(1, 400)])
    assert {draw["tau"] for draw in utds} == {0.005, 0.01, 0.02}
    critics = [draw["num_critics"] for draw in utds]
    assert set(critics) == set(range(2, 9)) and all(isinstance(number, int) for number in critics)
    betas = np.array([draw["beta_ood"] for draw in utds])
    assert 0 <= betas.min() < 0.05 and 1.95 < betas.max() <= 2
    assert betas.mean() == pytest.approx(1, abs=4 * (2 / math.sqrt(12)) / math.sqrt(399))
    assert rates.mean() == pytest.approx(-3, abs=4 * (2 / math.sqrt(12)) / math.sqrt(399))  # uniform in the exponent


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (changed(tasks=["walker-walk"]), "walker-walk/medium is both searched on and reported on"),
        (changed(tasks=["walker-wolk"]), "there is no task 'walker-wolk'"),
        (changed(trials=0), r"\[search\] trials = 0 must be a whole number of 1 or more"),
        (changed(trialz=3), "there is no key 'trialz' in .search.; did you mean trials"),
        (changed(fields={}), "must name one field or more"),
        (changed(fields={"bath_size": [3]}), "no field of utds called 'bath_size'"),
        (changed(fields={"pbrl": {"tau": [0.1]}}), "there is no algorithm 'pbrl'"),
        (changed(fields={"tau": {"uniform": [0.2, 0.1]}}), "tau = .* must be a list of values"),
        (changed(fields={"tau": {"log_uniform": [0, 0.1]}}), "0 < low < high"),
        (changed(fields={"tau": []}), "must be a list of values"),
        (changed(fields={"tau": {"uniform": [0.1, 3.0]}}), r"tau=3.0 must lie in \(0, 1\]"),
        (changed(fields={"width": ["wide"]}), "width='wide' must be a whole number"),
        (changed(columns="single"), r"\[search\] columns = 'single' must be a list of words"),
        (changed(tasks=["walker-run", "walker-run"]), "must be a list of words, each once"),
        (changed(source_kind=3), "source_kind = 3 must be a word"),
        (changed() | {"vary": {"tau": [0.1, 0.2]}}, "the field 'tau' is both varied and searched for"),
        (MATRIX | {"search": 3}, "search = 3 must be a table"),
    ],
)
def test_a_wrong_search_is_refused(given, says):
    with pytest.raises(ConfigError, match=says):
        parse(given, "m")


def finished(folder, cell, score=None, value=None, failed=False):
    """A cell's folder as a run leaves it."""
    folder.mkdir(parents=True)
    if failed:
        (folder / "error.json").write_text('{"error": "diverged"}')
    else:
        (folder / "result.json").write_text(json.dumps({"steps": cell.steps, "seconds": 1.0, "evaluation": {}}))
        row = {"step": cell.steps, "seed": 0, "return": value if value is not None else 10 * score}
        row |= {} if score is None else {"score": score}
        with open(folder / "evaluations.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(row), lineterminator="\n")
            writer.writeheader()
            writer.writerow(row | {"step": 1} | ({} if score is None else {"score": 999}))  # an earlier, better one
            writer.writerow(row)
    return CellDir(cell, "0", folder)


def test_trials_are_ranked_by_the_mean_of_last_scores(tmp_path):
    matrix = parse(MATRIX, "m")
    scores = {("utds", "walker-run"): (10, 40, 30, 90), ("utds", "walker-flip"): (20, 20, 60, None)}
    dirs = []
    for cell in matrix.search_cells():
        known = scores.get((cell.algorithm_name, cell.task), (5, 6, 7, 5))
        score = known[cell.trial]
        dirs.append(finished(tmp_path / cell.name, cell, score, failed=score is None))
    ranked = searching.rank(matrix.search, dirs)
    assert [(trial.number, trial.score) for trial in ranked["utds"]] == [(2, 45), (1, 30), (0, 15), (3, -math.inf)]
    assert [trial.number for trial in ranked["cql"]] == [2, 1, 0, 3]
    found = searching.best(ranked)
    assert found["utds"] == matrix.search.draw("utds", "paper", 2)
    assert {cell.fields["tau"] for cell in matrix.cells(found) if cell.algorithm_name == "utds"} == {
        found["utds"]["tau"]
    }
    paths = searching.write(matrix.search, ranked, dirs, tmp_path)
    written = json.loads(paths[0].read_text())
    assert written["best"]["utds"] == {"trial": 2, "score": 45, "fields": found["utds"]} and written["trials"] == 4
    assert written["settings"] == ["walker-flip/medium", "walker-run/medium"]
    assert tomllib.loads(paths[1].read_text())["fields"] == found


def test_returns_without_a_reference_are_put_on_one_scale(tmp_path):
    """Returns of 0 to 1000 must not drown those of 0 to 1: by their sum trial 0 would win."""
    matrix = parse(
        MATRIX | {"algorithms": ["cql"], "search": MATRIX["search"] | {"trials": 3, "fields": {"tau": [0.1]}}}, "m"
    )
    values = {"walker-run": (1000.0, 900.0, 0.0), "walker-flip": (0.0, 1.0, 0.5)}
    dirs = [finished(tmp_path / cell.name, cell, value=values[cell.task][cell.trial]) for cell in matrix.search_cells()]
    ranked = searching.rank(matrix.search, dirs)
    assert [(t.number, t.score) for t in ranked["cql"]] == [(1, 95), (0, 50), (2, 25)]


def test_an_algorithms_best_trial_does_not_depend_on_other_algorithms(tmp_path):
    """They may be searched later, and their returns lie elsewhere: another choice would run its cells again."""
    matrix = parse(MATRIX | {"search": MATRIX["search"] | {"trials": 2, "fields": {"tau": [0.1, 0.2]}}}, "m")
    values = {("cql", "walker-run"): (10.0, 0.0), ("cql", "walker-flip"): (0.0, 9.0)}
    dirs = [
        finished(tmp_path / c.name, c, value=values.get((c.algorithm_name, c.task), (0.0, 1000.0))[c.trial])
        for c in matrix.search_cells()
    ]
    early = [cell_dir for cell_dir in dirs if cell_dir.cell.algorithm_name == "cql"]
    assert searching.rank(matrix.search, early)["cql"] == searching.rank(matrix.search, dirs)["cql"]


def test_an_unfinished_search_and_one_that_failed_are_one_line(tmp_path):
    matrix = parse(MATRIX, "m")
    cells = matrix.search_cells()
    dirs = [finished(tmp_path / cell.name, cell, 1, failed=cell.algorithm_name == "utds") for cell in cells]
    with pytest.raises(DataError, match="every trial of utds failed"):
        searching.best(searching.rank(matrix.search, dirs))
    (dirs[3].folder / "error.json").unlink()
    with pytest.raises(DataError, match="1 of the search's 16 cells are not done"):
        searching.rank(matrix.search, dirs)


SEARCH = """
tasks = ["tinymass-reach-top-left"]
kinds = ["medium"]
columns = ["single"]
algorithms = ["bc"]
preset = "paper"
steps = 20
episodes = 2
[fields]
width = 8
layers = 1
[search]
trials = 2
kinds = ["random"]
[search.fields]
batch_size = [4, 6]
"""


def test_a_search_from_beginning_to_end(stored, tmp_path, capsys):
    path, out = tmp_path / "tuned.toml", tmp_path / "out"
    path.write_text(SEARCH)
    main(["benchmark", "plan", str(path), "--no-measure"])
    assert "tuned, search" in capsys.readouterr().out
    main(["benchmark", "status", str(path), "--out", str(out)])
    assert "wait for the fields that the search finds" in capsys.readouterr().out
    main(["benchmark", "run", str(path), "--out", str(out), "--workers=1"])
    said = capsys.readouterr()
    assert "2 of 2 cells done" in said.err and "1 of 1 cells done" in said.err and "search.toml" in said.out
    assert len(list((out / "search").iterdir())) == 2
    (reported,) = (out / "cells").iterdir()
    best = json.loads((out / "search.json").read_text())["best"]["bc"]["fields"]
    facts = json.loads((reported / "cell.json").read_text())
    assert facts["fields"] == {"width": 8, "layers": 1} | best and facts["trials"] == 2
    before = {file: file.stat().st_mtime_ns for file in out.rglob("result.json")}
    capsys.readouterr()
    main(["benchmark", "run", str(path), "--out", str(out), "--workers=1", "--json"])  # nothing is done again
    assert {file: file.stat().st_mtime_ns for file in out.rglob("result.json")} == before
    said = capsys.readouterr()
    parts = [(part["name"], part["done"], part["failed"]) for part in json.loads(said.out)["parts"]]
    assert parts == [("tuned, search", 2, 0), ("tuned", 1, 0)] and "search.toml" in said.err
    main(["report", str(out), "-o", str(tmp_path / "report.html")])
    assert "a search of 2 trials on other settings" in (tmp_path / "report.html").read_text()
    assert "1 runs" in (tmp_path / "report.html").read_text()  # trials are not reported


def test_one_algorithm_can_be_searched_and_run_before_the_others(stored, tmp_path, capsys):
    path, out = tmp_path / "tuned.toml", tmp_path / "out"
    path.write_text(SEARCH.replace('["bc"]', '["bc", "td3bc"]'))
    run = ["benchmark", "run", str(path), "--out", str(out), "--workers=1"]
    main([*run, "--algorithms", "bc"])
    first = {file: file.stat().st_mtime_ns for file in out.rglob("result.json")}
    assert len(first) == 2 + 1 and list(json.loads((out / "search.json").read_text())["best"]) == ["bc"]
    capsys.readouterr()
    main(["benchmark", "status", str(path), "--out", str(out)])
    said = capsys.readouterr().out
    assert "2 of 4 cells done" in said and "tuned: 1 of 1 cells done" in said and "wait for" not in said
    main(run)
    assert len(list(out.rglob("result.json"))) == 4 + 2
    assert all(file.stat().st_mtime_ns == when for file, when in first.items())  # nothing is done again
    assert set(json.loads((out / "search.json").read_text())["best"]) == {"bc", "td3bc"}


def test_search_only_needs_a_search(stored, path, capsys):
    with pytest.raises(SystemExit):
        main(["benchmark", "run", str(path), "--search-only"])
    assert "has no [search] table" in capsys.readouterr().err
    assert load(str(path)).search is None


def test_algorithms_that_the_matrix_lacks_are_named(stored, path, capsys):
    with pytest.raises(SystemExit):
        main(["benchmark", "run", str(path), "--algorithms", "utsd"])
    assert "has no algorithm 'utsd'" in capsys.readouterr().err
