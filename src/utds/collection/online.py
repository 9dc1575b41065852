"""Online TD3 that records everything it sees, and the replay buffer that it learns from.

Copies of the domain run in lockstep; after each lockstep the learner takes its share of gradient steps. A *round* is
one episode of every copy. At its end the round goes to disk, then the learner, then its evaluation if one is due.
Whatever a kill interrupts, the next start finds what comes next: a round that the saved learner hasn't learnt from is
learnt again from its record, with the same batches; an evaluation that is missing is made. The random numbers of a
round are a function of the seed and its index. So a collection ends the same to the last bit, killed or not.

    <folder>/config.json     what was asked for
             rounds/00007.npz    observations, actions, rewards of all tasks, physics of one round
             learner.safetensors the TD3 state after the last round
             policies/00007.safetensors  the policy after a round in which it was evaluated
             evaluations.csv     env steps, mean return, standard error
             lock                held while a process is at work here
"""

import contextlib
import zipfile
import zlib
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from utds import domains, files, serialization, terminal
from utds.algorithms.base import Spec
from utds.algorithms.td3 import TD3, State
from utds.collection import FORMER_NAMES, Collect, kinds
from utds.data.pool import Batch
from utds.domains.base import Domain
from utds.domains.simulator import Simulator
from utds.errors import ConfigError, DataError
from utds.evaluation import rollout
from utds.evaluation.rollout import Episodes
from utds.networks import jit
from utds.terminal import Advance


class Collection:
    """A collection under way in a folder: made anew, or taken up where it was left."""

    def __init__(self, folder: Path, config: Collect) -> None:
        self.folder, self.config = folder, config
        self.domain, task = domains.task(config.task)
        self._task = self.domain.tasks.index(task)
        if config.n_step > self.domain.steps:
            raise ConfigError(f"n_step={config.n_step} is more than the {self.domain.steps} steps of an episode")
        self._round_steps = config.copies * self.domain.steps
        self._rounds = -(-config.steps // self._round_steps)
        if self.total_steps < config.warmup:  # before the folder is claimed with options that make no sense
            raise ConfigError(f"steps={config.steps} end before the warm-up of {config.warmup} does; ask for more")
        self._algo = learner(config)
        self._shared = self._shared_rounds()
        self._replay = Replay(self.domain, self._task, config, len(self._shared) + self._rounds)
        with self.lock():
            self._claim_folder()

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Be the only process at work in the folder."""
        return files.lock(self.folder / "lock", f"the collection {self.folder}")

    @property
    def total_steps(self) -> int:
        """Environment steps of all rounds: what was asked for, rounded up."""
        return self._rounds * self._round_steps

    def run(self) -> None:
        """Collect until the asked number of environment steps is recorded and learnt from."""
        with (
            self.lock(),
            Simulator(self.domain, self.config.copies) as simulator,
            terminal.bar(f"collecting {self.config.task}", total=self.total_steps) as advance,
        ):
            for path in self._shared:
                self._replay.add_round(self._read(path))
            recorded = 0
            while self._round_path(recorded).exists():
                recorded += 1
            state, learnt = self._load_learner(recorded)
            for index in range(self._rounds):
                if index < learnt:
                    self._replay.add_round(self.load_round(index))
                    advance(self._round_steps)
                else:  # a kill may have come between the record of a round and its learner
                    episodes, state = self._round(index, state, advance, simulator if index >= recorded else None)
                    if index >= recorded:
                        with files.atomic(self._round_path(index)) as part, open(part, "wb") as file:
                            np.savez(file, **episodes._asdict())
                    self._save_learner(index, state)
                if index >= learnt - 1:
                    self._evaluate(index, state, advance)

    def _round(
        self, index: int, state: State | None, advance: Advance, simulator: Simulator | None = None
    ) -> tuple[Episodes, State | None]:
        """One episode of every copy, with gradient steps after each lockstep once there is a learner.

        Without a simulator, the recorded round is learnt from once more: the same numbers are drawn.
        """
        config, random = self.config, np.random.default_rng([self.config.seed, index])
        updates = round(config.copies * config.update_ratio)
        episodes = self.load_round(index) if simulator is None else self._start(index, simulator)
        shape = (config.copies, self.domain.action_size)
        for t in range(self.domain.steps):
            noise = random.uniform(-1, 1, shape) if state is None else config.noise * random.standard_normal(shape)
            if simulator is not None:
                self._step(simulator, episodes, t, state, noise)
            self._replay.add_step(t, episodes)
            if state is not None:
                batches = self._replay.sample(random, updates)
                state = _learn(self._algo, state, batches, config.seed, index * self.domain.steps + t)
            advance(config.copies)
        self._replay.add_round(episodes)
        if state is None:  # the warm-up is over: it tells how to scale observations
            state = self._fresh_learner() if (index + 1) * self._round_steps >= config.warmup else None
        return episodes, state

    def _start(self, index: int, simulator: Simulator) -> Episodes:
        """A round at its start states: their seed is another one per round, and none of them an evaluation's."""
        seed = int(np.random.SeedSequence([self.config.seed, index, 2]).generate_state(1)[0])
        episodes = Episodes.empty(self.domain, self.config.copies)
        episodes.observations[:, 0] = simulator.reset(seed, exploration_start=True)
        episodes.physics[:, 0] = simulator.physics()
        return episodes

    def _step(self, simulator: Simulator, episodes: Episodes, t: int, state: State | None, noise: np.ndarray) -> None:
        """Step t of a round, recorded in `episodes`; without a learner the noise is what is done."""
        if state is not None:
            noise = np.clip(rollout.act(self._algo, state, episodes.observations[:, t]) + noise, -1, 1)
        actions = noise.astype(np.float32)
        observations, rewards = simulator.step(actions)
        episodes.actions[:, t], episodes.rewards[:, t] = actions, rewards
        episodes.observations[:, t + 1], episodes.physics[:, t + 1] = observations, simulator.physics()

    def _fresh_learner(self) -> State:
        mean, std = self._replay.statistics()
        spec = Spec(self.domain.observation_size, self.domain.action_size, mean=mean, std=np.maximum(std, 1e-3))
        return _init(self._algo, self.config.seed, spec)

    def _save_learner(self, index: int, state: State | None) -> None:
        if state is not None:
            serialization.save(self.folder / "learner.safetensors", state, {"rounds": index + 1})

    def _evaluate(self, index: int, state: State | None, advance: Advance) -> None:
        """Untrained and every `evaluate_every` steps: the return of the policy without noise; the policy is kept."""
        steps, every = (index + 1) * self._round_steps, self.config.evaluate_every
        path, rows = self.folder / "policies" / f"{index:05d}.safetensors", self._evaluations()
        if state is None or (state.step > 0 and steps // every == (steps - self._round_steps) // every):
            return
        if path.exists() and steps in rows:
            return
        act, episodes = partial(rollout.act, self._algo, state), self.config.evaluation_episodes
        returns = rollout.returns(self.domain, act, episodes, self.config.seed)[:, self._task]
        mean, error = returns.mean(), returns.std(ddof=1) / len(returns) ** 0.5
        if not path.exists():
            policy = {"normalizer": state.normalizer, "actor": state.actor}
            serialization.save(path, policy, {"steps": steps, "return": mean})
        rows[steps] = f"{steps},{mean:.3f},{error:.3f}"
        lines = ["steps,return,standard_error", *(rows[key] for key in sorted(rows)), ""]
        files.write_text(self.folder / "evaluations.csv", "\n".join(lines))
        advance(0, note=f"return {mean:.0f}")
        terminal.line(f"{self.folder}: step {steps} of {self.total_steps}, return {mean:.0f}")

    def _evaluations(self) -> dict[int, str]:
        """The rows of evaluations.csv by their steps."""
        path = self.folder / "evaluations.csv"
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        return {int(first): line for line in lines if (first := line.partition(",")[0]).isdecimal()}

    def load_round(self, index: int) -> Episodes:
        """A recorded round."""
        return self._read(self._round_path(index))

    def _read(self, path: Path) -> Episodes:
        try:
            with np.load(path, allow_pickle=False) as columns:
                found = Episodes(**columns)
        except (EOFError, OSError, TypeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
            raise DataError(
                f"{path} is no recorded round ({error}); remove it and the rounds after it to resume"
            ) from None
        like = Episodes.empty(self.domain, self.config.copies)._asdict()
        for name, column in found._asdict().items():
            if column.shape != like[name].shape:
                raise DataError(
                    f"{path}: {name} has shape {column.shape}, expected {like[name].shape}; "
                    "remove it and the rounds after it to resume"
                )
        return found

    def _shared_rounds(self) -> list[Path]:
        """The rounds of the collection to learn from too. Rewards of all tasks are recorded: none is computed anew."""
        if not self.config.share:
            return []
        folder = Path(self.config.share)
        found = sorted((folder / "rounds").glob("*.npz"))
        if not found:
            raise ConfigError(f"{folder} holds no recorded rounds to share; give the folder of a collection")
        theirs = _config(folder)
        if domains.task(theirs["task"])[0].name != self.domain.name or theirs["copies"] != self.config.copies:
            raise ConfigError(
                f"{folder} is of {theirs['task']} with copies={theirs['copies']}; only a collection of the same domain "
                f"with copies={self.config.copies} can be shared"
            )
        # A collection that shares may have gone on since this one began: what it began with is what it goes on with.
        count = _config(self.folder).get("shared_rounds") if (self.folder / "config.json").exists() else None
        if isinstance(count, int) and count > len(found):
            raise DataError(
                f"{folder} has {len(found)} of the {count} rounds that {self.folder} began with; restore it"
            )
        return found[:count] if isinstance(count, int) else found

    def ladder(self) -> kinds.Ladder:
        """The policies that were kept, thinned out to a ladder and measured."""
        paths = sorted((self.folder / "policies").glob("*.safetensors"))
        if not paths:
            raise ConfigError(f"{self.folder} has no policy yet: collect more steps than the warm-up's")
        returns = [_return(path) for path in paths]
        best = kinds.best_of(self.config.task, paths, returns)
        return kinds.build_ladder(
            self.config.task,
            [paths[i] for i in kinds.choose(returns, best)],
            total_steps=self.total_steps,
            noise=self.config.noise,
            seed=self.config.seed,
            command=self.config.command,
        )

    def _round_path(self, index: int) -> Path:
        return self.folder / "rounds" / f"{index:05d}.npz"

    def _load_learner(self, recorded: int) -> tuple[State | None, int]:
        """The learner as it was saved, and how many rounds it has learnt from; none, if those aren't all there."""
        path = self.folder / "learner.safetensors"
        if not path.exists():
            return None, 0
        spec = Spec(self.domain.observation_size, self.domain.action_size)
        state, meta = serialization.load(path, jax.eval_shape(partial(_init, self._algo, 0), spec))
        learnt = meta.get("rounds")
        if not isinstance(learnt, int):
            raise DataError(f"{path} doesn't say how many rounds it has learnt from; remove it to learn from all again")
        return (state, learnt) if learnt <= recorded else (None, 0)

    def _claim_folder(self) -> None:
        """Write the config, or compare it with the one that is there: only `steps` may differ."""
        path, mine = self.folder / "config.json", asdict(self.config)
        if path.exists():
            theirs = _config(self.folder)
            for name, value in mine.items():
                if name != "steps" and theirs.get(name, "") != value:
                    raise ConfigError(
                        f"{self.folder} holds a collection with {name}={theirs.get(name)!r}, not {value!r}; "
                        "give the same options to resume it, or another folder"
                    )
        if self._round_path(self._rounds).exists():  # what was recorded and learnt beyond the end would stay and count
            raise ConfigError(
                f"{self.folder} holds more than the {self.total_steps} steps asked for; "
                "give more --steps to resume it, or another folder"
            )
        files.write_json(path, mine | ({"shared_rounds": len(self._shared)} if self._shared else {}))


def _config(folder: Path) -> dict[str, Any]:
    """What the collection in a folder was asked for, under today's names."""
    found = files.read_json(folder / "config.json")
    if not isinstance(found, dict) or not {"task", "copies"} <= set(found):
        raise ConfigError(f"{folder / 'config.json'} tells of no collection; give the folder of one")
    return {FORMER_NAMES.get(name) or name: value for name, value in found.items()}


def _return(path: Path) -> float:
    """The return at which a policy was evaluated."""
    found = serialization.read(path)[1].get("return")
    if not isinstance(found, int | float):
        raise DataError(f"{path} holds no return of its policy; remove it, and the next start evaluates it again")
    return found


@partial(jax.jit, static_argnums=0)
def _init(algo: TD3, seed: int, spec: Spec) -> State:
    return algo.init(jax.random.key(seed), spec)


@partial(jit, static_argnums=0, donate_argnums=1)
def _learn(algo: TD3, state: State, batches: Batch, seed: int, step: int) -> State:
    """One gradient step on each of the batches [U, B, …]."""
    key = jax.random.fold_in(jax.random.key(seed), step)

    def update(state: State, inputs: tuple[Batch, jax.Array]) -> tuple[State, None]:
        return algo.update(state, *inputs)[0], None

    return jax.lax.scan(update, state, (batches, jax.random.split(key, len(batches.rewards))))[0]


def learner(config: Collect) -> TD3:
    return TD3(
        width=config.width,
        layers=config.layers,
        layer_norm=config.layer_norm,
        batch_size=config.batch_size,
        discount=config.discount**config.n_step,
        tau=config.tau,
        actor_lr=config.lr,
        critic_lr=config.lr,
    )


class Replay:
    """All rounds so far in memory, and batches of `n_step` transitions from them."""

    def __init__(self, domain: Domain, task: int, config: Collect, capacity: int) -> None:
        self._config, self._task, self._steps = config, task, domain.steps
        episodes = capacity * config.copies
        self._observations = np.empty((episodes, domain.steps + 1, domain.observation_size), np.float32)
        self._actions = np.empty((episodes, domain.steps, domain.action_size), np.float32)
        self._rewards = np.empty((episodes, domain.steps), np.float32)
        self._rounds = 0  # finished
        self._filled = 0  # steps of the current round

    @property
    def _rows(self) -> slice:
        """Of the round under way."""
        return slice(self._rounds * self._config.copies, (self._rounds + 1) * self._config.copies)

    def add_round(self, episodes: Episodes) -> None:
        rows = self._rows
        self._observations[rows], self._actions[rows] = episodes.observations, episodes.actions
        self._rewards[rows] = episodes.rewards[..., self._task]
        self._rounds, self._filled = self._rounds + 1, 0

    def add_step(self, t: int, episodes: Episodes) -> None:
        """Step t of the round under way, which `episodes` holds so far."""
        rows = self._rows
        self._observations[rows, t : t + 2] = episodes.observations[:, t : t + 2]
        self._actions[rows, t] = episodes.actions[:, t]
        self._rewards[rows, t] = episodes.rewards[:, t, self._task]
        self._filled = t + 1

    def statistics(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the observations of the finished rounds."""
        seen = self._observations[: self._rows.start].reshape(-1, self._observations.shape[-1])
        return seen.mean(axis=0, dtype=np.float64), seen.std(axis=0, dtype=np.float64)

    def sample(self, random: np.random.Generator, updates: int) -> Batch:
        """`updates` batches [U, B, …] for the learner."""
        return Batch(*map(jnp.asarray, self.draw(random, updates)))

    def draw(self, random: np.random.Generator, updates: int) -> tuple[np.ndarray, ...]:
        """The columns of `updates` batches, uniform over the windows of n steps that lie within an episode."""
        n, copies = self._config.n_step, self._config.copies
        windows = self._steps - n + 1  # of an episode
        count = self._rounds * windows + max(0, self._filled - n + 1)
        drawn = random.integers(0, count, size=(updates, self._config.batch_size))
        row = drawn // windows * copies + random.integers(0, copies, size=drawn.shape)
        t = drawn % windows
        rewards = sum(self._config.discount**k * self._rewards[row, t + k] for k in range(n))
        return (
            self._observations[row, t],
            self._actions[row, t],
            rewards,
            np.zeros(drawn.shape, np.float32),  # nothing terminates
            self._observations[row, t + n],
            np.ones(drawn.shape, np.float32),  # all of it is the task's own
            np.zeros(drawn.shape, np.int32),
        )
