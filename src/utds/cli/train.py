"""`utds train`, `utds evaluate`, `utds export`: from stored datasets to a policy, its return and a file."""

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from utds.errors import ConfigError, DataError

Id = Annotated[str, tyro.conf.arg(metavar="ID")]
RunFolder = Annotated[Path, tyro.conf.arg(metavar="RUN")]
STEPS = {"paper": 1_000_000, "released": 1_000_000, "cpu": 15_000}  # gradient steps that go with a preset


def train(
    main: Id,
    /,
    share: tuple[str, ...] = (),
    algo: str = "utds",
    preset: str = "cpu",
    rewards: Literal["known", "learned", "zero"] = "known",
    set: tuple[str, ...] = (),
    steps: int | None = None,
    seeds: int = 1,
    first_seed: int = 0,
    out: Path | None = None,
    resume: bool = False,
    eval_every: int | None = None,
    episodes: int = 10,
    checkpoint_every: int | None = None,
    tensorboard: bool = False,
    trust_dynamics: bool = False,
) -> None:
    """Train a policy for the main dataset's task, with the data of other tasks relabelled and shared.

    Example: utds train walker-walk/medium --share walker-run/replay walker-stand/replay --algo utds --seeds 3

    Args:
        main: dataset of the task to learn, such as walker-walk/medium
        share: datasets of other tasks of the same robot
        algo: utds, pbrl, cql, cds, cds-zero, uds, bc, td3bc or td3
        preset: paper (the published values), released (the authors' code's) or cpu (good in minutes on two cores)
        rewards: of the shared data: known (stored or from physics), learned from the main data, or zero
        set: fields of the algorithm to change, such as batch=512 beta_ood=1.5
        steps: gradient steps a seed; by default 15,000 with cpu and a million otherwise
        seeds: how many to train
        first_seed: number of the first of them
        out: run directory; by default runs/<task>-<algorithm>
        resume: go on with the run in that directory
        eval_every: steps between evaluations; by default a tenth of all
        episodes: of an evaluation
        checkpoint_every: steps between checkpoints; by default as often as evaluations
        tensorboard: also write the metrics for TensorBoard
        trust_dynamics: share data even if it seems to be recorded with other dynamics than the main data
    """
    from utds import algorithms, experiment
    from utds import tensorboard as board
    from utds.data import lake, store

    if tensorboard:
        board.check()
    steps = steps or STEPS.get(preset, 1_000_000)
    eval_every = eval_every or max(1, steps // 10)
    algorithm = algorithms.make(algo, preset=preset, **_overrides(set))
    own, others = store.load(main), [store.load(name) for name in share]
    pool = lake.share(own, *others, rewards=rewards)
    if others and not trust_dynamics:
        _check_dynamics(own, others)
    run = experiment.train(
        pool,
        algorithm,
        episodes=episodes,
        seeds=range(first_seed, first_seed + seeds),
        steps=steps,
        out=out,
        resume=resume,
        eval_every=eval_every,
        log_every=min(1_000, eval_every),
        checkpoint_every=checkpoint_every or eval_every,
    )
    if tensorboard:
        print(f"TensorBoard: tensorboard --logdir {board.write(run)}")
    _print_result(run)


def evaluate(
    run: RunFolder,
    /,
    episodes: int = 10,
    seed: int = 10_000,
    env: str | None = None,
    video: Path | None = None,
    offline: bool = False,
) -> None:
    """Evaluate the policies of a run on its task, on any Gymnasium environment, or from its data alone.

    Example: utds evaluate runs/walker-walk-utds --episodes 20 --video walk.mp4

    Args:
        run: the directory that training wrote
        episodes: for each seed of the run
        seed: of the start states
        env: id of a Gymnasium environment to use in place of the task's simulator
        video: write one episode of the first seed's policy to this file (needs utds[video])
        offline: estimate values by fitted Q evaluation on the run's data, without any environment: to rank policies by
    """
    import functools

    from utds import evaluation, runs

    found = runs.Run(run)
    if offline:
        if env is not None or video is not None:
            raise ConfigError("--offline needs no environment: leave out --env and --video")
        return _evaluate_offline(found)
    print(found.evaluate(episodes, seed, env))
    if video is not None:
        if env is not None:
            raise ConfigError("--video films the task's own simulator: leave out --env")
        act = functools.partial(runs.act, found.algorithm, found.policy())
        print(f"{video}: one episode, return {evaluation.video(act, found.config['task'], video, seed):.1f}")


def _evaluate_offline(run: Any) -> None:
    from utds import fitted

    pool = run.pool()
    for seed, estimate in fitted.evaluate_run(run, pool):
        print(f"seed {seed}, {estimate}")
    recorded = fitted.behaviour(pool, estimate.discount)
    print(f"its own data's episodes are worth {recorded:.2f} from their start states, as recorded")
    print("An estimate from data alone: it ranks policies on the same data; it doesn't tell their returns.")


def export(
    run: RunFolder,
    target: Annotated[Path, tyro.conf.arg(metavar="FILE")],
    /,
    seed: int | None = None,
    ensemble: bool = False,
) -> None:
    """Write a policy as an ONNX file, normalisation included, checked against the original.

    Example: utds export runs/walker-walk-utds policy.onnx --ensemble

    Args:
        run: the directory that training wrote
        target: the file to write, such as policy.onnx
        seed: whose policy; by default the first seed's
        ensemble: also export the critics: a second output gives the uncertainty of each action
    """
    from utds import runs

    print(f"wrote {runs.Run(run).export(target, seed, ensemble)}")


def _check_dynamics(main: Any, others: list[Any]) -> None:
    """Data of a robot that moves otherwise teaches falsehoods: refuse it."""
    from utds.advise import dynamics

    for found in dynamics.checks(main, others):
        if found.verdict == "different":
            raise DataError(
                f"{found.sentence(main.name)}; it seems to be recorded with other dynamics: leave it out, "
                f"or share it all the same with --trust-dynamics"
            )


def _overrides(given: tuple[str, ...]) -> dict[str, Any]:
    """`name=value` pairs; values are JSON where they can be, else words."""
    import json

    found: dict[str, Any] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set takes name=value pairs such as batch=512, got {pair!r}")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


def _print_result(run: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("seed", "return", "standard error", "score", title=f"{run.config['task']}: {run.path}")
    for row in run.evaluations:
        if row["step"] == run.config["steps"]:
            score = f"{row['score']:.1f}" if "score" in row else "–"
            table.add_row(str(row["seed"]), f"{row['return']:.1f}", f"{row['standard_error']:.1f}", score)
    if table.row_count:
        Console().print(table)
    else:
        print(f"trained: {run.path} (the task has no simulator here; evaluate with: utds evaluate {run.path} --env ID)")
