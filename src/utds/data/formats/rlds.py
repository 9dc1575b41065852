"""RLDS steps in an `.npz`: nested names joined by '/', such as steps/observation/state, steps/action, steps/is_first.

    observation   o0   o1   …   oT        the last step of an episode (is_last) has an observation and nothing more
    action        a0   a1   …   –         taken at o_t
    reward        r0   r1   …   –         earned by it: of the state reached
    is_terminal    0    0   …   1 or 0    whether the episode truly ended at oT

Several parts of an observation are joined in the order of their names; images and text can't be imported.
"""

from pathlib import Path

import numpy as np

from utds.data.columns import cast
from utds.data.formats import arrays
from utds.data.formats.recording import Recording, check_arrays, flat, steps_between
from utds.errors import DataError

_MARKS = ("is_first", "is_last", "is_terminal")


def read(path: Path) -> Recording:
    """The recording of a file."""
    found = {name.removeprefix("steps/"): values for name, values in arrays.load(path).items()}
    states, actions = _part(path, found, "observation"), _part(path, found, "action")
    found.setdefault("is_terminal", np.zeros(len(states)))
    marks = {name: cast(name, found[name], np.bool_, None) for name in _MARKS if name in found}
    given = found | marks | {"observation": states, "action": actions}
    has = "RLDS steps have observation, action, is_first and is_last"
    check_arrays(path, given, ("observation", "action", *_MARKS), ("reward",), has)
    first, last = marks["is_first"], marks["is_last"]
    follows = np.array_equal(first[1:], last[:-1])
    if not (first[0] and last[-1] and follows):
        row = len(first) - 1 if follows else int(np.argmax(first[1:] != last[:-1]))
        raise DataError(f"{path}: an episode is cut short or shuffled at row {row}: is_first must follow is_last")
    lengths = steps_between(path, last, "episode")
    ended = np.roll(marks["is_terminal"], -1)[~last]  # of the state that the step reaches
    rewards = cast("reward", found["reward"], np.float32, None)[~last] if "reward" in found else None
    parts = sorted(name for name in found if name.partition("/")[0] == "observation")
    notes = [f"observations: {', '.join(parts)}"]
    return Recording(states, actions[~last], rewards, lengths, ended, notes=notes)


def _part(path: Path, found: dict[str, np.ndarray], name: str) -> np.ndarray:
    """[N, d] of the array of that name, or of all arrays below it in the order of their names."""
    parts = {key: found[key] for key in sorted(found) if key.partition("/")[0] == name}
    check_arrays(path, parts, list(parts) or [name], (), f"it has {', '.join(sorted(found))}")
    return np.concatenate([flat(key, values) for key, values in parts.items()], axis=1)
