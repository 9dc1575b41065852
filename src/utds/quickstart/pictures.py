"""The quickstart's pictures: learning curves, and where the critics are unsure before and after sharing."""

import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patches import Circle, Rectangle

from utds import domains, evaluation, figures
from utds.algorithms import entry
from utds.data.dataset import Dataset
from utds.domains import pointmass
from utds.evaluation import rollout
from utds.training.run import Run
from utds.training.run import act as act_of
from utds.uncertainty import measure
from utds.uncertainty import pictures as uncertainty

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES = ("--", ":", "-.", "-")  # of the curves: apart without colour too
DATA_COLOURS = ("white", "#ff5fa2", figures.SKY, figures.ORANGE)  # of points on the map, none of which its colours hold


def draw(
    task: str, main: Dataset, others: list[Dataset], found: dict[str, Run], labels: dict[str, str], out: Path
) -> Iterator[Path]:
    """Draw and write all pictures of runs by algorithm, as SVG and PNG; yields the paths of the latter."""
    yield figures.write(curves(task, main, found, labels), out / "curves")[1]
    comparison = measure.compare_on([main, *others], [found["pbrl"], found["utds"]])
    if main.metadata.domain == "pointmass":
        yield figures.write(arena(comparison, main, others), out / "arena")[1]
    _, picture = uncertainty.draw_histogram(comparison, out / "uncertainty")
    yield picture


def curves(task: str, main: Dataset, found: dict[str, Run], labels: dict[str, str]) -> "Figure":
    """Return against gradient steps, with the own data's best episode as a line to beat."""
    with figures.panels(1, 6, 3.6) as (figure, (axes,)):
        for (name, run), dash in zip(found.items(), DASHES, strict=False):
            rows, colour = run.evaluations, entry(name).colour
            steps, values = [row["step"] for row in rows], np.array([row["return"] for row in rows])
            errors = np.nan_to_num([row["standard_error"] for row in rows])
            axes.plot(steps, values, dash, color=colour, label=labels[name])
            axes.fill_between(steps, values - errors, values + errors, color=colour, alpha=0.15, linewidth=0)
        best = main.returns.max()
        axes.axhline(best, color=figures.INK, linewidth=0.8, linestyle=(0, (1, 2)))
        at = ("axes fraction", "data")
        axes.annotate("best episode of its own data", (0.99, best), xycoords=at, ha="right", va="bottom")
        axes.set(xlabel="gradient steps", ylabel="return", title=task, ylim=(0, None))
        figures.legend(figure, columns=4)
    return figure


def arena(comparison: measure.Comparison, main: Dataset, others: list[Dataset]) -> "Figure":
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


def _furniture(axes: "Axes", task: str) -> None:
    """The walls and the target."""

    for left, right, bottom, top in pointmass.WALLS:
        axes.add_patch(Rectangle((left, bottom), right - left, top - bottom, color="0.25", zorder=3))
    target = pointmass.TARGETS[task.removeprefix("pointmass-")]
    axes.add_patch(Circle(target, pointmass.RADIUS, fill=False, edgecolor="white", linewidth=2, zorder=4))
    axes.set(aspect="equal", xlabel="x (m)", ylabel="y (m)", xlim=(-0.3, 0.3), ylim=(-0.3, 0.3))


def _label(dataset: Dataset) -> str:
    return f"{dataset.metadata.task.partition('-')[2]} ({dataset.metadata.kind})"
