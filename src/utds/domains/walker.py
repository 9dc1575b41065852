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
    orientations = [f[f"{body}_{axis}"][:, :1] for body in BODIES for axis in "xz"]
    return np.concatenate([*orientations, f["torso_position"][:, 2:], f["qvel"]], axis=1)


def standing(f: Features) -> Array:
    height, upright = f["torso_position"][:, 2], f["torso_z"][:, 2]
    return (3 * tol(height, low=1.2, high=np.inf, margin=0.6) + (1 + upright) / 2) / 4


def stand(f: Features, _: Array) -> Array:
    return f.once(standing)


def move(f: Features, _: Array, speed: float) -> Array:
    velocity = f["torso_subtreelinvel"][:, 0]
    moving = tol(velocity, speed, np.inf, margin=speed / 2, value_at_margin=0.5, sigmoid="linear")
    return f.once(standing) * (5 * moving + 1) / 6


def flip(f: Features, _: Array) -> Array:
    momentum = f["torso_angular_momentum"][:, 1]
    spinning = tol(momentum, 5, np.inf, margin=5, value_at_margin=0, sigmoid="linear")
    return f.once(standing) * (5 * spinning + 1) / 6


DOMAIN = Domain(
    name="walker",
    tasks=(
        Task("stand", stand, reference=984, random=129),
        Task("walk", functools.partial(move, speed=1), reference=971, random=32),
        Task("run", functools.partial(move, speed=8), reference=796, random=23),
        Task("flip", flip, reference=799, random=50),
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
