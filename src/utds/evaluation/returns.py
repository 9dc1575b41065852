"""How good a policy is: returns of whole episodes, on the simulator in lockstep or on any Gymnasium environment.

Episodes start from the task's own start states, act without noise, and depend on the seed alone.
"""

import contextlib
import importlib.util
import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from scipy import special  # its Student's t: scipy.stats takes half a second to load

from utds import domains, files, terminal
from utds.errors import ConfigError, DomainError, MissingExtra
from utds.evaluation import rollout
from utds.evaluation.rollout import Act

VIDEOS = (".mp4", ".mov", ".mkv", ".avi")
MOST = 2**31 - 1  # episodes of an evaluation
SEED = 10_000  # of evaluation episodes by default: apart from the small numbers that people give to training


@dataclass(frozen=True)
class Evaluation:
    """Returns of a policy; or of several seeds' policies one after the other, with as many episodes each.

    Episodes of one policy say nothing of how another seed's would do: with several seeds, the standard error and the
    interval are over the seeds' means.
    """

    task: str
    returns: tuple[float, ...]
    random_return: float | None = None  # what scores 0
    expert_return: float | None = None  # what scores 100
    seeds: int = 1  # whose policies these are, in stretches of equal length
    least_return: float | None = None  # that is possible; intervals are cut there

    @cached_property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    @cached_property
    def samples(self) -> tuple[float, ...]:
        """What the interval is over: the seeds' means, or the episodes of a single one."""
        if self.seeds == 1:
            return self.returns
        return tuple(map(float, np.mean(np.reshape(self.returns, (self.seeds, -1)), axis=1)))

    @cached_property
    def standard_error(self) -> float:
        """Of the mean, over seeds or else over episodes; NaN for a single one."""
        count = len(self.samples)
        return float(np.std(self.samples, ddof=1) / math.sqrt(count)) if count > 1 else math.nan

    @cached_property
    def interval(self) -> tuple[float, float]:
        """95 % of the mean, by Student's t, and not below the least possible return; NaN for a single sample."""
        half = float(special.stdtrit(max(len(self.samples) - 1, 1), 0.975)) * self.standard_error
        low = self.mean - half
        return low if self.least_return is None or math.isnan(low) else max(low, self.least_return), self.mean + half

    @cached_property
    def score(self) -> float | None:
        """0 for uniformly random actions, 100 for the reference expert; None where there is no reference."""
        if self.expert_return is None or self.random_return is None:
            return None
        return 100 * (self.mean - self.random_return) / (self.expert_return - self.random_return)

    def row(self) -> dict[str, float]:
        """What a run logs of it."""
        row = {"return": self.mean, "standard_error": self.standard_error}
        return row if self.score is None else row | {"score": self.score}

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        names = ("task", "mean", "standard_error", "interval", "score", "seeds", "returns")
        return {name: getattr(self, name) for name in names}

    def _repr_html_(self) -> str:
        from utds import html

        low, high = self.interval
        about = {
            "return": terminal.number(self.mean),
            "95 % interval": None if math.isnan(low) else f"{terminal.number(low)} to {terminal.number(high)}",
            "normalised score": None if self.score is None else f"{self.score:.1f}",
            "over": self._over(),
            "episodes": html.sparkline(self.returns, "returns in order"),
        }
        return html.block(f"Evaluation on {self.task}", html.facts(about))

    def __str__(self) -> str:
        low, high = self.interval
        interval = "" if math.isnan(low) else f" [{low:z.1f}, {high:z.1f}]"
        score = "" if self.score is None else f", normalised score {self.score:.1f}"
        return f"{self.task}: {self.mean:z.1f}{interval} over {self._over()}{score}"

    def _over(self) -> str:
        count = len(self.returns) // self.seeds
        episodes = f"{count} episode{'s' * (count > 1)}"
        return f"{self.seeds} seeds, {episodes} each" if self.seeds > 1 else episodes


def evaluate(act: Act, task: str, episodes: int = 10, seed: int = SEED, threads: int | None = None) -> Evaluation:
    """A policy on a task of the suite, such as walker-walk: all episodes in lockstep."""
    _check(episodes)
    domain, found = domains.task(task)
    returns = rollout.returns(domain, act, episodes, seed, threads)[:, domain.tasks.index(found)]
    least = None if domain.least_reward is None else domain.least_reward * domain.steps
    return Evaluation(task, tuple(map(float, returns)), found.lowest, found.reference, least_return=least)


def evaluate_env(
    act: Act, env: gymnasium.Env | str, episodes: int = 10, seed: int = SEED, raw: bool = False
) -> Evaluation:
    """A policy on any Gymnasium environment whose actions lie in a bounded box, one episode at a time.

    A policy in [-1, 1] is scaled to the box; one that is `raw` speaks the environment's unit already.
    """
    _check(episodes)
    rollout.check_seed(seed)
    with opened_env(env) as found:
        return _evaluate_env(act, found, episodes, seed, raw)


def _evaluate_env(act: Act, env: gymnasium.Env, episodes: int, seed: int, raw: bool) -> Evaluation:
    rescale = _to_box(env.action_space, raw)
    name = env.spec.id if env.spec else type(env.unwrapped).__name__
    if env.observation_space.shape is None:  # such as a dictionary's
        raise ConfigError(
            f"{name} has observations of several parts; wrap it in gymnasium.wrappers.FlattenObservation, which gives "
            "the vector that a policy reads"
        )
    totals = []
    with terminal.bar(f"evaluating on {name}", total=episodes, unit="episodes") as advance:
        for episode in range(episodes):
            observation, _ = env.reset(seed=seed + episode)
            total, done = 0.0, False
            while not done:
                action = act(np.asarray(observation, np.float32).reshape(1, -1))[0]
                if action.size != np.prod(env.action_space.shape or ()):
                    raise ConfigError(f"{name} takes actions of shape {env.action_space.shape}, not {action.size}")
                observation, reward, terminated, truncated, _ = env.step(rescale(action))
                total, done = total + float(reward), terminated or truncated
            totals.append(total)
            advance()
    return Evaluation(name, tuple(totals))


@contextlib.contextmanager
def opened_env(env: gymnasium.Env | str) -> Iterator[gymnasium.Env]:
    """A Gymnasium environment; made of an id, and closed then, or as it was given.

    One that doesn't exist or doesn't load is an error of one line.
    """
    if not isinstance(env, str):
        yield env
        return
    try:
        made = gymnasium.make(env)
    except (gymnasium.error.Error, ImportError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ConfigError(f"Gymnasium can't make the environment {env!r}: {reason}") from None
    with contextlib.closing(made):
        yield made


def evaluator(
    task: str, episodes: int = 10, seed: int = SEED, threads: int | None = None
) -> Callable[[Act], dict[str, float]] | None:
    """What `train` calls at intervals: the policy's return on the task; None where the task has no simulator."""
    _check(episodes)
    try:
        domains.task(task)
    except DomainError:
        return None
    return lambda act: evaluate(act, task, episodes, seed, threads).row()


def over_seeds(evaluations: Sequence[Evaluation]) -> Evaluation:
    """Evaluations of several seeds' policies on one task, with as many episodes each, as one."""
    returns = tuple(r for evaluation in evaluations for r in evaluation.returns)
    return replace(evaluations[0], returns=returns, seeds=len(evaluations))


def video(act: Act, task: str, path: str | os.PathLike[str], seed: int = SEED, size: int = 480) -> float:
    """Write one episode as a film, such as film.mp4, and return its return."""
    check_video(path)
    from utds.domains.gym import Camera

    domain, found = domains.task(task)
    episode = rollout.record(domain, act, episodes=1, seed=seed)
    with (
        contextlib.closing(Camera(domain, size, size)) as camera,
        warnings.catch_warnings(),
        files.atomic(path) as part,
        _writer(part, fps=round(1 / domain.control_timestep)) as writer,
        terminal.bar(f"filming {task}", total=domain.steps + 1, unit="frames") as advance,
    ):
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)  # ffmpeg starts without JAX
        for state in episode.physics[0]:
            writer.append_data(camera.picture(state))
            advance()
    return float(episode.rewards[0, :, domain.tasks.index(found)].sum())


def check_video(path: str | os.PathLike[str]) -> None:
    """Refuse what can't be filmed before anything is simulated."""
    if Path(path).suffix.lower() not in VIDEOS:
        raise ConfigError(f"{path} is no name of a video: let it end in {' or '.join(VIDEOS)}")
    if not all(map(importlib.util.find_spec, ("imageio", "imageio_ffmpeg"))):
        raise MissingExtra("videos need imageio with ffmpeg: pip install 'utds[video]'")


def _writer(path: Path, fps: int) -> Any:
    import imageio.v2 as imageio

    return imageio.get_writer(path, format="FFMPEG", fps=fps)


def _to_box(space: gymnasium.Space, raw: bool) -> Callable[[np.ndarray], Any]:
    """From [-1, 1] to the bounds of a box of actions; raw actions are only held within them.

    Where the box has whole numbers alone, to the nearest.
    """
    if not isinstance(space, gymnasium.spaces.Box) or not space.is_bounded():
        raise ConfigError(f"policies here act in a bounded box, but the environment's action space is {space}")
    dtype, shape, whole = space.dtype, space.shape, np.issubdtype(space.dtype, np.integer)
    low, high = (bound.reshape(-1).astype(np.promote_types(dtype, np.float32)) for bound in (space.low, space.high))
    centre, half = (high + low) / 2, (high - low) / 2

    def rescale(action: np.ndarray) -> Any:
        found = np.clip(action, low, high) if raw else centre + half * np.clip(action, -1, 1)
        return np.asarray(np.rint(found) if whole else found, dtype).reshape(shape)

    return rescale


def _check(episodes: int) -> None:
    if not isinstance(episodes, int | np.integer):
        raise ConfigError(f"episodes={episodes!r} must be a whole number")
    if not 1 <= episodes <= MOST:
        raise ConfigError(f"episodes={episodes} must be at least 1, and at most {MOST}")
