"""The command line: parse and call, nothing else.

A command is a plain function in the module that its name suggests; its docstring is its help, `Args:` included. `_app`
is the whole tree. Modules that load JAX or MuJoCo are imported inside the functions, so `utds --help` is quick.
"""

import shlex
import sys
from collections.abc import Sequence

import tyro
from tyro.extras import SubcommandApp

from utds.cli import (
    advise,
    benchmark,
    collect,
    config,
    data,
    doctor,
    domains,
    quickstart,
    report,
    runs,
    theory,
    train,
    uncertainty,
)
from utds.errors import Error
from utds.version import __version__

DESCRIPTION = "Multi-task data sharing in offline reinforcement learning."


def _app(args: Sequence[str] = ()) -> SubcommandApp:
    """The tree of commands; options of `train` may come from a file that the arguments name."""
    app, stored, matrices, trained = SubcommandApp(), SubcommandApp(), SubcommandApp(), SubcommandApp()
    app.command(domains.domains)
    app.command(stored, name="data", help="Datasets: list, show, verify, import, export, generate.")
    stored.command(name="list")(data.list_)
    stored.command(data.show)
    stored.command(data.verify)
    stored.command(name="import")(data.import_)
    stored.command(data.export)
    stored.command(collect.generate)
    app.command(data.relabel)
    app.command(collect.collect)
    app.command(advise.advise)
    app.command(config.with_file(train.train, args if args[:1] == ["train"] else ()))
    app.command(train.evaluate)
    app.command(train.export)
    app.command(trained, name="runs", help="Run directories: list, compare, remove.")
    trained.command(name="list")(runs.list_)
    trained.command(runs.compare)
    trained.command(runs.remove)
    app.command(matrices, name="benchmark", help="Matrices of runs: plan, run, status.")
    matrices.command(benchmark.plan)
    matrices.command(benchmark.run)
    matrices.command(benchmark.status)
    app.command(report.report)
    app.command(uncertainty.uncertainty)
    app.command(theory.theory)
    app.command(quickstart.quickstart)
    app.command(doctor.doctor)
    return app


def main(args: Sequence[str] | None = None) -> None:
    """Run one command. Wrong input ends in one line on stderr and exit code 2."""
    args = list(sys.argv[1:] if args is None else args)
    if args == ["--version"]:
        print(f"utds {__version__}")
        return
    try:
        _app(args).cli(
            prog="utds", description=DESCRIPTION, args=args or ["--help"], config=(tyro.conf.OmitArgPrefixes,)
        )
    except Error as error:
        sys.exit(_fail(str(error)))
    except BrokenPipeError:  # `utds … | head`
        sys.stderr.close()
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
    print(f"utds: error: {message}", file=sys.stderr)
    return 2
