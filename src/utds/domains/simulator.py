"""Many copies of one domain stepped at once, in threads, to the last digit as dm_control steps one.

dm_control keeps positions and velocities, and whatever depends on them, of the state it returns: it ends a control step
of k physics steps with the first half of the next one. We call the same halves in the same order,

    mj_step2, (k − 1) × mj_step, mj_step1,

so observations and physics are bit-identical. MuJoCo frees the interpreter while it steps: threads run side by side.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import mujoco
import numpy as np
from numpy.typing import ArrayLike

import utds.domains as registry
from utds.domains.base import Array, Domain, Features
from utds.errors import SimulationError

HUGE = 1e10  # MuJoCo's own bound on sane numbers
WORTH_THREADS = 200  # copies · physics steps · degrees of freedom of a control step
_PHYSICS = mujoco.mjtState.mjSTATE_PHYSICS


class Simulator:
    """`n` copies of a domain. Deterministic for a seed, whatever the number of threads.

    Actions are in [-1, 1] and clipped to it. `step` returns float64 observations `[n, O]` and the rewards `[n, tasks]`
    of every task of the domain. Episodes have no end here: count `domain.steps` steps and reset.
    """

    def __init__(self, domain: Domain | str, n: int = 1, threads: int | None = None) -> None:
        self.domain = registry.get(domain) if isinstance(domain, str) else domain
        if n < 1:
            raise SimulationError(f"a simulator needs at least one copy, got n={n}")
        self.n = n
        self._model = self.domain.model
        self.threads = self._worthwhile(threads or os.cpu_count() or 1)
        self._data = [mujoco.MjData(self._model) for _ in range(n)]
        self._ctrl = [data.ctrl for data in self._data]  # views, made once: making one costs as much as a copy
        self._read = [(data.sensordata, data.qpos, data.qvel, data.act) for data in self._data]
        self._sensors = np.empty((n, self._model.nsensordata))
        self._states = np.empty((n, self.domain.state_size))
        self._controls = np.empty((n, self._model.nu))
        self._ready = False
        self._into = [self._rows(i) for i in range(n)]
        self._pool = ThreadPoolExecutor(self.threads - 1) if self.threads > 1 else None

    def reset(self, seed: int, spread: bool = False) -> Array:
        """Start every copy anew from its own start state; `spread` draws them from the domain's wider distribution."""
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise SimulationError(f"a seed is a non-negative whole number, got {seed!r}")
        return self.set_physics(np.stack([self.domain.start_state(int(seed), i, spread) for i in range(self.n)]))

    def set_physics(self, states: ArrayLike) -> Array:
        """Start every copy from its state (qpos, qvel, act) in `[n, state_size]`, as dm_control's reset does."""
        states = self._checked(states, "states", self.domain.state_size)
        self._in_threads(self._restart, states)
        self._check_physics()
        return self.domain.observe(self.features())

    def step(self, actions: ArrayLike) -> tuple[Array, Array]:
        """Apply actions `[n, A]` for one control step; observations `[n, O]` and rewards `[n, tasks]`."""
        if not self._ready:
            raise SimulationError("call reset(seed) or set_physics(states) before step")
        actions = np.clip(self._checked(actions, "actions", self.domain.action_size), -1, 1)
        centre, half = self.domain.action_range
        self._controls[:] = centre + half * actions
        self._in_threads(self._advance, self._controls)
        self._check_physics()
        features = self.features()
        return self.domain.observe(features), self.domain.task_rewards(features, actions)

    def physics(self) -> Array:
        """The states (qpos, qvel, act) of all copies, `[n, state_size]`."""
        return self._states.copy()

    def features(self) -> Features:
        """The features of the current states: views that the next step overwrites."""
        return Features(self._model, self._sensors, self._states)

    def close(self) -> None:
        """End the threads. The simulator is gone after that."""
        if self._pool is not None:
            self._pool.shutdown()

    def __enter__(self) -> "Simulator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _advance(self, copies: Iterator[int], controls: Array) -> None:
        # Sensors are read at the end alone, those of accelerations in the last physics step, all others after it.
        model, silent, steps = self._model, self.domain.silent_model, self.domain.substeps
        last = 1 if self.domain.feels_acceleration else 0
        for i in copies:
            data = self._data[i]
            self._ctrl[i][:] = controls[i]
            mujoco.mj_step2(silent if steps > last else model, data)
            if steps - 1 - last > 0:
                mujoco.mj_step(silent, data, steps - 1 - last)
            if last and steps > 1:
                mujoco.mj_step(model, data)
            mujoco.mj_step1(model, data)
            self._collect(i)

    def _restart(self, copies: Iterator[int], states: Array) -> None:
        model = self.domain.idle_model
        for i in copies:
            mujoco.mj_resetData(model, self._data[i])
            mujoco.mj_setState(model, self._data[i], states[i], _PHYSICS)
            mujoco.mj_forward(model, self._data[i])
            self._collect(i)

    def _collect(self, i: int) -> None:
        """Copy readings and state. NumPy's copies, unlike a call of MuJoCo's, don't hand the interpreter over."""
        for into, read in zip(self._into[i], self._read[i], strict=True):
            into[:] = read

    def _rows(self, i: int) -> tuple[Array, Array, Array, Array]:
        """Where a copy's readings, positions, velocities and activations go."""
        nq, nv = self._model.nq, self._model.nv
        state = self._states[i]
        return self._sensors[i], state[:nq], state[nq : nq + nv], state[nq + nv :]

    def _worthwhile(self, threads: int) -> int:
        """As many threads as there are copies at most, and one where physics is cheaper than waking a second."""
        effort = self.n * self.domain.substeps * self._model.nv
        return max(1, min(threads, self.n)) if effort >= WORTH_THREADS else 1

    def _in_threads(self, work: Callable[[Iterator[int], Array], None], values: Array) -> None:
        """Run `work(copies, values)` in every thread, this one included; each takes the next copy when it is free."""
        copies = iter(range(self.n))  # shared: taking the next one is atomic
        futures = [self._pool.submit(work, copies, values) for _ in range(self.threads - 1)] if self._pool else []
        work(copies, values)
        for future in futures:
            future.result()

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
        bad = np.argwhere(~np.isfinite(array))
        if bad.size:
            copy, column = bad[0]
            raise SimulationError(f"{name} of copy {copy} hold {array[copy, column]} in column {column}")
        return array

    def _check_physics(self) -> None:
        """Report a blow-up instead of passing it on. Comparisons are written so that NaN fails them."""
        sane = (np.abs(self._states) < HUGE).all(axis=1) & (np.abs(self._sensors) < HUGE).all(axis=1)
        self._ready = bool(sane.all())
        if not self._ready:
            copies = ", ".join(map(str, np.flatnonzero(~sane)))
            raise SimulationError(
                f"{self.domain.name}: the physics of copy {copies} blew up (NaN, infinite or huge values); "
                "reset or set_physics to go on"
            )
