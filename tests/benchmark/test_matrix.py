"""Matrices: what is counted, what a fingerprint sees, what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from utds.benchmark import plan
from utds.benchmark.matrix import load, parse, shipped
from utds.cli import main
from utds.errors import ConfigError, DataError

LEAST = {"tasks": ["walker-walk"], "algorithms": ["utds"], "steps": 10}


def cells(**keys):
    return list(parse(LEAST | keys, "test").cells())


def test_the_papers_three_domains_have_180_two_task_settings():
    counts = [plan.settings(list(load(name).cells())) for name in ("walker", "quadruped", "jaco")]
    assert counts == 3 * [{"single": 20, "each": 60, "all": 20}]
    found = list(load("walker").cells())
    assert len(found) == 20 * 2 + (60 + 20) * 4 and len({cell.name for cell in found}) == len(found)
    one = next(cell for cell in found if cell.column == "each")
    assert one.datasets == ("walker-stand/random", "walker-walk/replay")
    assert (one.steps, one.eval_every, one.episodes, one.seed_numbers) == (1_000_000, 1_000, 10, (0, 1, 2))
    paper = one.algorithm
    assert (paper.batch_size, paper.beta_ood, paper.num_critics) == (1024, 3.0, 5)  # the paper's table


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_matrix_is_sound(name):
    found = list(load(name).cells())
    assert len({cell.name for cell in found}) == len(found) > 0
    assert all(cell.matrix == name for cell in found)


def test_the_guide_lists_every_shipped_matrix():
    guide = Path(__file__).parents[2] / "docs" / "guides" / "benchmark.md"
    rows = [line.split("|")[1] for line in guide.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert {name for name in shipped() if f"`{name}`" in "".join(rows)} == set(shipped())
    robots = load("robots").cells()
    assert len(robots) == 3 * 208 and len({cell.domain for cell in robots}) == 3


def test_the_pointmass_matrix_is_the_promised_one():
    found = list(load("pointmass").cells())
    assert len(found) == 2 * 5 * (3 * 4 + 2)  # on own data alone, CDS and CDS-Zero are CQL
    assert {cell.algorithm_name for cell in found} == {"utds", "cql", "cds", "cds-zero"}
    assert {cell.seeds for cell in found} == {2}


def test_columns_sources_and_variations():
    assert [c.sources for c in cells(kinds=["medium"], columns=["all"])] == [
        ("walker-stand", "walker-run", "walker-flip")
    ]
    each = cells(kinds=["medium"], columns=["each", "all"], sources=["walker-run", "walker-walk"])
    assert [c.sources for c in each] == [("walker-run",)]  # not itself, and all of one is no column of its own
    tasks = ["walker-stand", "walker-run", "walker-flip"]
    after = cells(tasks=tasks, kinds=["medium"], columns=["next"])
    assert [c.sources for c in after] == [("walker-walk",), ("walker-flip",), ("walker-stand",)]  # in a circle
    after = cells(tasks=tasks, kinds=["medium"], columns=["next"], sources=["walker-stand", "walker-run"])
    assert [c.sources for c in after] == [("walker-run",), ("walker-stand",), ("walker-stand",)]
    varied = cells(kinds=["medium"], columns=["single"], vary={"beta_ood": [1.0, 5.0], "num_critics": [2, 3]})
    assert [(c.algorithm.beta_ood, c.algorithm.num_critics) for c in varied] == [(1.0, 2), (1.0, 3), (5.0, 2), (5.0, 3)]
    assert varied[0].name.endswith("utds_beta_ood=1.0_num_critics=2")
    fields = {"width": 32, "cql": {"width": 64}}
    both = cells(kinds=["medium"], columns=["single"], algorithms=["utds", "cql"], fields=fields)
    assert [c.algorithm.width for c in both] == [32, 64]


def alone(**keys):
    """The algorithms that a matrix runs on own data alone."""
    return [cell.algorithm_name for cell in cells(kinds=["medium"], columns=["single"], **keys)]


@pytest.mark.parametrize("preset", ["fast", "paper", "released"])
def test_what_is_the_same_on_own_data_alone_runs_once(preset):
    assert alone(algorithms=["cql", "cds", "cds-zero"], preset=preset) == ["cql"]
    assert alone(algorithms=["cds-zero", "bc" if preset != "released" else "utds", "cds"], preset=preset)[0] == "cql"
    assert alone(algorithms=["utds", "pbrl"], preset=preset) == ["pbrl"]
    assert alone(algorithms=["utds", "cds"], preset=preset) == ["utds", "cds"]  # nothing to share the run with
    shared = cells(kinds=["medium"], columns=["all"], algorithms=["cql", "cds", "cds-zero"], preset=preset)
    assert [cell.algorithm_name for cell in shared] == ["cql", "cds", "cds-zero"]


def test_what_differs_on_own_data_alone_runs_apart():
    """Fields that choose among shared data make no difference; others do, and so does a search that finds others."""
    assert alone(algorithms=["cql", "cds"], fields={"cds": {"candidates": 5}}) == ["cql"]
    assert alone(algorithms=["cql", "cds"], fields={"cds": {"cql_alpha": 1.0}}) == ["cql", "cds"]
    names = ["cql", "cds", "cds-zero"]
    matrix = parse(LEAST | {"kinds": ["medium"], "columns": ["single"], "algorithms": names}, "test")
    found = matrix.cells({"cds": {"tau": 0.02}, "cds-zero": {"tau": 0.02}})
    assert [(cell.algorithm_name, cell.algorithm.tau) for cell in found] == [
        ("cql", 0.01), ("cds", 0.02), ("cds-zero", 0.02)
    ]  # fmt: skip
    varied = cells(kinds=["medium"], columns=["single"], algorithms=names, vary={"tau": [0.01, 0.02]})
    assert [(cell.algorithm_name, cell.algorithm.tau) for cell in varied] == [("cql", 0.01), ("cql", 0.02)]


def test_cells_of_some_algorithms_and_what_they_become_alone():
    matrix = parse(
        LEAST | {"kinds": ["medium"], "columns": ["single", "next"], "algorithms": ["utds", "cql", "cds"]}, "m"
    )
    named = {only: [(c.algorithm_name, len(c.sources)) for c in matrix.cells(None, [only])] for only in ("utds", "cds")}
    assert named == {"utds": [("utds", 0), ("utds", 1)], "cds": [("cql", 0), ("cds", 1)]}
    assert matrix.cells(None, ["cds", "utds", "cql"]) == matrix.cells()


def test_cells_that_share_nothing_may_take_fewer_steps():
    found = cells(kinds=["medium"], columns=["single", "next"], steps=100, steps_alone=30, eval_every=50)
    assert [(c.steps, c.eval_every) for c in found] == [(30, 30), (100, 50)]
    found = cells(kinds=["medium"], columns=["single", "next"], steps=100, steps_alone=30)
    assert [(c.steps, c.eval_every) for c in found] == [(30, 3), (100, 10)]


def test_a_gradient_step_is_timed_also_where_a_field_is_a_share_of_the_run(matrix, monkeypatch):
    monkeypatch.setattr(plan, "SECONDS", 1e-3)
    shared = next(cell for cell in matrix.cells() if cell.sources)
    cell = replace(shared, algorithm_name="td3", fields={"width": 8, "anneal_steps": "100%"})
    found = plan.speed(cell, threads=1)
    assert found.step > 0 and found.start > 0


def test_a_fingerprint_sees_what_matters_and_nothing_else():
    cell = cells(kinds=["medium"], columns=["each"])[0]
    digests = {name: "a" for name in cell.datasets}
    same = cell.fingerprint(digests)
    for change in (
        {"steps": 11},
        {"seeds": 2},
        {"first_seed": 1},
        {"eval_every": 5},
        {"episodes": 9},
        {"fields": {"width": 32}},
        {"preset": "paper"},
        {"rewards": "zero"},
        {"kind": "medium-expert"},
        {"sources": ()},
        {"algorithm_name": "pbrl"},
    ):
        changed = replace(cell, **change)
        assert changed.fingerprint({name: "a" for name in changed.datasets}) != same, change
    assert cell.fingerprint(digests | {cell.datasets[1]: "b"}) != same
    assert replace(cell, checkpoint_every=3, matrix="other").fingerprint(digests) == same


def test_a_fingerprint_sees_the_version(monkeypatch):
    cell = cells(kinds=["medium"])[0]
    digests = {name: "a" for name in cell.datasets}
    before = cell.fingerprint(digests)
    monkeypatch.setattr("utds.benchmark.cells.__version__", "99")
    assert cell.fingerprint(digests) != before


@pytest.mark.parametrize(
    "text, message",
    [
        ("stepz = 3", "there is no key 'stepz'; did you mean steps?"),
        ('tasks = ["walker-wolk"]', "there is no task 'walker-wolk'; did you mean walker-walk?"),
        ('domains = ["wolker"]', "there is no domain 'wolker'; did you mean walker?"),
        ('tasks = ["walker-walk"]\nkinds = ["mediun"]', "did you mean medium?"),
        ('tasks = ["walker-walk"]\nalgorithms = ["utdz"]', "there is no algorithm 'utdz'; did you mean utds?"),
        (
            'tasks = ["walker-walk"]\n[fields]\nbath_size = 3',
            "no field of utds called 'bath_size'; did you mean batch_size?",
        ),
        ('tasks = ["walker-walk"]\n[fields.cql]\nwidth = 3', "there is no algorithm 'cql'"),
        ('tasks = ["walker-walk"]\n[vary]\nbeta = [1.0]', "there is no field of utds called 'beta'"),
        ('tasks = ["walker-walk"]\n[vary]\nbeta_ood = 1.0', "must be a table of lists of values"),
        ('tasks = ["walker-walk"]\npreset = "papre"', "did you mean paper?"),
        ('tasks = ["walker-walk"]\nseeds = 0', "seeds = 0 must be a whole number of 1 or more"),
        ('tasks = ["walker-walk"]\nseeds = "2"', "seeds = '2' must be a whole number"),
        ('tasks = "walker-walk"', "must be a list of words"),
        ("", "either domains"),
        ('tasks = ["walker-walk"]\nsources = ["jaco-reach-top-left"]', "jaco-reach-top-left is of another robot than"),
        ('tasks = ["walker-walk"]\nsources = ["walker-walk"]\ncolumns = ["each"]', "the matrix has no cell"),
        (
            'tasks = ["walker-walk"]\n[fields.utds]\npreset = "paper"',
            "[fields.utds] preset is no field of an algorithm; choose by the key",
        ),
        ('tasks = ["walker-walk"]\n[vary]\npreset = ["paper", "fast"]', "[vary] preset is no field"),
        (
            'tasks = ["walker-walk"]\n[fields]\nname = "cql"',
            "[fields] name is no field of an algorithm; choose by the key 'algorithms'",
        ),
        ('tasks = ["walker-walk"]\n[vary]\nname = ["cql"]', "[vary] name is no field"),
        (
            'tasks = ["walker-walk"]\n[fields]\nutds = "paper"',
            "[fields] utds = 'paper' is an algorithm; give its fields in a table",
        ),
        ('tasks = ["walker-walk"]\n[fields]\nutds = 3', "[fields] utds = 3 is an algorithm"),
        (
            'tasks = ["walker-walk"]\n[search]\ntrials = 2\nkinds = ["replay"]\n[search.fields]\npreset = ["paper"]',
            "[search.fields] preset is no",
        ),
        ("tasks = [", "no valid TOML"),
        ('\ufefftasks = ["walker-walk"]\r\nkinds = ["mediun"]', "did you mean medium?"),  # as Windows' editors save it
    ],
)
def test_a_wrong_matrix_is_one_line_and_exit_code_2(text, message, tmp_path, capsys):
    path = tmp_path / "wrong.toml"
    defaults = "" if "stepz" in text else "steps = 10\n"
    mark, text = "\ufeff" * text.startswith("\ufeff"), text.lstrip("\ufeff")
    path.write_text(mark + ('algorithms = ["utds"]\n' if "algorithms" not in text else "") + defaults + text)
    with pytest.raises(SystemExit) as exit:
        main(["benchmark", "plan", str(path)])
    error = capsys.readouterr().err
    assert exit.value.code == 2 and message in error and error.count("\n") == 1 and str(path) in error


def test_an_unknown_name_and_a_missing_file_are_one_line(capsys, tmp_path):
    with pytest.raises(ConfigError, match="did you mean walker"):
        load("walkr")
    with pytest.raises(DataError, match="No such file"):
        load(str(tmp_path / "no.toml"))


def test_plan_counts_and_names_missing_data_and_runs_nothing(tiny, path, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["benchmark", "plan", str(path), "--no-measure"])
    out = capsys.readouterr().out
    assert "3 datasets of the matrix are not stored: tinymass-reach-top-left/random" in out.replace("\n", " ")
    assert [line.split()[-1] for line in out.splitlines() if line.split()[:1] == ["little"]] == ["8"]
    main(["benchmark", "plan", str(path), "--no-measure", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert len(found["missing"]) == 3 and found["seconds"] is None
    assert found["matrices"][0] | {"cells": 8, "seeds": 2, "algorithms": 2} == found["matrices"][0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["little.toml"]


def test_the_process_that_hands_gpus_out_does_not_start_jax(tmp_path, monkeypatch):
    """It would keep three quarters of a GPU's memory: what is missing is generated in another one."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    monkeypatch.setattr("utds.collection.kinds.generate", pytest.fail)
    names = {"tasks": ["pointmass-reach-top-left"], "kinds": ["random"], "columns": ["single"]}
    matrix = parse(LEAST | names, "test")
    plan.generate(matrix.cells(), episodes=2)
    assert plan.missing(["pointmass-reach-top-left/random"]) == []


def test_a_cell_has_one_worker_at_most(tiny, path, monkeypatch, capsys):
    """Twice as many workers as cells don't halve the time; and fewer than one is an error, on a cluster too."""
    monkeypatch.setattr(plan, "seconds", lambda cells, threads: 80.0)
    main(["benchmark", "plan", str(path), "--workers", "16", "--json"])
    assert json.loads(capsys.readouterr().out)["seconds"] == 80 / 8
    for more in (["plan"], ["run"], ["run", "--engine", "ray"]):
        with pytest.raises(SystemExit) as exit:
            main(["benchmark", *more, str(path), "--workers", "0"])
        assert exit.value.code == 2 and "--workers=0 must be at least 1" in capsys.readouterr().err


def test_missing_data_is_one_line_that_says_how_to_make_it(matrix):
    with pytest.raises(DataError, match=r"--generate 100.*utds data generate tinymass-reach-top-left.*utds collect"):
        plan.require(list(matrix.cells()))


def test_durations():
    assert [plan.duration(s) for s in (5, 59.7, 600, 12_000, 200_000)] == [
        "5 s", "1 min", "10 min", "3 h 20 min", "2 d 8 h"
    ]  # fmt: skip
    assert [plan.duration(3600 * h) for h in (47.999, 71.8)] == ["2 d 0 h", "3 d 0 h"]
