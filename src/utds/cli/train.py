"""`utds train`, `evaluate`, `export`, `runs …`: from datasets to a policy, its return and a file; how runs differ."""

import functools
import math
import string
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from utds import files, terminal
from utds.cli.parsing import ENDLESS, Id, shortened
from utds.errors import ConfigError

Runs = Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN …")]


def train(
    main: Id,
    /,
    share: tuple[str, ...] = (),
    algo: str = "utds",
    preset: str = "fast",
    rewards: str = "known",
    weights: str = "uniform",
    sampling: Literal["transitions", "episodes"] = "transitions",
    set: tuple[str, ...] = (),
    steps: int | None = None,
    seeds: int = 1,
    first_seed: int = 0,
    out: Path | None = None,
    resume: bool = False,
    eval_every: int | None = None,
    episodes: int = 10,
    checkpoint_every: int | None = None,
    logger: tuple[Literal["tensorboard", "wandb"], ...] = (),
    trust_dynamics: bool = False,
    config: Path | None = None,
    json: bool = False,
) -> None:
    """Train a policy for a dataset's task, with other tasks' data shared.

    Example: utds train walker-walk/medium --share walker-run/replay walker-stand/replay --algo utds --seeds 3

    Args:
        main: dataset of the task to learn, such as walker-walk/medium
        share: datasets of other tasks of the same robot
        algo: utds, pbrl, cql, cds, td3bc, iql and others: see docs/algorithms; or one of your own
        preset: fast (one setting for every robot, minutes on two cores), paper (the published values) or released
            (the authors' code's)
        rewards: of the shared data: known (stored or from physics), learned from the main data (learned:penalty=2
            subtracts twice its doubt), zero, the distance from a goal as goal:0=0.5,1=0 (observation features), or
            a function of your own as file.py:name, which is run
        weights: how often transitions are drawn: uniform, returns (good episodes more often; returns:temperature=0.1
            even more), or dynamics (data that seems to follow other dynamics less often, in place of refusing it)
        sampling: uniform over transitions, or over episodes and then their steps
        set: fields of the algorithm to change, such as batch_size=512 beta_ood=1.5
        steps: gradient steps per seed; by default 3,500 to 10,000 with fast, by the size of the data, else a million
        seeds: how many to train
        first_seed: number of the first of them
        out: run directory; by default runs/<task>-<algorithm>
        resume: resume the run in that directory; with more steps, shares of the run such as anneal_steps=100% are of
            the new length, unlike in a run of that length from the start
        eval_every: steps between evaluations; by default a tenth of all
        episodes: of an evaluation
        checkpoint_every: steps between checkpoints; by default as often as evaluations
        logger: also log to tensorboard or wandb, each an extra; without an account set WANDB_MODE=offline
        trust_dynamics: share data even if it seems to be recorded with different dynamics than the main data
        config: TOML file with any of these options, such as algo = "utds"; the command line wins
        json: print the result as JSON
    """
    del config  # read before the command line was: its options are the defaults above
    from utds import algorithms, training
    from utds.data import lake, store
    from utds.training import loggers

    chosen = loggers.make(logger)
    algorithm = algorithms.make(algo, preset=preset, **_overrides(set))
    own, others = store.load(main), [store.load(name) for name in share]
    names = [dataset.name for dataset in (own, *others)]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{name} is given {names.count(name)} times: main data and shared data are all different")
    pool = lake.share(own, *others, rewards=rewards, sampling=sampling, weights=weights)
    run = training.train(
        pool,
        algorithm,
        episodes=episodes,
        seeds=range(first_seed, first_seed + seeds),
        steps=steps,
        out=out,
        resume=resume,
        eval_every=eval_every,
        checkpoint_every=checkpoint_every,
        trust_dynamics=trust_dynamics,
        loggers=chosen,
    )
    if "tensorboard" in logger and not json:
        print(f"TensorBoard: tensorboard --logdir {run.path / 'tensorboard'}")
    _print_result(run, json)


def evaluate(
    runs: Runs,
    /,
    episodes: int = 10,
    seed: int = 10_000,
    env: str | None = None,
    video: Path | None = None,
    offline: bool = False,
    all_steps: bool = False,
    rewards: str | None = None,
    set: tuple[str, ...] = (),
    json: bool = False,
) -> None:
    """Evaluate policies on their simulator, a Gymnasium environment, or data alone.

    Example: utds evaluate runs/walker-walk-utds --episodes 20 --video walk.mp4

    Example: utds evaluate runs/alone runs/shared --offline --all-steps

    Args:
        runs: directories that training wrote
        episodes: for each seed of a run
        seed: of the start states; with --offline of the estimate
        env: id of a Gymnasium environment to use in place of the task's simulator
        video: write one episode of the first seed's policy to this file, such as walk.mp4 (needs utds[video])
        offline: judge all runs without any environment, on the union of their data by fitted Q evaluation: which policy
            to deploy, and whether sharing helped
        all_steps: with --offline: also the policies that were kept along training
        rewards: with --offline: how shared data is labelled; by default as in training
        set: with --offline: options of the estimate, such as steps=4000 discount=0.95 horizon=200
        json: print the results as JSON
    """
    from utds import evaluation, training
    from utds.evaluation import returns

    if not runs:
        raise ConfigError("name at least one run to evaluate")
    found = [training.Run(path) for path in runs]
    if offline:
        if env is not None or video is not None:
            raise ConfigError("--offline needs no environment: leave out --env and --video")
        return _evaluate_offline(found, json, _overrides(set), all_steps=all_steps, rewards=rewards, seed=seed)
    if all_steps or rewards is not None or set:
        raise ConfigError("--all-steps, --rewards and --set are for judging from data alone: add --offline")
    if video is not None and (env is not None or len(found) > 1):
        raise ConfigError("--video films one run on the task's own simulator: leave out --env and other runs")
    if video is not None:
        returns.check_video(video)
        files.check_file(video)
    results = [(run, run.evaluate(episodes, seed, env)) for run in found]
    if json:
        terminal.print_json({str(run.path): result.to_json() for run, result in results})
    else:
        for run, result in results:
            print(result if len(found) == 1 else f"{run.path}: {result}")
    if video is not None:
        (run,) = found
        act = functools.partial(training.act, run.algorithm, run.policy())
        filmed = evaluation.video(act, run.config["task"], video, seed)
        print(f"{video}: one episode, return {filmed:.1f}", file=sys.stderr if json else sys.stdout)


def _evaluate_offline(runs: Sequence[Any], json: bool, changed: dict[str, Any], **options: Any) -> None:
    from utds.evaluation import fqe
    from utds.training import offline

    offline.check_options(changed)  # lest one is taken for an argument of the call
    found = offline.evaluate_offline(runs, **options, **changed)
    for line in found.warnings:
        print(f"utds: warning: {line}", file=sys.stderr)
    if json:
        return terminal.print_json(found.to_json())
    title = f"{found.task}: {found.horizon} steps discounted by {found.discount:g}, on {', '.join(found.sources)}"
    table = terminal.table("run", "shares", numbers=("seed", "step", "value [95 %]", "outside"))
    for each in found.candidates:
        value, shares = fqe.text(each.estimate.mean, *each.estimate.interval), "yes" if each.shares else "no"
        table.add_row(terminal.Name(each.run), shares, str(each.seed), str(each.step), value, f"{each.outside:.0%}")
    table.add_row(f"recorded, {found.recorded.episodes} episodes", "", "", "", str(found.recorded), "")
    terminal.show(title, table, "outside: share of states where the policy's action lies outside the data")
    for line in found.verdict:
        print(line)
    best = found.best
    step = "" if best.last else f" --step {best.step}"
    print(f"export it with: utds export {best.run} policy.onnx --seed {best.seed}{step}")


def export(
    run: Annotated[Path, tyro.conf.arg(metavar="RUN")],
    target: Annotated[Path, tyro.conf.arg(metavar="FILE")],
    /,
    seed: int | None = None,
    step: int | None = None,
    ensemble: bool = False,
    json: bool = False,
) -> None:
    """Write a policy as an ONNX file, normalisation included, and check it.

    Example: utds export runs/walker-walk-utds policy.onnx --ensemble

    Args:
        run: the directory that training wrote
        target: the file to write, such as policy.onnx
        seed: whose policy; by default the first seed's
        step: of a policy that was kept along training; by default the last
        ensemble: also export the critics: a second output gives the uncertainty of each action
        json: print the file and whose policy it holds as JSON
    """
    from utds import training

    files.check_file(target)
    found = training.Run(run)
    written = found.export(target, seed, ensemble, step)
    if json:
        whose = {"run": str(run), "task": found.config["task"], "seed": found.seeds[0] if seed is None else seed}
        terminal.print_json({"file": str(written), **whose, "step": step, "ensemble": ensemble})
        return
    print(f"wrote {written}")


def _overrides(given: tuple[str, ...]) -> dict[str, Any]:
    """`name=value` pairs; values are JSON where they can be, else words."""
    import json

    found: dict[str, Any] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set takes name=value pairs such as batch_size=512, got {pair!r}")
        if name in ("name", "preset"):
            raise ConfigError(f"--set changes fields of the algorithm; choose it by --algo and --preset, not {pair!r}")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
        except (ValueError, RecursionError):
            raise ConfigError(f"--set {name}={shortened(value)} has {ENDLESS}; shorten it") from None
    return found


def _print_result(run: Any, json: bool) -> None:
    last = [row for row in run.evaluations if row["step"] == run.config["steps"]]
    if json:
        what = {"run": str(run.path), "task": run.config["task"], "algorithm": run.config["algorithm"]["name"]}
        terminal.print_json(what | {"evaluations": last, "result": run.result})
        return
    if not last:
        print(
            f"trained: {run.path} (the task has no simulator here; judge it with: utds evaluate {run.path} --offline)"
        )
        return
    table = terminal.table("seed", numbers=("return", "standard error", "score"))
    for row in last:
        numbers = (terminal.number(row.get(name)) for name in ("return", "standard_error", "score"))
        table.add_row(str(row["seed"]), *numbers)
    terminal.show(f"{run.path}: {run.config['task']} after {run.config['steps']} steps", table)


def list_(folder: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs"), /, json: bool = False) -> None:
    """List the runs below a folder: trained on what, how far, and what they reached.

    Example: utds runs list

    Args:
        folder: where to look, at any depth; links to folders are not followed
        json: print the list as JSON
    """
    from utds.training import overview

    rows = list(overview.find(folder))
    if json:
        terminal.print_json(rows)
        return
    table = terminal.table("run", "algo", "task", numbers=("shared", "seeds", "steps", "return"))  # fits 60 columns
    for row in rows:
        path = str(Path(row["run"]).relative_to(folder)) if Path(row["run"]) != folder else row["run"]
        if row["state"] == "damaged":
            table.add_row(terminal.Name(path), "damaged", *["–"] * 5)
            continue
        reached = _reached(row) if row["state"] == "finished" else row["state"]
        steps = str(row["steps"]) if row["state"] == "finished" else f"{row['step']} of {row['steps']}"
        counts = (str(len(row[name])) for name in ("shared", "seeds"))
        table.add_row(terminal.Name(path), row["algorithm"], terminal.Name(row["task"]), *counts, steps, reached)
    if rows:
        terminal.show(table)
    terminal.show(f"{len(rows)} run{'s' * (len(rows) != 1)} below {folder}; return: mean ± standard error over seeds")


def compare(runs: Runs, /, json: bool = False) -> None:
    """Compare runs: in which options they differ, and by how much their returns do.

    Example: utds runs compare runs/walker-walk-utds runs/walker-walk-pbrl

    Args:
        runs: two or more run directories
        json: print the comparison as JSON
    """
    from utds.training import overview

    if len(runs) < 2:
        raise ConfigError("name at least two runs to compare; see: utds runs list")
    unlike, found = overview.differences(runs), [overview.row(path) for path in runs]
    gains = [_gain(row, found[0]) for row in found]
    if json:
        terminal.print_json({"runs": found, "differences": unlike, "gains": gains})
        return
    letters = string.ascii_uppercase[: len(runs)] if len(runs) <= 26 else list(map(str, range(1, len(runs) + 1)))
    table = terminal.table("", *letters)
    for name, values in unlike.items():
        table.add_row(name, *map(_text, values))
    table.add_section()
    table.add_row("return", *(_reached(row) for row in found))
    table.add_row(f"return − {letters[0]}'s", "", *map(_interval, gains[1:]))
    table.add_row("seconds", *(terminal.number(row.get("seconds")) for row in found))
    terminal.show(*(f"{letter}: {path}" for letter, path in zip(letters, runs, strict=True)), table)
    terminal.show("return: mean ± standard error over seeds; differences with 95 % intervals (Welch) from two seeds on")


def remove(runs: Runs, /, yes: bool = False, json: bool = False) -> None:
    """Remove run directories; without --yes only say what would be removed.

    Example: utds runs remove runs/walker-walk-utds --yes

    Args:
        runs: run directories; anything else is refused
        yes: really remove them
        json: print the runs, their sizes and whether they were removed as JSON
    """
    from utds.training import overview

    if not runs:
        raise ConfigError("name at least one run to remove; see: utds runs list")
    for path in runs:
        overview.check_removable(path)
    sizes = [overview.size(path) for path in runs]
    for path, size in zip(runs, sizes, strict=True):
        if yes:
            overview.remove(path)
        said = f"{'removed' if yes else 'would remove'} {path} ({size / 1e6:.1f} MB)"
        print(said, file=sys.stderr if json else sys.stdout)
    if json:
        rows = zip(runs, sizes, strict=True)
        terminal.print_json([{"run": str(path), "bytes": size, "removed": yes} for path, size in rows])
    elif not yes:
        print("nothing was removed; pass --yes to remove " + ("it" if len(runs) == 1 else "them"))


def _reached(row: dict[str, Any]) -> str:
    mean, error = row.get("return_mean"), row.get("return_standard_error")
    if mean is None:
        return "–" if row["state"] == "finished" else row["state"]
    return terminal.number(mean) + ("" if error is None else f" ± {terminal.number(error)}")


def _gain(row: dict[str, Any], first: dict[str, Any]) -> dict[str, float] | None:
    """By how much a run's mean return exceeds the first one's; none where one of them has no returns."""
    from utds.report import aggregate

    own, others = ([value for value in each.get("returns", []) if value is not None] for each in (row, first))
    return aggregate.welch(own, others)._asdict() if own and others else None


def _interval(gain: dict[str, float] | None) -> str:
    if gain is None:
        return "–"
    value = f"{gain['value']:+.3g}"
    return value if math.isnan(gain["low"]) else f"{value} [{gain['low']:.3g}, {gain['high']:.3g}]"


def _text(value: Any) -> str:
    return "–" if value is None else ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
