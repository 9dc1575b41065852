"""Many copies of one domain stepped at once, in threads, to the last digit as dm_control steps one.

dm_control keeps positions and velocities, and whatever depends on them, of the state it returns: it ends a control step
of k physics steps with the first half of the next one. MuJoCo's batch, asked for the velocity stage, does the same,

    mj_step2, (k − 1) × mj_step, mj_step1,

so observations and physics are bit-identical. Its threads are native: one call steps all copies, and Python only looks
at the outcome.
"""

import math
import os

import mujoco
import numpy as np
from mujoco.batch import Batch
from numpy.typing import ArrayLike

from utds import domains
from utds.domains.base import Array, Domain, Features
from utds.errors import SimulationError

HUGE = 1e10  # MuJoCo's own bound on sane numbers
WORTH_THREADS = 200  # copies · physics steps · degrees of freedom of a control step
_SEEN = int(mujoco.mjtStage.mjSTAGE_VEL)  # what a control step leaves up to date: positions and velocities


class Simulator:
    """`n` copies of a domain. Deterministic for a seed, whatever the number of threads.

    Actions are in [-1, 1] and clipped to it. `step` returns float64 observations `[n, O]` and the rewards `[n, tasks]`
    of every task of the domain. Episodes have no end here: count `domain.steps` steps and reset.
    """

    def __init__(self, domain: Domain | str, n: int = 1, threads: int | None = None) -> None:
        self.domain = domains.get(domain) if isinstance(domain, str) else domain
        if n < 1:
            raise SimulationError(f"a simulator needs at least one copy, got n={n}")
        self.n = n
        self._model = self.domain.model
        # At most one thread per copy, and a single one where physics is cheaper than waking a second.
        effort = n * self.domain.substeps * self._model.nv
        self.threads = max(1, min(threads or os.cpu_count() or 1, n)) if effort >= WORTH_THREADS else 1
        # A persistent batch keeps the data of each copy, and with it the half step that dm_control's order needs.
        self._batch = Batch(self._model, n, self.threads, persistent=True)
        clock = mujoco.mj_stateSize(self._model, mujoco.mjtState.mjSTATE_TIME)
        self._states = self._batch.state[:, clock : clock + self.domain.state_size]  # (qpos, qvel, act): a view
        self._sensors = self._batch.bind("sensordata")
        self._controls = self._batch.bind("ctrl")
        self._features = Features(self._model, self._sensors, self._states)
        # Of every copy: for a few numbers NumPy's broadcasting costs more than the arithmetic.
        self._centre, self._half = (np.tile(x, (n, 1)) for x in self.domain.action_range)
        self._ready = False

    def reset(self, seed: int, exploration_start: bool = False) -> Array:
        """Start every copy anew from its own start state: the task's, or one of the wider ones for exploration."""
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise SimulationError(f"a seed is a non-negative whole number, got {seed!r}")
        states = [self.domain.start_state(int(seed), i, exploration_start) for i in range(self.n)]
        return self.set_physics(np.stack(states))

    def set_physics(self, states: ArrayLike) -> Array:
        """Start every copy from its state (qpos, qvel, act) in `[n, state_size]`, as dm_control's reset does."""
        states = self._checked(states, "states", self.domain.state_size)
        self._batch.reset(stage=mujoco.mjtStage.mjSTAGE_NONE)
        self._states[:] = states
        self._batch.set_models(self.domain.idle_model)
        self._batch.forward()
        self._batch.set_models(None)
        self._check_physics()
        return self.domain.observe(self.features())

    def step(self, actions: ArrayLike) -> tuple[Array, Array]:
        """Apply actions `[n, A]` for one control step; observations `[n, O]` and rewards `[n, tasks]`."""
        if not self._ready:
            raise SimulationError("call reset(seed) or set_physics(states) before step")
        actions = self._checked(actions, "actions", self.domain.action_size)
        actions.clip(-1.0, 1.0, out=actions)
        np.add(self._centre, self._half * actions, out=self._controls)
        self._batch.step(nstep=self.domain.substeps, stage=_SEEN)
        self._check_physics()
        return self.domain.observe(self._features), self.domain.task_rewards(self._features, actions)

    def physics(self) -> Array:
        """The states (qpos, qvel, act) of all copies, `[n, state_size]`."""
        return self._states.copy()

    def features(self) -> Features:
        """The features of the current states: views that the next step overwrites."""
        return self._features

    def close(self) -> None:
        """End the threads: they live as long as the batch and its views do. The simulator is gone after that."""
        self._ready = False
        for name in ("_batch", "_states", "_sensors", "_controls", "_features"):
            self.__dict__.pop(name, None)

    def __enter__(self) -> "Simulator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _checked(self, values: ArrayLike, what: str, width: int) -> Array:
        """`values` as float64 `[n, width]`, all finite, or a clear error; the simulator stays as it was."""
        name = f"{self.domain.name}: {what}"
        try:
            array = np.asarray(values)
        except ValueError:
            raise SimulationError(f"{name} must be one array of numbers of shape ({self.n}, {width})") from None
        if array.dtype.kind not in "fiu":
            raise SimulationError(f"{name} must be real numbers, got {array.dtype}")
        if array.shape != (self.n, width):
            raise SimulationError(f"{name} must have shape ({self.n}, {width}), got {array.shape}")
        array = array.astype(np.float64)
        # A sum of squares is quick, and finite unless a number isn't, or is beyond 1e150.
        if not math.isfinite(np.vdot(array, array)) and not np.isfinite(array).all():
            copy, column = np.argwhere(~np.isfinite(array))[0]
            raise SimulationError(f"{name} of copy {copy} hold {array[copy, column]} in column {column}")
        return array

    def _check_physics(self) -> None:
        """Report a blow-up instead of passing it on. Comparisons are written so that NaN fails them."""
        # Sums of squares first: where they are small, so is each number, and two products are all it takes.
        whole = self._batch.state
        self._ready = bool(np.vdot(whole, whole) < HUGE**2 and np.vdot(self._sensors, self._sensors) < HUGE**2)
        if self._ready:
            return
        sane = (np.abs(self._states) < HUGE).all(axis=1) & (np.abs(self._sensors) < HUGE).all(axis=1)
        self._ready = bool(sane.all())
        if not self._ready:
            copies = ", ".join(map(str, np.flatnonzero(~sane)))
            raise SimulationError(
                f"{self.domain.name}: the physics of copy {copies} blew up (NaN, infinite or huge values); "
                "reset or set_physics to continue"
            )
