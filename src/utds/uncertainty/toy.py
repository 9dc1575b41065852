"""The paper's experiment in the plane (its Fig. 2): sharing makes more of the plane known, and nothing less known.

Three Gaussian clusters stand for three tasks' data; a random network gives the response everywhere. An ensemble learns
the response from the main cluster alone, or from all three. Γ is the ensemble's deviation.

A member is a regression on a hidden layer φ with random weights. Its output weights fit the data, each response
disturbed, while they stay near weights w_n drawn before any data was seen:

    min_w  Σ (φ(x)·w − y − ε_n)² / σ² + ‖w − w_n‖²,     ε_n ~ N(0, σ²),  w_n ~ N(0, 1)

That is a draw from the posterior, so Γ² estimates φᵀΛ⁻¹φ (Lemma 1): far from data members differ by what they started
with, near data they agree. Both ensembles start with the same w_n and ε_n: the maps differ by the data alone.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from utds import figures, progress

CENTRES = np.array([[-1.6, -1.2], [1.8, -0.6], [0.0, 1.9]])  # of the clusters, the main task's first
DEVIATION = 0.45  # of every cluster
LABELS = ("main task", "shared task 1", "shared task 2")
EXTENT = 3.5  # the map's half-width


@dataclass(frozen=True)
class Toy:
    """What was drawn, and Γ over the plane before and after sharing."""

    points: np.ndarray  # [3, n, 2], a cluster a row
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
    def rise(self) -> float:
        """By what share Γ grows where it grows most, within two deviations of the main cluster; negative if nowhere."""
        x, y = np.meshgrid(self.axis, self.axis)
        near = np.hypot(x - CENTRES[0, 0], y - CENTRES[0, 1]) <= 2 * DEVIATION
        return float(np.max(self.shared[near] / self.single[near])) - 1


def run(seed: int = 0, points: int = 150, members: int = 200, width: int = 400, cells: int = 81) -> Toy:
    """Draw the clusters, fit both ensembles and map them; a few seconds."""
    noise = 0.1  # σ, against responses of deviation 1
    random = np.random.default_rng(seed)
    data = CENTRES[:, None] + DEVIATION * random.normal(size=(len(CENTRES), points, 2))
    x = data.reshape(-1, 2)
    hidden = 0.8 * random.normal(size=(2, width)), random.uniform(-np.pi, np.pi, width)
    prior = random.normal(size=(width, members))
    targets = _random_network(random, x)[:, None] + noise * random.normal(size=(len(x), members))
    axis = np.linspace(-EXTENT, EXTENT, cells)
    places = np.concatenate([np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2), CENTRES])
    gamma = []
    with progress.bar("fitting the ensembles", 2 * len(places), "places") as advance:
        for known in (points, len(x)):  # the main cluster comes first
            weights = _fitted(_features(x[:known], *hidden), targets[:known], prior, noise)
            found = []
            for part in np.array_split(places, 10):
                found.append((_features(part, *hidden) @ weights).std(axis=1, ddof=1))
                advance(len(part))
            gamma.append(np.concatenate(found))
    maps, centres = np.split(np.stack(gamma), [cells**2], axis=1)
    return Toy(data, axis, *maps.reshape(2, cells, cells), *centres)


def _features(x: np.ndarray, directions: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """φ(x): [B, 2] -> [B, H], of length about 1, so that the prior's responses have deviation 1."""
    return np.cos(x @ directions + offsets) * np.sqrt(2 / len(offsets))


def _fitted(phi: np.ndarray, targets: np.ndarray, prior: np.ndarray, noise: float) -> np.ndarray:
    """Every member's output weights [H, N] from features [B, H], targets [B, N] and prior weights [H, N]."""
    precision = phi.T @ phi + noise**2 * np.eye(phi.shape[1])  # Λ·σ²
    return prior + np.linalg.solve(precision, phi.T @ (targets - phi @ prior))


def _random_network(random: np.random.Generator, x: np.ndarray, width: int = 64) -> np.ndarray:
    """The response: a network with two hidden layers and random weights, [B, 2] -> [B] of deviation 1."""
    for inputs in (2, width):
        x = np.tanh(x @ random.normal(size=(inputs, width)) / np.sqrt(inputs) + random.normal(size=width))
    y = x @ random.normal(size=width)
    return (y - y.mean()) / y.std()


def draw(toy: Toy, out: Path) -> tuple[Path, Path]:
    """Both maps side by side on one colour scale, as out/toy.svg and out/toy.png."""
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
        return figures.write(figure, out / "toy")
