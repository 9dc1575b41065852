"""`utds doctor` says what is there, what is missing, and how to get it."""

import json
import subprocess
import sys

import pytest

from utds import doctor
from utds.cli import main

RUN = subprocess.run


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    """No pictures are drawn, and the store is an empty folder that doesn't exist yet."""
    monkeypatch.setattr(doctor.subprocess, "run", lambda *args, **given: subprocess.CompletedProcess(args, 1))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "a" / "datasets"))


def checks():
    return {check.name: check for check in doctor.examine()}


def test_what_is_there(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setitem(doctor.EXTRAS, "wandb", (("nosuchmodule",), "logging"))
    main(["doctor"])
    out = capsys.readouterr().out
    assert "mujoco 3.17" in out and "0 datasets" in checks()["store"].found and "pip install 'utds[wandb]'" in out
    assert "…" not in out and max(map(len, out.splitlines())) <= 80
    main(["doctor", "--json"])
    found = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert found["libraries"]["state"] == "ok" and found["devices"]["found"]
    assert found["EGL"]["remedy"].startswith("apt install libegl1")


def test_a_missing_extra_is_optional(monkeypatch):
    find = doctor.importlib.util.find_spec
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None if name == "onnx" else find(name))
    assert checks()["extra onnx"] == doctor.Check("extra onnx", "optional", "utds export", "pip install 'utds[onnx]'")


def test_a_missing_library_is_an_error(monkeypatch):
    monkeypatch.setattr(doctor, "LIBRARIES", ("numpy", "nosuchlibrary"))
    assert "not installed: nosuchlibrary" in checks()["libraries"].found
    with pytest.raises(SystemExit) as exit:
        main(["doctor"])
    assert exit.value.code == 1


@pytest.mark.parametrize("name", ["jax", "mujoco"])
def test_a_library_that_cannot_be_imported_is_named(name):
    code = f"import sys; sys.modules['{name}'] = None; from utds import doctor; doctor.PICTURES = {{}}\n"
    code += "for check in doctor.examine(): print(check.state, check.name, check.found, check.remedy)"
    done = RUN([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("missing libraries"))
    assert f"{name} " in line and "can't be imported: import of" in line and f"--force-reinstall {name}" in line


def test_a_store_that_is_a_file(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "file" / "x"))
    found = checks()["store"]
    assert found.state == "missing" and "MINARI_DATASETS_PATH" in found.remedy


def test_a_gpu_that_jax_does_not_see(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/bin/{name}")
    found = checks()
    assert found["devices"].remedy == "pip install 'utds[cuda]'" and found["browser"].state == "ok"
