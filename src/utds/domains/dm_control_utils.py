"""What a domain built on dm_control takes from it: its reward function, model files and modules without their noise."""

import contextlib
import importlib
import logging
import math
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from utds.errors import MissingExtra

Array = NDArray[np.float64]
Sigmoid = Literal["gaussian", "linear", "quadratic"]
VERSION = "1.0.50"  # the one whose simulation ours equals, with the MuJoCo that pyproject.toml names


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings and dm_control's log: of models that are not ours to mend, and of searches that try again."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def quiet_import(module: str) -> ModuleType:
    """Import a module of dm_control. Without a display its search for a window system warns; we draw no window."""
    try:
        with quiet():
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != "dm_control":
            raise
        raise MissingExtra(  # pip can't install it there: labmaze, which it requires and we don't, has no wheel
            f"the model needs dm_control, which Python 3.13 lacks: pip install --no-deps dm_control=={VERSION}"
        ) from None


def model_files(name: str) -> tuple[str, dict[str, bytes]]:
    """The MJCF text of a suite model and the files it includes, as `MjSpec.from_string` takes them."""
    common = quiet_import("dm_control.suite.common")
    return common.read_model(name).decode(), dict(common.ASSETS)


def tolerance(
    x: Array,
    low: float | Array = 0.0,
    high: float = 0.0,
    margin: float | Array = 0.0,
    value_at_margin: float = 0.1,
    sigmoid: Sigmoid = "gaussian",
) -> Array:
    """How the suite's tasks turn a quantity into a reward: dm_control's `tolerance`, vectorised.

    1 inside [low, high], falling outside to `value_at_margin` at a distance of `margin`; 0 at once if that is 0.

    `low` and `margin` may be arrays that broadcast against `x`: one call for tasks that differ in nothing else. Ten
    copies' rewards cost what NumPy's calls cost, so there are few of them.
    """
    outside = low - x if high == math.inf else np.maximum(low - x, x - high)
    outside = np.maximum(outside, 0.0)  # distance to the interval
    if not isinstance(margin, np.ndarray) and margin == 0:
        return np.where(outside == 0, 1.0, 0.0)
    d = outside / margin
    if sigmoid == "gaussian":
        return np.exp(-0.5 * (d * math.sqrt(-2 * math.log(value_at_margin))) ** 2)
    if sigmoid == "linear":
        return np.maximum(1.0 - d * (1 - value_at_margin), 0.0)
    return np.maximum(1 - (d * math.sqrt(1 - value_at_margin)) ** 2, 0)
