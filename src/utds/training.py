"""Training: bursts of updates in one compiled loop, several seeds, checkpoints that a kill can't hurt.

This is the host's side: what is logged, evaluated and saved, and when. What is compiled stands in `utds.lanes`. Where
bursts, checkpoints and interruptions fall changes nothing: not a bit of the parameters or the logs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from utds import algorithms, checkpoints, progress, runs
from utds.algorithms import Algorithm, Policy, Spec
from utds.data.pool import Info, Pool
from utds.errors import ConfigError, TrainingError
from utds.lanes import Lane, advance_in_turn, advance_together, fresh
from utds.runs import Run

BURST_SECONDS = 0.5  # between looks at signals, the guard and the progress bar
DIVERGENCE = 100.0  # the default of `divergence`, in multiples of the largest possible return

Act = Callable[[NDArray[np.floating]], NDArray[np.float32]]  # observations [B, O] -> actions [B, A]
Evaluate = Callable[[Act], Mapping[str, float]]  # such as {"return": 812.0, "standard_error": 9.1}


def train(
    pool: Pool,
    algorithm: Algorithm,
    *,
    seeds: int | Sequence[int] = 1,  # how many (0, 1, …), or which
    steps: int = 1_000_000,  # gradient steps a seed
    out: str | os.PathLike[str] | None = None,  # run directory; by default runs/<task>-<algorithm>
    evaluate: Evaluate | None = None,  # called with every seed's policy each `eval_every` steps and at the end
    eval_every: int = 10_000,
    log_every: int = 1_000,  # steps a row of metrics.csv
    checkpoint_every: int = 10_000,
    resume: bool = False,  # go on with the run in `out`, if there is one
    divergence: float = DIVERGENCE,  # stop when |Q| exceeds this multiple of the largest possible return
    vmap: bool | None = None,  # seeds under vmap, or taking turns; by default vmap where there is an accelerator
) -> Run:
    """Train every seed for `steps` steps and return the run.

    SIGINT and SIGTERM write a checkpoint before they take effect. A NaN or a diverging Q raises `TrainingError` and
    leaves the last good checkpoint in place.
    """
    seeds = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    config = configuration(
        pool,
        algorithm,
        seeds=list(seeds),
        steps=steps,
        eval_every=eval_every,
        log_every=log_every,
        checkpoint_every=checkpoint_every,
        divergence=divergence,
    )
    run = Run.claim(out or Path("runs") / f"{pool.info.task}-{config['algorithm']['name']}", config, resume)
    if not run.finished:
        vmap = jax.default_backend() != "cpu" if vmap is None else vmap
        Trainer(run, pool, evaluate, vmap).train()
    return run


def configuration(pool: Pool, algorithm: Algorithm, divergence: float = DIVERGENCE, **options: Any) -> dict[str, Any]:
    """What config.json holds. Options: seeds, steps, eval_every, log_every, checkpoint_every."""
    _check_options(options)
    return {
        "algorithm": algorithms.to_config(algorithm),
        "task": pool.info.task,
        "domain": pool.info.domain,
        "sources": _sources(pool),
        "rewards": pool.info.rewards,
        "sampling": pool.info.sampling,
        "observation_size": pool.observation_size,
        "action_size": pool.action_size,
        **options,
        "divergence": divergence,
    }


class Trainer:
    """The loop over bursts, and what happens between them."""

    def __init__(self, run: Run, pool: Pool, evaluate: Evaluate | None, vmap: bool = False) -> None:
        self.run, self.algorithm, self.seeds = run, run.algorithm, run.seeds
        self.pool = _anonymous(pool)
        self.evaluate = evaluate
        self.advance = advance_together if vmap else advance_in_turn
        keys = [jax.random.split(jax.random.key(seed)) for seed in self.seeds]
        self.init_keys, self.step_keys = (tuple(pair[i] for pair in keys) for i in (0, 1))
        spec = Spec.of(pool)
        reward = max(abs(float(spec.reward_min)), abs(float(spec.reward_max)), 1.0)
        self.limit = run.config["divergence"] * reward / (1 - getattr(self.algorithm, "discount", 0.0))
        self.spec, self.note = spec, ""

    def train(self) -> None:
        config, begun = self.run.config, time.monotonic()
        lanes, first = self.begin()
        step = first
        title = f"training {config['algorithm']['name']} on {config['task']}"
        with signals() as pending, progress.bar(title, config["steps"]) as bar:
            bar(step)
            burst = 1
            while step < config["steps"]:
                size = min(burst, self.next_stop(step) - step)
                started = time.monotonic()
                lanes = self.advance(self.algorithm, lanes, self.pool, self.step_keys, size)
                self.guard(lanes, step + size)
                burst = max(1, round(size * BURST_SECONDS / (time.monotonic() - started)))
                step += size
                lanes = self.between(lanes, step)
                bar(size, note=self.note)
                if pending:
                    self.save(lanes, step)
                    deliver(pending[0])
        self.run.finish(step, time.monotonic() - begun, timed_steps=step - first)

    def begin(self) -> tuple[tuple[Lane, ...], int]:
        """Lanes as saved, or fresh ones, and their step; the logs end there too."""
        lanes = tuple(fresh(self.algorithm, self.spec, self.pool, key) for key in self.init_keys)
        saved = checkpoints.load(self.run.path, lanes, self.seeds)
        lanes, step = (jax.tree.map(jnp.array, saved[0]), saved[1]) if saved else (lanes, 0)
        self.run.forget_after(step)
        return lanes, step

    def next_stop(self, step: int) -> int:
        """The next step at which something is to be written."""
        every = [self.run.config[name] for name in ("log_every", "eval_every", "checkpoint_every")]
        return min(self.run.config["steps"], *((step // n + 1) * n for n in every))

    def between(self, lanes: tuple[Lane, ...], step: int) -> tuple[Lane, ...]:
        """Log, evaluate and save, in this order: a checkpoint never claims a row that isn't there."""
        config = self.run.config
        last = step == config["steps"]
        if step % config["log_every"] == 0 or last:
            self.run.log("metrics.csv", [{"step": step, "seed": s} | x.means() for s, x in self._each(lanes)])
            lanes = tuple(lane.cleared() for lane in lanes)
        if self.evaluate and (step % config["eval_every"] == 0 or last):
            self._evaluate(lanes, step)
        if step % config["checkpoint_every"] == 0 or last:
            self.save(lanes, step)
        return lanes

    def save(self, lanes: tuple[Lane, ...], step: int) -> None:
        for seed, lane in self._each(lanes):
            self.run.save_policy(seed, Policy.of(lane.state), step)
        checkpoints.save(self.run.path, lanes, step, self.seeds)

    def _evaluate(self, lanes: tuple[Lane, ...], step: int) -> None:
        assert self.evaluate is not None
        rows: list[dict[str, Any]] = []
        for seed, lane in self._each(lanes):
            scores = self.evaluate(partial(runs.act, self.algorithm, Policy.of(lane.state)))
            rows.append({"step": step, "seed": seed} | {k: float(v) for k, v in scores.items()})
        self.run.log("evaluations.csv", rows)
        if "return" in rows[0]:
            self.note = f"return {np.mean([row['return'] for row in rows]):.0f}"

    def guard(self, lanes: tuple[Lane, ...], step: int) -> None:
        """Stop before a broken state reaches the disk."""
        for seed, lane in self._each(lanes):
            for name, value in jax.device_get(lane.totals).items():
                if not np.all(np.isfinite(value)) or (name == "q_abs_max" and value > self.limit):
                    what = f"|Q| reached {value:.3g}" if name == "q_abs_max" else f"{name} became {value}"
                    raise TrainingError(
                        f"{what} by step {step} (seed {seed}) in {self.run.path}; the last good checkpoint is kept: "
                        "lower the learning rates, or give a floor (floor, ood_floor) where the algorithm has one"
                    )

    def _each(self, lanes: tuple[Lane, ...]) -> Iterator[tuple[int, Lane]]:
        return zip(self.seeds, lanes, strict=True)


def _anonymous(pool: Pool) -> Pool:
    """The pool without its name tags, which are static under jit: pools of as many sources share one compilation.

    Of the sizes, which are also among the ranges, only counts whether there is anything.
    """
    sizes = tuple(min(size, 1) for size in pool.info.sizes)
    info = Info(task="", domain=None, ids=(), digests=(), sizes=sizes, sampling=pool.info.sampling)
    return replace(pool, info=info)


def _sources(pool: Pool) -> list[dict[str, Any]]:
    info = pool.info
    rows = zip(info.ids, info.digests, info.sizes, strict=True)
    return [{"id": name, "digest": digest, "transitions": size} for name, digest, size in rows]


def _check_options(options: Mapping[str, Any]) -> None:
    for name in ("steps", "eval_every", "log_every", "checkpoint_every"):
        if options[name] < 1:
            raise ConfigError(f"{name}={options[name]} must be at least 1")
    seeds = options["seeds"]
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise ConfigError(f"seeds={seeds} must be one or more different numbers, none negative")


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


def deliver(number: int) -> None:
    """What the signal would have done at once."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)
