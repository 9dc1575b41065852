"""The command line's words as a call, or as one line that says what is wrong with them.

The parser explains a mistake in a box of several lines, with the option's help in it. Here it becomes one line as every
other error: what, where, and the command whose help tells more.
"""

import contextlib
import functools
import io
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tyro
from tyro.extras import SubcommandApp

from utds.errors import ConfigError

MOST = 2**31 - 1  # of any whole number: steps, seeds and sizes are 32-bit numbers where they are computed with
WIDTH = "1000000"  # columns of the terminal that the box is drawn for: nothing in it is wrapped
_IN_OUR_WORDS = (  # what Python and the parser say of a value that is none of its type
    (re.compile(r"invalid literal for int\(\) with base 10: (.*)"), r"\1 is no whole number"),
    (re.compile(r"Exceeds the limit .*"), r"that is no number with so many digits"),
    (re.compile(r"could not convert string to float: (.*)"), r"\1 is no number"),
    (re.compile(r"no type matching (?:\{None\}\|)?(\S+) could be instantiated from \[(.*)\]\.?"), r"\2 is no \1"),
    (re.compile(r" is no INT$"), " is no whole number"),
    (re.compile(r" is no FLOAT$"), " is no number"),
    (re.compile(r"^Error parsing "), ""),
    (re.compile(r"^Missing from [^:]*: "), "missing: "),
    (re.compile(r"Missing value for argument '(.*)'\. Expected 1 values\."), r"\1 needs a value"),
    (re.compile(r"^Unrecognized options: "), "there is no option or command "),
    (re.compile(r"^invalid choice (.*) for argument '(.*)'\. Expected one of \((.*?),?\)\."), r"\2: \1 is none of \3"),
    (re.compile(r"^Expected one of \{(.*)\}\."), r"a command is missing: one of \1"),
)


def deferred(function: Callable[..., None]) -> Callable[..., Callable[[], None]]:
    """The function for the parser, which calls what it has arguments for: it gets the call itself back.

    So nothing that a command raises is taken for a mistake in its options.
    """

    @functools.wraps(function)
    def make(*args: Any, **options: Any) -> Callable[[], None]:
        for name, value in options.items():
            _check_number(f"--{name.strip('_').replace('_', '-')}", value)
        return functools.partial(function, *args, **options)

    return make


def parse(app: SubcommandApp, description: str, args: Sequence[str]) -> Callable[[], None]:
    """The call that the words ask for; ends the process after printing help or a completion script."""
    for before, word in zip(["", *args], args, strict=False):
        _check_word(before, word)

    def ask() -> Callable[[], None]:
        return app.cli(prog="utds", description=description, args=args, config=(tyro.conf.OmitArgPrefixes,))

    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return ask()
    except SystemExit as exit:
        if exit.code != 2:
            raise
    box = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    with _wide(), contextlib.redirect_stderr(box), contextlib.redirect_stdout(box), contextlib.suppress(SystemExit):
        ask()  # both, for the box is drawn with the characters that stdout knows
    box.seek(0)
    raise ConfigError(f"{one_line(box.read())}; see: {' '.join(['utds', *_command(app, args)])} --help")


def _check_word(before: str, word: str) -> None:
    """No option has an empty value, such as one of a shell variable that isn't set, or one that can't be printed."""
    name, equals, value = word.partition("=") if word.startswith("--") else (before, "=", word)
    if equals and not value.strip():
        after = f" after {name}" if name else ""
        raise ConfigError(f"there is an empty argument{after}; give it a value, or leave it out")
    if not word.isprintable():
        raise ConfigError(f"the argument {word!a} has characters that can't be printed; rename what it names")


def _check_number(name: str, value: Any) -> None:
    """Whole numbers are 0 or more, all others finite; what else a command wants of them it checks itself."""
    if isinstance(value, int) and not 0 <= value <= MOST:
        raise ConfigError(f"{name}={value} must lie between 0 and {MOST}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{name}={value} must be a finite number")


def one_line(box: str) -> str:
    """A parser's box in one line: its first paragraph, and the names that it proposes instead."""
    lines = [line.strip("│").removeprefix(" ").rstrip() for line in box.splitlines()[1:-1]]
    sections: list[list[str]] = [[]]
    for line in lines:
        if re.fullmatch("─{3,}", line.strip()):
            sections.append([])
        else:
            sections[-1].append(line)
    first, *others = sections
    head = _joined(first)
    for pattern, words in _IN_OUR_WORDS:
        head = pattern.sub(words, head)
    for section in others:
        if section and section[0].startswith("Perhaps you meant:"):
            head += f"; did you mean {section[1].strip().split(',')[0].split()[0]}?"
        elif section and section[0].startswith("Available subcommands:"):
            head += f"; there are{section[0].partition(':')[2]}"
    return head


def _joined(section: Sequence[str]) -> str:
    """The lines up to an empty one; of a list of missing arguments their names, without their help."""
    title, listed = [], []
    for line in section:
        if not line.strip():
            break
        depth = len(line) - len(line.lstrip())
        if depth < 4:
            title.append(line.strip())
        elif depth < 8:
            listed.append(line.strip())
    return " ".join([*title, ", ".join(listed)]).strip()


def _command(app: SubcommandApp, args: Sequence[str]) -> Iterator[str]:
    """The words that name the command."""
    for word in args:
        if word not in app._subcommands:
            return
        yield word
        target = app._subcommands[word].target
        if not isinstance(target, SubcommandApp):
            return
        app = target


@contextlib.contextmanager
def _wide() -> Iterator[None]:
    """A terminal of `WIDTH` columns and no colours."""
    before = dict(os.environ)
    os.environ.update(COLUMNS=WIDTH, NO_COLOR="1")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
