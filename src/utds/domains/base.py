"""What a robot is and what each of its tasks rewards: data and a few vectorised functions, no learning.

A `Domain` is a MuJoCo model with a sensor for every feature that a reward or an observation needs, a function from
features to observations, and a function from features (and actions) to the reward of each task. Everything works on a
batch of states at once: the leading axis `[n]` is the batch. The last part is what a domain takes from dm_control: its
reward function, model files and modules without their noise.
"""

import contextlib
import copy
import functools
import importlib
import logging
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

import mujoco
import mujoco.rollout
import numpy as np
from numpy.typing import NDArray

from utds import terminal
from utds.errors import DomainError, MissingExtra, SimulationError

Array = NDArray[np.float64]
Sigmoid = Literal["gaussian", "linear", "quadratic"]

VERSION = "1.0.50"  # of dm_control: the one whose simulation ours equals, with the MuJoCo that pyproject.toml names

ROWS = 16_384  # stored states per call: large enough to fill the threads, small enough that readings stay in cache
FEW_SHAPES = 4  # geoms of a body, up to which testing each is quicker than a hierarchy

# Draws one start state [state_size] with dm_control's own kind of random generator.
Start = Callable[[np.random.RandomState], Array]

Readings = tuple[tuple[str, int], ...]  # numbers among the sensors', each (sensor, component)


class Features(Mapping[str, Array]):
    """Named views `[n, k]` into the sensor readings and the physics of a batch of states.

    A state is a row (qpos, qvel, act); its sensor readings are the model's `sensordata`. Besides the sensors by name
    there are `qpos`, `qvel` and `act`.
    """

    def __init__(self, model: mujoco.MjModel, sensors: Array, physics: Array) -> None:
        self._model, self._sensors, self._physics = model, sensors, physics
        self._slices = _slices(model)

    def __getitem__(self, name: str) -> Array:
        source, where = self._slices[name]
        return (self._physics if source == "physics" else self._sensors)[:, where]

    def span(self, first: str, last: str) -> Array:
        """Readings from sensor `first` to sensor `last`, in the model's order: one view."""
        return self._sensors[:, self._slices[first][1].start : self._slices[last][1].stop]

    def pick(self, readings: Readings) -> Array:
        """Numbers of several sensors as rows `[readings, n]`: one copy, quicker than a view for each."""
        return self._sensors.T.take(_columns(self._model, readings), axis=0)

    def __iter__(self):
        return iter(self._slices)

    def __len__(self) -> int:
        return len(self._slices)


@functools.lru_cache(maxsize=64)
def _slices(model: mujoco.MjModel) -> dict[str, tuple[str, slice]]:
    table = {}
    for i in range(model.nsensor):
        start = int(model.sensor_adr[i])
        table[model.sensor(i).name] = ("sensors", slice(start, start + int(model.sensor_dim[i])))
    nq, nv, na = model.nq, model.nv, model.na
    table["qpos"] = ("physics", slice(0, nq))
    table["qvel"] = ("physics", slice(nq, nq + nv))
    table["act"] = ("physics", slice(nq + nv, nq + nv + na))
    return table


@functools.lru_cache(maxsize=64)
def _columns(model: mujoco.MjModel, readings: Readings) -> NDArray[np.intp]:
    return np.array([_slices(model)[sensor][1].start + component for sensor, component in readings])


@dataclass(frozen=True)
class Task:
    """One of a domain's rewards: its name and what its returns mean."""

    name: str
    reference: float | None = None  # return of a trained expert over one episode, for normalised scores
    own_reference: bool = False  # whether the reference is our shipped expert's return, not a published one
    random: float | None = None  # return of uniformly random actions over one episode, measured; None: not stated

    @property
    def lowest(self) -> float:
        """The return that scores 0."""
        return self.random or 0.0

    def __post_init__(self) -> None:
        if self.reference is not None and not self.reference > self.lowest:
            raise DomainError(
                f"task {self.name}: its reference return, {self.reference:g}, isn't above that of random actions, "
                f"{self.lowest:g}, and scores count from one to the other; measure both, or leave the reference out"
            )


@dataclass(frozen=True, eq=False)
class Domain:
    """A robot, its observation and its tasks. Domains are singletons: compare them by identity or by name."""

    name: str
    tasks: tuple[Task, ...]
    steps: int  # control steps of an episode; reaching them is a time limit, never a termination
    control_timestep: float  # seconds
    observation_size: int
    action_size: int
    spec: Callable[[], mujoco.MjSpec]  # the model, with a sensor for every feature
    observe: Callable[[Features], Array]  # features -> observations [n, observation_size]
    reward: Callable[[Features, Array], Array]  # of the states *reached* by actions [n, A]: all tasks', [n, tasks]
    start: Callable[[], Start]  # makes the task's own start-state sampler (dm_control's where it has one)
    least_reward: float | None = None  # that a step can bring, where known: intervals of returns don't reach below it
    exploration_start: Callable[[], Start] | None = None  # a wider sampler, for collecting; None: the same as start
    camera: str | int = -1  # the camera that renders, -1 for MuJoCo's free one

    @property
    def task_names(self) -> tuple[str, ...]:
        return tuple(task.name for task in self.tasks)

    def task(self, name: str) -> Task:
        for task in self.tasks:
            if task.name == name:
                return task
        raise DomainError(f"domain {self.name} has no task {name!r}; it has {', '.join(self.task_names)}")

    @functools.cached_property
    def model(self) -> mujoco.MjModel:
        """The compiled model. Shared by every user in the process: nobody writes to it."""
        with quiet():
            model = self.spec().compile()
        disable = mujoco.mjtDisableBit
        model.opt.disableflags |= disable.mjDSBL_AUTORESET  # a blow-up is reported, not papered over
        # What MuJoCo does for large scenes costs a lone robot time and changes no digit: a single tree is a single
        # island, and bodies of a few shapes need no hierarchy of boxes to find those that touch.
        if model.ntree <= 1:
            model.opt.disableflags |= disable.mjDSBL_ISLAND
        if model.body_geomnum.max() <= FEW_SHAPES:
            model.opt.disableflags |= disable.mjDSBL_MIDPHASE
        return model

    @functools.cached_property
    def idle_model(self) -> mujoco.MjModel:
        """The model without actuation, for the first look at a start state, when no control is meaningful yet."""
        model = copy.copy(self.model)
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION
        return model

    @functools.cached_property
    def substeps(self) -> int:
        """Physics steps in one control step."""
        return round(self.control_timestep / self.model.opt.timestep)

    @functools.cached_property
    def state_size(self) -> int:
        """Length of a physics row (qpos, qvel, act)."""
        return mujoco.mj_stateSize(self.model, mujoco.mjtState.mjSTATE_PHYSICS)

    @functools.cached_property
    def action_range(self) -> tuple[Array, Array]:
        """Centre and half width of the actuators' range: an action a in [-1, 1] sets the control centre + half · a."""
        low, high = self.model.actuator_ctrlrange.T
        return (low + high) / 2, (high - low) / 2

    def start_state(self, seed: int, index: int = 0, exploration_start: bool = False) -> Array:
        """The start state `[state_size]` of copy `index` for a seed, remembered: dm_control's samplers are slow."""
        wider = exploration_start and self.exploration_start is not None
        return _start_state(self, seed, index, wider).copy()

    def task_rewards(self, features: Features, actions: Array) -> Array:
        """The rewards `[n, tasks]` of all tasks."""
        rewards = self.reward(features, actions)
        if rewards.shape != (len(actions), len(self.tasks)):
            raise DomainError(
                f"{self.name}: its reward function must give shape ({len(actions)}, {len(self.tasks)}), "
                f"one column per task, and gave {rewards.shape}"
            )
        return rewards

    def rewards(self, physics: Array, actions: Array, threads: int | None = None) -> Array:
        """The rewards `[M, tasks]` of states *reached*, `[M, state_size]`, by actions `[M, A]`: one threaded pass."""
        actions = np.asarray(actions, np.float64)
        if actions.ndim != 2 or actions.shape[1] != self.action_size or len(actions) != len(physics):
            raise SimulationError(
                f"{self.name}: actions must have shape ({len(physics)}, {self.action_size}), got {actions.shape}"
            )
        out = np.empty((len(actions), len(self.tasks)))
        for rows, features in features_of(self, physics, threads):
            out[rows] = self.task_rewards(features, np.clip(actions[rows], -1, 1))
        return out


@functools.lru_cache(maxsize=64)
def _sampler(domain: Domain, wider: bool) -> Start:
    with quiet():
        return domain.exploration_start() if wider and domain.exploration_start else domain.start()


@functools.lru_cache(maxsize=65536)
def _start_state(domain: Domain, seed: int, index: int, wider: bool) -> Array:
    random = np.random.RandomState(np.random.SeedSequence([seed, index]).generate_state(8))
    with quiet():
        return np.asarray(_sampler(domain, wider)(random), np.float64)


def features_of(domain: Domain, physics: Array, threads: int | None = None) -> Iterator[tuple[slice, Features]]:
    """Yield the features of `physics [M, state_size]` in blocks of rows.

    A rollout of one step reads the sensors at the state it starts from, so the physics of the step itself doesn't
    matter and contacts and constraints are left out. Readings that depend on accelerations (force, torque,
    accelerometer) can't be recovered from a stored state, and aren't among these features.
    """
    physics = np.ascontiguousarray(physics, np.float64)
    if physics.ndim != 2 or physics.shape[1] != domain.state_size:
        raise SimulationError(
            f"{domain.name}: physics must have shape (rows, {domain.state_size}), got {physics.shape}"
        )
    bad = np.flatnonzero(~np.isfinite(physics).all(axis=1))
    if bad.size:
        raise SimulationError(f"{domain.name}: physics row {bad[0]} has a NaN or infinite value")
    cores = os.cpu_count() or 1
    threads = max(1, min(threads or cores, cores))  # more gain nothing
    model = _lean_model(domain)
    data = [mujoco.MjData(model) for _ in range(threads)]
    with (
        mujoco.rollout.Rollout(nthread=threads) as pool,
        terminal.bar(f"relabelling {domain.name}", total=len(physics), unit="states") as advance,
    ):
        for first in range(0, len(physics), ROWS):
            rows = slice(first, min(first + ROWS, len(physics)))
            block = physics[rows]
            states = np.concatenate([np.zeros((len(block), 1)), block], axis=1)  # time, qpos, qvel, act
            _, sensors = pool.rollout(model, data, states, nstep=1)
            yield rows, Features(model, sensors[:, 0], block)
            advance(len(block))


@functools.lru_cache(maxsize=64)
def _lean_model(domain: Domain) -> mujoco.MjModel:
    """The domain's model without contacts, constraints and acceleration sensors."""
    spec, full = domain.spec(), domain.model
    for i in range(full.nsensor):
        if full.sensor_needstage[i] == mujoco.mjtStage.mjSTAGE_ACC:
            spec.delete(spec.sensor(full.sensor(i).name))
    with quiet():
        model = spec.compile()
    disable = mujoco.mjtDisableBit
    model.opt.disableflags |= disable.mjDSBL_CONTACT | disable.mjDSBL_CONSTRAINT | disable.mjDSBL_AUTORESET
    return model


def add_sensor(spec: mujoco.MjSpec, name: str, kind: str, of: str, name_of: str) -> None:
    """Add the sensor `name` to a model: `kind` as in MJCF's element name, measured on the `of` called `name_of`.

    `of="xbody"` reads a body's own frame (dm_control's `xpos`, `xmat`), `of="body"` its inertial frame.
    """
    spec.add_sensor(
        name=name,
        type=getattr(mujoco.mjtSensor, f"mjSENS_{kind.upper()}"),
        objtype=getattr(mujoco.mjtObj, f"mjOBJ_{of.upper()}"),
        objname=name_of,
    )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings and dm_control's log: of models that are not ours to mend, and of searches that try again."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def quiet_import(module: str) -> ModuleType:
    """Import a module of dm_control. Without a display its search for a window system warns; we draw no window."""
    try:
        with quiet():
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != "dm_control":
            raise
        raise MissingExtra(  # pip can't install it there: labmaze, which it requires and we don't, has no wheel
            f"the model needs dm_control, which Python 3.13 lacks: pip install --no-deps dm_control=={VERSION}"
        ) from None


def model_files(name: str) -> tuple[str, dict[str, bytes]]:
    """The MJCF text of a suite model and the files it includes, as `MjSpec.from_string` takes them."""
    common = quiet_import("dm_control.suite.common")
    return common.read_model(name).decode(), dict(common.ASSETS)


def tolerance(
    x: Array,
    low: float | Array = 0.0,
    high: float = 0.0,
    margin: float | Array = 0.0,
    value_at_margin: float = 0.1,
    sigmoid: Sigmoid = "gaussian",
) -> Array:
    """How the suite's tasks turn a quantity into a reward: dm_control's `tolerance`, vectorised.

    1 inside [low, high], falling outside to `value_at_margin` at a distance of `margin`; 0 at once if that is 0.

    `low` and `margin` may be arrays that broadcast against `x`: one call for tasks that differ in nothing else. Ten
    copies' rewards cost what NumPy's calls cost, so there are few of them.
    """
    outside = low - x if high == math.inf else np.maximum(low - x, x - high)
    outside = np.maximum(outside, 0.0)  # distance to the interval
    if not isinstance(margin, np.ndarray) and margin == 0:
        return np.where(outside == 0, 1.0, 0.0)
    d = outside / margin
    if sigmoid == "gaussian":
        return np.exp(-0.5 * (d * math.sqrt(-2 * math.log(value_at_margin))) ** 2)
    if sigmoid == "linear":
        return np.maximum(1.0 - d * (1 - value_at_margin), 0.0)
    return np.maximum(1 - (d * math.sqrt(1 - value_at_margin)) ** 2, 0)
