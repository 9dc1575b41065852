"""One policy on dynamics in Python, on the command line and in a matrix: checked before a run begins, then no more."""

import json

import numpy as np
import pytest

from utds.adviser import dynamics
from utds.adviser.dynamics import Check
from utds.algorithms import BC
from utds.benchmark import engine
from utds.benchmark.cells import locate
from utds.benchmark.matrix import parse
from utds.benchmark.worker import Worker
from utds.cli import main
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.errors import DataError
from utds.training import train

QUICK = BC(width=4, layers=1, batch_size=8)


@pytest.fixture
def checks(monkeypatch):
    """The check finds that everything moves differently; the names of what it was asked about."""
    asked = []

    def different(main, candidates, seed=0):
        asked.append([main.name, *(data.name for data in candidates)])
        return [Check(data.name, "different", 1e-9, 0.5, 3, "action 1", 0.8, 20) for data in candidates]

    monkeypatch.setattr(dynamics, "checks", different)
    return asked


def data(task: str, seed: int) -> Dataset:
    random = np.random.default_rng(seed)
    columns = random.normal(size=(42, 4)), random.uniform(-1, 1, (40, 2)), random.uniform(size=40)
    return Dataset.from_arrays(*columns, lengths=np.full(2, 20), task=task, domain="tinymass", id=f"{task}/random")


def test_in_python(checks, tmp_path):
    own = data("tinymass-reach-top-left", 0)
    pool = share(own, data("tinymass-reach-top-right", 1), rewards="zero")
    options = {"steps": 4, "evaluate": None}
    train(share(own), QUICK, out=tmp_path / "alone", **options)
    assert checks == []  # nothing is shared
    with pytest.raises(DataError, match=r"feature 3 changes.*recorded with different dynamics.*trust"):
        train(pool, QUICK, out=tmp_path / "run", **options)
    assert len(checks) == 1 and not (tmp_path / "run").exists()
    train(pool, QUICK, out=tmp_path / "run", trust_dynamics=True, **options)
    train(pool, QUICK, out=tmp_path / "run", resume=True, **options | {"steps": 8})
    assert len(checks) == 1  # neither trusted nor resumed runs are checked


def test_a_run_finds_its_data_after_a_newer_version_is_stored(tiny, tmp_path):
    own = data("tinymass-reach-top-left", 0).save()
    run = train(share(own), QUICK, out=tmp_path / "run", steps=4, evaluate=None)
    data("tinymass-reach-top-left", 1).save(f"{own.name}-v1")
    assert [dataset.digest for dataset in run.datasets()] == [own.digest]


def test_data_that_dynamics_weigh_is_not_refused(checks, tmp_path):
    own, other = data("tinymass-reach-top-left", 0), data("tinymass-reach-top-right", 1)
    pool = share(own, other, rewards="zero", weights="dynamics")
    run = train(pool, QUICK, out=tmp_path / "run", steps=4, evaluate=None)
    assert len(checks) == 1 and run.config["weights"] == "dynamics:floor=0.05,seed=0"


@pytest.mark.parametrize("altered", ["[]", '{"refused": 3}', "{}", '"', "\xff"])
def test_a_finding_that_was_altered_is_found_again(checks, tmp_path, altered):
    datasets = [data("tinymass-reach-top-left", 0), data("tinymass-reach-top-right", 1)]
    for _ in range(2):
        with pytest.raises(DataError, match="recorded with different dynamics"):
            dynamics.refuse_different(datasets, kept=tmp_path)
    (path,) = tmp_path.iterdir()
    assert len(checks) == 1
    path.write_text(altered, encoding="latin-1")
    with pytest.raises(DataError, match="recorded with different dynamics"):
        dynamics.refuse_different(datasets, kept=tmp_path)
    assert len(checks) == 2


def test_on_the_command_line(checks, tiny, tmp_path, capsys):
    for seed, task in enumerate(("tinymass-reach-top-left", "tinymass-reach-top-right")):
        data(task, seed).save(f"{task}/random")
    command = ["train", "tinymass-reach-top-left/random", "--share", "tinymass-reach-top-right/random"]
    command += ["--algo=bc", "--preset=paper", "--rewards=zero", "--set", "width=4", "layers=1", "--steps=2"]
    command += ["--episodes=1", f"--out={tmp_path / 'run'}"]
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 2 and "--trust-dynamics" in capsys.readouterr().err and len(checks) == 1


def test_a_matrix_takes_the_newest_version(tiny, tmp_path):
    task = "tinymass-reach-top-left"
    data(task, 0).save(f"{task}/random")
    newest = data(task, 1).save(f"{task}/random-v1")
    given = {"tasks": [task], "kinds": ["random"], "columns": ["single"], "algorithms": ["bc"], "preset": "paper",
             "steps": 2, "episodes": 1, "fields": {"width": 4, "layers": 1}}  # fmt: skip
    cells = list(parse(given, "m").cells())
    found = locate(cells, tmp_path / "out")
    for job in engine.jobs(found, cells):
        Worker(threads=1).run(job)
    assert [cell_dir.state for cell_dir in found] == ["done"]
    sources = json.loads((found[0].folder / "config.json").read_text())["sources"]
    assert [source["digest"] for source in sources] == [newest.digest]


def test_in_a_matrix(checks, tiny, tmp_path):
    for seed, task in enumerate(("tinymass-reach-top-left", "tinymass-reach-top-right")):
        data(task, seed).save(f"{task}/random")
    given = {
        "tasks": ["tinymass-reach-top-left"], "kinds": ["random"], "columns": ["each"], "source_kind": "random",
        "sources": ["tinymass-reach-top-right"], "algorithms": ["bc", "td3"], "preset": "paper", "steps": 2,
        "rewards": "zero", "episodes": 1, "fields": {"width": 4, "layers": 1},
    }  # fmt: skip

    def run(**more):
        cells = list(parse(given | more, "m").cells())
        found = locate(cells, tmp_path / "out")
        for job in engine.jobs(found, cells):
            Worker(threads=1).run(job)
        return found

    found = run()
    assert [cell_dir.state for cell_dir in found] == ["failed", "failed"]
    assert "trust_dynamics = true in a matrix" in found[0].error
    assert len(checks) == 1  # the second worker looks up what the first has found
    assert all((cell_dir.folder / "cell.json").exists() for cell_dir in found)  # it tells a report what was refused
    for cell_dir in found:
        cell_dir.forgive()
    trusted = run(trust_dynamics=True)
    assert [cell_dir.state for cell_dir in trusted] == ["done", "done"] and len(checks) == 1
    command = json.loads((trusted[0].folder / "cell.json").read_text())["command"].split()
    assert command[-1] == "--trust-dynamics"
    main([*command[1:], "--out", str(tmp_path / "by-hand")])  # the command reproduces the cell
    same = [(folder / "evaluations.csv").read_bytes() for folder in (tmp_path / "by-hand", trusted[0].folder)]
    assert same[0] == same[1]
