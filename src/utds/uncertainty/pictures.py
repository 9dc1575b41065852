"""The figures of a comparison: the map (the paper's Figs 7 and 8), Γ over training (Fig. 6), and the histogram."""

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from utds import figures
from utds.networks import Normalizer
from utds.uncertainty.measure import DEFINITIONS, MEASURES, Comparison, Points

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELLS = 40  # of the map, in each direction
WIDEST = 40  # characters of a label that fit beside its line
FEWEST = 3  # points that a cell needs to be shown
LOOKS = (  # colour and dash of own data, each shared source, and the policies' actions
    (figures.BLUE, "-"),
    (figures.VERMILLION, "--"),
    (figures.ORANGE, (0, (1, 1))),
    (figures.PURPLE, "-."),
    (figures.SKY, (0, (5, 1, 1, 1, 1, 1))),
)
POLICY = (figures.GREEN, ":")


class Projection(NamedTuple):
    """Principal components of standardised state-actions."""

    normalizer: Normalizer
    axes: np.ndarray  # [D, 2]
    explained: np.ndarray  # [2], share of the variance along each

    def __call__(self, points: Points) -> np.ndarray:
        """[n, 2]"""
        return self.normalizer(_pairs(points)) @ self.axes


def project(points: list[Points]) -> Projection:
    """The plane in which main and shared state-actions together vary most.

    State-actions as in the paper, not states: Γ is a function of both, and data of one state but different actions is
    what sharing is about. Features are scaled to standard deviation 1 first, or velocities would drown everything else.
    """
    pairs = np.concatenate([_pairs(part) for part in points])
    normalizer = Normalizer.fit(pairs)
    _, values, rows = np.linalg.svd(normalizer(pairs), full_matrices=False)
    largest = np.abs(rows[:2]).argmax(axis=1)
    signs = np.sign(rows[[0, 1], largest])  # an SVD leaves them open
    return Projection(normalizer, (rows[:2] * signs[:, None]).T, values[:2] ** 2 / np.sum(values**2))


def draw(comparison: Comparison, out: Path) -> Iterator[Path]:
    """Write every figure that the runs have the numbers for, as SVG and PNG."""
    yield from draw_map(comparison, out / "map")
    yield from draw_histogram(comparison, out / "histogram")
    if any(_curves(comparison)):
        yield from draw_training(comparison, out / "training")


def draw_map(comparison: Comparison, path: Path) -> tuple[Path, Path]:
    """Mean uncertainty of the data in each cell: a row per measure, with one colour scale, and a column per run."""
    projection = project(comparison.points)
    projected = [projection(points) for points in comparison.points]
    joined, count = np.concatenate(projected), len(comparison.judgements)
    edges = [_edges(joined[:, i]) for i in (0, 1)]
    rows = len(MEASURES)
    with figures.panels(count, 3.2 * count + 0.9, 6.6, rows=rows, sharex=True, sharey=True) as (figure, axes):
        for row, (measure, name) in enumerate(MEASURES.items()):
            sides = axes[row * count : (row + 1) * count]
            maps = [_cells(joined, getattr(j.data, measure).ravel(), edges) for j in comparison.judgements]
            scale = figures.log_scale(np.stack(maps))
            for side, cells, judgement in zip(sides, maps, comparison.judgements, strict=True):
                side.set_facecolor("0.92")
                mesh = side.pcolormesh(*edges, cells.T, norm=scale, cmap="viridis", rasterized=True)
                for points, look, where in zip(comparison.points, LOOKS, projected, strict=False):
                    _outline(side, where, edges, look)
                    side.plot([], [], color=look[0], linestyle=look[1], label=f"90 % of {points.name}")
                side.set_title(judgement.label if row == 0 else "")
                side.set_xlabel(f"component 1 ({100 * projection.explained[0]:.0f} %)" if row == rows - 1 else "")
                side.grid(False)
            sides[0].set_ylabel(f"component 2 ({100 * projection.explained[1]:.0f} %)")
            figure.colorbar(mesh, ax=sides, label=f"mean {name}", pad=0.02)
        _legend(figure, axes)
        figure.suptitle(_caption(comparison, "over main and shared state-actions"), fontsize=7.5)
        return figures.write(figure, path)


def draw_histogram(comparison: Comparison, path: Path) -> tuple[Path, Path]:
    """How uncertainty is distributed on own data, shared data and the policy's actions; one set of bins per measure."""
    count, looks = len(comparison.judgements), {"own data": LOOKS[0], "shared data": LOOKS[1], "policy actions": POLICY}
    with figures.panels(count, 3.5 * count, 6.0, rows=len(MEASURES), sharex="row", sharey="row") as (figure, axes):
        for row, (measure, name) in enumerate(MEASURES.items()):
            values = [{n: getattr(p, measure) for n, p in j.parts.items()} for j in comparison.judgements]
            bins = figures.log_bins(np.concatenate([v for parts in values for v in parts.values()]))
            sides = axes[row * count : (row + 1) * count]
            for side, judgement, parts in zip(sides, comparison.judgements, values, strict=True):
                for part, found in parts.items():
                    colour, dash = looks[part]
                    weights, label = np.full(len(found), 100 / len(found)), f"{part}, mean {found.mean():.3g}"
                    shown = np.maximum(found, bins[0])  # the first bin holds all that is below
                    side.hist(
                        shown, list(bins), weights=weights, histtype="step", color=colour, linestyle=dash, label=label
                    )
                side.set(xscale="log", xlabel=name, title=judgement.label if row == 0 else "")
                side.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22))
            sides[0].set_ylabel("state-actions (%)")
        figure.suptitle(_caption(comparison, "on own data, shared data and policy actions"), fontsize=7.5)
        return figures.write(figure, path)


def draw_training(comparison: Comparison, path: Path) -> tuple[Path, Path]:
    """Γ of training batches by source over the run's final σ_Q, one panel per run, over gradient steps."""
    found = zip(comparison.judgements, _curves(comparison), strict=True)
    runs = [(judgement, curves) for judgement, curves in found if curves]
    with figures.panels(len(runs), 3.5 * len(runs), 2.8, sharex=True, sharey=True) as (figure, axes):
        for side, (judgement, curves) in zip(axes, runs, strict=True):
            for (name, seeds), (colour, dash) in zip(curves.items(), LOOKS, strict=False):
                for i, (steps, gamma) in enumerate(seeds):
                    relative = np.array(gamma) / judgement.sigma
                    side.plot(steps, relative, color=colour, linestyle=dash, label=None if i else name)
            side.set(xlabel="gradient steps", title=judgement.label)
        _legend(figure, axes)
        axes[0].set_ylabel(r"$\Gamma$ of training batches / final $\sigma_Q$")
        axes[0].set_ylim(bottom=0)  # last: it ends the scaling to the data, of all panels
        return figures.write(figure, path)


def _legend(figure: "Figure", axes: Sequence["Axes"]) -> None:
    """Below all panels, a dataset per line, or two where its id is as wide as a panel."""
    handles, labels = max((side.get_legend_handles_labels() for side in axes), key=lambda found: len(found[1]))
    labels = [label if len(label) <= WIDEST else label.replace("/", "/\n", 1) for label in labels]
    figure.legend(handles, labels, loc="outside lower center")


def _caption(comparison: Comparison, where: str) -> str:
    """The task, what is drawn, and what came out, in lines that fit the figure."""
    width = 62 * len(comparison.judgements)
    lines = [f"{comparison.task}: uncertainty {where}"]
    for measure, name in MEASURES.items():
        lines += textwrap.wrap(comparison.sentence(measure) or f"{name}: {DEFINITIONS[measure]}.", width)
    if len(comparison.judgements) > 1:
        lines += textwrap.wrap(" ".join(f"{MEASURES[m]}: {DEFINITIONS[m]}." for m in MEASURES), width)
    return "\n".join(lines)


def _curves(comparison: Comparison) -> list[dict[str, list[tuple[list[int], list[float]]]]]:
    """For each run, by source, for each seed: steps and Γ. Empty for runs whose metrics have no Γ by source."""
    found = []
    for judgement in comparison.judgements:
        run, rows = judgement.run, judgement.run.metrics
        names = [source["id"] for source in run.config["sources"]]
        single = ["uncertainty_shared"]  # without a number
        shared = single if len(names) == 2 else [f"uncertainty_shared_{k}" for k in range(1, len(names))]
        curves = {}
        for name, column in zip(names, ["uncertainty_own", *shared], strict=True):
            kept = [[row for row in rows if row["seed"] == seed and column in row] for seed in run.seeds]
            if any(kept):
                curves[name] = [([row["step"] for row in some], [row[column] for row in some]) for some in kept]
        found.append(curves)
    return found


def _pairs(points: Points) -> np.ndarray:
    return np.concatenate([points.observations, points.actions], axis=1).astype(np.float64)


def _edges(values: np.ndarray) -> np.ndarray:
    """Edges of the cells: where all but the outermost half per cent on either side lie, and a margin."""
    low, high = np.percentile(values, [0.5, 99.5])
    margin = (high - low) / 12
    return np.linspace(low - margin, high + margin, CELLS + 1)


def _cells(projected: np.ndarray, gamma: np.ndarray, edges: list[np.ndarray]) -> np.ndarray:
    """Mean Γ [CELLS, CELLS] of the points in each cell; NaN where there are too few."""
    counts, _, _ = np.histogram2d(projected[:, 0], projected[:, 1], bins=edges)
    sums, _, _ = np.histogram2d(projected[:, 0], projected[:, 1], bins=edges, weights=gamma)
    return np.where(counts >= FEWEST, sums / np.maximum(counts, 1), np.nan)


def _outline(axes: "Axes", projected: np.ndarray, edges: list[np.ndarray], look: tuple) -> None:
    """The line around the densest cells that hold 90 % of the points."""
    from matplotlib.patheffects import withStroke
    from scipy.ndimage import gaussian_filter

    density = gaussian_filter(np.histogram2d(projected[:, 0], projected[:, 1], bins=edges)[0], 1.5)
    falling = np.sort(density.ravel())[::-1]
    level = falling[np.searchsorted(np.cumsum(falling), 0.9 * falling.sum())]
    middles = [(edge[1:] + edge[:-1]) / 2 for edge in edges]
    lines = axes.contour(*middles, density.T, levels=[level], colors=[look[0]], linestyles=[look[1]], linewidths=1.4)
    lines.set_path_effects([withStroke(linewidth=2.6, foreground="white")])
