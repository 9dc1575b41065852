"""Every command of `utds` with every option as Markdown, read from the help that the command itself prints.

    PYTHONPATH=src python docs/hooks/cli_reference.py      # prints the Markdown

Help is printed so wide that no entry is wrapped: further lines of an entry are those that its author began.
"""

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from utds.cli import main
from utds.cli.parsing import wide

WIDTH = 4000  # columns of the terminal that the help believes in
_BOX = re.compile(r"^╭─ (.+?) ─+╮$(.*?)^╰─+╯$", re.MULTILINE | re.DOTALL)
_GROUP = re.compile(r"\{([\w,-]+)\}\s*$")  # a command's usage ends with its subcommands, if it has any
_DEFAULT = re.compile(r"\s*\((?:default: ?(?P<default>.*)|(?P<required>required))\)$")


@dataclass(frozen=True)
class Entry:
    """An argument or option: `--steps INT`, what it means, its default (None: it has to be given)."""

    name: str
    meaning: str
    default: str | None


@dataclass(frozen=True)
class Command:
    words: tuple[str, ...]  # ("data", "import")
    usage: str
    description: str
    examples: tuple[str, ...]
    entries: tuple[Entry, ...]
    subcommands: tuple[str, ...]


def commands(words: tuple[str, ...] = ()) -> Iterator[Command]:
    """The whole tree, parents before their children, in the order of the help."""
    command = parse(words, help_text(words))
    yield command
    for name in command.subcommands:
        yield from commands((*words, name))


def help_text(words: tuple[str, ...]) -> str:
    """What `utds WORDS --help` prints, without colours or wrapping."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # boxes are drawn differently in other encodings
    with wide(WIDTH), contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    out.seek(0)
    return out.read()


def parse(words: tuple[str, ...], text: str) -> Command:
    """Take a help text apart."""
    head = text.split("╭", 1)[0].strip()
    usage, _, about = head.partition("\n")
    group = _GROUP.search(usage)
    paragraphs = [paragraph.strip() for paragraph in about.strip().split("\n\n") if paragraph.strip()]
    lines = [line.strip() for paragraph in paragraphs for line in paragraph.splitlines()]
    examples = [line.removeprefix("Example:").strip() for line in lines if line.startswith("Example:")]
    description = "\n\n".join(p for p in paragraphs if not p.startswith("Example:"))
    found = [
        entry
        for title, body in _BOX.findall(text)
        if "subcommands" not in title
        for entry in _entries(body)
        if not entry.name.startswith("-h")
    ]
    if not head.startswith("usage:") or not (found or group or "[-h]" in usage):
        raise ValueError(f"the help of `utds {' '.join(words)}` has another layout than expected:\n{text}")
    return Command(
        words=words,
        usage=usage.removeprefix("usage:").strip(),
        description=description,
        examples=tuple(examples),
        entries=tuple(found),
        subcommands=tuple(group[1].split(",")) if group else (),
    )


def _entries(body: str) -> Iterator[Entry]:
    """A line that begins with a name begins an entry; all lines up to the next name are its meaning."""
    found: list[tuple[str, list[str]]] = []
    for line in (line.strip("│").rstrip()[1:] for line in body.strip().splitlines()):
        if not line.strip("─ "):  # a rule between groups, or below what a box is about
            if found and not any(found[-1][1]):
                found.pop()
            continue
        if not line.startswith(" "):
            name, _, line = line.partition("  ")
            found.append((name.strip(), []))
        found[-1][1].append(line.strip())
    for name, lines in found:
        meaning = " ".join(filter(None, lines))
        given = _DEFAULT.search(meaning)
        default = "" if given is None else None if given["required"] else given["default"]
        yield Entry(name, _DEFAULT.sub("", meaning), default)


def markdown() -> str:
    """A section for each command; groups of commands list theirs."""
    return "\n\n".join(_section(command) for command in commands() if command.words)


def _section(command: Command) -> str:
    parts = [f"{'#' * (1 + len(command.words))} utds {' '.join(command.words)}", _escape(command.description)]
    if command.subcommands:
        parts += ["\n".join(f"- [`utds {words}`](#utds-{words.replace(' ', '-')})" for words in _children(command))]
        return "\n\n".join(parts)
    if command.examples:
        parts += ["\n".join(["```console", *(f"$ {example}" for example in command.examples), "```"])]
    if command.entries:
        rows = [f"| {_name(e.name)} | {_shown(e.default)} | {_escape(e.meaning)} |" for e in command.entries]
        parts += ["\n".join(["| argument or option | default | meaning |", "|---|---|---|", *rows])]
    return "\n\n".join(parts)


def _children(command: Command) -> list[str]:
    return [" ".join((*command.words, name)) for name in command.subcommands]


def _name(name: str) -> str:
    """Spellings of an option apart, so that a narrow page can break between them: `--json`, `--no-json`."""
    return ", ".join(map(_code, name.split(", ")))


def _shown(default: str | None) -> str:
    if default is None:
        return "*required*"
    if default in ("True", "False"):
        return {"True": "on", "False": "off"}[default]
    return _code(default) if default else "–"


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


if __name__ == "__main__":
    print(markdown())
