"""Two commands on the same run, dataset, collection or matrix: one works, the other says in one line who does."""

import functools
import os
import subprocess
import sys

import numpy as np
import pytest

from utds.cli import main
from utds.data import ids
from utds.data.dataset import Dataset

HOLD = """
import contextlib, sys
from utds import files
with contextlib.ExitStack() as held:
    for path in sys.argv[1:]:
        held.enter_context(files.lock(path, "it"))
    print("held", flush=True)
    input()
"""
MATRIX = """
tasks = ["tinymass-reach-top-left"]
kinds = ["random"]
columns = ["single"]
algorithms = ["bc"]
steps = 10
"""
TASK = "tinymass-reach-top-left"


@pytest.fixture
def dataset(tiny) -> str:
    random = np.random.default_rng(0)
    columns = random.normal(size=(41, 4)), random.uniform(-1, 1, (40, 2)), random.uniform(size=40)
    return Dataset.from_arrays(*columns, task=TASK, domain="tinymass", kind="random").save(f"{TASK}/random").name


@pytest.fixture
def arrays(tmp_path) -> str:
    """A file to import."""
    zeros = {"observations": np.zeros((3, 4)), "actions": np.zeros((2, 2)), "rewards": np.zeros(2)}
    np.savez(tmp_path / "arrays.npz", **zeros)
    return str(tmp_path / "arrays.npz")


def said(capsys, *args: object) -> str:
    """The one line that a command ends in with exit code 2."""
    with pytest.raises(SystemExit) as exit:
        main([str(arg) for arg in args])
    lines = capsys.readouterr().err.strip().splitlines()
    assert exit.value.code == 2 and len(lines) == 1, lines
    return lines[0].removeprefix("utds: error: ")


def test_the_second_is_told_who_holds_it(dataset, arrays, tmp_path, capsys):
    (tmp_path / "little.toml").write_text(MATRIX)
    medium = ids.folder(f"{TASK}/medium")
    locks = [tmp_path / name / "lock" for name in ("run", "collection", "matrix")] + [medium.parent / ".medium-v0.lock"]
    command = [sys.executable, "-c", HOLD, *map(str, locks)]
    say = functools.partial(said, capsys)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        by = f"is in use by process {holder.pid} on {os.uname().nodename} since"
        collect = ("collect", TASK, "--steps=20000")
        assert say("train", dataset, f"--out={tmp_path / 'run'}").startswith(f"the run {tmp_path / 'run'} {by}")
        assert say(*collect, "--kinds", "expert", f"--out={tmp_path / 'collection'}").startswith(
            f"the collection {tmp_path / 'collection'} {by}"
        )
        assert say(*collect, "--kinds", "medium", f"--out={tmp_path / 'other'}").startswith(
            f"the dataset {TASK}/medium {by}"
        )
        assert say("data", "import", arrays, f"{TASK}/medium").startswith(f"the dataset {TASK}/medium {by}")
        assert say("relabel", dataset, TASK, "--save", f"{TASK}/medium").startswith(f"the dataset {TASK}/medium {by}")
        assert say("benchmark", "run", tmp_path / "little.toml", f"--out={tmp_path / 'matrix'}").startswith(
            f"the matrix {tmp_path / 'matrix'} {by}"
        )
        holder.kill()
    assert not (tmp_path / "other").exists()
    assert list((tmp_path / "run").iterdir()) == [tmp_path / "run" / "lock"]  # nothing was begun
    main(["data", "import", arrays, f"{TASK}/medium"])  # the dead hold nothing
    assert f"{TASK}/medium" in capsys.readouterr().out


def test_what_is_stored_is_refused_before_anything_is_computed(dataset, arrays, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("utds.collection.online.Collection.run", pytest.fail)
    monkeypatch.setattr("utds.collection.kinds.generate", pytest.fail)
    monkeypatch.setattr("utds.collection.kinds.load_ladder", lambda *_: None)
    monkeypatch.setattr("utds.data.labelling.relabel", pytest.fail)
    refused = f"{TASK}/random exists already; choose another id or version, or pass --overwrite to replace it"
    assert said(capsys, "collect", TASK, "--kinds", "medium", "random", f"--out={tmp_path / 'c'}") == refused
    assert not (tmp_path / "c").exists()
    assert said(capsys, "data", "generate", TASK) == refused
    assert said(capsys, "data", "import", arrays, dataset) == refused
    assert said(capsys, "relabel", dataset, TASK, "--save", dataset) == refused
    assert "at least 2" in said(capsys, "collect", TASK, "--episodes=1")
    assert "warm-up of 10000" in said(capsys, "collect", TASK, "--steps=400", "--kinds", "expert", f"--out={tmp_path}")


def test_ctrl_c_says_how_to_go_on(monkeypatch, capsys):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tyro.extras.SubcommandApp.cli", interrupt)

    def said(*args: str) -> str:
        with pytest.raises(SystemExit) as exit:
            main(args)
        assert exit.value.code == 130
        return capsys.readouterr().err

    assert said("train", "a/b", "--set", "x=[1, 2]").endswith("resume with: utds train a/b --set 'x=[1, 2]' --resume\n")
    assert said("train", "a/b", "--resume").endswith("resume with: utds train a/b --resume\n")
    assert said("collect", "a-b", "--seed=1").endswith("resume with: utds collect a-b --seed=1\n")
    assert said("benchmark", "run", "m").endswith("resume with: utds benchmark run m\n")
    assert said("benchmark", "status", "m") == said("data", "list") == "utds: interrupted; what was written stays\n"


@pytest.mark.parametrize("pattern", ["[", "[z-a]", "*", "**", "a/[", "(", "\\", "?"])
def test_ids_are_no_patterns(tiny, pattern, tmp_path, capsys):
    for args in (
        ("data", "show", pattern),
        ("data", "verify", pattern),
        ("data", "export", pattern, tmp_path / "x"),
        ("data", "import", pattern, "a/b"),
        ("data", "import", "nowhere.npz", pattern),
        ("relabel", pattern, TASK),
        ("train", pattern),
        ("train", "a/b", "--share", pattern),
        ("advise", "a/b", "--from", pattern),
    ):
        assert said(capsys, *args)
