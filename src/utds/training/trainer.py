"""Training: bursts of updates in one compiled loop, several seeds, checkpoints that a kill can't hurt.

This is the host's side: what is logged, evaluated and saved, and when. What is compiled stands in `loop.py`. Where
bursts, checkpoints and interruptions fall changes nothing: not a bit of the parameters or the logs.
"""

from __future__ import annotations

import contextlib
import math
import operator
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from utds import algorithms, evaluation, files, serialization, terminal
from utds.adviser.dynamics import refuse_different
from utds.algorithms import Algorithm, Policy
from utds.data.columns import to_raw
from utds.data.dataset import best_tenth
from utds.data.pool import Info, Pool, weigh_dynamics
from utds.errors import ConfigError, TrainingError
from utds.evaluation.rollout import act
from utds.training import run_files
from utds.training.loggers import Log, Logger, opened
from utds.training.loggers import make as make_loggers
from utds.training.loop import SeedState, Watch, advance_in_turn, advance_together, finite, fresh
from utds.training.run import CHECKPOINT, Run

BURST_SECONDS = 0.5  # between looks at signals, the guard and the progress bar
MOST = 2**31 - 1  # steps and seeds are 32-bit numbers
MOST_SEEDS = 10_000  # in one run
DIVERGENCE = 100.0  # the default of `divergence`, in multiples of the largest possible return

Act = Callable[[NDArray[np.floating]], NDArray[np.float32]]  # observations [B, O] -> actions [B, A]
Evaluate = Callable[[Act], Mapping[str, float]]  # such as {"return": 812.0, "standard_error": 9.1}


def train(
    pool: Pool,
    algorithm: Algorithm | None = None,
    *,
    seeds: int | Sequence[int] = 1,
    steps: int | None = None,
    out: str | os.PathLike[str] | None = None,
    evaluate: Evaluate | Literal["auto"] | None = "auto",
    episodes: int = 10,
    eval_every: int | None = None,
    log_every: int | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    divergence: float = DIVERGENCE,
    vmap: bool | None = None,
    trust_dynamics: bool = False,
    loggers: Sequence[Logger | str] = (),
) -> Run:
    """Train every seed for `steps` gradient steps and return the run.

    SIGINT and SIGTERM write a checkpoint before they take effect. A NaN or a diverging Q raises `TrainingError` and
    leaves the last good checkpoint in place.

    Args:
        pool: the data, from `utds.share`.
        algorithm: what to train; UTDS with its fast preset if not given.
        seeds: how many (0, 1, …), or which.
        steps: gradient steps per seed. If not given, what a run that is resumed was asked for, and else what the preset
            says, which for the fast one depends on the data.
        out: the run directory; `runs/<task>-<algorithm>` if not given.
        evaluate: called with every seed's policy each `eval_every` steps and at the end. "auto" runs episodes of the
            pool's task if it belongs to a known domain; None never evaluates. The policy that your function is
            handed acts in the robot's unit.
        episodes: per evaluation, with "auto".
        eval_every: steps between evaluations; a tenth of all if not given.
        log_every: steps per row of metrics.csv; as `eval_every` but at most 1,000 if not given.
        checkpoint_every: steps between checkpoints; as `eval_every` if not given.
        resume: resume the run in `out`, if there is one. With more steps, fields that are shares of the run, such as
            `anneal_steps="100%"`, are shares of the new length: it differs from a run of that length from the start.
        divergence: stop when |Q| exceeds this multiple of the largest possible return.
        vmap: train the seeds under `vmap` or one after the other; `vmap` where there is an accelerator if not given.
        trust_dynamics: share data without checking, before a new run, that it moves as the main data does.
        loggers: "tensorboard", "wandb", or anything with the methods of `utds.training.loggers.Logger`: each is handed
            what metrics.csv and evaluations.csv get.

    Returns:
        The run: its metrics, evaluations and policies.
    """
    algorithm = algorithms.make("utds") if algorithm is None else algorithm
    chosen = make_loggers(loggers)
    folder = Path(out or Path("runs") / f"{pool.info.task}-{algorithms.name_of(algorithm)}")
    if steps is None:
        begun = resume and run_files.is_run(folder)
        steps = run_files.config(folder)["steps"] if begun else algorithms.default_steps(algorithm, pool)
    eval_every = max(1, steps // 10) if eval_every is None else eval_every
    log_every = min(1_000, eval_every) if log_every is None else log_every
    simulated = evaluation.evaluator(pool.info.task, episodes) if evaluate == "auto" else None
    if not (evaluate in ("auto", None) or callable(evaluate)):
        raise ConfigError(f'evaluate={evaluate!r} must be "auto", None or a function of a policy')
    evaluate = simulated if evaluate == "auto" else _raw(evaluate, pool.info)
    seeds = range(int(seeds)) if isinstance(seeds, int | np.integer) else seeds
    if len(seeds) > MOST_SEEDS:
        raise ConfigError(f"{len(seeds)} seeds are too many for one run: at most {MOST_SEEDS}")
    config = configuration(
        pool,
        algorithm,
        seeds=seeds,
        steps=steps,
        eval_every=eval_every,
        log_every=log_every,
        checkpoint_every=eval_every if checkpoint_every is None else checkpoint_every,
        divergence=divergence,
        episodes=None if simulated is None else episodes,
    )
    if not run_files.is_run(folder):
        _refuse_unfit(algorithm, pool, steps)
        if not (trust_dynamics or weigh_dynamics(pool.info.weights)):
            refuse_different(pool.info.datasets)
    with files.lock(folder / "lock", f"the run {folder}"):
        run = Run.claim(folder, config, resume)
        if run.finished:
            with opened(chosen, run):  # which shows them what there is
                return run
        vmap = jax.default_backend() != "cpu" if vmap is None else vmap
        Trainer(run, pool, evaluate, vmap, chosen).train()
    return run


def configuration(
    pool: Pool, algorithm: Algorithm, divergence: float = DIVERGENCE, episodes: int | None = None, **options: Any
) -> dict[str, Any]:
    """What config.json holds. Options: seeds, steps, eval_every, log_every, checkpoint_every."""
    options = _checked(options)
    if not 0 <= divergence < math.inf:
        raise ConfigError(f"divergence={divergence} must be a number of 0 or more; 1e9 all but switches it off")
    return {
        "algorithm": algorithms.to_config(algorithm),
        "task": pool.info.task,
        "domain": pool.info.domain,
        "sources": _sources(pool),
        "rewards": pool.info.rewards,
        "sampling": pool.info.sampling,
        "weights": pool.info.weights,
        "observation_size": pool.observation_size,
        "action_size": pool.action_size,
        "action_low": list(pool.info.action_low),
        "action_high": list(pool.info.action_high),
        **options,
        "divergence": float(divergence),
        **({} if episodes is None else {"episodes": int(episodes)}),  # of an evaluation on the task's own simulator
    }


class Trainer:
    """The loop over bursts, and what happens between them."""

    def __init__(
        self, run: Run, pool: Pool, evaluate: Evaluate | None, vmap: bool = False, loggers: Sequence[Logger] = ()
    ) -> None:
        self.run, self.seeds, self.loggers = run, run.seeds, loggers
        self.hand_on: Log = lambda group, rows: None  # to the loggers, while training
        self.algorithm = algorithms.resolve(run.algorithm, run.config["steps"])  # a run may be resumed with more steps
        self.pool = _anonymous(pool)
        self.evaluate = evaluate
        self.advance = advance_together if vmap else advance_in_turn
        keys = [jax.random.split(jax.random.key(seed)) for seed in self.seeds]
        self.init_keys, self.step_keys = (tuple(pair[i] for pair in keys) for i in (0, 1))
        spec = algorithms.spec_of(self.algorithm, pool)
        reward = max(abs(float(spec.reward_min)), abs(float(spec.reward_max)), 1.0)
        discount = getattr(self.algorithm, "discount", 0.0)
        largest = reward / (1 - discount) if discount < 1 else math.inf  # possible return
        self.limit = run.config["divergence"] * largest
        self.spec, self.note, self.warned = spec, "", False
        self.value_note = ""  # what the critics promise at the start states, of what the data supports
        self.watch = Watch(self.algorithm, pool)

    def train(self) -> None:
        config, begun = self.run.config, time.monotonic()
        states, first = self.begin()
        step = first
        title = f"training {config['algorithm']['name']} on {config['task']}"
        with (
            signals() as pending,
            opened(self.loggers, self.run) as self.hand_on,
            terminal.bar(title, config["steps"], done=step) as bar,
        ):
            burst = 1
            while step < config["steps"]:
                size = min(burst, self.next_stop(step) - step)
                started = time.monotonic()
                states = self.advance(self.algorithm, states, self.pool, self.step_keys, size)
                self.guard(states, step + size)
                burst = max(1, round(size * BURST_SECONDS / (time.monotonic() - started)))
                step += size
                states = self.between(states, step)
                bar(size, note=" · ".join(filter(None, (self.note, self.value_note))))
                if pending:
                    self.save(states, step)
                    raise KeyboardInterrupt if pending[0] == signal.SIGINT else SystemExit(128 + pending[0])
        self.run.finish(step, time.monotonic() - begun, timed_steps=step - first)

    def begin(self) -> tuple[tuple[SeedState, ...], int]:
        """Every seed as saved, or fresh ones, and their step; the logs end there too."""
        states = tuple(fresh(self.algorithm, self.spec, self.pool, key) for key in self.init_keys)
        path, step = self.run.path / CHECKPOINT, 0
        if path.exists():
            saved, meta = serialization.load(path, states)
            run_files.check(meta, run_files.CHECKPOINT, str(path))
            if meta["seeds"] != list(self.seeds):
                raise TrainingError(f"{path} holds seeds {meta['seeds']}, not {list(self.seeds)}; give the run's own")
            states, step = jax.tree.map(jnp.array, saved), meta["step"]
        run_files.forget_after(self.run.path, step)
        return states, step

    def next_stop(self, step: int) -> int:
        """The next step at which something is to be written."""
        every = [self.run.config[name] for name in ("log_every", "eval_every", "checkpoint_every")]
        return min(self.run.config["steps"], *((step // n + 1) * n for n in every))

    def between(self, states: tuple[SeedState, ...], step: int) -> tuple[SeedState, ...]:
        """Log, evaluate and save, in this order: a checkpoint never claims a row that isn't there."""
        config = self.run.config
        last = step == config["steps"]
        if step % config["log_every"] == 0 or last:
            self._log(states, step)
            states = tuple(seed_state.cleared() for seed_state in states)
        if step % config["eval_every"] == 0 or last:
            self._evaluate(states, step)
        if step % config["checkpoint_every"] == 0 or last:
            self.save(states, step)
        return states

    def _log(self, states: tuple[SeedState, ...], step: int) -> None:
        """A row of metrics per seed; the first time that values exceed what the data can support, say so."""
        rows = [
            {"step": step, "seed": seed, **seed_state.means(), **self.watch.row(seed_state.state)}
            for seed, seed_state in self._each(states)
        ]
        self.run.log("metrics.csv", rows)
        self.hand_on("train", rows)
        for row in rows:
            if not self.warned and (words := self.watch.warning(row)):
                self.warned = True
                terminal.warn(f"seed {row['seed']}, step {step}: {words}")
        if "best_return" in rows[0]:
            promised = np.mean([row["q_start"] for row in rows])
            self.value_note = f"Q {promised:.3g} of {self.watch.supported:.3g}"

    def save(self, states: tuple[SeedState, ...], step: int) -> None:
        for seed, policy in self._policies(states):
            self.run.save_policy(seed, policy, step)
        serialization.save(self.run.path / CHECKPOINT, states, {"step": step, "seeds": list(self.seeds)})

    def _evaluate(self, states: tuple[SeedState, ...], step: int) -> None:
        """Keep every seed's policy, also where there is nothing to evaluate on: one may be chosen from data alone."""
        for seed, policy in self._policies(states):
            self.run.keep_policy(seed, policy, step)
        if self.evaluate is None:
            return
        rows: list[dict[str, Any]] = [
            {"step": step, "seed": seed, **_numbers(self.evaluate(partial(act, self.algorithm, policy)))}
            for seed, policy in self._policies(states)
        ]
        self.run.log("evaluations.csv", rows)
        self.hand_on("evaluation", rows)
        if all("return" in row for row in rows):
            self.note = f"return {np.mean([row['return'] for row in rows]):.0f}"
            terminal.line(f"{self.run.path}: step {step} of {self.run.config['steps']}, {self.note}")

    def guard(self, states: tuple[SeedState, ...], step: int) -> None:
        """Stop before a broken state reaches the disk."""
        for seed, seed_state in self._each(states):
            for name, value in jax.device_get(seed_state.totals).items():
                if not np.all(np.isfinite(value)) or (name == "q_abs_max" and value > self.limit):
                    what = f"|Q| reached {value:.3g}" if name == "q_abs_max" else f"{name} became {value}"
                    raise TrainingError(
                        f"{what} by step {step} (seed {seed}) in {self.run.path}; the last good checkpoint is kept: "
                        "lower the learning rates, or give a floor (floor, ood_floor) where the algorithm has one"
                    )
            if not finite(Policy.of(seed_state.state)):  # metrics are of the networks before the last step
                raise TrainingError(
                    f"the networks' weights are no longer finite by step {step} (seed {seed}) in {self.run.path}; the "
                    "last good checkpoint is kept: lower the learning rates"
                )

    def _each(self, states: tuple[SeedState, ...]) -> Iterator[tuple[int, SeedState]]:
        return zip(self.seeds, states, strict=True)

    def _policies(self, states: tuple[SeedState, ...]) -> Iterator[tuple[int, Policy]]:
        return ((seed, Policy.of(seed_state.state)) for seed, seed_state in self._each(states))


def _anonymous(pool: Pool) -> Pool:
    """The pool without its name tags, which are static under jit: pools of as many sources share one compilation.

    Of the sizes, which are also among the ranges, only counts whether there is anything.
    """
    sizes = tuple(min(size, 1) for size in pool.info.sizes)
    info = Info(task="", domain=None, ids=(), digests=(), sizes=sizes, sampling=pool.info.sampling)
    return replace(pool, info=info)


def _refuse_unfit(algorithm: Algorithm, pool: Pool, steps: int) -> None:
    """Let what an algorithm has against a pool be said before there is a run directory: trace its first step."""
    algorithm = algorithms.resolve(algorithm, steps)
    jax.eval_shape(partial(fresh, algorithm), algorithms.spec_of(algorithm, pool), _anonymous(pool), jax.random.key(0))


def _numbers(scores: Any) -> dict[str, float]:
    """What a user's evaluation returned, as a row has it beside the step and the seed."""
    try:
        found = {str(name): float(value) for name, value in scores.items()}
    except (AttributeError, TypeError, ValueError):
        raise ConfigError(
            f'`evaluate` returned {scores!r}; let it return names and numbers, as {{"return": 8.1}}'
        ) from None
    if taken := {"step", "seed"} & found.keys():
        raise ConfigError(f"`evaluate` returned a number called {min(taken)!r}, which each row has already; rename it")
    return found


def _raw(evaluate: Evaluate | None, info: Info) -> Evaluate | None:
    """A user's evaluation of policies that act in the robot's unit; those trained here act in [-1, 1]."""
    if evaluate is None or not info.action_low:
        return evaluate
    return lambda act: evaluate(lambda observations: to_raw(act(observations), info.action_low, info.action_high))


def _sources(pool: Pool) -> list[dict[str, Any]]:
    info = pool.info
    rows = zip(info.ids, info.digests, info.sizes, strict=True)
    sources = [{"id": name, "digest": digest, "transitions": size} for name, digest, size in rows]
    if info.datasets:  # what the main data reached as recorded: reports hold the policies against it
        returns = info.datasets[0].returns
        recorded = {"mean": float(np.mean(returns)), "best_tenth": best_tenth(returns), "episodes": len(returns)}
        sources[0]["recorded"] = recorded
    return sources


def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Seeds and steps as plain whole numbers, as JSON has them; NumPy's are such too."""
    found: dict[str, Any] = {"seeds": [_whole("seeds", seed) for seed in options["seeds"]]}
    for name in ("steps", "eval_every", "log_every", "checkpoint_every"):
        found[name] = _whole(name, options[name])
        if found[name] < 1:
            raise ConfigError(f"{name}={found[name]} must be at least 1")
    seeds = found["seeds"]
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise ConfigError(f"seeds={seeds} must be one or more different numbers, none negative")
    if max(*seeds, found["steps"]) > MOST:
        raise ConfigError(f"steps and the numbers of seeds can't exceed {MOST}")
    return found


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ConfigError(f"{name}={value!r} must be a whole number") from None


@contextlib.contextmanager
def signals() -> Iterator[list[int]]:
    """The signals that ask to stop, in the order in which they came; only a main thread can catch them."""
    pending: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield pending
        return
    before = {
        number: signal.signal(number, lambda n, _: pending.append(n)) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield pending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
