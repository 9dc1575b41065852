"""What a domain built on one of dm_control's models takes from it: model files and modules, without their noise."""

import contextlib
import importlib
import logging
import warnings
from collections.abc import Iterator
from types import ModuleType


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
    with quiet():
        return importlib.import_module(module)


def model_files(name: str) -> tuple[str, dict[str, bytes]]:
    """The MJCF text of a suite model and the files it includes, as `MjSpec.from_string` takes them."""
    common = quiet_import("dm_control.suite.common")
    return common.read_model(name).decode(), dict(common.ASSETS)
