"""A point mass in an arena of four rooms in a row, bent to a square: four corners to reach. Small, for quick work.

y
^   TL        TR        arena ±0.3 m, walls 0.04 thick, targets at (±0.15, ±0.15); episodes start at the top left.
|         |             Doors between 0.18 and 0.3 lead from the top left to the top right, on to the bottom right, and
| --------+----         from there to the bottom left; there is none on the left.
|         |
    BL        BR   > x

Rooms in a row make it clear what a task's data is worth to another: who knows the way to the third room knows the way
to the second. The mass moves 0.2 m/s at most and an action holds for 0.1 s, so a room is some 20 steps long.
"""

import mujoco
import numpy as np

from utds.domains.base import Array, Domain, Features, Start, Task, tolerance

LIMIT = 0.29  # metres: how far the slide joints let the mass go
WALLS = ((-0.3, 0.18, -0.02, 0.02), (-0.02, 0.02, -0.18, 0.18))  # metres: from x to x, from y to y
BALL = 0.01  # radius of the mass
RADIUS, MARGIN = 0.03, 0.1  # metres: full reward inside the radius, a tenth of it a margin further out
TARGETS = {
    "reach-top-left": (-0.15, 0.15),
    "reach-top-right": (0.15, 0.15),
    "reach-bottom-left": (-0.15, -0.15),
    "reach-bottom-right": (0.15, -0.15),
}
PLACES = np.array(list(TARGETS.values())).T[:, None]  # [2, 1, 4]: x and y of each
RANDOM = (43, 0, 0, 0)  # returns of random actions: the first corner is where episodes start


def _box(wall: tuple[float, float, float, float]) -> str:
    left, right, bottom, top = wall
    size, place = f"{(right - left) / 2} {(top - bottom) / 2} .05", f"{(left + right) / 2} {(bottom + top) / 2} 0"
    return f'<geom type="box" size="{size}" pos="{place}" rgba=".35 .4 .45 1" condim="1"/>'  # frictionless: mass slides


XML = f"""
<mujoco model="pointmass">
  <option timestep="0.02"/>
  <visual><headlight ambient=".5 .5 .5"/><global offwidth="640" offheight="640"/></visual>
  <worldbody>
    <camera name="top" pos="0 0 .8"/>
    <geom name="floor" type="plane" size=".3 .3 .1" rgba=".85 .85 .82 1" contype="0" conaffinity="0"/>
    {"".join(map(_box, WALLS))}
    <body name="mass" pos="0 0 .02">
      <joint name="x" type="slide" axis="1 0 0" range="-{LIMIT} {LIMIT}" limited="true" damping="1"/>
      <joint name="y" type="slide" axis="0 1 0" range="-{LIMIT} {LIMIT}" limited="true" damping="1"/>
      <geom name="mass" type="sphere" size="{BALL}" mass=".3" rgba=".8 .3 .1 1" condim="1"/>
    </body>
  </worldbody>
  <actuator>
    <motor name="x" joint="x" gear=".2" ctrllimited="true" ctrlrange="-1 1"/>
    <motor name="y" joint="y" gear=".2" ctrllimited="true" ctrlrange="-1 1"/>
  </actuator>
</mujoco>
"""


def start() -> Start:
    """At rest, anywhere near the top left corner."""

    def sample(random: np.random.RandomState) -> Array:
        return np.array([random.uniform(-0.29, -0.15), random.uniform(0.15, 0.29), 0.0, 0.0])

    return sample


def exploration_start() -> Start:
    """At rest, anywhere in the arena outside the walls: what exploration needs to find every corner."""

    def sample(random: np.random.RandomState) -> Array:
        while True:
            x, y = random.uniform(-LIMIT, LIMIT, size=2)
            if not in_wall(x, y):
                return np.array([x, y, 0.0, 0.0])

    return sample


def in_wall(x: float, y: float) -> bool:
    """Whether a mass with its centre at (x, y) touches a wall."""
    return any(x0 - BALL < x < x1 + BALL and y0 - BALL < y < y1 + BALL for x0, x1, y0, y1 in WALLS)


def near(f: Features) -> Array:
    """How near each of the four targets is, [n, 4]."""
    x, y = f["qpos"].T[..., None] - PLACES
    return tolerance(np.hypot(x, y), high=RADIUS, margin=MARGIN)


def reward(f: Features, actions: Array) -> Array:
    """Of all four tasks, [n, 4]."""
    gentle = np.add.reduce(tolerance(actions, margin=1, value_at_margin=0, sigmoid="quadratic"), axis=1) / 2
    return near(f) * ((4 + gentle) / 5)[:, None]


DOMAIN = Domain(
    name="pointmass",
    tasks=tuple(Task(name, random=random) for name, random in zip(TARGETS, RANDOM, strict=True)),
    steps=150,
    control_timestep=0.1,
    observation_size=4,
    action_size=2,
    spec=lambda: mujoco.MjSpec.from_string(XML),
    observe=lambda f: np.concatenate([f["qpos"], f["qvel"]], axis=1),
    reward=reward,
    start=start,
    least_reward=0.0,
    exploration_start=exploration_start,
    camera="top",
)
