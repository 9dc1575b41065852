"""Every command and every option, taken from the parser's own table, with values that nobody should give.

Each command line ends in one line on stderr and exit code 2, or its value is allowed, and `ALLOWED` says why. Work is
cut off where it would begin: a command that gets there has accepted all its options.
"""

import contextlib
import dataclasses
import inspect
import io
import os
import re
import resource
import shutil
import signal
import traceback
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from tyro.extras import SubcommandApp

from utds import cli

TINY = Path(__file__).parents[1] / "tiny.py"
TASK, OTHER = "tinymass-reach-top-left", "tinymass-reach-top-right"
MATRIX = f'tasks = ["{TASK}"]\nkinds = ["random"]\ncolumns = ["single"]\nalgorithms = ["bc"]\nsteps = 10\n'
SMALL = ["--set", "width=8", "batch_size=16", "num_critics=3"]
SECONDS, MEMORY = 60, 2 * 2**30  # a case may take and ask for
LONG, MOST = "x" * 5000, "2147483647"
NUMBERS = ["", " ", "x", "1.5.2", "nan", "inf", "-inf", "-1", "0", "1e3", "0x10", "1,000", "½", "None!", "--", "9" * 25]
VALUES: dict[str, list[str]] = {
    "int": [*NUMBERS, "2.5", "True", "9" * 5000, MOST, "2147483648"],
    "float": [*NUMBERS, "1e400", "-1e-9", "1e308"],
    "bool": ["maybe", "3", ""],
    "choice": ["", " ", "x", "LOCAL", "0", "nan", "\udcff", LONG],
    "str": ["", " ", "/", ".", "..", "../..", "a", "a/b/c", "a/b/c/d/e", "[", "*", "(", "\\", "nan", "-1", "é💥",
            "a\nb", "\udcff", "%s", "{0}", "~", "$HOME", "=", "a=", "=a", ":", "a:", ":a", "a:b=c", LONG],
    "path": ["", " ", "NOWHERE/x", "FILE", "FILE/x", "FOLDER", "/dev/null", "/proc/nope/x", "a\nb", "\udcff", LONG],
}  # fmt: skip
# Values of options that are small languages, and names that exist but don't belong here.
MORE: dict[tuple[str, str], list[str]] = {
    ("train", "--set"): [
        "width=x", "width=-1", "width=0", "width=1.5", "width=1e99", "width=[8]", "width=null", "width={", "width=true",
        "width=999999999", "layers=999999", "discount=1", "discount=2", "discount=NaN", "discount=-Infinity", "tau=0",
        "actor_lr=0", "actor_lr=-1", "beta_ood=-1", "bc_steps=200%", "bc_steps=-5%", "n_step=0", "gamma=1", "name=utds",
        "__class__=1", "batch_size=99999999999", "num_critics=0", "floor=low", "layer_norm=1",
    ],
    ("train", "--rewards"): [
        "learned:penalty=x", "learned:penalty=nan", "learned:penalty=-1", "learned:", "goal:", "goal:99=0",
        "goal:0=nan", "goal:0", "goal:-1=0", "goal:x=0", "nowhere.py:f", "nowhere.py:", "zero:1", "known:1", "KNOWN",
    ],
    ("train", "--weights"): [
        "returns:temperature=0", "returns:temperature=-1", "returns:temperature=nan", "returns:temperature=x",
        "returns:", "returns:nope=1", "dynamics:nope=1", "uniform:1", "dynamics:",
    ],
    ("train", "--algo"): ["UTDS ", "utds,cql", "nope", "__init__"],
    ("train", "--preset"): ["FAST", "cpu", "slow"],
    ("train", "--share"): ["walker-walk/medium", f"{TASK}/random", "data/x"],
    ("advise", "--from"): ["walker-walk/medium", f"{TASK}/random"],
    ("advise", "--rewards"): ["learned:penalty=x", "goal:99=0", "goal:0=inf", "nowhere.py:f"],
    ("relabel", "task"): ["walker-walk", "tinymass-nope", "tinymass", "tinymass-"],
    ("relabel", "--rewards"): ["learned", "learned:penalty=x", "goal:99=0", "goal:0=nan", "nowhere.py:f"],
    ("relabel", "--main"): [f"{OTHER}/random", f"{TASK}/random"],
    ("relabel", "--save"): ["data/x", "x/data", "a//b", "/a", "a/", "-a", f"{TASK}/random"],
    ("collect", "task"): ["walker", "walker-nope", "-walk", "tinymass-"],
    ("collect", "--kinds"): ["expert,medium", "Expert", "0"],
    ("data generate", "task"): ["walker", "walker-nope", "tinymass-"],
    ("data generate", "--kinds"): ["expert,medium", "Expert", "0"],
    ("data import", "--format"): ["d4rl", "exorl", "lerobot", "minari", "ogbench", "rlds", "table", "Arrays"],
    ("data import", "--actions"): ["1:-1", "0:0", "nan:nan", "a:b", "1", "1,2,3:4,5,6", "-inf:inf", ":1", "auto"],
    ("data import", "--columns"): ["observations=", "nope=x", "observations=*", "actions='u*'"],
    ("data export", "--format"): ["rlds", "lerobot", "ogbench", "ARRAYS"],
    ("data show", "id"): ["walker-walk/nope", f"{TASK}/random-v9", f"utds/utds/{TASK}/random"],
    ("evaluate", "--env"): ["Pendulum-v1", "CartPole-v1", "utds/WalkerWalk-v0", "nowhere:X-v0", "os:X-v0"],
    ("benchmark plan", "matrix"): ["walkerr", "../walker", "FILE"],
    ("benchmark run", "matrix"): ["walkerr", "../walker"],
}  # fmt: skip


def commands(app: SubcommandApp, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Callable]]:
    """Words and function of every command, from the table that the command line itself is made of."""
    for name, command in app._subcommands.items():
        if isinstance(command.target, SubcommandApp):
            yield from commands(command.target, (*words, name))
        else:
            yield " ".join((*words, name)), command.target


TREE = dict(commands(cli._app()))
EVERY = None  # command
WRITING = {"collect", "advise", "benchmark run", "uncertainty", "theory", "quickstart", "train"}
NAMES = {"a", "a/b/c", "a/b/c/d/e", "nan"}  # that could be ids
FOLDERS = (set(VALUES["str"]) - {"", " ", "/", ".", "..", "../..", "a\nb", "\udcff", LONG}) | NAMES
# (why, commands, options, values)
ALLOWED: list[tuple[str, set[str] | None, set[str], set[str]]] = [
    ("seeds are numbered from 0", EVERY, {"--seed", "--first-seed"}, {"0"}),
    ("a seed has up to 32 bits", set(TREE) - {"export"}, {"--seed", "--first-seed"}, {MOST}),
    ("as without the option", EVERY, {"--kinds", "--set", "--columns", "--logger", "--algorithms"}, {"no value"}),
    ("as without the option", {"train"}, {"--share"}, {"no value"}),
    ("a folder is made, or one that exists is written to", WRITING, {"--out"}, {"NOWHERE/x", "FOLDER"}),
    ("a file is replaced", {"collect", "report"}, {"--ladder", "--csv", "--markdown"}, {"FILE"}),
    ("a file is replaced", {"report", "export"}, {"--out", "target"}, {"FILE"}),
    ("its folder is made", {"export"}, {"target"}, {"NOWHERE/x"}),
    ("its folder is made", {"report"}, {"--out", "--csv", "--markdown"}, {"NOWHERE/x"}),
    ("a file without options", {"train"}, {"--config"}, {"/dev/null"}),
    ("no runs there yet", {"runs list"}, {"folder"}, {"FOLDER"}),
    ("long, but what was asked for", {"collect", "train", "evaluate", "quickstart"}, {"--episodes"}, {MOST}),
    ("long, but what was asked for", {"train"}, {"--steps"}, {MOST}),
    ("long, but what was asked for", {"benchmark run", "data generate"}, {"--generate", "--episodes"}, {MOST}),
    ("beyond the end: at the end alone", EVERY, {"--eval-every", "--checkpoint-every", "--evaluate-every"}, {MOST}),
    ("no more are started than there are cells or cores", EVERY, {"--workers", "--threads"}, {MOST}),
    ("a choice: no discount, noise or warm-up", {"collect"}, {"--discount", "--noise", "--warmup"}, {"0"}),
    ("a choice: nothing is subtracted", {"relabel"}, {"--penalty"}, {"0"}),
    ("a choice: the GPUs are left alone", {"benchmark run"}, {"--gpus"}, {"0"}),
    ("an id has one part or several", {"relabel"}, {"--save"}, NAMES),
    ("a task or kind of one's own has any name", {"data import"}, {"--task", "--kind"}, {"a", "nan"}),
    ("bounds are found in the data", {"data import"}, {"--actions"}, {"auto"}),
    ("a folder may have any name", {"data export"}, {"target"}, FOLDERS),
    ("lists the matrices that ship", {"benchmark plan"}, {"matrix"}, {"left out"}),
    ("nothing was begun there yet", {"benchmark status"}, {"--out"}, {"NOWHERE/x", "FOLDER", "FILE/x", "/proc/nope/x"}),
]  # fmt: skip


class Begun(BaseException):
    """A command is about to compute something: it has accepted everything."""


class Hung(BaseException):
    """No answer in the time allowed."""


WORK = (
    "training.trainer.Trainer.train",
    "collection.online.Collection.run",
    "evaluation.rollout.returns",
    "evaluation.rollout.record",
    "training.offline.evaluate_offline",
    "adviser.advice.checks",
    "adviser.advice.Coverage",
    "data.reward_model.LearnedReward.fit",
    "benchmark.engine.Local",
    "benchmark.plan.seconds",
    "linear.statements.lemma1.run",
    "uncertainty.measure.fit_common",
)


@dataclasses.dataclass(frozen=True)
class Option:
    name: str  # --steps, or the name of a positional argument
    kind: str  # a key of VALUES
    positional: bool
    required: bool


def options(function: Callable) -> Iterator[Option]:
    """Of a command's signature; a dataclass among its parameters stands for its fields."""
    hints = typing.get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints[name].__origin__ if typing.get_origin(hints[name]) is typing.Annotated else hints[name]
        if dataclasses.is_dataclass(hint):
            inner = typing.get_type_hints(hint, include_extras=True)
            for field in dataclasses.fields(hint):
                required = field.default is dataclasses.MISSING
                yield _option(field.name, inner[field.name], required, positional=required)
        else:
            required, positional = parameter.default is parameter.empty, parameter.kind is parameter.POSITIONAL_ONLY
            yield _option(name, hint, required, positional)


def _option(name: str, hint: Any, required: bool, positional: bool) -> Option:
    if typing.get_origin(hint) is typing.Annotated:
        hint = hint.__origin__
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (hint,) = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    if typing.get_origin(hint) is tuple:
        hint = typing.get_args(hint)[0]
    kinds = {int: "int", float: "float", bool: "bool", str: "str", Path: "path"}
    kind = "choice" if typing.get_origin(hint) is Literal else kinds[hint]
    return Option(name if positional else f"--{name.strip('_').replace('_', '-')}", kind, positional, required)


@dataclasses.dataclass
class World:
    """What all cases work on, and a number that keeps their results apart."""

    folder: Path
    number: int = 0

    def base(self, command: str) -> tuple[list[str], list[str]]:
        """Positional arguments and options that a command accepts."""
        own, other, out = f"{TASK}/random", f"{OTHER}/random", self.folder / "out" / str(self.number)
        run, matrix, arrays = (str(self.folder / name) for name in ("run", "little.toml", "arrays.npz"))
        known: dict[str, tuple[list[str], list[str]]] = {
            "domains": ([], []),
            "data list": ([], []),
            "data show": ([own], []),
            "data verify": ([own], []),
            "data import": ([arrays, f"made/n{self.number}"], []),
            "data export": ([own, f"{out}.npz"], []),
            "data generate": ([TASK], [f"--policies={self.folder / 'ladder'}", "--overwrite"]),
            "relabel": ([other, TASK], []),
            "collect": ([TASK], ["--steps=20000", f"--out={out}", "--overwrite"]),
            "advise": ([own], ["--from", other]),
            "train": ([own], ["--share", other, *SMALL, "--steps=20", f"--out={out}"]),
            "evaluate": ([run], ["--episodes=2"]),
            "export": ([run, f"{out}.onnx"], []),
            "benchmark plan": ([matrix], ["--no-measure"]),
            "benchmark run": ([matrix], [f"--out={out}"]),
            "benchmark status": ([matrix], [f"--out={out}", "--once"]),
            "report": ([run], [f"--out={out}.html"]),
            "uncertainty": ([run], [f"--out={out}"]),
            "theory": ([], [f"--out={out}"]),
            "quickstart": ([], [f"--out={out}"]),
            "runs list": ([str(self.folder)], []),
            "runs compare": ([run, f"{run}-again"], []),
            "runs remove": ([run], []),
            "doctor": ([], []),
        }
        return known[command]

    def real(self, value: str) -> str:
        """A value with its place in it: NOWHERE, FILE or FOLDER."""
        return re.sub("^(NOWHERE|FILE|FOLDER)(?=/|$)", lambda found: str(self.folder / found[0].lower()), value)


@pytest.fixture(scope="module")
def world(tmp_path_factory, record) -> Iterator[World]:
    """Two datasets, a run, a matrix, a ladder of policies and a file to import; then no more work is done."""
    import utds.domains
    from utds.collection import kinds

    folder = tmp_path_factory.mktemp("hostile")
    for name in ("folder", "out"):
        (folder / name).mkdir()
    (folder / "file").write_text("a file\n")
    (folder / "little.toml").write_text(MATRIX)
    np.savez(folder / "arrays.npz", observations=np.zeros((3, 4)), actions=np.zeros((2, 2)), rewards=np.zeros(2))
    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(io.StringIO()):
        patched.setenv("UTDS_DOMAINS", str(TINY))
        patched.setenv("MINARI_DATASETS_PATH", str(folder / "datasets"))
        if "tinymass" not in utds.domains._DOMAINS:
            utds.domains._load_own.cache_clear()
        tiny, found = utds.domains.get("tinymass"), World(folder)
        for seed, task in enumerate((TASK, OTHER)):
            record(tiny, task, seed)
        shipped = kinds.load_ladder(TASK.replace("tinymass", "pointmass"))
        dataclasses.replace(shipped, task=TASK).save(folder / "ladder")
        given, named = found.base("train")
        cli.main(["train", *given, *named, f"--out={folder / 'run'}"])
        shutil.copytree(folder / "datasets", folder / "kept")
        shutil.copytree(folder / "run", folder / "run-again")
        for where in WORK:
            patched.setattr(f"utds.{where}", _begin)
        yield found


def _begin(*_: object, **__: object) -> None:
    raise Begun


def cases(world: World, command: str) -> Iterator[tuple[str, str, list[str]]]:
    """(option, what is wrong with it, command line) of one command."""
    found = list(options(TREE[command]))

    def line(change: Callable[[list[str], list[str]], None]) -> list[str]:
        world.number += 1
        given, named = world.base(command)
        change(given, named)
        return [*command.split(), *given, *named]

    positions = [which.name for which in found if which.positional]
    for which in found:
        for value in VALUES[which.kind] + MORE.get((command, which.name), []):
            real = world.real(value)
            if which.positional:
                at = positions.index(which.name)
                yield which.name, value, line(lambda given, _, at=at, v=real: given.__setitem__(at, v))
            else:
                yield which.name, value, line(lambda _, named, w=which, v=real: give(named, w.name, f"{w.name}={v}"))
        if not which.positional and which.kind != "bool":
            yield which.name, "no value", line(lambda _, named, w=which: give(named, w.name, w.name))
        if which.required and which.positional:
            yield which.name, "left out", line(lambda given, _: given.pop())
        elif which.required:
            yield which.name, "left out", line(lambda _, named, w=which: give(named, w.name))
    yield "", "an unknown option", line(lambda _, named: named.append("--nope=3"))
    yield "", "an option misspelt", line(lambda _, named: named.append("--hepl"))
    yield "", "a single dash", line(lambda _, named: named.append("-zz"))
    yield "", "one argument too many", line(lambda given, _: given.append("surplus"))
    if len(positions) > 1:
        yield "", "swapped", line(lambda given, _: given.reverse())


def give(named: list[str], name: str, *words: str) -> None:
    """Replace an option, `--name=value` or `--name value …`, by these words."""
    for at, word in enumerate(named):
        if word.split("=")[0] == name:
            end = at + 1
            while end < len(named) and not named[end].startswith("--"):
                end += 1
            del named[at:end]
            break
    named.extend(words)


def outcome(args: list[str]) -> tuple[str, str]:
    """How a command line ends (refused, done, begun, or what is wrong), and what it wrote to stderr."""

    def hang(*_: object) -> None:
        raise Hung

    err = io.StringIO()
    before = signal.signal(signal.SIGALRM, hang)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with little_memory(), contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
            cli.main(args)
        found = "done"
    except SystemExit as exit:
        found = "done" if not exit.code else f"exit {exit.code}"
    except Begun:
        found = "begun"
    except BaseException as error:
        found = type(error).__name__
        err.write("".join(traceback.format_exc().splitlines(True)[-4:]))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    said = err.getvalue()
    if found == "exit 2":
        one = re.fullmatch(r"utds: error: [^;\n][^\n]*\n", said)
        found = "refused" if one and "Traceback" not in said else "several lines"
    return found, said


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """Not more than `MEMORY` beyond what this process has, where that can be told."""
    pages = Path("/proc/self/statm")
    if not pages.exists():
        yield
        return
    before, now = resource.getrlimit(resource.RLIMIT_AS), int(pages.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def reason(command: str, option: str, value: str) -> str | None:
    """Why a value is allowed, if it is."""
    for why, where, names, values in ALLOWED:
        if (where is EVERY or command in where) and option in names and value in values:
            return why
    return None


@pytest.mark.parametrize("command", TREE)
def test_what_nobody_should_give_is_one_line(world, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("datasets", "nowhere", "folder"):  # where another command has written
        shutil.rmtree(world.folder / name, ignore_errors=True)
    shutil.copytree(world.folder / "kept", world.folder / "datasets")
    (world.folder / "folder").mkdir()
    given, named = world.base(command)
    assert outcome([*command.split(), *given, *named])[0] in ("done", "begun")  # so it is the value that is refused
    wrong = []
    for option, value, args in cases(world, command):
        found, said = outcome(args)
        why = reason(command, option, value)
        if found == "refused" and why:
            wrong.append(f"{option} {value!r} is refused now, and listed as allowed: {why}")
        elif found != "refused" and not (why and found in ("done", "begun")):
            wrong.append(f"{option} {value[:60]!r}: {found} {said[-400:]}")
    assert not wrong, f"{len(wrong)} of utds {command}:\n" + "\n".join(wrong)


def test_there_are_enough_cases_and_every_option_of_the_help_is_among_them(world, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    assert sum(1 for command in TREE for _ in cases(world, command)) > 1500
    for command, function in TREE.items():
        with pytest.raises(SystemExit):
            cli.main([*command.split(), "--help"])
        entries = re.findall(r"^[│|\s]*(--?[a-z].*?)(?:  |$)", capsys.readouterr().out, flags=re.MULTILINE)
        shown = set(re.findall(r"--[a-z][a-z-]*", " ".join(entries)))
        known = {which.name for which in options(function) if not which.positional}
        assert known <= shown, command
        assert {name for name in shown if not name.startswith("--no-")} <= known | {"--help"}, command


def test_every_command_prints_json_if_asked():
    assert len(TREE) > 20
    assert [name for name, command in TREE.items() if "json" not in inspect.signature(command).parameters] == []
