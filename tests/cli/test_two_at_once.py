"""Two commands on the same run, dataset, collection or matrix: one works, the other says in one line who does."""

import os
import subprocess
import sys

import numpy as np
import pytest

from utds.cli import main
from utds.data import ids

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
def dataset(tiny, record) -> str:
    return record(tiny, TASK)


@pytest.fixture
def arrays(tmp_path) -> str:
    """A file to import."""
    zeros = {"observations": np.zeros((3, 4)), "actions": np.zeros((2, 2)), "rewards": np.zeros(2)}
    np.savez(tmp_path / "arrays.npz", **zeros)
    return str(tmp_path / "arrays.npz")


def test_the_second_is_told_who_holds_it(dataset, arrays, tmp_path, capsys, refused):
    (tmp_path / "little.toml").write_text(MATRIX)
    medium, hidden = f"{TASK}/medium", ids.folder(f"{TASK}/medium").with_name(".medium-v0.lock")
    run, collection, other, matrix = (tmp_path / name for name in ("run", "collection", "other", "matrix"))
    collect = ("collect", TASK, "--steps=20000")
    busy = [
        (f"the run {run}", ("train", dataset, f"--out={run}")),
        (f"the collection {collection}", (*collect, "--kinds", "expert", f"--out={collection}")),
        (f"the dataset {medium}", (*collect, "--kinds", "medium", f"--out={other}")),
        (f"the dataset {medium}", ("data", "import", arrays, medium)),
        (f"the dataset {medium}", ("relabel", dataset, TASK, "--save", medium)),
        (f"the matrix {matrix}", ("benchmark", "run", tmp_path / "little.toml", f"--out={matrix}")),
    ]
    command = [sys.executable, "-c", HOLD, *(str(path / "lock") for path in (run, collection, matrix)), str(hidden)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        by = f"is in use by process {holder.pid} on {os.uname().nodename} since"
        for what, args in busy:
            assert refused(*args).startswith(f"{what} {by}")
        holder.kill()
    assert not other.exists() and list(run.iterdir()) == [run / "lock"]  # nothing was begun
    main(["data", "import", arrays, medium])  # the dead hold nothing
    assert medium in capsys.readouterr().out


def test_what_is_stored_is_refused_before_anything_is_computed(dataset, arrays, tmp_path, refused, monkeypatch):
    monkeypatch.setattr("utds.collection.online.Collection.run", pytest.fail)
    monkeypatch.setattr("utds.collection.kinds.generate", pytest.fail)
    monkeypatch.setattr("utds.collection.kinds.load_ladder", lambda *_: None)
    monkeypatch.setattr("utds.data.labelling.relabel", pytest.fail)
    known = f"{TASK}/random exists already; choose another id or version, or pass --overwrite to replace it"
    assert refused("collect", TASK, "--kinds", "medium", "random", f"--out={tmp_path / 'c'}") == known
    assert not (tmp_path / "c").exists()
    assert refused("data", "generate", TASK) == known
    assert refused("data", "import", arrays, dataset) == known
    assert refused("relabel", dataset, TASK, "--save", dataset) == known
    assert "at least 2" in refused("collect", TASK, "--episodes=1")
    assert "warm-up of 10000" in refused("collect", TASK, "--steps=400", "--kinds", "expert", f"--out={tmp_path}")


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
def test_ids_are_no_patterns(tiny, pattern, tmp_path, refused):
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
        assert refused(*args)
