"""OGBench: `.npz` with observations, actions, terminals and, for relabelling, qpos and qvel; play data has no rewards.

    observations   s0   s1   s2   s3  │        the last state of a trajectory has a 1 in terminals
    actions        a0   a1   a2   a3  │        its action is never used
    rewards        r0   r1   r2   r3  │        where given, r_t is of the state s_t
    ours              r1   r2   r3    │        reward n is of the state *reached*: shifted by one

A trajectory's end is a time limit, never a termination.
"""

from pathlib import Path

import numpy as np

from utds.data.columns import cast
from utds.data.formats import arrays
from utds.data.formats.recording import Recording, check_arrays, flat, steps_between
from utds.errors import DataError

_NEEDED = ("observations", "actions", "terminals")
_OPTIONAL = ("rewards", "qpos", "qvel")


def read(path: Path) -> Recording:
    """The recording of a file."""
    found = arrays.load(path)
    left = check_arrays(path, found, _NEEDED, _OPTIONAL, "an OGBench file has observations, actions and terminals")
    states = flat("observations", found["observations"])
    last = cast("terminals", found["terminals"], np.bool_, None)
    if not last[-1]:
        raise DataError(f"{path} ends in the middle of a trajectory; it was cut short: fetch it again")
    first = np.concatenate([[True], last[:-1]])
    lengths = steps_between(path, last, "trajectory")
    notes = [f"{len(lengths)} last actions left out: nothing follows them", *left]
    rewards = cast("rewards", found["rewards"], np.float32, None)[~first] if "rewards" in found else None
    notes += [] if rewards is None else ["rewards of s moved to the step that reaches s"]
    parts = [flat(name, found[name], np.float64) for name in ("qpos", "qvel") if name in found]
    notes += ["qpos and qvel kept as physics"] if parts else []
    return Recording(
        observations=states,
        actions=flat("actions", found["actions"])[~last],
        rewards=rewards,
        lengths=lengths,
        terminations=np.zeros(int(lengths.sum()), bool),
        physics=np.concatenate(parts, axis=1) if parts else None,
        notes=notes,
    )
