"""Does the check of dynamics refuse altered robots and pass genuine ones? Tries it on the walker.

    python docs/results/dynamics.py --episodes 60 --out docs/results/dynamics.md

Rolls out the policies that ship with the package: genuine data of all four tasks, and data of a walker with 20 % more
gravity, with one motor's gear halved, or with the sensors of one joint a step late. Up to four datasets at a time are
held against the main data as `utds advise` and `utds train --share` do.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import mujoco
import numpy as np
import tyro

from utds import files
from utds.adviser import dynamics
from utds.collection import kinds
from utds.data.dataset import Dataset
from utds.domains import walker
from utds.domains.base import Domain
from utds.evaluation import rollout

TOGETHER = 4  # candidates of one check
TASKS = ("walker-stand", "walker-walk", "walker-run", "walker-flip")
GENUINE = ("uniform", "medium-replay", "replay", "medium", "expert")
HIP = [2, 3, 18]  # of the observation: the right thigh's two orientations and the right hip's velocity
MOTORS = ("right hip", "right knee", "right ankle", "left hip", "left knee", "left ankle")


def heavier() -> Domain:
    """A walker with 20 % more gravity."""

    def spec() -> mujoco.MjSpec:
        made = walker.spec()
        made.option.gravity = 1.2 * np.array(made.option.gravity)
        return made

    return replace(walker.DOMAIN, spec=spec)


def weaker(motor: int) -> Domain:
    """A walker with half the gear of one motor."""

    def spec() -> mujoco.MjSpec:
        made = walker.spec()
        made.actuators[motor].gear = 0.5 * np.array(made.actuators[motor].gear)
        return made

    return replace(walker.DOMAIN, spec=spec)


def late(dataset: Dataset, features: list[int]) -> Dataset:
    """The same data with some features measured a step late; the first observation of an episode stays."""
    observations = dataset.observations.copy()
    first = np.concatenate([[0], np.cumsum(dataset.lengths + 1)[:-1]])
    rest = np.setdiff1d(np.arange(len(observations)), first)
    observations[np.ix_(rest, features)] = dataset.observations[np.ix_(rest - 1, features)]
    columns = {name: dataset.column(name) for name in dataset.columns} | {"observations": observations}
    return Dataset.checked(columns, dataset.lengths, dataset.metadata)


def recorded(task: str, kind: str, episodes: int, seed: int, robot: Domain) -> Dataset:
    """A kind of data of a task's ladder, on another robot."""
    parts = kinds._plan(kinds.load_ladder(task), kind, episodes, seed)
    blocks = (
        rollout.record(robot, kinds._noisy(act, robot, noise, [seed, part]), count, seed + part, explore)
        for part, (act, count, noise, explore) in enumerate(parts)
        if count
    )
    return kinds.to_dataset(task, kind, blocks, seed)


def candidates(main: str, episodes: int, altered: tuple[str, ...]) -> Iterator[tuple[str, str, Dataset]]:
    """(what was changed, dataset, its data), genuine ones first; `altered` are the altered datasets' ids."""
    for name in [f"{task}/{kind}" for kind in GENUINE for task in TASKS]:
        if name != main:
            task, kind = name.split("/")
            yield "nothing", name, kinds.generate(kinds.load_ladder(task), kind, episodes, seed=0)
    robots = {"gravity + 20 %": heavier()} | {f"{name}'s gear halved": weaker(i) for i, name in enumerate(MOTORS)}
    for name in altered:
        task, kind = name.split("/")
        for change, robot in robots.items():
            yield change, name, recorded(task, kind, episodes, 1000, robot)
        yield "right hip a step late", name, late(recorded(task, kind, episodes, 1000, walker.DOMAIN), HIP)


def main(
    main: str = "walker-walk/medium-replay",
    altered: tuple[str, ...] = ("walker-walk/medium-replay", "walker-run/medium-replay"),
    episodes: int = 60,
    out: Path | None = None,
) -> None:
    """Hold genuine and altered walkers against main data.

    Args:
        main: the main dataset
        altered: datasets that are recorded anew with every alteration
        episodes: of each dataset
        out: markdown file to write
    """
    task, kind = main.split("/")
    own = kinds.generate(kinds.load_ladder(task), kind, episodes, seed=0)
    lines = [f"| changed | data | verdict | p | comparable with {main} | episodes |", "|---|---|---|---|---|---|"]
    every = candidates(main, episodes, altered)
    while group := list(islice(every, TOGETHER)):
        for (change, name, _), found in zip(group, dynamics.checks(own, [data for *_, data in group]), strict=True):
            row = f"| {change} | {name} | {found.verdict} | {found.p:.1g} | {found.comparable:.0%} | {found.episodes} |"
            print(row, flush=True)
            lines.append(row)
    if out is not None:
        files.write_text(out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
