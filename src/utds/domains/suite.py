"""The two things taken from dm_control when a domain is built on one of its models: model files and its own modules."""

import importlib
import warnings
from types import ModuleType


def quiet_import(module: str) -> ModuleType:
    """Import a module of dm_control. Without a display its search for a window system warns; we draw no window."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(module)


def model_files(name: str) -> tuple[str, dict[str, bytes]]:
    """The MJCF text of a suite model and the files it includes, as `MjSpec.from_string` takes them."""
    common = quiet_import("dm_control.suite.common")
    return common.read_model(name).decode(), dict(common.ASSETS)
