"""Environment steps a second while collecting, over the pattern of most online code, at the same update ratio.

That pattern, the released code's too: one environment of dm_control, one action at a time, and after it gradient steps
on batches drawn one by one. It is written here around our own TD3 and replay buffer, compiled and with its buffers
donated, so that networks, batches and gradients are the same on both sides. What can differ is the simulation and the
handling of small things: much where updates are few, little where the gradient is nearly all of the cost.
"""

import functools
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from common import fastest, table
from utds import domains
from utds.algorithms.base import COMPILER
from utds.algorithms.td3 import TD3, State
from utds.collection.online import Collection, learner
from utds.collection.options import Collect
from utds.collection.replay import Replay
from utds.data.pool import Batch
from utds.domains.simulator import Simulator
from utds.domains.suite import quiet_import
from utds.rollout import Episodes

DOMAIN, TASK = "walker", "walk"
STEPS = 60  # control steps of a measurement: of each copy here, of the one environment there
REPEATS = 5
RATIOS = (1.0, 0.5, 0.1)  # gradient steps an environment step: the released code's, our default, a thrifty one
REQUIRED = "1.5×"


def collecting(config: Collect, folder: Path) -> tuple[Callable[[], None], State]:
    """Rounds of collection after one of random actions; and the fresh learner that this one leaves."""
    collection = Collection(folder, config)
    simulator = Simulator(collection.domain, config.copies)
    _, start = collection._round(simulator, None, 0, lambda *_: None)
    assert start is not None
    now, index = [jax.tree.map(np.array, start)], iter(range(1, REPEATS + 2))

    def run() -> None:
        now[0] = jax.block_until_ready(collection._round(simulator, now[0], next(index), lambda *_: None)[1])

    return run, start


class Loop:
    """One environment of dm_control, stepped and learnt from in turn."""

    def __init__(self, config: Collect, algo: TD3, state: State) -> None:
        self._domain, task = domains.task(config.task)
        self._config = replace(config, copies=1)
        self._env = quiet_import("dm_control.suite").load(DOMAIN, TASK, task_kwargs={"random": 0})
        self._replay = Replay(self._domain, self._domain.tasks.index(task), self._config, REPEATS + 2)
        self._random = np.random.default_rng(0)
        self._keys = iter(jax.random.split(jax.random.key(0), 2 * STEPS * (REPEATS + 2)))
        self._act = jax.jit(algo.act)
        self._update = jax.jit(functools.partial(update, algo), donate_argnums=0, compiler_options=COMPILER)
        self._state = jax.tree.map(np.array, state)
        self._round(lambda _: self._random.uniform(-1, 1, (1, self._domain.action_size)), learn=False)

    def __call__(self) -> None:
        self._round(self._explore, learn=True)
        jax.block_until_ready(self._state)

    def _explore(self, observations: np.ndarray) -> np.ndarray:
        actions = np.asarray(self._act(self._state, observations))
        return np.clip(actions + self._config.noise * self._random.standard_normal(actions.shape), -1, 1)

    def _round(self, choose: Callable[[np.ndarray], np.ndarray], learn: bool) -> None:
        """An episode of `STEPS` steps."""
        episodes = Episodes.empty(self._domain, 1)
        now, due = self._env.reset(), 0.0
        episodes.observations[0, 0] = flat(now)
        for t in range(STEPS):
            episodes.actions[:, t] = choose(episodes.observations[:, t])
            now = self._env.step(episodes.actions[0, t])
            episodes.rewards[0, t], episodes.observations[0, t + 1] = now.reward, flat(now)
            self._replay.add_step(t, episodes)
            due += self._config.update_ratio
            while learn and due > 1 - 1e-6:
                batch = jax.tree.map(lambda x: x[0], self._replay.sample(self._random, 1))
                self._state, due = self._update(self._state, batch, next(self._keys)), due - 1
        self._replay.add_round(episodes)


def flat(now) -> np.ndarray:
    return np.concatenate([np.ravel(v) for v in now.observation.values()])


def update(algo: TD3, state: State, batch: Batch, key: jax.Array) -> State:
    return algo.update(state, batch, key)[0]


def measured(name: str, ratio: float) -> dict[str, object]:
    config = Collect(f"{name}-{TASK}", steps=10 * STEPS * (REPEATS + 2), update_ratio=ratio, warmup=1)
    with tempfile.TemporaryDirectory() as folder:
        ours, start = collecting(config, Path(folder))
        works = {"ours": ours, "loop": Loop(config, learner(config), start)}
        for work in works.values():  # compile
            work()
        times = fastest(works, repeats=REPEATS)
    ours_rate, loop_rate = config.copies * STEPS / times["ours"], STEPS / times["loop"]
    return {
        "gradient steps a step": ratio,
        "steps/s": round(ours_rate),
        "one dm_control environment": round(loop_rate),
        "over it": f"{ours_rate / loop_rate:.2f}×",
        "required": REQUIRED,
    }


def main() -> None:
    # Shorter episodes: a round of collection is a measurement.
    name = domains.register(replace(domains.get(DOMAIN), name=f"{DOMAIN}short", steps=STEPS)).name
    batch = Collect(f"{DOMAIN}-{TASK}").batch
    rows = [measured(name, ratio) for ratio in RATIOS]
    table(f"collecting {DOMAIN}-{TASK}, batches of {batch}, on {os.cpu_count()} cores", rows)


if __name__ == "__main__":
    main()
