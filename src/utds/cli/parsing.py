"""The command line's words as a call, or as one line that says what is wrong with them.

The parser explains a mistake in a box of several lines, with the option's help in it. Here it becomes one line as every
other error: what, where, and the command whose help tells more.

Options of a command may also come from a TOML file. They become its defaults, so the command line wins:

    main = "walker-walk/medium"
    share = ["walker-run/replay"]
    algo = "utds"
    seeds = 3

    [set]
    batch_size = 512
"""

import contextlib
import functools
import inspect
import io
import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro
from tyro.extras import SubcommandApp

from utds.errors import ConfigError, hint

OPTION = "--config"  # names the file
Id = Annotated[str, tyro.conf.arg(metavar="ID")]  # of a dataset, in every command that takes one
FIELDS = "set"  # given in both places, fields of the command line are added to the file's
MOST = 2**31 - 1  # of any whole number: steps, seeds and sizes are 32-bit numbers where they are computed with
ENDLESS = "a number of thousands of digits, or thousands of brackets in each other"  # what no parser reads
WIDTH = 1_000_000  # columns of the terminal that the box is drawn for: nothing in it is wrapped
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
    (re.compile(r"^Unrecognized (?:or misplaced )?options: "), "there is no option or command "),
    (re.compile(r" \(applied to [^)]*\)"), ""),
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

    signature, kinds = inspect.signature(function), get_type_hints(function, include_extras=True)
    options = [p.replace(annotation=_shown(kinds[name])) for name, p in signature.parameters.items()]
    make.__doc__ = re.sub(r"\n {8,}", " ", inspect.getdoc(function) or "")  # an option's help is one paragraph
    make.__annotations__ = {option.name: option.annotation for option in options}
    make.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]  # what the parser reads
    del make.__wrapped__
    return make


def summary(function: Callable[..., None]) -> str:
    """What a command is for, in the list of its group."""
    return (inspect.getdoc(function) or "").partition("\n\n")[0]


def _shown(kind: Any) -> Any:
    """An option's type with what the help shows of it: `INT` if it may be left out, `STR …` if it takes several."""
    if is_dataclass(kind):
        return kind  # its fields are the options
    names: dict[Any, str] = {int: "INT", float: "FLOAT", str: "STR", Path: "PATH"}
    inner = next((each for each in get_args(kind) if each is not type(None)), None)
    name = f"{{{','.join(get_args(inner))}}}" if get_origin(inner) is Literal else names.get(inner)
    several = get_origin(kind) is tuple
    metavar = None if name is None or get_origin(kind) is Annotated else name + " …" * several
    return Annotated[kind, tyro.conf.arg(metavar=metavar, help_behavior_hint=_default)]


def _default(shown: str) -> str:
    return "" if shown in ("None", "", "''") else f"(default: {shown})"


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
    with wide(WIDTH), contextlib.redirect_stderr(box), contextlib.redirect_stdout(box), contextlib.suppress(SystemExit):
        ask()  # both, for the box is drawn with the characters that stdout knows
    box.seek(0)
    words, group = _command(app, args)
    said, wrong = one_line(box.read()), args[len(words) : len(words) + 1]
    if group and wrong and not wrong[0].startswith("-"):
        said = f"there is no command {wrong[0]!r}{hint(wrong[0], group)}"
    raise ConfigError(f"{said}; see: {' '.join(['utds', *words])} --help")


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
        raise ConfigError(f"{name}={shortened(value)} must lie between 0 and {MOST}")
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
            near = section[1].strip().split(",")[0].split()[0]
            head += f"; did you mean {near}?" if near not in head.split() else ""  # another command's option
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


def _command(app: SubcommandApp, args: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words that name the command, and the commands of which none follows if they name a group."""
    words = []
    for word in args:
        if word not in app._subcommands:
            break
        words.append(word)
        target = app._subcommands[word].target
        if not isinstance(target, SubcommandApp):
            return words, []
        app = target
    return words, list(app._subcommands)


@contextlib.contextmanager
def wide(columns: int) -> Iterator[None]:
    """A terminal of so many columns and no colours."""
    before = dict(os.environ)
    os.environ.update(COLUMNS=str(columns), NO_COLOR="1")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def with_file(command: Callable[..., None], args: Sequence[str]) -> Callable[..., None]:
    """The command with defaults from the file that its arguments name; itself if they name none."""
    path = _named(args)
    if path is None:
        return command
    values = _read(path, command)
    fields = values.pop(FIELDS, ())
    signature = inspect.signature(command)

    @functools.wraps(command)
    def call(*given: Any, **options: Any) -> None:
        command(*given, **options | {FIELDS: (*fields, *options[FIELDS])})

    changed = [p.replace(default=values.get(name, p.default)) for name, p in signature.parameters.items()]
    call.__signature__ = signature.replace(parameters=changed)  # type: ignore[attr-defined]  # what tyro reads
    return call


def _named(args: Sequence[str]) -> Path | None:
    """The file after `--config`, the last one if there are several."""
    found = None
    for index, arg in enumerate(args):
        if arg.startswith(f"{OPTION}="):
            found = arg.partition("=")[2]
        elif arg == OPTION and index + 1 < len(args):
            found = args[index + 1]
    return Path(found) if found else None


def _read(path: Path, command: Callable[..., None]) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            given = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}; {OPTION} names a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no TOML: {error}") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{path} has {ENDLESS}; shorten it") from None
    hints = get_type_hints(command)
    known = [name for name in inspect.signature(command).parameters if name != OPTION.strip("-")]
    found = {}
    for key, value in given.items():
        name = key.replace("-", "_")
        if name not in known:
            raise ConfigError(f"{path}: there is no option {key!r}{hint(name, known)}")
        found[name] = _checked(f"{path}: {key}", value, hints[name])
    return found


def _as_json(where: str, value: Any) -> str:
    """A field's value as it follows `--set`; TOML has dates, which no field is, and numbers that JSON can't write."""
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{where} is {shortened(value)}; give a number, text, true, false or a list of these"
        ) from None


def shortened(value: Any) -> str:
    """A value as a message shows it."""
    try:
        shown = repr(value) if isinstance(value, str) else str(value)
    except ValueError:  # such as a hexadecimal one, which Python reads and doesn't write
        return "a number of thousands of digits"
    return shown if len(shown) <= 40 else f"{shown[:39]}…"


def _checked(where: str, value: Any, kind: Any) -> Any:
    """A value of the type that an option has."""
    if get_origin(kind) is tuple:
        if isinstance(value, dict):
            return tuple(f"{name}={_as_json(f'{where}.{name}', field)}" for name, field in value.items())
        if not isinstance(value, list):
            raise ConfigError(f"{where} is {shortened(value)}; give a list")
        return tuple(_checked(where, each, get_args(kind)[0]) for each in value)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            shown = shortened(value)
            near = hint(shown.strip("'"), get_args(kind))
            raise ConfigError(f"{where} is {shown}{near}")
        return value
    kinds = [each for each in get_args(kind) or (kind,) if each is not type(None)]
    if Path in kinds and isinstance(value, str):
        return Path(value)
    if type(value) not in kinds:
        words = {int: "a whole number", bool: "true or false", str: "text", Path: "a path"}
        raise ConfigError(f"{where} is {shortened(value)}; give {words.get(kinds[0], kinds[0])}")
    return value
