"""The quickstart: what sharing does, on one small problem, from data to pictures.

A task's own data is poor; other tasks of the same robot were recorded plentifully. Four ways to use that data are
trained on the same budget: own data alone, everything with CQL (Direct Sharing), with CDS, and with UTDS.
"""

import contextlib
import math
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from utds import algorithms, terminal, training
from utds.collection import kinds, ladder
from utds.data import store
from utds.data.dataset import Dataset
from utds.data.lake import Lake
from utds.errors import ConfigError, DataError
from utds.evaluation import Evaluation
from utds.quickstart import pictures
from utds.training.run import Run

METHODS = {  # algorithm -> what the quickstart calls it
    "pbrl": "own data alone (PBRL)",
    "cql": "Direct Sharing (CQL)",
    "cds": "CDS",
    "utds": "UTDS",
}


@dataclass(frozen=True)
class Story:
    """One problem: whose data is poor, who shares, and how long to learn."""

    main: str  # task to learn
    kind: str  # of its own data
    episodes: int  # of its own data
    share: tuple[str, ...]  # tasks whose replay data is shared
    share_episodes: int  # of each
    steps: int  # gradient steps of each method


STORIES = {
    "pointmass": Story(
        main="pointmass-reach-top-right",
        kind="medium-replay",
        episodes=8,
        share=("pointmass-reach-bottom-right",),
        share_episodes=150,
        steps=2_000,
    ),
    "walker": Story(
        main="walker-walk",
        kind="medium-replay",
        episodes=80,
        share=("walker-run",),
        share_episodes=200,
        steps=10_000,
    ),
}


def run(
    domain: str, out: Path, seed: int = 0, episodes: int = 10, console: Console | None = None
) -> list[tuple[str, Evaluation]]:
    """Generate, train, evaluate, print and draw; returns each method's evaluation."""
    if domain not in STORIES:
        raise ConfigError(f"there is no quickstart on {domain!r}; there are {', '.join(STORIES)}")
    story, console = STORIES[domain], console or Console()
    main, others = data(story, seed)
    console.print(f"[bold]{story.main}[/]: {_describe(main)}")
    for other in others:
        console.print(f"shared {other.name}: {_describe(other)}, relabelled for {story.main}")
    runs = train(story, main, others, out, seed)
    found = [(METHODS[name], trained.evaluate(episodes)) for name, trained in runs.items()]
    console.print(table(story, main, found))
    for picture in pictures.draw(story.main, main, others, runs, METHODS, out):
        console.print(f"picture: {picture}")
    console.print(verdict(found))
    return found


def data(story: Story, seed: int) -> tuple[Dataset, list[Dataset]]:
    """The main task's own data and the others', rolled out from the policies that ship, and stored.

    Stored, other commands find what the runs were trained on; under ids of the quickstart's own, so that nothing of the
    user's is replaced.
    """

    def stored(task: str, kind: str, episodes: int) -> Dataset:
        made, id = kinds.generate(ladder.load(task), kind, episodes, seed), f"{task}/quickstart-{kind}-seed-{seed}"
        with contextlib.suppress(DataError):  # there is none yet, or it was damaged
            if (there := store.load(id)).digest == made.digest:
                return there
        return made.save(id, overwrite=True)

    main = stored(story.main, story.kind, story.episodes)
    return main, [stored(task, "replay", story.share_episodes) for task in story.share]


def train(story: Story, main: Dataset, others: list[Dataset], out: Path, seed: int) -> dict[str, Run]:
    """One run per method; one that is there already is taken as it is."""
    lake = Lake([main, *others])
    runs = {}
    for name in METHODS:
        pool = lake.pool(main, *(others if algorithms.entry(name).reads_shared else ()))
        algorithm = algorithms.make(name)  # its fast preset
        every = max(1, story.steps // 8)
        runs[name] = training.train(
            pool, algorithm, seeds=[seed], steps=story.steps, out=out / f"{name}-{seed}", resume=True,
            eval_every=every, checkpoint_every=every, log_every=every,
            trust_dynamics=True,  # both were recorded here, on the same simulator
        )  # fmt: skip
    return runs


def table(story: Story, main: Dataset, found: list[tuple[str, Evaluation]]) -> Table:
    """What a newcomer should see."""
    heads, title = ("return", "95 % interval"), f"{story.main}, mean over episodes"
    shown = terminal.table("what the policy learnt from", numbers=heads, title=title)
    best = main.returns.max()
    shown.add_row("its own data as recorded: mean episode", f"{main.returns.mean():.0f}", "")
    shown.add_row("its own data as recorded: best episode", f"{best:.0f}", "")
    for label, result in found:
        low, high = result.interval
        shown.add_row(label, f"{result.mean:z.0f}", "–" if math.isnan(low) else f"{low:z.0f} … {high:z.0f}")
    return shown


def verdict(found: list[tuple[str, Evaluation]]) -> str:
    """What came out, in words, whatever it is."""
    results = dict(found)
    alone, direct, shared = (results[METHODS[name]].mean for name in ("pbrl", "cql", "utds"))
    if shared > alone and shared > direct:
        return (
            f"Sharing with UTDS brought {shared:.0f}: own data alone {alone:.0f}, the same data with CQL {direct:.0f}."
        )
    return f"This time sharing with UTDS brought {shared:.0f}, own data alone {alone:.0f}, CQL {direct:.0f}."


def _describe(dataset: Dataset) -> str:
    mean, deviation = dataset.returns.mean(), dataset.returns.std()
    return f"{dataset.episodes} episodes of {dataset.metadata.kind} data, returns {mean:.0f} ± {deviation:.0f}"
