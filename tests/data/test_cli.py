"""The data commands, as functions: what they print and what they refuse."""

import json
from dataclasses import replace

import numpy as np
import pytest

from utds import terminal
from utds.cli import data
from utds.data import store, summary
from utds.data.reward_model import LearnedReward
from utds.data.summary import picture
from utds.errors import ConfigError, DataError


@pytest.fixture
def stored(record):
    first = record("pointmass-reach-top-left", seed=0).save("pointmass-reach-top-left/random")
    second = record("pointmass-reach-top-right", seed=1).save("pointmass-reach-top-right/random")
    return first, second


def test_list(stored, capsys, root):
    data.list_()
    printed = capsys.readouterr().out
    assert "pointmass-reach-top-left/random" in printed and f"2 datasets under {root}" in printed.replace("\n", "")


def test_lists_fit_80_columns_with_whole_ids_and_returns(record, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    made = record("pointmass-reach-top-left", seed=0).save("pointmass-reach-bottom-right/medium-replay")
    data.list_()
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[:-1])) <= 80 and "…" not in "".join(lines)
    (row,) = (line.split() for line in lines if "medium-replay" in line)
    assert row[0] == made.name and row[1:3] == [str(made.episodes), str(made.size)] and row[4] == "±"
    assert float(row[3]) == pytest.approx(made.returns.mean(), rel=0.01)


def test_an_id_that_does_not_fit_is_broken_after_its_task(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    described = {"total_episodes": 100, "total_steps": 15000, "dataset_size": 2.1}
    described["utds"] = {"returns": {"mean": 1.8e-4, "std": 3.69e-4}}
    names = "walker-walk/medium", "pointmass-reach-bottom-right/medium-replay"
    terminal.show(summary.listing([(name, described) for name in names]))
    fits, task, kind = (line.split() for line in capsys.readouterr().out.splitlines()[3:6])
    assert fits == ["walker-walk/medium", "100", "15000", "0.00018", "±", "0.000369", "2.1"]
    assert (task[0], kind) == ("pointmass-reach-bottom-right/", ["medium-replay"])


def test_json(stored, capsys):
    data.list_(json=True)
    first, second = json.loads(capsys.readouterr().out)
    assert (first["id"], second["kind"]) == ("pointmass-reach-top-left/random", "random")
    assert first["return_mean"] == pytest.approx(stored[0].returns.mean()) and first["digest"] == stored[0].digest
    data.show(stored[0].name, json=True)
    shown = json.loads(capsys.readouterr().out)
    assert shown["returns"] == pytest.approx(stored[0].returns) and shown["columns"][0]["column"] == "observations"
    data.verify((stored[0].name,), json=True)
    assert json.loads(capsys.readouterr().out)[0]["digest"] == stored[0].digest


def test_returns_of_a_dataset_that_an_earlier_version_wrote(stored, capsys, root):
    path = next(root.rglob("pointmass-reach-top-left/random-v0/data/metadata.json"))
    described = json.loads(path.read_text())
    del described["utds"]["returns"]
    path.write_text(json.dumps(described))
    data.list_(json=True)
    assert json.loads(capsys.readouterr().out)[0]["return_mean"] == pytest.approx(stored[0].returns.mean())


def test_a_dataset_that_can_be_generated_is_missed_with_the_command(root):
    with pytest.raises(DataError, match="make it with: utds data generate walker-walk --kinds medium"):
        store.load("walker-walk/medium")
    with pytest.raises(DataError, match="see: utds data list"):
        store.load("walker-walk/mine")


def test_show(stored, capsys):
    data.show("pointmass-reach-top-left/random")
    printed = capsys.readouterr().out
    for word in ("seed", "mujoco", "task_rewards", "float64", "█", "returns of the episodes"):
        assert word in printed


def test_show_with_an_experts_return_alone(coded, capsys):
    coded(0, [3], expert_return=9).save("coded/partly")
    data.show("coded/partly")
    assert "reference" not in capsys.readouterr().out


def test_picture_counts_every_episode():
    lines = picture(np.array([0.0] * 5 + [120.0] * 10)).plain.splitlines()
    assert lines[0] == "returns of the episodes: mean 80, median 120, standard deviation 56.57"
    assert len(lines) == 13
    assert lines[1].split()[-2:] == ["█" * 20, "5"] and lines[-1].split()[-2:] == ["█" * 40, "10"]
    assert sum(int(line.split()[-1]) for line in lines[1:]) == 15
    assert picture(np.ones(3)).plain.endswith("all 3 are 1")
    assert picture(np.array([1.0, 1.0 + 2e-16])).plain.endswith("all 2 are 1")  # too near for intervals
    assert "3e-13  █" in picture(np.array([1e-13, 3e-13])).plain  # small is not near


def test_verify(stored, capsys):
    data.verify(("pointmass-reach-top-left/random", "pointmass-reach-top-right/random"))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and all("7 columns right, rewards within" in line for line in lines)
    with pytest.raises(ConfigError, match="at least one"):
        data.verify(())


def test_export_and_import(stored, capsys, tmp_path):
    data.export("pointmass-reach-top-left/random", str(tmp_path / "episodes"))
    data.export("pointmass-reach-top-left/random", str(tmp_path / "all.npz"))
    data.import_((str(tmp_path / "episodes"), "pointmass-reach-top-left/folder"), task="pointmass-reach-top-left")
    data.import_((str(tmp_path / "all.npz"), "pointmass-reach-top-left/file"), task="pointmass-reach-top-left")
    data.import_(("utds/pointmass-reach-top-left/random-v0", "top-left/minari"), format="minari")
    for name in ("pointmass-reach-top-left/folder", "pointmass-reach-top-left/file", "top-left/minari"):
        assert np.array_equal(store.load(name).rewards, stored[0].rewards)
    assert store.load("pointmass-reach-top-left/file").metadata.kind == "file"
    assert store.load("pointmass-reach-top-left/file").metadata.domain == "pointmass"
    with pytest.raises(ConfigError, match="pairs of a source and the id"):
        data.import_((str(tmp_path / "episodes"),))
    with pytest.raises(DataError, match="exists already"):
        data.import_((str(tmp_path / "all.npz"), "a/b", str(tmp_path / "all.npz"), "pointmass-reach-top-left/file"))
    with pytest.raises(DataError, match="no dataset a/b"):  # nothing was stored
        store.load("a/b")


@pytest.mark.parametrize(
    ("id", "shown"),
    [
        ("utds/pointmass-reach-top-left/full", "pointmass-reach-top-left/full"),
        ("pointmass-reach-top-left/full-v0", "pointmass-reach-top-left/full"),
        ("utds/pointmass-reach-top-left/full-v1", "pointmass-reach-top-left/full-v1"),
    ],
)
def test_full_ids_and_versions_name_the_same_task_and_kind(stored, capsys, tmp_path, id, shown):
    data.export("pointmass-reach-top-left/random", str(tmp_path / "all.npz"))
    capsys.readouterr()
    data.import_((str(tmp_path / "all.npz"), id), json=True)
    found, (printed,) = store.load(shown), json.loads(capsys.readouterr().out)
    assert found.name == shown and printed["digest"] == found.digest
    meta = found.metadata
    assert (meta.task, meta.domain, meta.kind) == ("pointmass-reach-top-left", "pointmass", "full")


def test_what_was_imported_is_named_brackets_and_all(root, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    rows = ["episode,position[x],position[y],u,r", *(f"{e},{t},{t},0.5,{t / 7}" for e in range(2) for t in range(5))]
    (tmp_path / "log[a].csv").write_text("\n".join(rows))
    columns = ("observations=position*", "actions=u", "episode=episode", "reward=r")
    data.import_(("log[a].csv", "cart-right/logs"), columns=columns, actions="-12:12", dry_run=True)
    out = capsys.readouterr().out
    assert "observations: position[x] position[y]" in out and "log[a].csv" in out


def test_relabel(stored, capsys, tmp_path):
    id, task = "pointmass-reach-top-left/random", "pointmass-reach-top-right"
    data.relabel(id, task, save="pointmass-reach-top-right/shared")
    assert "40 transitions labelled" in capsys.readouterr().out
    kept = store.load("pointmass-reach-top-right/shared")
    index = kept.metadata.task_names.index(task)
    assert np.array_equal(kept.rewards, stored[0].task_rewards[:, index]) and kept.metadata.task == task
    code = tmp_path / "mine.py"
    code.write_text("def reward(s, a, t):\n    return t[:, 0]\n")
    data.relabel(id, "mine", rewards=f"{code}:reward", save="mine/first")
    assert np.array_equal(store.load("mine/first").rewards, stored[0].observations[stored[0].rows + 1, 0])


def test_relabel_tells_how_sure_a_learned_reward_is(stored, capsys, monkeypatch):
    fit = LearnedReward.fit
    monkeypatch.setattr(LearnedReward, "fit", lambda self, main: fit(replace(self, steps=20, hidden=(8,)), main))
    data.relabel(stored[0].name, "pointmass-reach-top-right", rewards="learned", main=stored[1].name)
    printed = capsys.readouterr().out.replace("\n", " ")
    for words in ("kept aside: correlation", "doubt about", "correlation with the true rewards"):
        assert words in printed


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"rewards": "guess"}, ConfigError, "use known, learned, zero, a goal"),
        ({"rewards": "learned"}, ConfigError, "needs data of pointmass-reach-top-right"),
        ({"penalty": 1.0}, ConfigError, "is for learned rewards"),
        ({"rewards": "learned", "main": "pointmass-reach-top-left/random"}, ConfigError, "carries rewards of"),
        ({"rewards": "absent.py:reward"}, DataError, "is no Python file"),
    ],
)
def test_relabel_refuses(stored, changes, error, message):
    with pytest.raises(error, match=message):
        data.relabel("pointmass-reach-top-left/random", "pointmass-reach-top-right", **changes)
