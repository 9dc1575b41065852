"""A domain of one's own in one file: dm_control's cheetah with three tasks.

UTDS_DOMAINS=examples/cheetah.py utds domains           # the command line knows it now
python examples/cheetah.py                              # or from Python: steps it, prints all tasks' rewards
"""

import mujoco
import numpy as np

import utds.domains
from utds.domains import Domain, Features, Task, add_sensor
from utds.domains.base import Array, Start, model_files, quiet_import, tolerance


def spec() -> mujoco.MjSpec:
    """The suite's model and one more sensor; its own `torso_subtreelinvel` gives the speed."""
    model = mujoco.MjSpec.from_string(*model_files("cheetah.xml"))
    add_sensor(model, "spin", "subtreeangmom", "body", "torso")
    return model


def start() -> Start:
    """dm_control's start: random joint angles, then two seconds to settle."""
    cheetah = quiet_import("dm_control.suite.cheetah")
    physics = cheetah.Physics.from_xml_string(*cheetah.get_model_and_assets())

    def sample(random: np.random.RandomState) -> Array:
        with physics.reset_context():
            cheetah.Cheetah(random=random).initialize_episode(physics)
        return physics.get_state()

    return sample


def observe(f: Features) -> Array:
    """All positions but the horizontal one, 8, and velocities, 9."""
    return np.concatenate([f["qpos"][:, 1:], f["qvel"]], axis=1)


LEAST = np.array([10.0, 10.0, 5.0])  # m/s forward, m/s backward, kg·m²/s: what earns a full reward


def reward(f: Features, _: Array) -> Array:
    """Of run, run-backward and flip, [n, 3]."""
    forward, spin = f["torso_subtreelinvel"][:, 0], f["spin"][:, 1]
    quantity = np.stack([forward, -forward, spin], axis=1)
    return tolerance(quantity, LEAST, np.inf, margin=LEAST, value_at_margin=0, sigmoid="linear")


DOMAIN = utds.domains.register(
    Domain(
        name="cheetah",
        tasks=(Task("run"), Task("run-backward"), Task("flip")),
        steps=1000,
        control_timestep=0.01,
        observation_size=17,
        action_size=6,
        spec=spec,
        observe=observe,
        reward=reward,
        start=start,
        camera="side",
    )
)

if __name__ == "__main__":
    from utds.domains.simulator import Simulator

    random = np.random.default_rng(0)
    with Simulator(DOMAIN, n=4) as simulator:
        simulator.reset(seed=0)
        returns = sum(simulator.step(random.uniform(-1, 1, (4, 6)))[1] for _ in range(DOMAIN.steps))
    for name, value in zip(DOMAIN.task_names, returns.mean(axis=0), strict=True):
        print(f"cheetah-{name}: {value:.1f}")
