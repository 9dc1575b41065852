"""Features of stored states: positions and velocities only, many states a call, in MuJoCo's own threads."""

import functools
import os
from collections.abc import Iterator

import mujoco
import mujoco.rollout
import numpy as np

from utds import progress
from utds.domains.base import Array, Domain, Features
from utds.domains.suite import quiet
from utds.errors import SimulationError

ROWS = 16_384  # states a call: large enough to fill the threads, small enough that the readings stay in cache


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
    threads = threads or os.cpu_count() or 1
    model = _lean_model(domain)
    data = [mujoco.MjData(model) for _ in range(threads)]
    with (
        mujoco.rollout.Rollout(nthread=threads) as pool,
        progress.bar(f"relabelling {domain.name}", total=len(physics), unit="states") as advance,
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
