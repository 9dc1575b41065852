"""The command line's reference has every option of every command."""

import dataclasses
import inspect
import re
from pathlib import Path
from typing import get_args

import pytest
from tyro.extras import SubcommandApp

from utds import cli

HOOKS = Path(__file__).parents[2] / "docs" / "hooks"


@pytest.fixture
def reference(load_file):
    return load_file(HOOKS / "cli_reference.py")


def functions(app, words=()):
    """(words, function) of every command, from the table that the command line itself is made of."""
    for name, command in app._subcommands.items():
        if isinstance(command.target, SubcommandApp):
            yield from functions(command.target, (*words, name))
        else:
            yield (*words, name), command.target


def options(function):
    """The option of every parameter, None for those that have none; a dataclass stands for its fields."""
    for name, parameter in inspect.signature(function).parameters.items():
        kind = get_args(parameter.annotation)[0]
        if dataclasses.is_dataclass(kind):
            fields = dataclasses.fields(kind)
            found = {field.name: field.default is dataclasses.MISSING for field in fields}
        else:
            found = {name: parameter.kind is parameter.POSITIONAL_ONLY}
        yield from (None if bare else f"--{name.strip('_').replace('_', '-')}" for name, bare in found.items())


def test_every_parameter_of_every_command_is_listed_and_nothing_else(reference):
    found = {command.words: command for command in reference.commands()}
    expected = dict(functions(cli._app()))
    assert {words for words, command in found.items() if words and not command.subcommands} == set(expected)
    for words, function in expected.items():
        entries, wanted = found[words].entries, list(options(function))
        names = [name for entry in entries for name in re.findall(r"--(?!no-)[a-z-]+", entry.name) or [None]]
        assert sorted(map(str, names)) == sorted(map(str, wanted)), words
        assert all(entry.meaning for entry in entries), words


def test_an_entry_has_its_meaning_and_default(reference):
    text = (
        "usage: utds count [-h] [COUNT OPTIONS] ID\n\nCount.\n\nExample: utds count a/b\n\n"
        "╭─ positional arguments ──╮\n│ ID    what (required)   │\n╰─────────────────────────╯\n"
        "╭─ options ───────────────╮\n"
        "│ -h, --help  show this help message and exit │\n"
        "│ --to INT                │\n"
        "│             how far; up  │\n"
        "│ --by INT    in steps (of this size) (default: 2) │\n"
        "│ ─────────────────────── │\n"
        "│ --at STR …              │\n"
        "│             where │\n"
        "│ --on, --off  on;         │\n"
        "│             or off (default: False) │\n"
        "╰─────────────────────────╯\n"
        "╭─ more options ──────────╮\n"
        "│ what these are of       │\n"
        "│ ─────────────────────── │\n"
        "╰─────────────────────────╯\n"
    )
    command = reference.parse(("count",), text)
    assert (command.description, command.examples) == ("Count.", ("utds count a/b",))
    assert [(e.name, e.meaning, e.default) for e in command.entries] == [
        ("ID", "what", None),
        ("--to INT", "how far; up", ""),
        ("--by INT", "in steps (of this size)", "2"),
        ("--at STR …", "where", ""),
        ("--on, --off", "on; or off", "False"),
    ]
    assert "| `--on`, `--off` | off | on; or off |" in reference._section(command)


def test_another_layout_is_an_error(reference):
    with pytest.raises(ValueError, match="another layout"):
        reference.parse(("count",), "Count from one.\n")
