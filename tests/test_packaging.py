"""What is said about the package in several places is the same in all of them."""

import re
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from utds.data import store
from utds.domains import base
from utds.errors import MissingExtra
from utds.version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DOI = "10.1016/j.artint.2023.104048"


def test_the_citation_is_of_this_version_and_of_one_paper():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, flags=re.MULTILINE)[1] == __version__
    assert f"doi: {DOI}" in citation
    assert f"doi     = {{{DOI}}}" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"https://doi.org/{DOI}" in PROJECT["urls"].values()


def test_the_classifiers_name_the_pythons_that_are_tested():
    named = {found[1] for line in PROJECT["classifiers"] if (found := re.search(r":: (3\.\d+)$", line))}
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert named == set(re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.*)\]", workflow)[1]))
    assert f">={min(named, key=lambda v: int(v[2:]))}" == PROJECT["requires-python"]


def pins():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


def asked_for():
    """Everything that pyproject.toml requires, extras included, whatever the Python."""
    groups = [
        PROJECT["dependencies"],
        *(PROJECT["optional-dependencies"][name] for name in ("dev", "docs", "onnx", "ray")),
    ]
    found = [Requirement(line) for group in groups for line in group]
    return [requirement for requirement in found if requirement.name != "utds"]


@pytest.mark.parametrize("requirement", asked_for(), ids=str)
def test_what_make_installs_is_pinned_within_the_bounds(requirement):
    (pin,) = [pin for pin in pins() if canonicalize_name(pin.name) == canonicalize_name(requirement.name)]
    (exact,) = pin.specifier
    assert exact.operator == "==" and requirement.specifier.contains(exact.version)
    assert {specifier.operator for specifier in requirement.specifier} & {">=", "=="}  # it has a lower bound


def test_dm_control_is_named_alike_everywhere():
    wanted = next(requirement for requirement in asked_for() if requirement.name == "dm_control")
    assert str(wanted.specifier) == f"=={base.VERSION}"
    assert set(re.findall(r"dm_control==([\d.]+\d)", (ROOT / "Makefile").read_text())) == {base.VERSION}


def test_without_dm_control_the_error_says_how_to_get_it_and_data_is_stored_all_the_same(monkeypatch):
    def missing(name, *_):
        raise ModuleNotFoundError(f"No module named {name!r}", name="dm_control")

    with monkeypatch.context() as patched:
        # In the place of the module's `importlib`, which is everybody's: others may import something meanwhile.
        patched.setattr(base, "importlib", SimpleNamespace(import_module=missing))
        with pytest.raises(MissingExtra, match=f"pip install --no-deps dm_control=={base.VERSION}$"):
            base.quiet_import("dm_control.suite.walker")
    monkeypatch.setattr("utds.data.store._LIBRARIES", ("numpy", "no-such-library"))
    assert store.versions.__wrapped__() == {"utds": __version__, "numpy": np.__version__}  # the others stay cached
