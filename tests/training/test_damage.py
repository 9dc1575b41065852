"""Damaged run directories: one line that names the file, whatever was edited, cut or lost; never another exception."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
import safetensors.numpy

from utds import report
from utds.algorithms import TD3BC
from utds.errors import DataError, Error
from utds.training import Run, overview, run_files, train
from utds.training.run_files import COUNT, NON_NEGATIVE, TEXT, Maybe, check

LEARNER = TD3BC(width=4, layers=1, batch_size=8)
OPTIONS = {"eval_every": 10, "log_every": 5, "checkpoint_every": 10}
NESTED = "[" * 100_000


def scores(act) -> dict[str, float]:
    return {"return": 1.0, "standard_error": 0.5}


@pytest.fixture(scope="module")
def whole(pool, tmp_path_factory) -> Path:
    return train(pool, LEARNER, steps=10, out=tmp_path_factory.mktemp("run") / "run", evaluate=scores, **OPTIONS).path


def edit(name: str, **fields):
    """A change of a JSON file's fields; of those inside others by a__b, removed where the value is `...`."""

    def harm(run: Path) -> None:
        found = json.loads((run / name).read_text())
        for field, value in fields.items():
            *outer, last = field.split("__")
            inner = found
            for part in outer:
                inner = inner[int(part) if part.isdigit() else part]
            if value is ...:
                del inner[last]
            else:
                inner[last] = value
        (run / name).write_text(json.dumps(found))

    return harm


def text(name: str, content: str | bytes):
    return lambda run: (run / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def without_meta(run: Path) -> None:
    arrays = safetensors.numpy.load_file(run / "checkpoint.safetensors")
    safetensors.numpy.save_file(arrays, run / "checkpoint.safetensors")


def with_meta(meta: str):
    def harm(run: Path) -> None:
        arrays = safetensors.numpy.load_file(run / "checkpoint.safetensors")
        safetensors.numpy.save_file(arrays, run / "checkpoint.safetensors", metadata={"utds": meta})

    return harm


DAMAGES = {
    "config.json, algorithm missing": edit("config.json", algorithm=...),
    "config.json, seeds missing": edit("config.json", seeds=...),
    "config.json, sources missing": edit("config.json", sources=...),
    "config.json, seeds a number": edit("config.json", seeds=3),
    "config.json, seeds empty": edit("config.json", seeds=[]),
    "config.json, seeds of text": edit("config.json", seeds=["0"]),
    "config.json, seeds negative": edit("config.json", seeds=[-1]),
    "config.json, steps text": edit("config.json", steps="many"),
    "config.json, steps negative": edit("config.json", steps=-5),
    "config.json, steps true": edit("config.json", steps=True),
    "config.json, steps huge": edit("config.json", steps=10**30),
    "config.json, size negative": edit("config.json", observation_size=-3),
    "config.json, size a fraction": edit("config.json", action_size=1.5),
    "config.json, sources a table": edit("config.json", sources={}),
    "config.json, a source without its digest": edit("config.json", sources__0__digest=...),
    "config.json, algorithm a word": edit("config.json", algorithm="td3bc"),
    "config.json, algorithm unknown": edit("config.json", algorithm__name="td5"),
    "config.json, a field unknown": edit("config.json", algorithm__fields__magic=1),
    "config.json, a field of another type": edit("config.json", algorithm__fields__width="wide"),
    "config.json, a field negative": edit("config.json", algorithm__fields__width=-4),
    "config.json, a field NaN": edit("config.json", algorithm__fields__discount=float("nan")),
    "config.json, a field of objects": edit("config.json", algorithm__fields__width={"a": 1}),
    "config.json, a field of half a character": edit("config.json", algorithm__fields__width="\ud800"),
    "config.json, task of half a character": edit("config.json", task="\ud800"),
    "config.json, rewards a list": edit("config.json", rewards=[]),
    "config.json, weights a number": edit("config.json", weights=1),
    "config.json, action_low of text": edit("config.json", action_low=["-1"]),
    "config.json, divergence far below 0": edit("config.json", divergence=-(10**400)),
    "config.json, a folder": lambda run: ((run / "config.json").unlink(), (run / "config.json").mkdir()),
    "config.json, divergence infinite": edit("config.json", divergence=float("inf")),
    "config.json, nested": text("config.json", NESTED),
    "config.json, a number of many digits": text("config.json", '{"steps": ' + "9" * 5000 + "}"),
    "config.json, cut": text("config.json", '{"algorithm": {"na'),
    "config.json, binary": text("config.json", b"\x00\xff\xfe\x80"),
    "result.json, a list": text("result.json", "[1]"),
    "result.json, steps null": edit("result.json", steps=None),
    "result.json, evaluation of numbers": edit("result.json", evaluation={"return": 3}),
    "result.json, a mean of text": edit("result.json", evaluation__return__mean="high"),
    "result.json, returns of text": edit("result.json", evaluation__return__seeds=["1"]),
    "result.json, nested": text("result.json", '{"steps": ' + NESTED),
    "metrics.csv, a folder": lambda run: ((run / "metrics.csv").unlink(), (run / "metrics.csv").mkdir()),
    "metrics.csv, binary": text("metrics.csv", b"step,seed\n\xff\xfe\x00,1\n"),
    "metrics.csv, a huge field": text("metrics.csv", "step,seed,x\n5,0," + "1" * 200_000 + "\n"),
    "metrics.csv, step a word": text("metrics.csv", "step,seed,x\nfive,0,1\n"),
    "metrics.csv, step NaN": text("metrics.csv", "step,seed,x\nnan,0,1\n"),
    "metrics.csv, a value of text": text("metrics.csv", "step,seed,x\n5,0,no\n"),
    "metrics.csv, a row too short": text("metrics.csv", "step,seed,x\n5,0\n"),
    "metrics.csv, no header": text("metrics.csv", "5,0,1\n10,0,1\n"),
    "evaluations.csv, a quote": text("evaluations.csv", 'step,seed,return\n5,0,"1\n'),
    "evaluations.csv, negative": text("evaluations.csv", "step,seed,return\n-5,0,1\n"),
    "evaluations.csv, an empty line": text("evaluations.csv", "step,seed,return\n\n5,0,1\n"),
    "checkpoint.safetensors, without metadata": without_meta,
    "checkpoint.safetensors, seeds a number": with_meta('{"step": 10, "seeds": 0}'),
    "checkpoint.safetensors, step negative": with_meta('{"step": -10, "seeds": [0]}'),
    "checkpoint.safetensors, metadata a list": with_meta("[]"),
    "checkpoint.safetensors, metadata nested": with_meta(NESTED),
    "checkpoint.safetensors, cut": lambda run: text(
        "checkpoint.safetensors", (run / "checkpoint.safetensors").read_bytes()[:-40]
    )(run),
    "provenance.json, a list": text("provenance.json", "[]"),
    "policy-0.safetensors, empty": text("policy-0.safetensors", b""),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_run_is_one_line_that_names_the_file(name, whole, pool, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "run")
    DAMAGES[name](folder)
    said = []
    uses = (
        lambda: Run(folder).metrics,
        lambda: Run(folder).evaluations,
        lambda: Run(folder).result,
        lambda: Run(folder).policy(),
        lambda: train(pool, LEARNER, steps=15, out=folder, evaluate=scores, resume=True, **OPTIONS),
    )
    for use in uses:
        try:
            use()
        except Error as error:
            said.append(str(error))
    assert any(name.partition(",")[0] in line for line in said), said
    assert all("\n" not in line and len(line) < 600 for line in said)


def test_a_run_without_its_domain_is_reported(whole, tmp_path):
    """It is one of data that no simulator knows, as runs of earlier versions were."""
    folder = shutil.copytree(whole, tmp_path / "run")
    edit("config.json", domain=..., sampling=None)(folder)
    assert (Run(folder).config["domain"], Run(folder).config["sampling"]) == (None, "transitions")
    (result,) = report.study([folder]).results
    assert result.path == folder


@pytest.mark.parametrize("name", [name for name in DAMAGES if name.startswith(("config", "result", "evaluations"))])
def test_a_report_goes_on_without_a_damaged_run(name, whole, tmp_path):
    for copy in ("good", "bad"):
        shutil.copytree(whole, tmp_path / copy)
    DAMAGES[name](tmp_path / "bad")
    assert tmp_path / "good" in {result.path for result in report.study([tmp_path]).results}
    assert {row["run"]: row["state"] for row in overview.find(tmp_path)}[str(tmp_path / "good")] == "finished"


def test_a_line_cut_short_does_not_count(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "run")
    before = Run(folder).metrics
    with open(folder / "metrics.csv", "a") as file:
        file.write("15,0,0.2")
    assert Run(folder).metrics == before


def test_links_are_not_followed_and_unreadable_folders_are_named(whole, tmp_path, capsys, monkeypatch):
    shutil.copytree(whole, tmp_path / "walk")
    (tmp_path / "latest").symlink_to(tmp_path / "walk")
    (tmp_path / "locked").mkdir()
    scandir = os.scandir

    def refuse(path):
        if Path(path).name == "locked":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert list(run_files.folders(tmp_path)) == [tmp_path / "walk"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"warning: could not look for runs in {tmp_path / 'locked'}: Permission denied"
    assert list(run_files.folders(tmp_path / "latest")) == [tmp_path / "latest"]  # one that is named itself


def test_the_validator_names_the_field():
    schema = {"a": {"b": [NON_NEGATIVE]}, "c": Maybe(TEXT), "n": COUNT}
    check({"a": {"b": [1.5]}, "n": 0, "unknown": [1]}, schema, "file")
    check({"a": {"b": [1, 1e300]}, "c": None, "n": 3}, schema, "file")
    for value, says in (
        ({"a": {"b": [1.0, -2.0]}, "n": 0}, r"file: a\.b\[1\] is -2\.0, where it must be a number of 0 or more"),
        ({"a": {}, "n": 0}, r"file lacks the field a\.b"),
        ({"a": {"b": [1]}, "c": 4, "n": 0}, "file: c is 4, where it must be text"),
        ({"a": {"b": [1]}, "n": 1.5}, "file: n is 1.5, where it must be a whole number"),
        ({"a": {"b": [10**400]}, "n": 0}, r"file: a\.b\[0\] is 1000"),
        ([], "file: the whole is of type list"),
    ):
        with pytest.raises(DataError, match=says):
            check(value, schema, "file")
