"""Runs without a simulator: judged from data alone, one chosen, reported; and what is said when that can't be done."""

import json

import numpy as np
import pytest

from utds.algorithms import BC
from utds.cli import main
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.errors import ConfigError, DataError
from utds.evaluation.fqe import Estimate
from utds.training import offline, run_files, train
from utds.training.run import Run

TINY = {"width": 8, "layers": 1, "batch_size": 8}
QUICK = ["--set", "steps=3", "width=8", "num_critics=3"]


def recorded(task, seed, episodes=12):
    """A cart pushed about at random; only the first task has rewards: to be far on the right."""
    random, steps = np.random.default_rng(seed), 10
    states = random.normal(size=(episodes * (steps + 1), 2))
    actions = random.uniform(-1, 1, (episodes * steps, 1))
    reached = np.delete(states, np.arange(0, len(states), steps + 1), axis=0)
    rewards = reached[:, 0] if task == "cart-right" else np.zeros(len(actions))
    return Dataset.from_arrays(states, actions, rewards, lengths=[steps] * episodes, task=task)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs of one task, alone and shared, and one of another task."""
    root = tmp_path_factory.mktemp("offline")
    patch = pytest.MonkeyPatch()
    patch.setenv("MINARI_DATASETS_PATH", str(root / "data"))
    own, other = recorded("cart-right", 0).save("cart-right/logs"), recorded("cart-left", 1).save("cart-left/logs")
    options = {"steps": 4, "eval_every": 2, "trust_dynamics": True}
    train(share(own), BC(**TINY), seeds=2, out=root / "runs" / "alone", **options)
    train(share(own, other, rewards="goal:0=1"), BC(**TINY), out=root / "runs" / "shared", **options)
    train(share(other), BC(**TINY), out=root / "left", **options)
    yield root
    patch.undo()


def paths(folder):
    return [str(folder / "runs" / name) for name in ("alone", "shared")]


def test_policies_are_kept_without_evaluations(folder):
    run = Run(folder / "runs" / "alone")
    assert run.kept_steps == (2, 4) and run.evaluations == []
    assert run.act(np.zeros((1, 2)), seed=1, step=2).shape == (1, 1)


def test_several_runs_on_one_pool(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(folder / "runs")  # short names, wherever temporary folders are
    main(["evaluate", "alone", "shared", "--offline", "--all-steps", *QUICK])
    said = capsys.readouterr().out
    assert "…" not in said  # names stay whole: of two seeds and of one, each at two steps
    assert (said.count("\n alone "), said.count("\n shared ")) == (4, 2)
    assert all(words in said for words in ("Deploy", "Sharing", "recorded, 12", "utds export"))
    alone, shared = (run_files.offline(folder / "runs" / name) for name in ("alone", "shared"))
    assert alone["comparison"] == shared["comparison"]
    assert alone["sources"] == ["cart-right/logs", "cart-left/logs"] and alone["horizon"] == 10
    assert [(row["seed"], row["step"]) for row in alone["policies"]] == [(0, 2), (0, 4), (1, 2), (1, 4)]
    assert all(len(row["values"]) == 3 for row in shared["policies"])


def test_json_has_all_of_it_and_nothing_else_is_printed(folder, capsys):
    again = str(folder / "left" / ".." / "runs" / "alone")  # a run that is named twice counts once
    main(["evaluate", *paths(folder), again, "--offline", "--json", *QUICK])
    found = json.loads(capsys.readouterr().out)
    assert len(found["policies"]) == 3 and len(found["gains"]) == 1
    lows = [row["low"] for row in found["policies"]]
    assert lows == sorted(lows, reverse=True) and found["verdict"][0].startswith("Deploy ")
    rewards = recorded("cart-right", 0).rewards.reshape(12, 10)
    assert found["recorded"]["mean"] == pytest.approx(float(np.mean(rewards @ 0.99 ** np.arange(10))), rel=1e-4)


def test_the_report_of_runs_without_a_simulator(folder, tmp_path, capsys):
    for name in ("alone", "shared"):
        (folder / "runs" / name / "offline.json").unlink(missing_ok=True)
    page, table = tmp_path / "report.html", tmp_path / "report.md"
    write = ["report", str(folder / "runs"), "-o", str(page), "--markdown", str(table)]
    main(write)
    assert "isn't judged yet: utds evaluate" in capsys.readouterr().out  # what to do, and no error
    main(["evaluate", *paths(folder), "--offline", *QUICK])
    capsys.readouterr()
    main(write)
    said = capsys.readouterr().out
    assert said.startswith("Judged from data alone. Deploy ")
    assert "Judged without a simulator" in page.read_text() and "recorded, 12 episodes" in page.read_text()
    assert "Every number" not in page.read_text()
    assert "| recorded, 12 episodes |" in table.read_text() and "## Settings" not in table.read_text()

    main(["evaluate", paths(folder)[0], "--offline", *QUICK])  # on its own data: no longer comparable
    capsys.readouterr()
    main(write)
    assert page.read_text().count('<table class="offline">') == 2


def test_a_run_that_was_trained_further_is_to_be_judged_again(folder):
    """The gain of sharing is one of final policies, and this one's were never judged."""
    found = offline.evaluate_offline(paths(folder), steps=3, width=8)
    assert len(found.gains) == 1 and not any("judge it again" in line for line in found.warnings)
    runs = [Run(path) for path in paths(folder)]
    longer = [run.config | {"steps": 8} if run.path.name == "shared" else run.config for run in runs]
    kept = [(run.path, config, run_files.offline(run.path)) for run, config in zip(runs, longer, strict=True)]
    found = offline.comparison(kept)
    assert found.gains == () and f"{paths(folder)[1]} was trained further since it was judged" in found.warnings[-1]


def test_without_a_simulator_one_line_says_what_to_do(folder, capsys):
    for arguments, words in (
        ([paths(folder)[0]], "cart-right has no simulator here; judge"),
        ([*paths(folder), "--offline", "--env=CartPole-v1"], "leave out --env"),
        ([paths(folder)[0], str(folder / "left"), "--offline"], "different tasks, cart-right and cart-left"),
        ([str(folder / "left"), "--offline"], "every reward of the data is 0"),
        ([paths(folder)[0], "--all-steps"], "add --offline"),
        ([paths(folder)[0], "--offline", "--set", "horizon=11"], "longer than any recorded episode, 10 steps"),
        (
            [paths(folder)[0], "--offline", "--set", "horizn=3"],
            "called 'horizn'; did you mean horizon?",
        ),
        *(
            ([paths(folder)[0], "--offline", "--set", f"{name}=3"], f"no option of the estimate called '{name}'")
            for name in ("seed", "json", "all_steps", "rewards", "runs")  # arguments of the functions behind it
        ),
        ([], "name at least one run"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(["evaluate", *arguments])
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line


def test_a_reward_function_and_labels_that_differ_must_be_given(folder):
    runs = [Run(path) for path in paths(folder)]
    runs[1].config["rewards"] = "rewards.py:reach@1f2e"
    with pytest.raises(ConfigError, match=r"give it as --rewards FILE\.py:NAME"):
        offline.common_pool(runs)
    third = Run(paths(folder)[1])
    with pytest.raises(ConfigError, match="say with --rewards"):
        offline.common_pool([*runs, third])
    pool, _ = offline.common_pool(runs, rewards="goal:0=1")
    assert pool.info.ids == ("cart-right/logs", "cart-left/logs")


def test_labels_of_zero_are_no_evidence(folder):
    run = Run(paths(folder)[1])
    run.config["rewards"] = "zero"
    pool, notes = offline.common_pool([run])
    assert pool.info.ids == ("cart-right/logs",) and "judged on the main data alone" in notes[0]


def test_damaged_results_are_named(folder, tmp_path, capsys):
    path = folder / "runs" / "shared" / "offline.json"
    path.write_text('{"comparison": "a", "task": 3}')
    with pytest.raises(DataError, match=r"offline\.json: task is 3"):
        run_files.offline(path.parent)
    main(["report", str(folder / "runs"), "-o", str(tmp_path / "report.html")])
    assert "offline.json: task is 3" in capsys.readouterr().err
    path.unlink()


def test_a_gain_is_paired_and_counts_the_spread_of_seeds():
    config = {"steps": 4, "algorithm": {"name": "utds"}, "sources": [{"digest": "a"}]}
    common = {
        "task": "t", "sources": ["a"], "discount": 0.9, "horizon": 5,
        "recorded": {"mean": 1.0, "low": None, "high": None, "episodes": 1},
    }  # fmt: skip

    def judged(*values):
        rows = [{"seed": i, "step": 4, "values": list(v), "outside": 0.5 * i} for i, v in enumerate(values)]
        return common | {"policies": rows}

    shared = config | {"sources": [{"digest": "a"}, {"digest": "b"}]}
    sure = offline.comparison([("alone", config, judged((1, 2, 3))), ("shared", shared, judged((2, 3, 4)))])
    assert (sure.gains[0].low, sure.gains[0].high) == pytest.approx((1, 1)) and "Sharing helped" in str(sure.gains[0])
    unsure = offline.comparison(
        [("alone", config, judged((1, 2, 3), (4, 5, 6))), ("shared", shared, judged((2, 3, 4)))]
    )
    assert unsure.gains[0].low < 0 < unsure.gains[0].high and "no clear difference" in str(unsure.gains[0])
    assert unsure.best.run == "alone" and unsure.best.seed == 1
    assert any("coverage is thin for alone, seed 1" in line for line in unsure.warnings)
    assert any("has 1 episodes" in line for line in unsure.warnings)
    assert offline.comparison([("p", shared | {"algorithm": {"name": "pbrl"}}, judged((1, 1)))]).gains == ()
    assert Estimate((1.0, 1.0)).interval == (1.0, 1.0)
