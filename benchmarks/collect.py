"""Environment steps per second while collecting, over the pattern of most online code, at the same update ratio.

That pattern, the released code's too: one environment of dm_control, one action at a time, and after it gradient steps
on batches drawn one by one. Its learner is a TD3 in PyTorch, where torch is installed, as in that code; and then our
own, compiled and with its buffers donated, so that what remains is the simulation and the handling of small things.
Networks, batches and their drawing are the same everywhere.
"""

import itertools
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from common import RATIO, dm_control_environment, fastest, require, table, verdict
from utds import domains
from utds.algorithms.td3 import State
from utds.collection import Collect
from utds.collection.online import Collection, Replay, _learn, learner
from utds.data.pool import Batch
from utds.domains.simulator import Simulator
from utds.evaluation import rollout
from utds.evaluation.rollout import Episodes

try:
    from torch_td3 import Torch
except ImportError:  # torch is no dependency of the package
    Torch = None

DOMAIN, TASK = "walker", "walk"  # the task of `dm_control_environment` too
STEPS = 60  # control steps of a measurement: of each copy here, of the one environment there
REPEATS = 5
RATIOS = (1.0, 0.5, 0.1)  # gradient steps per environment step: the released code's, our default, a thrifty one
REQUIRED = 1.5  # times the steps per second of one environment with PyTorch


def collecting(config: Collect, folder: Path) -> tuple[Callable[[], None], State]:
    """Rounds of collection after one of random actions; and the fresh learner that this one leaves."""
    collection = Collection(folder, config)
    simulator = Simulator(collection.domain, config.copies)
    _, start = collection._round(0, None, lambda *_: None, simulator)
    assert start is not None
    now, index = [jax.tree.map(np.array, start)], iter(range(1, REPEATS + 2))

    def run() -> None:
        now[0] = jax.block_until_ready(collection._round(next(index), now[0], lambda *_: None, simulator)[1])

    return run, start


class Ours:
    """Our TD3, one gradient step per call."""

    def __init__(self, config: Collect, state: State) -> None:
        self._algo, self._state, self._count = learner(config), jax.tree.map(np.array, state), itertools.count()

    def act(self, observations: np.ndarray) -> np.ndarray:
        return rollout.act(self._algo, self._state, observations)

    def update(self, columns: tuple[np.ndarray, ...]) -> None:
        batches = Batch(*(jnp.asarray(column[None]) for column in columns))
        self._state = _learn(self._algo, self._state, batches, 0, next(self._count))


class Loop:
    """One environment of dm_control, stepped and learnt from in turn."""

    def __init__(self, config: Collect, learner: "Ours | Torch") -> None:
        self._domain, task = domains.task(config.task)
        self._config, self._learner = config, learner
        self._env = dm_control_environment(DOMAIN)
        one = replace(config, copies=1, update_ratio=1.0)  # the ratio is ours here: one copy can't have a smaller one
        self._replay = Replay(self._domain, self._domain.tasks.index(task), one, REPEATS + 2)
        self._random = np.random.default_rng(0)
        self._round(lambda _: self._random.uniform(-1, 1, (1, self._domain.action_size)), learn=False)

    def __call__(self) -> None:
        self._round(self._explore, learn=True)
        self._explore(np.zeros((1, self._domain.observation_size)))  # waits for the last gradient step

    def _explore(self, observations: np.ndarray) -> np.ndarray:
        actions = self._learner.act(observations)
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
                self._learner.update(tuple(column[0] for column in self._replay.draw(self._random, 1)))
                due -= 1
        self._replay.add_round(episodes)


def flat(now) -> np.ndarray:
    return np.concatenate([np.ravel(v) for v in now.observation.values()])


def measured(name: str, ratio: float) -> dict[str, object]:
    config = Collect(f"{name}-{TASK}", steps=10 * STEPS * (REPEATS + 2), update_ratio=ratio, warmup=1)
    domain = domains.get(DOMAIN)
    with tempfile.TemporaryDirectory() as folder:
        collect, start = collecting(config, Path(folder))
        works = {"collect": collect, "ours": Loop(config, Ours(config, start))}
        if Torch is not None:
            works["torch"] = Loop(config, Torch(config, domain.observation_size, domain.action_size))
        for work in works.values():  # compile
            work()
        times = fastest(works, repeats=REPEATS)
    rates = {key: STEPS * (config.copies if key == "collect" else 1) / seconds for key, seconds in times.items()}
    row: dict[str, object] = {"gradient steps per step": ratio, "steps/s": round(rates["collect"])}
    if Torch is not None:
        row |= {
            "one environment, PyTorch": round(rates["torch"]),
            "over it": f"{rates['collect'] / rates['torch']:.2f}×",
            "required": f"{REQUIRED}×",
        }
        what = f"collecting at {ratio} gradient steps per step, over one environment with PyTorch"
        require(what, rates["collect"] / rates["torch"], least=REQUIRED, noise=RATIO)
    return row | {
        "one environment, our TD3": round(rates["ours"]),
        "over it ": f"{rates['collect'] / rates['ours']:.2f}×",
    }


def main() -> None:
    # Shorter episodes: a round of collection is a measurement.
    name = domains.register(replace(domains.get(DOMAIN), name=f"{DOMAIN}short", steps=STEPS)).name
    batch = Collect(f"{DOMAIN}-{TASK}").batch_size
    rows = [measured(name, ratio) for ratio in RATIOS]
    table(f"collecting {DOMAIN}-{TASK}, batches of {batch}, on {os.cpu_count()} cores", rows)
    if Torch is None:
        print("For the comparison with the released code's framework: pip install torch")


if __name__ == "__main__":
    main()
    verdict()
