"""Pictures of a state, off screen. OpenGL is looked for only when a picture is asked for."""

import importlib
import os
import warnings
from typing import Any

import mujoco
import numpy as np

from utds.domains.base import Array, Domain
from utds.errors import MissingExtra

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
            self._model,
            self._data,
            mujoco.MjvOption(),
            None,
            self._camera,
            mujoco.mjtCatBit.mjCAT_ALL,
            self._scene,
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
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                context = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
            context.make_current()
            return context
        except (ImportError, AttributeError, RuntimeError, OSError) as error:
            reasons.append(f"{backend}: {error}")
            if before is None:
                os.environ.pop("PYOPENGL_PLATFORM")
            else:
                os.environ["PYOPENGL_PLATFORM"] = before
    raise MissingExtra(f"no off-screen OpenGL for pictures ({'; '.join(reasons)}); {HELP}")
