"""Atomic writing, and pytrees on disk."""

import json
import os
import resource
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from utds import files, serialization
from utds.errors import ConfigError, DataError


class Pair(NamedTuple):
    left: object
    right: object


def test_a_failure_leaves_the_old_file_and_no_trace(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), files.atomic(path) as part:
        part.write_text("new")
        raise RuntimeError
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_a_folder_takes_the_place_of_a_folder(tmp_path):
    for text in ("one", "two"):
        with files.atomic(tmp_path / "d") as part:
            part.mkdir()
            (part / "x").write_text(text)
    assert (tmp_path / "d" / "x").read_text() == "two" and os.listdir(tmp_path) == ["d"]


@pytest.mark.parametrize("name", ["lock", "new", "replaced", "obsolete"])
def test_any_name_will_do(tmp_path, name):
    for text in ("one", "two"):
        with files.atomic(tmp_path / name) as part:
            part.mkdir()
            (part / "x").write_text(text)
        with pytest.raises(RuntimeError), files.atomic(tmp_path / name) as part:
            part.mkdir()
            raise RuntimeError
        assert (tmp_path / name / "x").read_text() == text and os.listdir(tmp_path) == [name]


def test_json_errors_are_one_line(tmp_path):
    with pytest.raises(DataError, match="No such file"):
        files.read_json(tmp_path / "none.json")
    (tmp_path / "cut.json").write_text('{"a": 1')
    with pytest.raises(DataError, match=r"no valid JSON .line 1"):
        files.read_json(tmp_path / "cut.json")
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(tmp_path / "nan.json", float("nan"))
    assert os.listdir(tmp_path) == ["cut.json"]


def test_trees_round_trip(tmp_path):
    tree = {"a": Pair(jnp.arange(6.0).reshape(2, 3), (jnp.int32(3), None)), "b": np.float16(0.5)}
    serialization.save(tmp_path / "t.safetensors", tree, {"note": "§"})
    found, meta = serialization.load(tmp_path / "t.safetensors", tree)
    assert meta == {"note": "§"} and isinstance(found["a"], Pair) and found["a"].right[1] is None
    np.testing.assert_array_equal(found["a"].left, tree["a"].left)
    assert found["a"].right[0] == 3 and found["b"] == np.float16(0.5)


def test_trees_say_what_does_not_fit(tmp_path):
    path = tmp_path / "t.safetensors"
    serialization.save(path, {"a": np.zeros(3, np.float32)})
    assert serialization.load(path, {"a": np.zeros(3, np.float16)})[0]["a"].dtype == np.float16
    with pytest.raises(DataError, match="lacks the array b"):
        serialization.load(path, {"a": np.zeros(3), "b": np.zeros(1)})
    with pytest.raises(DataError, match=r"shape \(3,\), expected \(4,\)"):
        serialization.load(path, {"a": np.zeros(4)})
    with pytest.raises(DataError, match="holds float32, expected int32"):
        serialization.load(path, {"a": np.zeros(3, np.int32)})
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DataError, match="cut short or altered"):
        serialization.load(path, {"a": np.zeros(3, np.float32)})
    with pytest.raises(DataError, match="No such file"):
        serialization.read(tmp_path / "none")


@pytest.mark.parametrize(
    ("dtype", "meta", "message"),
    [
        ("F8_E4M3", "{}", "no readable safetensors file"),  # a type that NumPy doesn't have
        ("F32", "[]", r"the metadata beside the arrays are \[\], no table"),
    ],
)
def test_an_altered_file_of_arrays_is_one_line(dtype, meta, message, tmp_path):
    array = {"dtype": dtype, "shape": [8 if dtype.startswith("F8") else 2], "data_offsets": [0, 8]}
    written = json.dumps({"__metadata__": {"utds": meta}, "a": array}).encode()
    (tmp_path / "t.safetensors").write_bytes(len(written).to_bytes(8, "little") + written + bytes(8))
    with pytest.raises(DataError, match=message):
        serialization.read(tmp_path / "t.safetensors")


def test_a_disk_without_room_is_one_line(tmp_path):
    """As with a full disk: no file may grow beyond a kilobyte."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(DataError, match=r"could not write .*t\.safetensors: File too large"):
            serialization.save(tmp_path / "t.safetensors", np.zeros(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path) == []


def test_safetensors_files_are_plain(tmp_path):
    """Eight bytes of length, JSON, numbers: nothing in them can run."""
    serialization.save(tmp_path / "t.safetensors", {"a": np.float32([1, 2])})
    raw = (tmp_path / "t.safetensors").read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    assert header["a"]["dtype"] == "F32" and np.frombuffer(raw[-8:], np.float32).tolist() == [1, 2]


def test_what_cannot_be_written_is_refused_before_work_and_leaves_no_trace(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file", tmp_path / "new.txt", tmp_path / "a" / "b" / "new.txt"):
        files.check_file(path)
    for path in (tmp_path / "folder", tmp_path / "a" / "b"):
        files.check_folder(path)
    wrong = {
        files.check_file: [tmp_path / "folder", tmp_path / "file" / "x", Path("/dev/null"), tmp_path / ("x" * 300)],
        files.check_folder: [tmp_path / "file", tmp_path / "file" / "x", Path("/proc/nope/x"), Path("/dev/null")],
    }
    for check, paths in wrong.items():
        for path in paths:
            with pytest.raises(DataError, match=f"could not write (to )?{path}: "):
                check(path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "old"
    with pytest.raises(DataError, match="is a device or a pipe"), files.atomic("/dev/null"):
        pass
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f():\n    import nowhere\n\nf()\n", ", line 2: ModuleNotFoundError: No module named 'nowhere'"),
        ("x = (\n", ", line 1: SyntaxError: '(' was never closed"),
        ("from utds.errors import DataError\nraise DataError('no\\nsuch')\n", ", line 2: no such"),
    ],
)
def test_a_file_of_ones_own_that_raises_is_named_with_its_line(tmp_path, monkeypatch, code, message):
    path = tmp_path / "mine.py"
    path.write_text(code)
    monkeypatch.setenv("UTDS_ALGORITHMS", os.path.relpath(path))
    with pytest.raises(ConfigError) as caught:
        files.run_named("UTDS_ALGORITHMS")
    assert str(caught.value) == f"UTDS_ALGORITHMS: {os.path.relpath(path)}{message}"
