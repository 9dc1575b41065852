"""`--json`: every command has it, and stdout then holds one JSON document that says what was made."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from utds import cli, evaluation
from utds.linear import page
from utds.linear.statements import pseudocounts

OWN, OTHER = "tinymass-reach-top-left", "tinymass-reach-top-right"
DATA = f"{OWN}/random"
SMALL = ["--set", "width=8", "layers=1", "batch_size=8"]
COLLECT = "--steps=320 --copies=4 --warmup=160 --batch-size=32 --width=16 --evaluate-every=320 --evaluation-episodes=2"
MATRIX = f"""
tasks = ["{OWN}"]
kinds = ["random"]
columns = ["single"]
algorithms = ["bc"]
preset = "paper"
steps = 4
episodes = 2
fields = {{width = 8, layers = 1}}
"""


@pytest.fixture
def folder(tiny, record, tmp_path, monkeypatch) -> Path:
    """The working folder of a command, with a dataset stored."""
    monkeypatch.chdir(tmp_path)
    record(tiny, OWN)
    return tmp_path


@pytest.fixture
def run(folder, capsys) -> str:
    """A policy that was hardly trained."""
    cli.main(["train", DATA, "--algo=bc", "--steps=4", "--episodes=2", "--out=run", *SMALL])
    capsys.readouterr()
    return "run"


def printed(capsys, *args: str) -> Any:
    cli.main([*args, "--json"])
    return json.loads(capsys.readouterr().out)


def at(found: Any, path: str) -> Any:
    """`datasets.0.id` of a document."""
    for key in path.split("."):
        found = found[int(key) if isinstance(found, list) else key]
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("data generate pointmass-reach-top-left --kinds random --episodes 2",
         {"0.id": "pointmass-reach-top-left/random", "0.episodes": 2}),
        (f"data export {DATA} out.npz", {"id": DATA, "episodes": 3, "steps": 120, "target": "out.npz"}),
        (f"relabel {DATA} {OTHER}", {"from": DATA, "task": OTHER, "id": None, "digest": None, "notes": []}),
        (f"relabel {DATA} {OTHER} --save {OTHER}/shared", {"id": f"{OTHER}/shared", "episodes": 3, "steps": 120}),
        (f"collect {OTHER} {COLLECT} --kinds uniform --episodes 2 --ladder rungs",
         {"folder": f"collections/{OTHER}-0", "ladder": "rungs", "datasets.0.id": f"{OTHER}/uniform"}),
        ("benchmark run little.toml --workers 1",
         {"folder": "runs/little", "parts.0.name": "little", "parts.0.done": 1, "parts.0.failed": 0}),
        ("theory --out out --size 0.04",
         {"page": "out/index.html", "statements.0.title": pseudocounts.TITLE, "statements.0.holds": True}),
    ],
)  # fmt: skip
def test_what_was_made(line, expected, folder, capsys, monkeypatch):
    (folder / "little.toml").write_text(MATRIX)
    monkeypatch.setattr(page, "STATEMENTS", (pseudocounts,))
    found = printed(capsys, *line.split())
    assert {name: at(found, name) for name in expected} == expected


def test_what_is_made_of_a_run(run, folder, capsys, monkeypatch):
    found = printed(capsys, "export", run, "policy.onnx")
    assert found["file"] == "policy.onnx" and found["seed"] == 0 and (folder / "policy.onnx").is_file()

    found = printed(capsys, "report", run, "-o", "page.html", "--csv", "all.csv")
    assert found["headline"] == "Nothing to compare sharing with" and found["verdict"] is None and found["runs"] == 1
    assert found["written"] == ["page.html", "all.csv"]

    films: list[Path] = []
    monkeypatch.setattr(evaluation, "video", lambda act, task, path, seed: films.append(path) or 1.0)
    assert len(printed(capsys, "evaluate", run, "--episodes=2", "--video=film.mp4")[run]["returns"]) == 2
    assert films == [Path("film.mp4")]

    (row,) = printed(capsys, "runs", "remove", run)
    assert row["run"] == run and row["bytes"] > 0 and not row["removed"] and (folder / run).exists()
    assert printed(capsys, "runs", "remove", run, "--yes")[0]["removed"] and not (folder / run).exists()


def test_a_theory_that_fails_says_so_and_ends_with_exit_code_1(folder, capsys, monkeypatch):
    monkeypatch.setattr(page, "STATEMENTS", (pseudocounts,))
    facts = pseudocounts.facts
    monkeypatch.setattr(pseudocounts, "facts", lambda found: [replace(fact, holds=False) for fact in facts(found)])
    with pytest.raises(SystemExit) as exit:
        cli.main(["theory", "--out", "out", "--size=0.04", "--json"])
    (statement,) = json.loads(capsys.readouterr().out)["statements"]
    assert exit.value.code == 1 and not statement["holds"]
