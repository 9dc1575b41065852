"""The quickstart: what sharing does, on one small problem, from data to pictures.

A task's own data is poor; other tasks of the same robot were recorded plentifully. Four ways to use that data are
trained on the same budget: own data alone, everything with CQL (Direct Sharing), with CDS, and with UTDS.
"""

import contextlib
import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.patches import Circle, Rectangle
from rich.console import Console
from rich.table import Table

from utds import algorithms, domains, evaluation, figures, terminal, training
from utds.collection import kinds
from utds.data import store
from utds.data.dataset import Dataset
from utds.data.lake import Lake
from utds.domains import pointmass
from utds.errors import ConfigError, DataError
from utds.evaluation import Evaluation, rollout
from utds.evaluation.rollout import act as act_of
from utds.training.run import Run
from utds.uncertainty import measure
from utds.uncertainty import pictures as uncertainty

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
    for picture in draw(story.main, main, others, runs, out):
        console.print(f"picture: {picture}", markup=False, emoji=False)  # a path may hold brackets
    console.print(verdict(found))
    return found


def data(story: Story, seed: int) -> tuple[Dataset, list[Dataset]]:
    """The main task's own data and the others', rolled out from the policies that ship, and stored.

    Stored, other commands find what the runs were trained on; under ids of the quickstart's own, so that nothing of the
    user's is replaced.
    """

    def stored(task: str, kind: str, episodes: int) -> Dataset:
        made = kinds.generate(kinds.load_ladder(task), kind, episodes, seed)
        id = f"{task}/quickstart-{kind}-seed-{seed}"
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


DASHES = ("--", ":", "-.", "-")  # of the curves: apart without colour too
DATA_COLOURS = ("white", "#ff5fa2", figures.SKY, figures.ORANGE)  # of points on the map, none of which its colours hold


def draw(task: str, main: Dataset, others: list[Dataset], found: dict[str, Run], out: Path) -> Iterator[Path]:
    """Draw and write all pictures of runs by algorithm, as SVG and PNG; yields the paths of the latter."""
    yield figures.write(curves(task, main, found), out / "curves")[1]
    comparison = measure.compare_on([main, *others], [found["pbrl"], found["utds"]])
    if main.metadata.domain == "pointmass":
        yield figures.write(arena(comparison, main, others), out / "arena")[1]
    _, picture = uncertainty.draw_histogram(comparison, out / "uncertainty")
    yield picture


def curves(task: str, main: Dataset, found: dict[str, Run]) -> "figures.Figure":
    """Return against gradient steps, with the own data's best episode as a line to beat."""
    with figures.panels(1, 6, 3.6) as (figure, (axes,)):
        for (name, run), dash in zip(found.items(), DASHES, strict=False):
            rows, colour = run.evaluations, algorithms.entry(name).colour
            steps, values = [row["step"] for row in rows], np.array([row["return"] for row in rows])
            errors = np.nan_to_num([row["standard_error"] for row in rows])
            axes.plot(steps, values, dash, color=colour, label=METHODS[name])
            axes.fill_between(steps, values - errors, values + errors, color=colour, alpha=0.15, linewidth=0)
        best = main.returns.max()
        axes.axhline(best, color=figures.INK, linewidth=0.8, linestyle=(0, (1, 2)))
        at = ("axes fraction", "data")
        axes.annotate("best episode of its own data", (0.99, best), xycoords=at, ha="right", va="bottom")
        axes.set(xlabel="gradient steps", ylabel="return", title=task, ylim=(0, None))
        figures.legend(figure, columns=4)
    return figure


def arena(comparison: measure.Comparison, main: Dataset, others: list[Dataset]) -> "figures.Figure":
    """Γ(s, π(s)) at rest all over the arena, the data that was known, and the paths that the policy takes."""
    grid = np.linspace(-pointmass.LIMIT, pointmass.LIMIT, 80)
    x, y = np.meshgrid(grid, grid)
    states = np.stack([x, y, 0 * x, 0 * y], axis=-1).reshape(-1, 4).astype(np.float32)
    maps = [judgement.fitted.gamma(states, judgement.run.act(states)) for judgement in comparison.judgements]
    scale = figures.log_scale(np.stack(maps))
    known = ([main], [main, *others])
    with figures.panels(2, 9, 4.7) as (figure, both):
        for axes, judgement, found, data in zip(both, comparison.judgements, maps, known, strict=True):
            cells = found.reshape(x.shape)
            mesh = axes.pcolormesh(x, y, cells, norm=scale, cmap="viridis", shading="nearest", rasterized=True)
            for dataset, colour in zip(data, DATA_COLOURS, strict=False):
                some = dataset.observations[:: max(1, len(dataset.observations) // 600), :2]
                axes.scatter(some[:, 0], some[:, 1], s=1.5, color=colour, linewidths=0, label=_label(dataset))
            for path in _paths(comparison.task, judgement.run):
                axes.plot(*path.T, color=figures.VERMILLION, linewidth=1.2)
            _furniture(axes, comparison.task)
            axes.set_title(f"{judgement.label}: Γ and the policy's paths", fontsize=10)
            shown = axes.legend(loc="lower left", markerscale=5, framealpha=0.9, frameon=True, facecolor="0.35")
            for entry in shown.get_texts():
                entry.set_color("white")  # on the grey that white points need
        figure.colorbar(mesh, ax=both, label=f"{measure.MEASURES['common']}, at (s, π(s))", shrink=0.9)
        lines = (comparison.sentence("common"), f"{measure.MEASURES['common']}: {measure.DEFINITIONS['common']}.")
        figure.suptitle("\n".join(part for line in lines for part in textwrap.wrap(line, 120)), fontsize=8)
    return figure


def _paths(task: str, run: Run, episodes: int = 5) -> np.ndarray:
    """Positions [episodes, T + 1, 2] of the policy's episodes."""
    domain, _ = domains.task(task)
    act = partial(act_of, run.algorithm, run.policy())
    return rollout.record(domain, act, episodes, evaluation.SEED).physics[..., :2]


def _furniture(axes: "figures.Axes", task: str) -> None:
    """The walls and the target."""
    for left, right, bottom, top in pointmass.WALLS:
        axes.add_patch(Rectangle((left, bottom), right - left, top - bottom, color="0.25", zorder=3))
    target = pointmass.TARGETS[task.removeprefix("pointmass-")]
    axes.add_patch(Circle(target, pointmass.RADIUS, fill=False, edgecolor="white", linewidth=2, zorder=4))
    axes.set(aspect="equal", xlabel="x (m)", ylabel="y (m)", xlim=(-0.3, 0.3), ylim=(-0.3, 0.3))


def _label(dataset: Dataset) -> str:
    return f"{dataset.metadata.task.partition('-')[2]} ({dataset.metadata.kind})"
