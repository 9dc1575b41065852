"""The planar walker of the DeepMind Control Suite: stand, walk, run, flip.

stand            (3·tall + (1 + upright)/2) / 4    tall: 1 from 1.2 m on; upright: the cosine of the tilt
walk, run, flip  stand · (5·enough + 1) / 6        enough: 1 from 1 m/s, 8 m/s, 5 kg·m²/s on, falling linearly to 0
"""

import mujoco
import numpy as np

from utds.domains.base import Array, Domain, Features, Start, Task, add_sensor, model_files, quiet_import, tolerance

READINGS = (
    ("torso_position", 2),  # height, m
    ("torso_z", 2),  # cosine of the tilt
    ("torso_subtreelinvel", 0),  # walk: speed, m/s
    ("torso_subtreelinvel", 0),  # run
    ("torso_angular_momentum", 1),  # flip: kg·m²/s
)
LEAST = np.array([[1.0], [8.0], [5.0]])  # of walk, run and flip for the full reward; none for none, linear between


def reward(f: Features, _: Array) -> Array:
    """Of all four tasks, [n, 4]: standing; for walk, run and flip standing and fast enough."""
    readings = f.pick(READINGS)
    height, upright, quantity = readings[0], readings[1], readings[2:]
    rewards = np.empty((4, len(height)))
    standing, moving = rewards[0], rewards[1:]
    tall = tolerance(height, low=1.2, high=np.inf, margin=0.6)
    np.divide(3.0 * tall + (1.0 + upright) / 2.0, 4.0, out=standing)
    enough = tolerance(quantity, LEAST, np.inf, margin=LEAST, value_at_margin=0, sigmoid="linear")
    np.divide(standing * (5.0 * enough + 1.0), 6.0, out=moving)
    return rewards.T


BODIES = ("torso", "right_thigh", "right_leg", "right_foot", "left_thigh", "left_leg", "left_foot")


def spec() -> mujoco.MjSpec:
    model = mujoco.MjSpec.from_string(*model_files("walker.xml"))
    for body in BODIES:
        add_sensor(model, f"{body}_z", "framezaxis", "xbody", body)
    add_sensor(model, "torso_position", "framepos", "xbody", "torso")
    add_sensor(model, "torso_angular_momentum", "subtreeangmom", "body", "torso")
    return model


def start() -> Start:
    walker = quiet_import("dm_control.suite.walker")
    physics = walker.Physics.from_xml_string(*walker.get_model_and_assets())

    def sample(random: np.random.RandomState) -> Array:
        with physics.reset_context():
            walker.PlanarWalker(move_speed=0, random=random).initialize_episode(physics)
        return physics.get_state()

    return sample


def observe(f: Features) -> Array:
    """Orientations 14, torso height 1, velocities 9."""
    # dm_control's xmat entries xx and xz of each body. The walker only turns about y, so xx is zz to the last digit,
    # and the z axis, (xz, yz, zz), has them both: sensors are read in every physics step.
    axes = f.span(f"{BODIES[0]}_z", f"{BODIES[-1]}_z").reshape(-1, len(BODIES), 3)
    orientations = axes[:, :, ::-2].reshape(-1, 2 * len(BODIES))
    return np.concatenate([orientations, f["torso_position"][:, 2:], f["qvel"]], axis=1)


DOMAIN = Domain(
    name="walker",
    tasks=(
        Task("stand", reference=984, random=129),
        Task("walk", reference=971, random=32),
        Task("run", reference=796, random=23),
        Task("flip", reference=799, random=50),
    ),
    steps=1000,
    control_timestep=0.025,
    observation_size=24,
    action_size=6,
    spec=spec,
    observe=observe,
    reward=reward,
    start=start,
    least_reward=0.0,
    camera="side",
)
