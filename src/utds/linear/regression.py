"""Ridge regression as the theory uses it: Λ, the width Γ, the Gaussian posterior, and ensembles of perturbed fits."""

import numpy as np

from utds.errors import ConfigError, DataError
from utds.linear.models import Array, Integers

_EPSILON = float(np.finfo(np.float64).eps)


def covariance(features: Array, ridge: float, weights: Array | None = None) -> Array:
    """Λ = Σ_k φ_k φ_kᵀ + λI.

    `features` [..., K, d] are rows. With `weights` [..., K], row k counts that many times; then `features` is [K, d].
    """
    if ridge < 0:
        raise ConfigError(f"the ridge λ is {ridge}; it must be 0 or more")
    if features.ndim < 2 or features.shape[-2] == 0:
        raise DataError(
            f"features have shape {features.shape}; an empty dataset has no covariance: give [..., rows, d]"
        )
    if not np.isfinite(features).all():
        raise DataError("features hold NaN or infinite values")
    width = features.shape[-1]
    if weights is None:
        total = np.swapaxes(features, -1, -2) @ features
    else:
        outer = features[:, :, None] * features[:, None, :]  # [K, d, d]
        flat = weights.reshape(-1, len(features)) @ outer.reshape(len(features), -1)
        total = flat.reshape(*weights.shape[:-1], width, width)
    return total + ridge * np.eye(width)


def inverse_root(covariance: Array) -> Array:
    """R [..., d, d] with RᵀR = Λ⁻¹: the inverse of Λ's Cholesky factor, so that φᵀΛ⁻¹φ = ‖Rφ‖² can't be negative."""
    width = covariance.shape[-1]
    try:
        root = np.linalg.inv(np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError:
        raise _rank_deficient(covariance) from None
    # tr Λ · tr Λ⁻¹ bounds the condition number from above and costs nothing; eigenvalues settle the doubtful cases.
    condition = np.trace(covariance, axis1=-2, axis2=-1) * (root**2).sum(axis=(-2, -1))
    if condition.max() * width * _EPSILON >= 1 and (_ranks(covariance) < width).any():
        raise _rank_deficient(covariance)
    return root


def _ranks(covariance: Array) -> Integers:
    """Numerical rank [...] of each Λ, by its eigenvalues."""
    scale = np.linalg.eigvalsh(covariance)
    return (scale > covariance.shape[-1] * _EPSILON * scale[..., -1:]).sum(axis=-1)


def _rank_deficient(covariance: Array) -> DataError:
    ranks = _ranks(covariance)
    where = tuple(int(i) for i in np.argwhere(ranks == ranks.min())[0])
    place = f" (first at index {where})" if where else ""
    return DataError(
        f"Λ is rank-deficient, rank {ranks.min()} of {covariance.shape[-1]}{place}: use a ridge λ > 0, "
        "or add data or OOD samples that span the missing directions"
    )


def gamma_lcb(features: Array, covariance: Array, beta: float = 1.0) -> Array:
    """Γ_lcb = β·[φᵀΛ⁻¹φ]^½ for `features` [M, d] under `covariance` [..., d, d]: [..., M]."""
    if features.shape[-1] != covariance.shape[-1]:
        raise DataError(
            f"features have width {features.shape[-1]}, but Λ is {covariance.shape[-2]}×{covariance.shape[-1]}: "
            "both must come from the same feature map"
        )
    return beta * np.linalg.norm(inverse_root(covariance) @ features.T, axis=-2)


def posterior(features: Array, targets: Array, ridge: float) -> tuple[Array, Array]:
    """Mean [d] and covariance [d, d] of w given rows [K, d] and targets [K], prior N(0, I/λ), unit noise (Lemma 1)."""
    root = inverse_root(covariance(features, ridge))
    inverse = root.T @ root
    return inverse @ (features.T @ targets), inverse


def perturbed(features: Array, targets: Array, ridge: float, members: int, rng: np.random.Generator) -> Array:
    """N regressions [N, d], each on targets with fresh unit noise and shrunk towards its own draw of the prior.

    Each member is an exact draw of `posterior`: Λ⁻¹(Φᵀε + √λ ζ) has covariance Λ⁻¹(ΦᵀΦ + λI)Λ⁻¹ = Λ⁻¹.
    """
    rows, width = features.shape
    root = inverse_root(covariance(features, ridge))
    noisy = targets + rng.standard_normal((members, rows))
    right = noisy @ features + np.sqrt(ridge) * rng.standard_normal((members, width))
    return right @ root.T @ root


def bootstrapped(
    features: Array, targets: Array, ridge: float, members: int, rng: np.random.Generator, prior: bool = True
) -> Array:
    """N regressions [N, d], each on rows drawn with replacement.

    With `prior`, each is shrunk towards its own draw of N(0, I/λ); without it all are shrunk towards zero, and where
    there is no data they agree. Either way the spread only resembles the posterior's: it follows the residuals.
    """
    rows, width = features.shape
    chosen = rng.multinomial(rows, np.full(rows, 1 / rows), size=members).astype(np.float64)  # [N, K]
    right = (chosen * targets) @ features
    if prior:
        right = right + np.sqrt(ridge) * rng.standard_normal((members, width))
    return np.linalg.solve(covariance(features, ridge, chosen), right[..., None])[..., 0]
