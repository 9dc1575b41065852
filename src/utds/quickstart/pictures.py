"""The quickstart's pictures: learning curves, and where the critics are unsure before and after sharing."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from utds import domains, evaluation, files, rollout, runs
from utds.algorithms import Policy
from utds.algorithms.networks import q_values
from utds.algorithms.utds import uncertainty
from utds.data.dataset import Dataset
from utds.domains import pointmass
from utds.runs import Run

COLOURS = {"pbrl": "#0072b2", "cql": "#e69f00", "cds": "#009e73", "utds": "#d55e00"}  # Okabe and Ito's
STYLES = {"pbrl": "--", "cql": ":", "cds": "-.", "utds": "-"}  # apart without colour too
LABELS = {"pbrl": "own data alone (PBRL)", "cql": "Direct Sharing (CQL)", "cds": "CDS", "utds": "UTDS"}


def draw(task: str, main: Dataset, others: list[Dataset], found: dict[str, Run], out: Path) -> Iterator[Path]:
    """Draw and write all pictures; yields their paths."""
    yield _save(curves(task, main, found), out / "curves.png")
    pair = {"before sharing": found["pbrl"], "after sharing": found["utds"]}
    if main.metadata.domain == "pointmass":
        yield _save(arena(task, main, others, pair), out / "arena.png")
    yield _save(histogram(main, others, pair), out / "uncertainty.png")


def curves(task: str, main: Dataset, found: dict[str, Run]) -> Figure:
    """Return against gradient steps, with the own data's best episode as a line to beat."""
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, run in found.items():
        rows = run.evaluations
        steps, values = [row["step"] for row in rows], np.array([row["return"] for row in rows])
        errors = np.nan_to_num([row["standard_error"] for row in rows])
        axes.plot(steps, values, STYLES[name], color=COLOURS[name], label=LABELS[name])
        axes.fill_between(steps, values - errors, values + errors, color=COLOURS[name], alpha=0.15, linewidth=0)
    axes.axhline(main.returns.max(), color="0.4", linewidth=0.8)
    axes.annotate("best episode of its own data", (0.99, main.returns.max()), xycoords=("axes fraction", "data"),
                  ha="right", va="bottom", fontsize=8, color="0.3")  # fmt: skip
    axes.set(xlabel="gradient steps", ylabel="return", title=task, ylim=(0, None))
    axes.legend(frameon=False, fontsize=8)
    return figure


def arena(task: str, main: Dataset, others: list[Dataset], pair: dict[str, Run]) -> Figure:
    """Γ(s, π(s)) at rest all over the arena, the data that was known, and the paths that the policy takes."""
    figure = Figure(figsize=(9, 4.3), layout="constrained")
    grid = np.linspace(-pointmass.LIMIT, pointmass.LIMIT, 80)
    x, y = np.meshgrid(grid, grid)
    states = np.stack([x, y, 0 * x, 0 * y], axis=-1).reshape(-1, 4).astype(np.float32)
    maps = {title: gamma(run, states).reshape(x.shape) for title, run in pair.items()}
    scale = _scale(np.concatenate([m.ravel() for m in maps.values()]))
    for axes, (title, run), known in zip(figure.subplots(1, 2), pair.items(), ([main], [main, *others]), strict=True):
        mesh = axes.pcolormesh(x, y, maps[title], norm=scale, cmap="viridis", shading="nearest", rasterized=True)
        for dataset, colour in zip(known, ("white", "#f0e442", "#56b4e9", "#cc79a7"), strict=False):
            some = dataset.observations[:: max(1, len(dataset.observations) // 600), :2]
            axes.scatter(*some.T, s=1.5, color=colour, linewidths=0, label=_label(dataset))
        for path in _paths(task, run):
            axes.plot(*path.T, color="#d55e00", linewidth=1.2)
        _furniture(axes, task)
        axes.set_title(f"{title}: Γ and the policy's paths", fontsize=10)
        axes.legend(loc="lower left", fontsize=7, markerscale=5, framealpha=0.9)
    figure.colorbar(mesh, ax=figure.axes, label="uncertainty Γ(s, π(s))", shrink=0.9)
    return figure


def histogram(main: Dataset, others: list[Dataset], pair: dict[str, Run]) -> Figure:
    """Γ on the recorded state-actions of own and shared data, before and after sharing."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    values = {title: [gamma(run, *_sample(data)) for data in ([main], others)] for title, run in pair.items()}
    least, most = (f([f(v) for both in values.values() for v in both]) for f in (np.min, np.max))
    bins = np.geomspace(max(least, 1e-4 * most), most, 40)
    for axes, (title, (own, shared)) in zip(figure.subplots(1, 2, sharey=True), values.items(), strict=True):
        axes.hist(own, bins, histtype="step", color="#0072b2", label=f"own data, mean {own.mean():.3g}")
        axes.hist(
            shared,
            bins,
            histtype="step",
            color="#d55e00",
            linestyle="--",
            label=f"shared data, mean {shared.mean():.3g}",
        )
        axes.set(xscale="log", xlabel="uncertainty Γ(s, a)", title=title)
        axes.legend(frameon=False, fontsize=8)
    figure.axes[0].set_ylabel("transitions")
    return figure


def gamma(run: Run, observations: np.ndarray, actions: np.ndarray | None = None) -> np.ndarray:
    """Γ at state-actions [B]; without actions, at the policy's."""
    policy = run.policy()
    actions = runs.act(run.algorithm, policy, observations) if actions is None else actions
    return np.asarray(_gamma(policy, jnp.asarray(observations), jnp.asarray(actions)))


@jax.jit
def _gamma(policy: Policy, observations: jax.Array, actions: jax.Array) -> jax.Array:
    return uncertainty(q_values(policy.critic, policy.normal(observations), actions))


def _sample(datasets: list[Dataset], count: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Observations and actions of some transitions, evenly spaced."""
    rows = [np.linspace(0, data.size - 1, count // len(datasets)).astype(int) for data in datasets]
    observations = [data.observations[data.rows[r]] for data, r in zip(datasets, rows, strict=True)]
    actions = [data.actions[r] for data, r in zip(datasets, rows, strict=True)]
    return np.concatenate(observations), np.concatenate(actions)


def _paths(task: str, run: Run, episodes: int = 5) -> np.ndarray:
    """Positions [episodes, T + 1, 2] of the policy's episodes."""
    domain, _ = domains.task(task)
    act = partial(runs.act, run.algorithm, run.policy())
    return rollout.record(domain, act, episodes, evaluation.SEED).physics[..., :2]


def _furniture(axes: Axes, task: str) -> None:
    """The walls and the target."""
    for left, right, bottom, top in pointmass.WALLS:
        axes.add_patch(Rectangle((left, bottom), right - left, top - bottom, color="0.25", zorder=3))
    target = pointmass.TARGETS[task.removeprefix("pointmass-")]
    axes.add_patch(Circle(target, pointmass.RADIUS, fill=False, edgecolor="white", linewidth=2, zorder=4))
    axes.set(aspect="equal", xlabel="x (m)", ylabel="y (m)", xlim=(-0.3, 0.3), ylim=(-0.3, 0.3))


def _scale(values: np.ndarray) -> Normalize:
    """One colour scale for both sides: logarithmic between the 1st and the 99th percentile."""
    low, high = np.percentile(values, [1, 99])
    return LogNorm(max(low, 1e-6 * high), high)


def _label(dataset: Dataset) -> str:
    return f"{dataset.metadata.task.partition('-')[2]} ({dataset.metadata.kind})"


def _save(figure: Any, path: Path) -> Path:
    with files.atomic(path) as part:
        figure.savefig(part, dpi=150, format="png")
    return path
