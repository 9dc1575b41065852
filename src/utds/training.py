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
    divergence: float = 100.0,  # stop when |Q| exceeds this multiple of the largest possible return
    vmap: bool | None = None,  # seeds under vmap, or taking turns; by default vmap where there is an accelerator
) -> Run:
    """Train every seed for `steps` steps and return the run.

    SIGINT and SIGTERM write a checkpoint before they take effect. A NaN or a diverging Q raises `TrainingError` and
    leaves the last good checkpoint in place.
    """
    seeds = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    _check_options(seeds, steps, eval_every, log_every, checkpoint_every)
    config: dict[str, Any] = {
        "algorithm": algorithms.to_config(algorithm),
        "task": pool.info.task,
        "domain": pool.info.domain,
        "sources": _sources(pool),
        "rewards": pool.info.rewards,
        "sampling": pool.info.sampling,
        "observation_size": pool.observation_size,
        "action_size": pool.action_size,
        "seeds": list(seeds),
        "steps": steps,
        "eval_every": eval_every,
        "log_every": log_every,
        "checkpoint_every": checkpoint_every,
        "divergence": divergence,
    }
    out = out or Path("runs") / f"{pool.info.task}-{config['algorithm']['name']}"
    run = Run.claim(out, config, resume)
    if not run.finished:
        vmap = jax.default_backend() != "cpu" if vmap is None else vmap
        _Trainer(run, pool, seeds, vmap, evaluate).train()
    return run


class _Trainer:
    """The loop over bursts, and what happens between them."""

    def __init__(self, run: Run, pool: Pool, seeds: tuple[int, ...], vmap: bool, evaluate: Evaluate | None) -> None:
        self.run, self.algorithm, self.seeds = run, run.algorithm, seeds
        self.pool = _anonymous(pool)
        self.evaluate = evaluate
        self.advance = advance_together if vmap else advance_in_turn
        keys = [jax.random.split(jax.random.key(seed)) for seed in seeds]
        self.init_keys, self.step_keys = (tuple(pair[i] for pair in keys) for i in (0, 1))
        spec = Spec.of(pool)
        reward = max(abs(float(spec.reward_min)), abs(float(spec.reward_max)), 1.0)
        self.limit = run.config["divergence"] * reward / (1 - getattr(self.algorithm, "discount", 0.0))
        self.spec, self.note = spec, ""

    def train(self) -> None:
        config, begun = self.run.config, time.monotonic()
        lanes, step = self._begin()
        self.run.forget_after(step)
        title = f"training {config['algorithm']['name']} on {config['task']}"
        with _signals() as pending, progress.bar(title, config["steps"]) as bar:
            bar(step)
            burst = 1
            while step < config["steps"]:
                size = min(burst, self._next_stop(step) - step)
                started = time.monotonic()
                lanes = self.advance(self.algorithm, lanes, self.pool, self.step_keys, size)
                self._guard(lanes, step + size)
                burst = max(1, round(size * BURST_SECONDS / (time.monotonic() - started)))
                step += size
                lanes = self._between(lanes, step)
                bar(size, note=self.note)
                if pending:
                    self._save(lanes, step)
                    _deliver(pending[0])
        self.run.finish(step, time.monotonic() - begun)

    def _begin(self) -> tuple[tuple[Lane, ...], int]:
        """Lanes as saved, or fresh ones."""
        lanes = tuple(fresh(self.algorithm, self.spec, self.pool, key) for key in self.init_keys)
        saved = checkpoints.load(self.run.path, lanes, self.seeds)
        return (jax.tree.map(jnp.array, saved[0]), saved[1]) if saved else (lanes, 0)

    def _next_stop(self, step: int) -> int:
        """The next step at which something is to be written."""
        every = [self.run.config[name] for name in ("log_every", "eval_every", "checkpoint_every")]
        return min(self.run.config["steps"], *((step // n + 1) * n for n in every))

    def _between(self, lanes: tuple[Lane, ...], step: int) -> tuple[Lane, ...]:
        """Log, evaluate and save, in this order: a checkpoint never claims a row that isn't there."""
        config = self.run.config
        last = step == config["steps"]
        if step % config["log_every"] == 0 or last:
            self.run.log("metrics.csv", [{"step": step, "seed": s} | x.means() for s, x in self._each(lanes)])
            lanes = tuple(lane.cleared() for lane in lanes)
        if self.evaluate and (step % config["eval_every"] == 0 or last):
            self._evaluate(lanes, step)
        if step % config["checkpoint_every"] == 0 or last:
            self._save(lanes, step)
        return lanes

    def _save(self, lanes: tuple[Lane, ...], step: int) -> None:
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

    def _guard(self, lanes: tuple[Lane, ...], step: int) -> None:
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
    """The pool without its name tags, which are static under jit: pools of one shape then share one compilation."""
    info = Info(task="", domain=None, ids=(), digests=(), sizes=pool.info.sizes, sampling=pool.info.sampling)
    return replace(pool, info=info)


def _sources(pool: Pool) -> list[dict[str, Any]]:
    info = pool.info
    rows = zip(info.ids, info.digests, info.sizes, strict=True)
    return [{"id": name, "digest": digest, "transitions": size} for name, digest, size in rows]


def _check_options(seeds: tuple[int, ...], *counts: int) -> None:
    names = ("steps", "eval_every", "log_every", "checkpoint_every")
    for name, value in zip(names, counts, strict=True):
        if value < 1:
            raise ConfigError(f"{name}={value} must be at least 1")
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise ConfigError(f"seeds={list(seeds)} must be one or more different numbers, none negative")


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
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


def _deliver(number: int) -> None:
    """What the signal would have done at once."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)
