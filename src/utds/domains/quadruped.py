"""The quadruped of the DeepMind Control Suite: jump, roll-fast, walk, run."""

import mujoco
import numpy as np

from utds.domains.base import Array, Domain, Features, Start, Task, add_sensor, model_files, quiet_import, tolerance

TOES = ("front_left", "front_right", "back_right", "back_left")
FLOOR = 100  # half side of the floor in metres: drawn only, a plane has no edge for the physics


def spec() -> mujoco.MjSpec:
    quadruped = quiet_import("dm_control.suite.quadruped")
    _, assets = model_files("quadruped.xml")
    model = mujoco.MjSpec.from_string(quadruped.make_model(floor_size=FLOOR).decode(), assets)
    add_sensor(model, "torso_z", "framezaxis", "xbody", "torso")
    return model


def start() -> Start:
    quadruped = quiet_import("dm_control.suite.quadruped")
    _, assets = model_files("quadruped.xml")
    physics = quadruped.Physics.from_xml_string(quadruped.make_model(floor_size=FLOOR), assets)

    def sample(random: np.random.RandomState) -> Array:
        with physics.reset_context():
            quadruped.Move(desired_speed=0, random=random).initialize_episode(physics)
        return physics.get_state()

    return sample


def observe(f: Features) -> Array:
    """Egocentric 44 (16 hinges, their velocities, 12 activations), torso velocity 3, upright 1, IMU 6, toes 24."""
    hinges = [f["qpos"][:, 7:], f["qvel"][:, 6:], f["act"]]  # all but the free joint of the torso
    torso = [f["velocimeter"], f["torso_z"][:, 2:], f["imu_accel"], f["imu_gyro"]]
    toes = [np.arcsinh(f.span(f"{kind}_toe_{TOES[0]}", f"{kind}_toe_{TOES[-1]}")) for kind in ("force", "torque")]
    return np.concatenate([*hinges, *torso, *toes], axis=1)


def upright(f: Features) -> Array:
    return tolerance(f["torso_z"][:, 2], low=1, high=np.inf, margin=2, value_at_margin=0, sigmoid="linear")


#                 jump roll-fast walk run
LEAST = np.array([1.0, 5.0, 0.5, 5.0])  # m, then m/s: height, speed in any direction, forward speed twice


def reward(f: Features, _: Array) -> Array:
    """Of all four tasks, [n, 4]: upright, and high or fast enough."""
    velocity = f["velocimeter"]
    quantity = np.empty((len(velocity), 4))
    quantity[:, 0] = f["center_of_mass"][:, 2]
    quantity[:, 1] = np.sqrt(np.add.reduce(velocity * velocity, axis=1))
    quantity[:, 2:] = velocity[:, :1]
    return upright(f)[:, None] * tolerance(quantity, LEAST, np.inf, LEAST, value_at_margin=0.5, sigmoid="linear")


DOMAIN = Domain(
    name="quadruped",
    tasks=(
        Task("jump", reference=888, random=199),
        Task("roll-fast", reference=658, random=149, own_reference=True),
        Task("walk", reference=866, random=132),
        Task("run", reference=888, random=133),
    ),
    steps=1000,
    control_timestep=0.02,
    observation_size=78,
    action_size=12,
    spec=spec,
    observe=observe,
    reward=reward,
    start=start,
    least_reward=0.0,
    camera="x",
)
