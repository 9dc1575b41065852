"""The Jaco arm of dm_control's manipulation suite, reaching for one of four fixed, unobserved targets."""

import functools

import mujoco
import numpy as np

from utds.domains.base import Array, Domain, Features, Start, Task, add_sensor, quiet_import, tolerance

ARM, HAND = "jaco_arm/", "jaco_arm/jaco_hand/"
JOINTS = 6
TARGETS = {  # metres, in the table's frame
    "reach-top-left": (-0.09, 0.09, 0.001),
    "reach-top-right": (0.09, 0.09, 0.001),
    "reach-bottom-left": (-0.09, -0.09, 0.001),
    "reach-bottom-right": (0.09, -0.09, 0.001),
}
PLACES = np.array(list(TARGETS.values()))  # [4, 3]
RADIUS = 0.05  # metres


@functools.cache
def task():
    """dm_control's own reach task: it owns the arena, the arm and the sampler of start states."""
    quiet_import("dm_control.manipulation")
    reach = quiet_import("dm_control.manipulation.reach")
    return reach.reach_site_features()


def spec() -> mujoco.MjSpec:
    root = task().root_entity.mjcf_model.root
    model = mujoco.MjSpec.from_string(root.to_xml_string(), assets=root.get_assets())
    pinch = f"{HAND}pinchsite"
    add_sensor(model, "pinch_position", "framepos", "site", pinch)
    for axis in "xyz":
        add_sensor(model, f"pinch_{axis}", f"frame{axis}axis", "site", pinch)
    return model


def start() -> Start:
    """dm_control's initialisation without recompiling the model for each episode, which nothing here needs."""
    mjcf = quiet_import("dm_control.mjcf")
    errors = quiet_import("dm_control.composer").EpisodeInitializationError
    reach, physics = task(), mjcf.Physics.from_mjcf_model(task().root_entity.mjcf_model.root)

    def sample(random: np.random.RandomState) -> Array:
        while True:
            try:
                with physics.reset_context():
                    reach.initialize_episode(physics, random)
                return physics.get_state()
            except errors:  # no pose without a collision was found: dm_control's environment draws again as well
                continue

    return sample


def observe(f: Features) -> Array:
    """Arm joints (sin, cos) 12, torques 6, velocities 6; fingers 3, velocities 3; pinch position 3, rotation 9."""
    q, v = f["qpos"], f["qvel"]
    angles = np.empty((len(q), 2 * JOINTS))
    np.sin(q[:, :JOINTS], out=angles[:, 0::2])
    np.cos(q[:, :JOINTS], out=angles[:, 1::2])
    # Every joint of the arm turns about its own z axis: the third reading is the torque about it.
    torques = f.span(f"{ARM}joint_1_torque", f"{ARM}joint_{JOINTS}_torque")[:, 2::3]
    rotation = f.span("pinch_x", "pinch_z").reshape(-1, 3, 3).transpose(0, 2, 1).reshape(-1, 9)
    return np.concatenate(
        [
            angles,
            np.sign(torques) * np.log1p(np.abs(torques)),
            v[:, :JOINTS],
            q[:, JOINTS:],
            v[:, JOINTS:],
            f["pinch_position"],
            rotation,
        ],
        axis=1,
    )


def reward(f: Features, _: Array) -> Array:
    """Of all four tasks, [n, 4]: how near each target is."""
    apart = f["pinch_position"][:, None] - PLACES
    return tolerance(np.sqrt(np.add.reduce(apart * apart, axis=2)), high=RADIUS, margin=RADIUS)


RETURNS = ((191, 12), (223, 16), (193, 18), (203, 11))  # of an expert, of random actions

DOMAIN = Domain(
    name="jaco",
    tasks=tuple(
        Task(name, reference=expert, random=random) for name, (expert, random) in zip(TARGETS, RETURNS, strict=True)
    ),
    steps=250,
    control_timestep=0.04,
    observation_size=42,
    action_size=9,
    spec=spec,
    observe=observe,
    reward=reward,
    start=start,
    least_reward=0.0,
    camera="front_close",
)
