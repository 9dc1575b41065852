"""Online TD3 that records everything it sees.

Copies of the domain run in lockstep; after each lockstep the learner takes its share of gradient steps. A *round* is
one episode of every copy. At its end the round goes to disk, then the learner: whatever a kill interrupts, the next
start loads all rounds, learns what is missing and goes on.

    <folder>/config.json     what was asked for
             rounds/00007.npz    observations, actions, rewards of all tasks, physics of one round
             learner.safetensors the TD3 state after the last round
             policies/00007.safetensors  the policy after a round in which it was evaluated
             evaluations.csv     env steps, mean return, standard error
"""

import csv
import functools
from dataclasses import asdict, dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from utds import domains, files, progress, rollout, trees
from utds.algorithms.base import Spec
from utds.algorithms.td3 import TD3, State
from utds.data.pool import Batch
from utds.domains.base import Domain
from utds.domains.simulator import Simulator
from utds.errors import ConfigError
from utds.progress import Advance
from utds.rollout import Episodes


@dataclass(frozen=True)
class Collect:
    """How to collect. The defaults learn fast on two cores."""

    task: str  # such as walker-walk
    steps: int = 1_000_000  # environment steps in all
    seed: int = 0
    copies: int = 10  # copies of the domain in lockstep
    update_ratio: float = 0.5  # gradient steps an environment step
    batch: int = 256  # transitions a gradient step
    width: int = 256  # units of the networks' hidden layers
    layers: int = 2  # hidden layers
    layer_norm: bool = True  # in the critics and the policy
    rate: float = 3e-4  # learning rate
    tau: float = 1e-2  # target networks' rate
    n_step: int = 3  # rewards summed before bootstrapping
    noise: float = 0.2  # standard deviation of the exploration noise
    warmup: int = 10_000  # environment steps with uniformly random actions first
    evaluate_every: int = 20_000  # environment steps between evaluations, each of which keeps a policy
    episodes: int = 10  # episodes an evaluation

    def learner(self) -> TD3:
        return TD3(
            width=self.width,
            layers=self.layers,
            layer_norm=self.layer_norm,
            batch=self.batch,
            discount=0.99**self.n_step,
            tau=self.tau,
            actor_rate=self.rate,
            critic_rate=self.rate,
        )


class Replay:
    """All rounds so far in memory, and batches of `n_step` transitions from them."""

    def __init__(self, domain: Domain, task: int, config: Collect, capacity: int) -> None:
        self._config, self._task, self._steps = config, task, domain.steps
        copies = (capacity * config.copies,)
        self._observations = np.empty((*copies, domain.steps + 1, domain.observation_size), np.float32)
        self._actions = np.empty((*copies, domain.steps, domain.action_size), np.float32)
        self._rewards = np.empty((*copies, domain.steps), np.float32)
        self._rounds = 0  # finished
        self._filled = 0  # steps of the current round

    def add_round(self, episodes: Episodes) -> None:
        rows = slice(self._rounds * self._config.copies, (self._rounds + 1) * self._config.copies)
        self._observations[rows], self._actions[rows] = episodes.observations, episodes.actions
        self._rewards[rows] = episodes.rewards[..., self._task]
        self._rounds, self._filled = self._rounds + 1, 0

    def add_step(self, t: int, episodes: Episodes) -> None:
        """Step t of the round under way, which `episodes` holds so far."""
        rows = slice(self._rounds * self._config.copies, (self._rounds + 1) * self._config.copies)
        self._observations[rows, t : t + 2] = episodes.observations[:, t : t + 2]
        self._actions[rows, t] = episodes.actions[:, t]
        self._rewards[rows, t] = episodes.rewards[:, t, self._task]
        self._filled = t + 1

    def statistics(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the observations of the finished rounds."""
        seen = self._observations[: self._rounds * self._config.copies].reshape(-1, self._observations.shape[-1])
        return seen.mean(axis=0, dtype=np.float64), seen.std(axis=0, dtype=np.float64)

    def sample(self, random: np.random.Generator, updates: int) -> Batch:
        """`updates` batches [U, B, …], uniform over the windows of n steps that lie within an episode."""
        n, copies = self._config.n_step, self._config.copies
        windows = self._steps - n + 1  # of an episode
        drawn = random.integers(
            0,
            self._rounds * windows + max(0, self._filled - n + 1),
            size=(updates, self._config.batch),
        )
        row = drawn // windows * copies + random.integers(0, copies, size=drawn.shape)
        t = drawn % windows
        rewards = sum(0.99**k * self._rewards[row, t + k] for k in range(n))
        columns = (
            self._observations[row, t],
            self._actions[row, t],
            rewards,
            np.zeros(drawn.shape, np.float32),  # nothing terminates
            self._observations[row, t + n],
            np.ones(drawn.shape, np.float32),  # all of it is the task's own
            np.zeros(drawn.shape, np.int32),
        )
        return Batch(*map(jnp.asarray, columns))


class Collection:
    """A collection under way in a folder: made anew, or taken up where it was left."""

    def __init__(self, folder: Path, config: Collect) -> None:
        self.folder, self.config = folder, config
        self.domain, task = domains.task(config.task)
        self._task = self.domain.tasks.index(task)
        self._round_steps = config.copies * self.domain.steps
        self._rounds = -(-config.steps // self._round_steps)
        self._algo = config.learner()
        self._replay = Replay(self.domain, self._task, config, self._rounds)
        self._claim_folder()

    def run(self) -> None:
        """Collect until the asked number of environment steps is recorded and learnt from."""
        done = self._load_rounds()
        state = self._load_learner(done) if done else None
        with (
            Simulator(self.domain, self.config.copies) as simulator,
            progress.bar(f"collecting {self.config.task}", total=self._rounds * self._round_steps) as advance,
        ):
            advance(done * self._round_steps)
            for index in range(done, self._rounds):
                episodes, state = self._round(simulator, state, index, advance)
                self._finish_round(index, episodes, state)
                note = self._evaluate(index, state)
                advance(0, note=note)

    def _round(
        self, simulator: Simulator, state: State | None, index: int, advance: Advance
    ) -> tuple[Episodes, State | None]:
        """One episode of every copy, with gradient steps after each lockstep once there is a learner."""
        config, random = self.config, np.random.default_rng([self.config.seed, index])
        episodes = Episodes.empty(self.domain, config.copies)
        updates = round(config.copies * config.update_ratio)
        episodes.observations[:, 0] = simulator.reset(_seed(config.seed, index), spread=True)
        episodes.physics[:, 0] = simulator.physics()
        for t in range(self.domain.steps):
            actions = self._explore(state, episodes.observations[:, t], random)
            observations, rewards = simulator.step(actions)
            episodes.actions[:, t], episodes.rewards[:, t] = actions, rewards
            episodes.observations[:, t + 1], episodes.physics[:, t + 1] = observations, simulator.physics()
            self._replay.add_step(t, episodes)
            if state is not None:
                state = self._learn(state, self._replay.sample(random, updates), index * self.domain.steps + t)
            advance(config.copies)
        self._replay.add_round(episodes)
        if state is None:  # the warm-up is over: it tells how to scale observations
            state = self._fresh_learner() if (index + 1) * self._round_steps >= config.warmup else None
        return episodes, state

    def _explore(self, state: State | None, observations: np.ndarray, random: np.random.Generator) -> np.ndarray:
        shape = (self.config.copies, self.domain.action_size)
        if state is None:
            return random.uniform(-1, 1, shape).astype(np.float32)
        actions = np.asarray(_act(self._algo, state, observations))
        return np.clip(actions + self.config.noise * random.standard_normal(shape), -1, 1).astype(np.float32)

    def _learn(self, state: State, batches: Batch, step: int) -> State:
        return _learn(self._algo, state, batches, self.config.seed, step)

    def _fresh_learner(self) -> State:
        mean, std = self._replay.statistics()
        spec = Spec(self.domain.observation_size, self.domain.action_size, mean=mean, std=np.maximum(std, 1e-3))
        return jax.jit(lambda seed: self._algo.init(jax.random.key(seed), spec))(self.config.seed)

    def _finish_round(self, index: int, episodes: Episodes, state: State | None) -> None:
        """The episodes first, then the learner: what was recorded is never lost, whatever dies in between."""
        with files.atomic(self.folder / "rounds" / f"{index:05d}.npz") as part, open(part, "wb") as file:
            np.savez(file, **episodes._asdict())
        if state is not None:
            trees.save(self.folder / "learner.safetensors", state, {"rounds": index + 1})

    def _evaluate(self, index: int, state: State | None) -> str | None:
        """Every `evaluate_every` steps: the return of the policy without noise; the policy itself is kept."""
        steps = (index + 1) * self._round_steps
        every = self.config.evaluate_every
        if state is None or steps // every == (steps - self._round_steps) // every:
            return None
        returns = rollout.returns(
            self.domain, functools.partial(_act, self._algo, state), self.config.episodes, seed=self.config.seed
        )[:, self._task]
        mean, error = returns.mean(), returns.std(ddof=1) / len(returns) ** 0.5
        trees.save(
            self.folder / "policies" / f"{index:05d}.safetensors", policy_of(state), {"steps": steps, "return": mean}
        )
        log = self.folder / "evaluations.csv"
        fresh = not log.exists()
        with open(log, "a", newline="") as file:
            rows = csv.writer(file)
            if fresh:
                rows.writerow(("steps", "return", "standard_error"))
            rows.writerow((steps, f"{mean:.3f}", f"{error:.3f}"))
        return f"return {mean:.0f}"

    def _load_rounds(self) -> int:
        """Read every recorded round back; how many there are."""
        index = 0
        while (path := self.folder / "rounds" / f"{index:05d}.npz").exists() and index < self._rounds:
            with np.load(path, allow_pickle=False) as columns:
                self._replay.add_round(Episodes(**columns))
            index += 1
        return index

    def _load_learner(self, done: int) -> State | None:
        """The learner as it was saved, after the gradient steps of rounds that were recorded after it."""
        path = self.folder / "learner.safetensors"
        if not path.exists():
            return None if done * self._round_steps < self.config.warmup else self._fresh_learner()
        like = jax.eval_shape(self._fresh_learner)
        state, meta = trees.load(path, like)
        random = np.random.default_rng([self.config.seed, done, 1])
        missing = (done - meta["rounds"]) * self.domain.steps
        for step in range(missing):
            batches = self._replay.sample(random, round(self.config.copies * self.config.update_ratio))
            state = self._learn(state, batches, meta["rounds"] * self.domain.steps + step)
        return state

    def _claim_folder(self) -> None:
        """Write the config, or compare it with the one that is there: `steps` may grow, the rest must be the same."""
        path, mine = self.folder / "config.json", asdict(self.config)
        if path.exists():
            theirs = files.read_json(path)
            for name, value in mine.items():
                if name != "steps" and theirs.get(name) != value:
                    raise ConfigError(
                        f"{self.folder} holds a collection with {name}={theirs.get(name)!r}, not {value!r}; "
                        "give the same options to go on, or another folder"
                    )
        files.write_json(path, mine)


def policy_of(state: State) -> dict[str, object]:
    """What acting needs of a learner: the normalisation and the actor."""
    return {"normal": state.normal, "actor": state.actor}


def _seed(seed: int, index: int) -> int:
    """The start states' seed of a round: another one each round, none of them an evaluation's."""
    return int(np.random.SeedSequence([seed, index, 2]).generate_state(1)[0])


@functools.partial(jax.jit, static_argnums=0)
def _act(algo: TD3, state: State, observations: jax.Array) -> jax.Array:
    return algo.act(state, observations)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def _learn(algo: TD3, state: State, batches: Batch, seed: int, step: int) -> State:
    """One gradient step on each of the batches [U, B, …]."""
    key = jax.random.fold_in(jax.random.key(seed), step)

    def update(state: State, inputs: tuple[Batch, jax.Array]) -> tuple[State, None]:
        return algo.update(state, *inputs)[0], None

    return jax.lax.scan(update, state, (batches, jax.random.split(key, len(batches.rewards))))[0]
