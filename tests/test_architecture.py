"""The package's structure: dependencies point to the left, and no imports run in circles.

`ROOMS` is the order from docs/architecture.md. A module may import its own room and rooms to the left, wherever in the
file the import stands. Imports inside functions count in circles too; imports for type checkers alone don't.
"""

import ast
from collections.abc import Collection, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"

ROOMS = (  # those of one row don't know each other
    ("version", "errors"),
    ("files", "terminal", "html"),
    ("figures",),
    ("linear",),
    ("domains",),
    ("networks", "serialization"),
    ("data",),
    ("algorithms",),
    ("adviser",),
    ("evaluation",),
    ("export",),
    ("training",),
    ("collection",),
    ("uncertainty",),
    ("benchmark",),
    ("report", "quickstart", "doctor"),
    ("cli",),
    ("__main__",),
)

# Imports that point to the right all the same: (module, what it imports), each with the reason. Remove, don't add.
EXCEPTIONS = {
    ("utds.networks", "utds.data.pool"): "the type of a batch, for annotations only",
    ("utds.data.pool", "utds.adviser.dynamics"): 'weights="dynamics" of `share`: loaded when it is asked for',
}


# Imports inside functions that close a circle all the same, each with the reason. Remove, don't add.
CIRCLES = {
    ("utds.data.dataset", "utds.data.store"): "Dataset.save",
    ("utds.data.pool", "utds.adviser.dynamics"): 'weights="dynamics" of `share`, as above',
}

When = Literal["load", "call", "never"]  # never: a block for type checkers


class Import(NamedTuple):
    module: str  # that is imported
    when: When  # the importing module is loaded, or one of its functions called


@cache
def modules() -> dict[str, Path]:
    """Every module of the package, by its dotted name."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, source: str) -> Iterator[Import]:
    """What a module of that name imports from the package: modules where they are named, else their package."""

    def visit(node: ast.AST, outside: When) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            when = outside
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                when = "never"
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and outside == "load":
                when = "call"
            if isinstance(child, ast.Import):
                yield from (Import(alias.name, when) for alias in child.names if alias.name in modules())
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{name} imports relatively; write the whole name"
                for alias in child.names:
                    full = f"{child.module}.{alias.name}"
                    module = full if full in modules() else child.module
                    if module in modules():
                        yield Import(str(module), when)
            yield from visit(child, when)

    yield from visit(ast.parse(source), "load")


@cache
def graph() -> dict[str, list[Import]]:
    return {name: list(imports(name, path.read_text(encoding="utf-8"))) for name, path in modules().items()}


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def pointing_right(found: dict[str, list[Import]]) -> set[tuple[str, str]]:
    """(module, what it imports) wherever that isn't of the same room or of one to the left."""
    rank = {name: index for index, row in enumerate(ROOMS) for name in row}
    return {
        (name, target.module)
        for name, targets in found.items()
        for target in targets
        if room(name) and room(target.module) and room(name) != room(target.module)
        if rank[room(target.module)] >= rank[room(name)]
    }


def circle(found: dict[str, list[Import]], allowed: Collection[tuple[str, str]] = ()) -> list[str]:
    """Modules that import each other in a circle, or nothing; `allowed` are imports inside functions that don't count.

    Loading a.b.c loads the packages a and a.b first, so these count as imported too, but for those that the importing
    module is part of itself.
    """
    needs = {}
    for name, targets in found.items():
        needs[name] = set()
        for target in targets:
            if target.when == "never" or (target.when == "call" and (name, target.module) in allowed):
                continue
            parts = target.module.split(".")
            loaded = {".".join(parts[:end]) for end in range(2, len(parts) + 1)}
            needs[name] |= {module for module in loaded if not f"{name}.".startswith(f"{module}.")}
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_every_room_has_its_place():
    assert {room(name) for name in modules()} - {""} == {name for row in ROOMS for name in row}


def test_dependencies_point_to_the_left():
    wrong = pointing_right(graph())
    assert wrong - set(EXCEPTIONS) == set()
    assert set(EXCEPTIONS) - wrong == set(), "these are mended: take them off the list"


def test_nothing_is_imported_in_a_circle():
    assert circle(graph(), CIRCLES) == []


@pytest.mark.parametrize("exception", CIRCLES, ids=" to ".join)
def test_every_circle_that_is_allowed_is_there(exception):
    assert circle(graph(), CIRCLES.keys() - {exception}), "it is mended: take it off the list"


def test_domains_and_algorithms_know_nothing_of_each_other():
    for one, other in (("domains", "algorithms"), ("algorithms", "domains"), ("linear", "domains")):
        assert not [
            (name, target.module)
            for name, targets in graph().items()
            for target in targets
            if room(name) == one and room(target.module) == other
        ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from utds.data import store", [("utds.data.store", "load")]),
        ("from utds.data.store import load", [("utds.data.store", "load")]),
        ("import numpy\nimport utds.files", [("utds.files", "load")]),
        ("def f():\n    from utds import cli", [("utds.cli", "call")]),
        ("if TYPE_CHECKING:\n    from utds.data.pool import Pool", [("utds.data.pool", "never")]),
    ],
)
def test_the_test_sees_imports(source, expected):
    assert list(imports("utds.x", source)) == expected


def test_the_test_sees_what_it_forbids():
    right = {"utds.domains.base": [Import("utds.data.store", "never")]}
    assert pointing_right(right) == {("utds.domains.base", "utds.data.store")}
    for when, closed in (("load", True), ("call", True), ("never", False)):
        around = {"utds.a": [Import("utds.b", "load")], "utds.b": [Import("utds.a", when)]}
        assert set(circle(around)) == ({"utds.a", "utds.b"} if closed else set())
        assert bool(circle(around, [("utds.b", "utds.a")])) == (when == "load")
    through_a_package = {"utds.a": [Import("utds.p.x", "load")], "utds.p": [Import("utds.a", "load")], "utds.p.x": []}
    assert set(circle(through_a_package)) == {"utds.a", "utds.p"}


def test_the_page_draws_the_same_order():
    text = next((ROOT / "docs").rglob("architecture.md")).read_text(encoding="utf-8")
    drawn = text[text.index("From left to right:") :].split("\n\n")[1]
    shown = [tuple(row.strip(" `\n").split(", ")) for row in drawn.replace("\n", " ").split("→")]
    assert shown == [row for row in ROOMS if row != ("__main__",)]
