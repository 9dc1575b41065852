"""`utds train`, `utds evaluate`, `utds export`: from stored datasets to a policy, its return and a file."""

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from utds.errors import ConfigError

Id = Annotated[str, tyro.conf.arg(metavar="ID")]
RunFolder = Annotated[Path, tyro.conf.arg(metavar="RUN")]


def train(
    main: Id,
    /,
    share: tuple[str, ...] = (),
    algo: str = "utds",
    preset: str = "fast",
    rewards: str = "known",
    weights: str = "uniform",
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
    """Train a policy for the main dataset's task, with the data of other tasks relabelled and shared.

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
        set: fields of the algorithm to change, such as batch_size=512 beta_ood=1.5
        steps: gradient steps per seed; by default 5,000 to 10,000 with fast, by the size of the data, else a million
        seeds: how many to train
        first_seed: number of the first of them
        out: run directory; by default runs/<task>-<algorithm>
        resume: resume the run in that directory
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
    from utds.adviser.dynamics import DynamicsWeights
    from utds.data import lake, store
    from utds.data.weights import named
    from utds.training import loggers

    chosen = loggers.make(logger)
    algorithm = algorithms.make(algo, preset=preset, **_overrides(set))
    own, others = store.load(main), [store.load(name) for name in share]
    doubting = weights.partition(":")[0] == "dynamics"
    weighing = named(weights, {"dynamics": DynamicsWeights}) if doubting else weights
    pool = lake.share(own, *others, rewards=rewards, weights=weighing)
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
        trust_dynamics=trust_dynamics or doubting,
        loggers=chosen,
    )
    if "tensorboard" in logger and not json:
        print(f"TensorBoard: tensorboard --logdir {run.path / 'tensorboard'}")
    _print_result(run, json)


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

    from utds import evaluation, training

    found = training.Run(run)
    if offline:
        if env is not None or video is not None:
            raise ConfigError("--offline needs no environment: leave out --env and --video")
        return _evaluate_offline(found)
    print(found.evaluate(episodes, seed, env))
    if video is not None:
        if env is not None:
            raise ConfigError("--video films the task's own simulator: leave out --env")
        act = functools.partial(training.act, found.algorithm, found.policy())
        print(f"{video}: one episode, return {evaluation.video(act, found.config['task'], video, seed):.1f}")


def _evaluate_offline(run: Any) -> None:
    from utds.evaluation import fqe

    pool = run.pool()
    for seed, estimate in fqe.evaluate_run(run, pool):
        print(f"seed {seed}, {estimate}")
    recorded = fqe.behaviour(pool, estimate.discount)
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
    from utds import training

    print(f"wrote {training.Run(run).export(target, seed, ensemble)}")


def _overrides(given: tuple[str, ...]) -> dict[str, Any]:
    """`name=value` pairs; values are JSON where they can be, else words."""
    import json

    found: dict[str, Any] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set takes name=value pairs such as batch_size=512, got {pair!r}")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


def _print_result(run: Any, json: bool) -> None:
    from utds import terminal

    last = [row for row in run.evaluations if row["step"] == run.config["steps"]]
    if json:
        what = {"run": str(run.path), "task": run.config["task"], "algorithm": run.config["algorithm"]["name"]}
        terminal.print_json(what | {"evaluations": last, "result": run.result})
        return
    if not last:
        print(f"trained: {run.path} (the task has no simulator here; evaluate with: utds evaluate {run.path} --env ID)")
        return
    table = terminal.table("seed", numbers=("return", "standard error", "score"))
    for row in last:
        numbers = (terminal.number(row.get(name)) for name in ("return", "standard_error", "score"))
        table.add_row(str(row["seed"]), *numbers)
    terminal.show(f"{run.path}: {run.config['task']} after {run.config['steps']} steps", table)
