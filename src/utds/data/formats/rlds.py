"""RLDS steps in an `.npz`: nested names joined by '/', such as steps/observation/state, steps/action, steps/is_first.

    observation   o0   o1   …   oT        the last step of an episode (is_last) has an observation and nothing more
    action        a0   a1   …   –         taken at o_t
    reward        r0   r1   …   –         earned by it: of the state reached
    is_terminal    0    0   …   1 or 0    whether the episode truly ended at oT

An observation of several parts is laid flat in the order of their names; images and text can't be.
"""

from pathlib import Path

import numpy as np

from utds.data.build import lengths_of
from utds.data.formats import arrays
from utds.data.formats.recording import NO_REWARDS, Recording, flat
from utds.errors import DataError


def read(path: Path) -> Recording:
    """The recording of a file."""
    found = {name.removeprefix("steps/"): values for name, values in arrays.load(path).items()}
    for name in ("is_first", "is_last"):
        if name not in found:
            raise DataError(f"{path} holds no {name}; RLDS steps have observation, action, is_first and is_last")
    states, actions = _part(path, found, "observation"), _part(path, found, "action")
    marks = {name: np.asarray(found[name]).reshape(-1).astype(bool) for name in ("is_first", "is_last")}
    marks["is_terminal"] = np.asarray(found.get("is_terminal", np.zeros(len(states)))).reshape(-1).astype(bool)
    for name, values in [("action", actions), *marks.items(), *((n, found[n]) for n in ("reward",) if n in found)]:
        if len(values) != len(states):
            raise DataError(f"{path}: {name} has {len(values)} rows, but observation has {len(states)}")
    first, last = marks["is_first"], marks["is_last"]
    follows = np.array_equal(first[1:], last[:-1])
    if not (first[0] and last[-1] and follows):
        row = len(first) - 1 if follows else int(np.argmax(first[1:] != last[:-1]))
        raise DataError(f"{path}: an episode is cut short or shuffled at row {row}: is_first must follow is_last")
    lengths = lengths_of(np.cumsum(first)) - 1
    if (lengths < 1).any():
        raise DataError(f"{path}: episode {int(np.argmax(lengths < 1))} has one observation; there is no step in it")
    ended = np.roll(marks["is_terminal"], -1)[~last]  # of the state that the step reaches
    rewards = np.asarray(found["reward"]).reshape(-1)[~last] if "reward" in found else None
    parts = sorted(name for name in found if name.partition("/")[0] == "observation")
    notes = [f"observations: {', '.join(parts)}", *([NO_REWARDS] if rewards is None else [])]
    return Recording(states, actions[~last], rewards, lengths, ended, notes=notes)


def _part(path: Path, found: dict[str, np.ndarray], name: str) -> np.ndarray:
    parts = {key: values for key, values in found.items() if key.partition("/")[0] == name}
    if not parts:
        raise DataError(f"{path} holds no {name}; it has {', '.join(sorted(found))}")
    for key, values in parts.items():
        if values.dtype == np.uint8 and values.ndim > 2:
            raise DataError(f"{path}: {key} holds pictures; only vectors of numbers can be imported: leave it out")
    return flat(name, parts)
