"""Control steps per second of ten copies in threads, over dm_control's own loop and over bare MuJoCo on all cores."""

import os
from concurrent.futures import ThreadPoolExecutor

import mujoco
import numpy as np

from common import RATIO, dm_control_environment, fastest, require, table, verdict
from utds import domains
from utds.domains.simulator import Simulator

COPIES = 10
# Control steps of each copy in one timing. Many short timings: the fastest meets no neighbour on either core.
STEPS = {"walker": 10, "quadruped": 10, "jaco": 3, "pointmass": 20}
REPEATS = 300
OVER_DM_CONTROL = {"walker": 3, "quadruped": 3, "jaco": 3, "pointmass": 5}  # required
OF_BARE = {"walker": 0.7, "quadruped": 0.7}


def dm_control_loop(name: str, actions: np.ndarray):
    """One environment of dm_control stepped through all actions, as its users write it."""
    timing = {"control_timestep": domains.get(name).control_timestep}
    env = dm_control_environment(name, **({"environment_kwargs": timing} if name == "pointmass" else {}))
    centre, half = domains.get(name).action_range
    controls = centre + half * actions.reshape(-1, actions.shape[-1])
    env.reset()

    def run() -> None:
        for control in controls:
            if env.step(control).last():
                env.reset()

    return run


def bare(name: str, actions: np.ndarray):
    """The same number of physics steps with nothing around them: one thread per core, each with its own data."""
    domain, threads = domains.get(name), os.cpu_count() or 1
    centre, half = domain.action_range
    data = [mujoco.MjData(domain.model) for _ in range(COPIES)]
    for i, d in enumerate(data):
        mujoco.mj_setState(domain.model, d, domain.start_state(0, i), mujoco.mjtState.mjSTATE_PHYSICS)
    pool = ThreadPoolExecutor(threads)

    def work(thread: int) -> None:
        for step in actions:
            for i in range(thread, COPIES, threads):
                data[i].ctrl[:] = centre + half * step[i]
                mujoco.mj_step(domain.model, data[i], domain.substeps)

    return lambda: list(pool.map(work, range(threads)))


def batched(name: str, actions: np.ndarray):
    simulator = Simulator(name, COPIES)
    simulator.reset(0)
    return lambda: [simulator.step(step) for step in actions]


def main() -> None:
    rows = []
    for name in domains.names():
        actions = np.random.default_rng(0).uniform(-1, 1, (STEPS[name], COPIES, domains.get(name).action_size))
        works = {"ours": batched, "dm_control": dm_control_loop, "bare": bare}
        times = fastest({key: make(name, actions) for key, make in works.items()}, repeats=REPEATS)
        steps = STEPS[name] * COPIES
        over, of_bare = times["dm_control"] / times["ours"], times["bare"] / times["ours"]
        require(f"{name}: over dm_control", over, least=OVER_DM_CONTROL[name], noise=RATIO)
        require(f"{name}: of bare mj_step", of_bare, least=OF_BARE.get(name), noise=RATIO)
        rows.append(
            {
                "domain": name,
                "steps/s": round(steps / times["ours"]),
                "dm_control": round(steps / times["dm_control"]),
                "over dm_control": f"{over:.1f}×",
                "required": f"{OVER_DM_CONTROL[name]}×",
                "of bare mj_step": f"{of_bare:.0%}",
                "required ": f"{OF_BARE[name]:.0%}" if name in OF_BARE else "–",
            }
        )
    table(f"simulator: {COPIES} copies on {os.cpu_count()} cores", rows)


if __name__ == "__main__":
    main()
    verdict()
