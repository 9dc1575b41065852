"""The planar walker of the DeepMind Control Suite: stand, walk, run, flip."""

import functools

import mujoco
import numpy as np

from utds.domains.base import Array, Domain, Features, Start, Task, add_sensor
from utds.domains.rewards import tol
from utds.domains.suite import model_files, quiet_import

BODIES = ("torso", "right_thigh", "right_leg", "right_foot", "left_thigh", "left_leg", "left_foot")


def spec() -> mujoco.MjSpec:
    model = mujoco.MjSpec.from_string(*model_files("walker.xml"))
    for body in BODIES:
        add_sensor(model, f"{body}_x", "framexaxis", "xbody", body)
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
    # The x components of each body's x and z axes: dm_control's xmat entries xx and xz.
    orientations = f.span(f"{BODIES[0]}_x", f"{BODIES[-1]}_z", every=3)
    return np.concatenate([orientations, f["torso_position"][:, 2:], f["qvel"]], axis=1)


def standing(f: Features) -> Array:
    height, upright = f["torso_position"][:, 2], f["torso_z"][:, 2]
    return (3 * tol(height, low=1.2, high=np.inf, margin=0.6) + (1 + upright) / 2) / 4


def stand(f: Features, _: Array) -> Array:
    return f.once(standing)


#                  walk run flip
LEAST = np.array([1.0, 8.0, 5.0])  # m/s, m/s, kg·m²/s
MARGIN = np.array([0.5, 4.0, 5.0])
AT_MARGIN = np.array([0.5, 0.5, 0.0])


def moving(f: Features) -> Array:
    """The rewards of walk, run and flip, [n, 3]: standing, and fast enough."""
    quantity = np.empty((len(f["qpos"]), 3))
    quantity[:, :2] = f["torso_subtreelinvel"][:, :1]
    quantity[:, 2] = f["torso_angular_momentum"][:, 1]
    enough = tol(quantity, LEAST, np.inf, MARGIN, AT_MARGIN, sigmoid="linear")
    return f.once(standing)[:, None] * (5 * enough + 1) / 6


def move(f: Features, _: Array, column: int) -> Array:
    return f.once(moving)[:, column]


DOMAIN = Domain(
    name="walker",
    tasks=(
        Task("stand", stand, reference=984, random=129),
        Task("walk", functools.partial(move, column=0), reference=971, random=32),
        Task("run", functools.partial(move, column=1), reference=796, random=23),
        Task("flip", functools.partial(move, column=2), reference=799, random=50),
    ),
    steps=1000,
    control_timestep=0.025,
    observation_size=24,
    action_size=6,
    spec=spec,
    observe=observe,
    start=start,
    camera="side",
)
