"""The command line: parse and call, nothing else.

A command is a plain function; its docstring is its help, `Args:` included. `_app` is the whole tree.

    start.py        domains, quickstart, doctor
    data.py         data …, relabel, collect
    train.py        train, evaluate, export, runs …
    analysis.py     advise, report, uncertainty, theory
    benchmark.py    benchmark …

Modules that load JAX or MuJoCo are imported inside the functions, so `utds --help` is quick.
"""

import functools
import io
import shlex
import sys
from collections.abc import Callable, Sequence

from tyro.extras import SubcommandApp

from utds.cli import analysis, benchmark, data, start, train
from utds.cli.parsing import deferred, parse, summary, with_file
from utds.errors import Error
from utds.version import __version__

DESCRIPTION = "Multi-task data sharing in offline reinforcement learning."


def _app(args: Sequence[str] = ()) -> SubcommandApp:
    """The tree of commands; options of `train` may come from a file that the arguments name.

    Commands that aren't named are listed in one line, without their examples.
    """
    app, stored, matrices, trained = SubcommandApp(), SubcommandApp(), SubcommandApp(), SubcommandApp()
    training = with_file(train.train, args if args[:1] == ["train"] else ())
    _add = functools.partial(_added, args)
    _add(app, start.domains)
    app.command(stored, name="data", help="Datasets: list, show, verify, import, export, generate.")
    _add(stored, data.list_, data.show, data.verify, data.import_, data.export, data.generate)
    _add(app, data.relabel, data.collect, analysis.advise, training, train.evaluate, train.export)
    app.command(trained, name="runs", help="Run directories: list, compare, remove.")
    _add(trained, train.list_, train.compare, train.remove)
    app.command(matrices, name="benchmark", help="Matrices of runs: plan, run, status.")
    _add(matrices, benchmark.plan, benchmark.run, benchmark.status)
    _add(app, analysis.report, analysis.uncertainty, analysis.theory, start.quickstart, start.doctor)
    return app


def _added(args: Sequence[str], app: SubcommandApp, *functions: Callable[..., None]) -> None:
    """Commands by their functions' names; an underscore at the end keeps clear of Python's own words."""
    for function in functions:
        name = function.__name__.rstrip("_")
        app.command(name=name, help=None if name in args else summary(function))(deferred(function))


def main(args: Sequence[str] | None = None) -> None:
    """Run one command. Wrong input ends in one line on stderr and exit code 2."""
    args = list(sys.argv[1:] if args is None else args)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")  # a terminal that has no ± shows a question mark
    try:
        if args == ["--version"]:
            print(f"utds {__version__}", flush=True)
        else:
            parse(_app(args), DESCRIPTION, args or ["--help"])()
            sys.stdout.flush()
    except Error as error:
        sys.exit(_fail(str(error)))
    except MemoryError as error:
        said = f" ({error})" if str(error) else ""
        sys.exit(_fail(f"not enough memory{said}; ask for less at a time"))
    except UnicodeEncodeError as error:  # the name of a file that was found, in another encoding
        near = error.object[max(0, error.start - 40) : error.end]
        sys.exit(_fail(f"there are bytes that are no {error.encoding} text at the end of {near!a}; rename that file"))
    except (ValueError, RuntimeError) as error:
        if "RESOURCE_EXHAUSTED" not in str(error):  # JAX's words for it
            raise
        sys.exit(_fail("not enough memory; ask for less at a time"))
    except BrokenPipeError:  # `utds … | head`
        sys.stderr.close()
    except OSError as error:  # a name that is too long, a disk that fails
        where = f"{error.filename}: " if error.filename else ""
        sys.exit(_fail(f"{where}{error.strerror or error}; check the path"))
    except KeyboardInterrupt:
        print(f"utds: interrupted; what was written stays{_resumption(args)}", file=sys.stderr)
        sys.exit(130)


def _resumption(args: list[str]) -> str:
    """How to resume a command that was interrupted, if it is one that can."""
    if args[:1] not in (["train"], ["collect"]) and args[:2] != ["benchmark", "run"]:
        return ""
    more = [] if args[0] != "train" or "--resume" in args else ["--resume"]
    return f"; resume with: {shlex.join(['utds', *args, *more])}"


def _fail(message: str) -> int:
    """Print one line, whatever the message quotes: line ends, control characters and bytes that are no text."""
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(message.splitlines()))
    print(f"utds: error: {line}", file=sys.stderr)
    return 2
