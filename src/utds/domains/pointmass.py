"""A point mass in an arena with a cross of walls: four corners to reach. Small, for quick work.

y
^   TL    |    TR        arena ±0.3 m, walls of half length 0.18 and half width 0.02 through the origin;
|         |              targets at (±0.15, ±0.15); episodes start at the top left.
|     ----+----
|         |
    BL    |    BR   > x

The public maze has steps of 0.02 s, 1000 of them; here an action holds for 0.1 s. The mass moves 0.1 m/s at most, so the
far corner is some 80 steps away instead of 400, near enough for values at γ = 0.99 to reach back to the start.
"""

import functools

import mujoco
import numpy as np

from utds.domains.base import Array, Domain, Features, Start, Task
from utds.domains.rewards import tol

LIMIT = 0.29  # metres: how far the slide joints let the mass go
WALL = (0.18, 0.02)  # half length, half width
BALL = 0.01  # radius of the mass
RADIUS, MARGIN = 0.03, 0.2  # metres: full reward inside the radius, a tenth of it a margin further out
TARGETS = {
    "reach-top-left": (-0.15, 0.15),
    "reach-top-right": (0.15, 0.15),
    "reach-bottom-left": (-0.15, -0.15),
    "reach-bottom-right": (0.15, -0.15),
}
PLACES = np.array(list(TARGETS.values())).T[:, None]  # [2, 1, 4]: x and y of each
RANDOM = (123, 2, 2, 0)  # returns of random actions: the first corner is where episodes start
XML = f"""
<mujoco model="pointmass">
  <option timestep="0.02"/>
  <visual><headlight ambient=".5 .5 .5"/><global offwidth="640" offheight="640"/></visual>
  <worldbody>
    <camera name="top" pos="0 0 .8"/>
    <geom name="floor" type="plane" size=".3 .3 .1" rgba=".85 .85 .82 1" contype="0" conaffinity="0"/>
    <geom name="wall_x" type="box" size="{WALL[0]} {WALL[1]} .05" rgba=".35 .4 .45 1" condim="1"/>
    <geom name="wall_y" type="box" size="{WALL[1]} {WALL[0]} .05" rgba=".35 .4 .45 1" condim="1"/>
    <body name="mass" pos="0 0 .02">
      <joint name="x" type="slide" axis="1 0 0" range="-{LIMIT} {LIMIT}" limited="true" damping="1"/>
      <joint name="y" type="slide" axis="0 1 0" range="-{LIMIT} {LIMIT}" limited="true" damping="1"/>
      <geom name="mass" type="sphere" size="{BALL}" mass=".3" rgba=".8 .3 .1 1" condim="1"/>
    </body>
  </worldbody>
  <actuator>
    <motor name="x" joint="x" gear=".1" ctrllimited="true" ctrlrange="-1 1"/>
    <motor name="y" joint="y" gear=".1" ctrllimited="true" ctrlrange="-1 1"/>
  </actuator>
</mujoco>
"""


def start() -> Start:
    """At rest, anywhere near the top left corner."""

    def sample(random: np.random.RandomState) -> Array:
        return np.array([random.uniform(-0.29, -0.15), random.uniform(0.15, 0.29), 0.0, 0.0])

    return sample


def spread() -> Start:
    """At rest, anywhere in the arena outside the walls: what exploration needs to find every corner."""

    def sample(random: np.random.RandomState) -> Array:
        while True:
            x, y = random.uniform(-LIMIT, LIMIT, size=2)
            if not in_wall(x, y):
                return np.array([x, y, 0.0, 0.0])

    return sample


def in_wall(x: float, y: float) -> bool:
    """Whether a mass with its centre at (x, y) touches the cross."""
    long, short = WALL[0] + BALL, WALL[1] + BALL
    return (abs(x) < long and abs(y) < short) or (abs(x) < short and abs(y) < long)


def near(f: Features) -> Array:
    """How near each of the four targets is, [n, 4]."""
    x, y = f["qpos"].T[..., None] - PLACES
    return tol(np.hypot(x, y), high=RADIUS, margin=MARGIN)


def rewards(f: Features, actions: Array) -> Array:
    """Of all four tasks, [n, 4]."""
    gentle = np.add.reduce(tol(actions, margin=1, value_at_margin=0, sigmoid="quadratic"), axis=1) / 2
    return near(f) * ((4 + gentle) / 5)[:, None]


def reach(f: Features, actions: Array, corner: int) -> Array:
    return f.once(rewards, actions)[:, corner]


DOMAIN = Domain(
    name="pointmass",
    tasks=tuple(
        Task(name, functools.partial(reach, corner=corner), random=random)
        for corner, (name, random) in enumerate(zip(TARGETS, RANDOM, strict=True))
    ),
    steps=200,
    control_timestep=0.1,
    observation_size=4,
    action_size=2,
    spec=lambda: mujoco.MjSpec.from_string(XML),
    observe=lambda f: np.concatenate([f["qpos"], f["qvel"]], axis=1),
    start=start,
    spread=spread,
    camera="top",
)
