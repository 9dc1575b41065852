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
import zipfile
from dataclasses import asdict
from pathlib import Path

import jax
import numpy as np

from utds import domains, files, progress, rollout, trees
from utds.algorithms.base import COMPILER, Spec
from utds.algorithms.td3 import TD3, State
from utds.collection import ladder
from utds.collection.ladder import Ladder
from utds.collection.options import Collect
from utds.collection.replay import Replay
from utds.data.pool import Batch
from utds.domains.simulator import Simulator
from utds.errors import ConfigError, DataError
from utds.progress import Advance
from utds.rollout import Episodes


class Collection:
    """A collection under way in a folder: made anew, or taken up where it was left."""

    def __init__(self, folder: Path, config: Collect) -> None:
        self.folder, self.config = folder, config
        self.domain, task = domains.task(config.task)
        self._task = self.domain.tasks.index(task)
        self._round_steps = config.copies * self.domain.steps
        self._rounds = -(-config.steps // self._round_steps)
        self._algo = learner(config)
        self._shared = self._shared_rounds()
        self._replay = Replay(self.domain, self._task, config, len(self._shared) + self._rounds)
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
        with files.atomic(self._round_path(index)) as part, open(part, "wb") as file:
            np.savez(file, **episodes._asdict())
        if state is not None:
            trees.save(self.folder / "learner.safetensors", state, {"rounds": index + 1})

    def _evaluate(self, index: int, state: State | None) -> str | None:
        """Untrained and every `evaluate_every` steps: the return of the policy without noise; the policy is kept."""
        steps = (index + 1) * self._round_steps
        every = self.config.evaluate_every
        if state is None or (state.step > 0 and steps // every == (steps - self._round_steps) // every):
            return None
        returns = rollout.returns(
            self.domain,
            functools.partial(_act, self._algo, state),
            self.config.evaluation_episodes,
            seed=self.config.seed,
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
        """Read every recorded round back, after those of the collection that shares; how many own ones there are."""
        for path in self._shared:
            self._replay.add_round(_read(path))
        index = 0
        while self._round_path(index).exists() and index < self._rounds:
            self._replay.add_round(self.load_round(index))
            index += 1
        return index

    def load_round(self, index: int) -> Episodes:
        """A recorded round."""
        return _read(self._round_path(index))

    def _shared_rounds(self) -> list[Path]:
        """The rounds of the collection to learn from too. Rewards of all tasks are recorded: none is computed anew."""
        if not self.config.share:
            return []
        folder = Path(self.config.share)
        found = sorted((folder / "rounds").glob("*.npz"))
        if not found:
            raise ConfigError(f"{folder} holds no recorded rounds to share; give the folder of a collection")
        theirs = files.read_json(folder / "config.json")
        if not {"task", "copies"} <= set(theirs):
            raise ConfigError(f"{folder / 'config.json'} tells of no collection; give the folder of one")
        if domains.task(theirs["task"])[0].name != self.domain.name or theirs["copies"] != self.config.copies:
            raise ConfigError(
                f"{folder} is of {theirs['task']} with copies={theirs['copies']}; only a collection of the same domain "
                f"with copies={self.config.copies} can be shared"
            )
        return found

    def ladder(self) -> Ladder:
        """The policies that were kept, thinned out to a ladder and measured."""
        paths = sorted((self.folder / "policies").glob("*.safetensors"))
        if not paths:
            raise ConfigError(f"{self.folder} has no policy yet: collect more steps than the warm-up's")
        returns = [trees.read(path)[1]["return"] for path in paths]
        best = ladder.best_of(self.config.task, paths, returns)
        return ladder.build(
            self.config.task,
            [paths[i] for i in ladder.choose(returns, best)],
            total_steps=self._rounds * self._round_steps,
            noise=self.config.noise,
            seed=self.config.seed,
            command=self.config.command,
        )

    def _round_path(self, index: int) -> Path:
        return self.folder / "rounds" / f"{index:05d}.npz"

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
                if name != "steps" and theirs.get(name, "") != value:
                    raise ConfigError(
                        f"{self.folder} holds a collection with {name}={theirs.get(name)!r}, not {value!r}; "
                        "give the same options to go on, or another folder"
                    )
        files.write_json(path, mine)


def _read(path: Path) -> Episodes:
    try:
        with np.load(path, allow_pickle=False) as columns:
            return Episodes(**columns)
    except (EOFError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is no recorded round ({error}); remove it and the rounds after it to go on") from None


def policy_of(state: State) -> dict[str, object]:
    """What acting needs of a learner: the normalisation and the actor."""
    return {"normal": state.normal, "actor": state.actor}


def _seed(seed: int, index: int) -> int:
    """The start states' seed of a round: another one each round, none of them an evaluation's."""
    return int(np.random.SeedSequence([seed, index, 2]).generate_state(1)[0])


@functools.partial(jax.jit, static_argnums=0)
def _act(algo: TD3, state: State, observations: jax.Array) -> jax.Array:
    return algo.act(state, observations)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1, compiler_options=COMPILER)
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
        batch=config.batch,
        discount=config.discount**config.n_step,
        tau=config.tau,
        actor_rate=config.rate,
        critic_rate=config.rate,
    )
