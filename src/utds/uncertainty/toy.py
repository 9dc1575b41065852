"""The paper's experiment in the plane (its Fig. 2): sharing makes more of the plane known, and nothing less known.

Three Gaussian clusters stand for three tasks' data; a random network gives the response everywhere. An ensemble learns
the response from the main cluster alone, or from all three. Γ is the ensemble's standard deviation. There are two kinds
of models.

linear: a regression on a hidden layer φ with random weights. Its output weights fit the data, each response disturbed,
while they stay near weights w_n drawn before any data was seen:

    min_w  Σ (φ(x)·w − y − ε_n)² / σ² + ‖w − w_n‖²,     ε_n ~ N(0, σ²),  w_n ~ N(0, 1)

That is a draw from the posterior, so Γ² estimates φᵀΛ⁻¹φ (Lemma 1): far from data models differ by what they started
with, near data they agree.

networks: small MLPs, each trained by Adam from initial weights of its own, as the critics of UTDS are. Nothing but
these weights sets them apart.

Either way both ensembles start with the same draws: the maps differ by the data alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from utds import figures, terminal
from utds.uncertainty.measure import Loss, response

CENTRES = np.array([[-1.6, -1.2], [1.8, -0.6], [0.0, 1.9]])  # of the clusters, the main task's first
DEVIATION = 0.45  # of every cluster
LABELS = ("main task", "shared task 1", "shared task 2")
EXTENT = 3.5  # the map's half-width


Kind = Literal["linear", "networks"]
Predict = Callable[[np.ndarray], np.ndarray]  # inputs [B, 2] -> every member's response [N, B]


@dataclass(frozen=True)
class Toy:
    """What was drawn, and Γ over the plane before and after sharing."""

    kind: Kind
    points: np.ndarray  # [3, n, 2], one row per cluster
    axis: np.ndarray  # [G], coordinates of the map's cells in both directions
    single: np.ndarray  # [G, G], Γ with the main cluster alone; rows are y
    shared: np.ndarray  # [G, G], Γ with all clusters
    centres_single: np.ndarray  # [3], Γ at the clusters' centres
    centres_shared: np.ndarray  # [3]

    @property
    def fall(self) -> float:
        """How many times smaller sharing makes Γ at the shared clusters' centres: the least of them."""
        return float(np.min(self.centres_single[1:] / self.centres_shared[1:]))

    @property
    def near(self) -> np.ndarray:
        """Cells [G, G] within two standard deviations of the main cluster."""
        x, y = np.meshgrid(self.axis, self.axis)
        return np.hypot(x - CENTRES[0, 0], y - CENTRES[0, 1]) <= 2 * DEVIATION

    @property
    def rise(self) -> float:
        """By what share Γ grows where it grows most, near the main cluster; negative if nowhere."""
        return float(np.max(self.shared[self.near] / self.single[self.near])) - 1

    @property
    def left(self) -> float:
        """Mean Γ near the main cluster after sharing, as a share of what it is at the shared centres before."""
        return float(self.shared[self.near].mean() / self.centres_single[1:].min())

    @property
    def requirements(self) -> dict[str, bool]:
        """What the figure must show, in words, and whether it does.

        Networks fit the main cluster to a few thousandths, where a ratio of two Γ says little: theirs must stay small
        beside what is unknown.
        """
        fall = f"Γ at the shared clusters' centres falls {self.fall:.1f}× or more (required 5×)"
        if self.kind == "linear":
            share, near = self.rise, f"rises {100 * self.rise:.1f} % at most (required 20 %)"
        else:
            share = self.left
            near = f"is {100 * share:.1f} % of what it was at the shared centres (required 20 % at most)"
        return {fall: self.fall >= 5, f"Γ near the main cluster {near}": share <= 0.2}


def run(seed: int = 0, kind: Kind = "linear", points: int = 150, cells: int = 81, **ensemble: int) -> Toy:
    """Draw the clusters, fit both ensembles and map them; `ensemble` are options of that kind. A few seconds."""
    random = np.random.default_rng(seed)
    data = CENTRES[:, None] + DEVIATION * random.normal(size=(len(CENTRES), points, 2))
    x = data.reshape(-1, 2)
    y = response(random, x)
    fit = (_linear if kind == "linear" else _networks)(x, y, random, **ensemble)
    axis = np.linspace(-EXTENT, EXTENT, cells)
    inputs = np.concatenate([np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2), CENTRES])
    gamma = []
    with terminal.bar("fitting the ensembles", 2 * len(inputs), "inputs") as advance:
        for known in (points, len(x)):  # the main cluster comes first
            predict = fit(known)
            found = []
            for part in np.array_split(inputs, 10):
                found.append(predict(part).std(axis=0, ddof=1))
                advance(len(part))
            gamma.append(np.concatenate(found))
    maps, centres = np.split(np.stack(gamma), [cells**2], axis=1)
    return Toy(kind, data, axis, *maps.reshape(2, cells, cells), *centres)


def _linear(
    x: np.ndarray, y: np.ndarray, random: np.random.Generator, num_models: int = 200, width: int = 400
) -> Callable[[int], Predict]:
    """An ensemble of regressions: fitted to the first so many of inputs x [B, 2] with responses y [B]."""
    noise = 0.1  # σ, against responses of deviation 1
    hidden = 0.8 * random.normal(size=(2, width)), random.uniform(-np.pi, np.pi, width)
    prior = random.normal(size=(width, num_models))
    targets = y[:, None] + noise * random.normal(size=(len(x), num_models))

    def fit(known: int) -> Predict:
        weights = _ridge(_features(x[:known], *hidden), targets[:known], prior, noise)
        return lambda inputs: (_features(inputs, *hidden) @ weights).T

    return fit


def _networks(
    x: np.ndarray, y: np.ndarray, random: np.random.Generator, num_models: int = 10, width: int = 64, steps: int = 2000
) -> Callable[[int], Predict]:
    """An ensemble of MLPs: fitted to the first so many of inputs x [B, 2] with responses y [B]."""
    import jax
    import jax.numpy as jnp

    from utds import networks

    key = jax.random.key(int(random.integers(2**31)))
    start = networks.init_ensemble(key, num_models, (2, width, width, 1), layer_norm=False)
    inputs, targets = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)

    def fit(known: int) -> Predict:
        data = inputs, targets, jnp.arange(len(x)), jnp.asarray(known)
        params = networks.fit(start, Loss(batch_size=64), data, jax.random.split(key, steps), lr=3e-3)
        return lambda inputs: np.asarray(networks.ensemble(params, jnp.asarray(inputs, jnp.float32)))

    return fit


def _features(x: np.ndarray, directions: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """φ(x): [B, 2] -> [B, H], of length about 1, so that the prior's responses have deviation 1."""
    return np.cos(x @ directions + offsets) * np.sqrt(2 / len(offsets))


def _ridge(phi: np.ndarray, targets: np.ndarray, prior: np.ndarray, noise: float) -> np.ndarray:
    """Every model's output weights [H, N] from features [B, H], targets [B, N] and prior weights [H, N]."""
    precision = phi.T @ phi + noise**2 * np.eye(phi.shape[1])  # Λ·σ²
    return prior + np.linalg.solve(precision, phi.T @ (targets - phi @ prior))


def draw(toy: Toy, out: Path) -> tuple[Path, Path]:
    """Both maps side by side on one colour scale, as SVG and PNG: out/toy, or out/toy-networks."""
    sides = {"main task alone": (toy.single, 1), "main and shared": (toy.shared, len(LABELS))}
    scale = figures.log_scale(np.stack([toy.single, toy.shared]))
    clusters = list(zip(toy.points, ("white", figures.ORANGE, figures.PURPLE), "o^s", LABELS, strict=True))
    with figures.panels(2, 7.0, 3.3, sharey=True) as (figure, axes):
        for side, (title, (gamma, known)) in zip(axes, sides.items(), strict=True):
            mesh = side.pcolormesh(toy.axis, toy.axis, gamma, norm=scale, cmap="viridis", rasterized=True)
            for cluster, colour, marker, label in clusters[:known]:
                x, y = cluster.T
                side.scatter(x, y, s=7, c=colour, marker=marker, linewidths=0.3, edgecolors=figures.INK, label=label)
            side.set(title=title, xlabel="$x_1$", aspect="equal")
            side.grid(False)
        axes[0].set_ylabel("$x_2$")
        handles, labels = axes[1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, markerscale=1.8)
        figure.colorbar(mesh, ax=axes, label=r"uncertainty $\Gamma(x)$", pad=0.02)
        return figures.write(figure, out / ("toy" if toy.kind == "linear" else "toy-networks"))
