"""The command line's reference has every option of every command."""

import inspect
from pathlib import Path

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


def test_every_parameter_of_every_command_is_listed(reference):
    found = {command.words: command for command in reference.commands()}
    expected = dict(functions(cli._app()))
    assert {words for words, command in found.items() if words and not command.subcommands} == set(expected)
    for words, function in expected.items():
        parameters = inspect.signature(function).parameters.values()
        entries = found[words].entries
        names = " ".join(entry.name for entry in entries)
        assert len(entries) >= len(parameters), words
        for parameter in parameters:
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.annotation in (int, float, str, bool):
                assert f"--{parameter.name.replace('_', '-')}" in names or f"-{parameter.name} " in names, words


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
