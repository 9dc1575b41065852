"""`utds runs` on runs that were never trained: lists, comparisons, and removing nothing by mistake."""

import json
import subprocess
import sys

import numpy as np
import pytest

from utds import algorithms, files
from utds.cli import main
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.training.run import Run
from utds.training.trainer import configuration


@pytest.fixture
def make(tmp_path):
    """A finished run whose seeds reached these returns."""
    random = np.random.default_rng(0)
    arrays = random.normal(size=(41, 3)), random.uniform(-1, 1, (40, 2)), random.uniform(size=40)
    pool = share(Dataset.from_arrays(*arrays, task="pointmass-reach-bottom-right"))

    def made(name, returns, algo="bc", finished=True, **fields):
        options = {"seeds": list(range(len(returns))), "steps": 10, "eval_every": 10, "log_every": 5}
        config = configuration(pool, algorithms.make(algo, **fields), checkpoint_every=10, **options)
        run = Run.claim(tmp_path / "runs" / name, config, resume=False)
        run.log("metrics.csv", [{"step": 5, "seed": seed, "loss": 1.0} for seed in run.seeds])
        if finished:
            run.log("evaluations.csv", [{"step": 10, "seed": s, "return": r} for s, r in enumerate(returns)])
            run.finish(10, 3.0)
        return run.path

    return made


def printed(capsys, *args):
    main(["runs", *map(str, args)])
    return capsys.readouterr().out


@pytest.fixture
def three(make, tmp_path):
    make("deep/walk-bc", [1.0, 3.0])
    make("unfinished", [0.0], finished=False)
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "config.json").write_text("{}")
    return tmp_path / "runs"


def test_list(three, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = printed(capsys, "list", three)
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "2 ± 1" in rows["deep/walk-bc"] and "5 of 10" in rows["unfinished"] and "damaged" in rows["broken"]
    assert "…" not in out and all(len(line) <= 80 for line in out.splitlines())
    found = {row["run"]: row for row in json.loads(printed(capsys, "list", three, "--json"))}
    assert [row["state"] for row in found.values()] == ["damaged", "finished", "unfinished"]
    done = found[str(three / "deep/walk-bc")]
    assert (done["return_mean"], done["return_standard_error"], done["returns"]) == (2.0, 1.0, [1.0, 3.0])
    assert "config.json" in found[str(three / "broken")]["error"]


@pytest.mark.parametrize("columns", [60, 80])
def test_a_narrow_terminal_breaks_paths_and_no_words(make, tmp_path, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    make("cells/pointmass-reach-bottom-right_medium-replay_alone_td3bc-4f9b20b0", [12.5, 13.5], algo="td3bc")
    out = printed(capsys, "list", tmp_path / "runs")
    assert all(f" {word} " in f"{out} " for word in ("run", "algo", "task", "return", "td3bc", "13 ± 0.5"))
    assert max(map(len, out.splitlines()[:4])) <= columns


def test_compare(make, capsys, refused):
    first, second = make("a", [1.0, 3.0]), make("b", [11.0, 13.0], batch_size=512)
    found = json.loads(printed(capsys, "compare", first, second, "--json"))
    assert found["differences"] == {"batch_size": [256, 512]}
    # By hand: difference 10, standard error √2, t of 2 degrees at 97.5 % = 4.302653.
    assert found["gains"][1]["value"] == 10
    assert found["gains"][1]["high"] == pytest.approx(10 + 4.302653 * 2**0.5, rel=1e-5)
    out = printed(capsys, "compare", first, second)
    assert "batch_size" in out and "+10 [3.92, 16.1]" in out and "width" not in out
    assert "at least two runs" in refused("runs", "compare", first)
    assert "holds no run" in refused("runs", "compare", first, first.parent)


def test_fields_that_one_algorithm_does_not_have_are_no_difference(make, capsys):
    paths = make("a", [1.0]), make("b", [2.0], algo="td3bc")
    found = json.loads(printed(capsys, "compare", *paths, "--json"))["differences"]
    assert found["algorithm"] == ["bc", "td3bc"] and "policy_delay" not in found


def test_remove_needs_a_yes(three, capsys):
    run = three / "deep" / "walk-bc"
    out = printed(capsys, "remove", run)
    assert "would remove" in out and "pass --yes" in out and (run / "result.json").exists()
    out = printed(capsys, "remove", run, three / "broken", "--yes")
    assert not run.exists() and not (three / "broken").exists() and out.count("removed ") == 2
    assert [path.name for path in (three / "deep").iterdir()] == []


def test_only_runs_are_removed(three, refused, tmp_path):
    run = three / "unfinished"
    assert "no run directory" in refused("runs", "remove", run, three, "--yes")  # and nothing of the rest
    assert "no run directory" in refused("runs", "remove", three / "deep", "--yes")
    assert "is no folder" in refused("runs", "remove", three / "none", "--yes")
    (tmp_path / "link").symlink_to(run)
    assert "is a link" in refused("runs", "remove", tmp_path / "link", "--yes")
    files.write_json(three / "collection" / "config.json", {"warmup": 3})
    assert "is a collection" in refused("runs", "remove", three / "collection", "--yes")
    assert run.exists() and (three / "collection").exists()


def test_a_run_in_another_ones_folder_is_listed_and_not_removed_with_it(make, tmp_path, capsys, refused):
    outer, inner = make("", [1.0]), make("inner", [2.0])
    assert (outer, inner) == (tmp_path / "runs", tmp_path / "runs" / "inner")
    found = json.loads(printed(capsys, "list", outer, "--json"))
    assert [row["run"] for row in found] == [str(outer), str(inner)]
    assert f"holds another run, {inner}; nothing was removed" in refused("runs", "remove", outer, "--yes")
    printed(capsys, "remove", inner, "--yes")
    printed(capsys, "remove", outer, "--yes")
    assert not outer.exists()


def test_a_run_that_somebody_is_at_work_on_stays(three, capsys):
    run = three / "unfinished"
    with files.lock(run / "lock", "the run"):
        code = [sys.executable, "-m", "utds", "runs", "remove", str(run), "--yes"]
        done = subprocess.run(code, capture_output=True, text=True, timeout=120)
        states = {row["run"]: row["state"] for row in json.loads(printed(capsys, "list", three, "--json"))}
    assert done.returncode == 2 and "the run" in done.stderr and run.exists()
    assert states[str(run)] == "running"
