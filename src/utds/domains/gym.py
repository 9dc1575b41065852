"""Every task as a Gymnasium environment: `gymnasium.make("utds/WalkerWalk-v0")`, or `make_vec` for many at once.

Importing `utds.domains` registers them. Gymnasium does so itself where the id names the module:
`gymnasium.make("utds.domains:utds/WalkerWalk-v0")`. Its entry points for plugins ended with version 1.0.

Observations are float32 in dm_control's own order, actions lie in [-1, 1] and are clipped to it. The time limit is a
truncation; nothing ever terminates.
"""

import importlib
import os
import warnings
from typing import Any

import gymnasium
import mujoco
import numpy as np

from utds import domains
from utds.domains.base import Array, Domain, Task
from utds.domains.simulator import Simulator
from utds.errors import ConfigError, MissingExtra

# Gymnasium 1.0 has no name for it: there every vector environment resets with the next step.
AUTORESET = (
    {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP} if hasattr(gymnasium.vector, "AutoresetMode") else {}
)
SIZE = 480  # pixels, both ways


def env_id(domain: Domain, task: Task) -> str:
    """walker, walk -> utds/WalkerWalk-v0; jaco, reach-top-left -> utds/JacoReachTopLeft-v0."""
    words = f"{domain.name}-{task.name}".replace("_", "-").split("-")
    return f"utds/{''.join(word.capitalize() for word in words)}-v0"


def register_domain(domain: Domain) -> None:
    """Register all tasks of a domain."""
    for task in domain.tasks:
        if env_id(domain, task) not in gymnasium.registry:
            gymnasium.register(  # without a number of steps: the environments truncate by themselves
                env_id(domain, task),
                entry_point=f"{__name__}:TaskEnv",  # names, not objects: a spec can go to JSON, and come back anywhere
                vector_entry_point=f"{__name__}:VectorTaskEnv",
                kwargs={"domain": domain.name, "task": task.name},
            )


def _spaces(domain: Domain) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    return (
        gymnasium.spaces.Box(-np.inf, np.inf, (domain.observation_size,), np.float32),
        gymnasium.spaces.Box(-1.0, 1.0, (domain.action_size,), np.float32),
    )


class TaskEnv(gymnasium.Env):
    """One task. `info["rewards"]` holds the rewards of all tasks of the domain, `info["physics"]` the state."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012 (as Gymnasium declares it)

    def __init__(self, domain: str, task: str, render_mode: str | None = None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ConfigError(f"render_mode must be None or 'rgb_array', got {render_mode!r}")
        self.render_mode = render_mode
        self._domain = domains.get(domain)
        self._task = self._domain.tasks.index(self._domain.task(task))
        self.observation_space, self.action_space = _spaces(self._domain)
        self.metadata = type(self).metadata | {"render_fps": round(1 / self._domain.control_timestep)}
        self._simulator = Simulator(self._domain, 1)
        self._camera = Camera(self._domain, SIZE, SIZE) if render_mode else None
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        # Gymnasium's generator gives the start state's seed, so a seeded reset and those after it are reproducible.
        observation = self._simulator.reset(int(self.np_random.integers(2**31)))
        self._steps = 0
        return observation[0].astype(np.float32), {"physics": self._simulator.physics()[0]}

    def step(self, action):
        observation, rewards = self._simulator.step(np.asarray(action)[None])
        self._steps += 1
        info = {"rewards": rewards[0], "physics": self._simulator.physics()[0]}
        truncated = self._steps >= self._domain.steps
        return observation[0].astype(np.float32), float(rewards[0, self._task]), False, truncated, info

    def render(self):
        if self._camera is None:
            raise ConfigError('to render, make the environment with render_mode="rgb_array"')
        return self._camera.picture(self._simulator.physics()[0])

    def close(self) -> None:
        self._simulator.close()
        if self._camera is not None:
            self._camera.close()


class VectorTaskEnv(gymnasium.vector.VectorEnv):
    """Many copies of one task on the batched simulator. All reach the time limit together; the next step resets."""

    def __init__(self, domain: str, task: str, num_envs: int = 1) -> None:
        self._domain = domains.get(domain)
        self._task = self._domain.tasks.index(self._domain.task(task))
        self.num_envs = num_envs
        self.metadata = dict(AUTORESET)
        self.single_observation_space, self.single_action_space = _spaces(self._domain)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self._simulator = Simulator(self._domain, num_envs)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        if seed is not None or self._np_random is None:
            self._np_random, self._np_random_seed = gymnasium.utils.seeding.np_random(seed)
        observations = self._simulator.reset(int(self.np_random.integers(2**31)))
        self._steps = 0
        return observations.astype(np.float32), {"physics": self._simulator.physics()}

    def step(self, actions):
        none = np.zeros(self.num_envs, bool)
        if self._steps >= self._domain.steps:  # Gymnasium's next-step autoreset: this action is not used
            observations, info = self.reset()
            return observations, np.zeros(self.num_envs), none, none, info
        observations, rewards = self._simulator.step(actions)
        self._steps += 1
        truncated = none | (self._steps >= self._domain.steps)
        info = {"rewards": rewards, "physics": self._simulator.physics()}
        return observations.astype(np.float32), rewards[:, self._task], none, truncated, info

    def close_extras(self, **_: Any) -> None:
        self._simulator.close()


BACKENDS = ("egl", "osmesa")
HELP = "install EGL or OSMesa (on Debian: apt install libegl1 libgl1-mesa-dri, or libosmesa6), then try again"


class Camera:
    """Draws states of a domain as they come, in the picture size asked for."""

    def __init__(self, domain: Domain, width: int, height: int) -> None:
        self._model = domain.model
        self._data = mujoco.MjData(domain.model)
        self._size = (height, width)
        self._context = _context(width, height)
        self._scene = mujoco.MjvScene(domain.model, maxgeom=1000)
        self._resources = mujoco.MjrContext(domain.model, mujoco.mjtFontScale.mjFONTSCALE_100)
        self._camera = mujoco.MjvCamera()
        if isinstance(domain.camera, str):
            self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
            self._camera.fixedcamid = domain.model.camera(domain.camera).id
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._resources)

    def picture(self, state: Array) -> np.ndarray:
        """One state (qpos, qvel, act) as an RGB picture [height, width, 3] of uint8."""
        self._context.make_current()
        mujoco.mj_setState(self._model, self._data, state, mujoco.mjtState.mjSTATE_PHYSICS)
        mujoco.mj_forward(self._model, self._data)
        view = mujoco.MjrRect(0, 0, self._size[1], self._size[0])
        mujoco.mjv_updateScene(
            self._model, self._data, mujoco.MjvOption(), None, self._camera, mujoco.mjtCatBit.mjCAT_ALL, self._scene
        )
        mujoco.mjr_render(view, self._scene, self._resources)
        picture = np.empty((*self._size, 3), np.uint8)
        mujoco.mjr_readPixels(picture, None, view, self._resources)
        return np.flipud(picture).copy()

    def close(self) -> None:
        self._context.make_current()
        self._resources.free()
        self._context.free()


def _context(width: int, height: int) -> Any:
    """An off-screen OpenGL context from the first backend that has one; `MUJOCO_GL` chooses among them."""
    wanted = os.environ.get("MUJOCO_GL", "").lower()
    reasons = []
    for backend in (wanted,) if wanted in BACKENDS else BACKENDS:
        before = os.environ.get("PYOPENGL_PLATFORM")
        os.environ["PYOPENGL_PLATFORM"] = backend
        try:
            with warnings.catch_warnings(action="ignore"):
                context = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
            context.make_current()
            return context
        except (ImportError, AttributeError, RuntimeError, OSError) as error:
            reasons.append(f"{backend}: {error}")
            os.environ.pop("PYOPENGL_PLATFORM")
            os.environ |= {} if before is None else {"PYOPENGL_PLATFORM": before}
    raise MissingExtra(f"no off-screen OpenGL for pictures ({'; '.join(reasons)}); {HELP}")
