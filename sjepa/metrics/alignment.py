"""The affine map between latent and physical coordinates, and what it explains."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sjepa.errors import DataError
from sjepa.metrics.arrays import as_array, as_rows


@dataclass(frozen=True)
class AffineMap:
    """s ≈ z A + b: reads physical states off latent ones. Fit it on training latents only."""

    matrix: np.ndarray
    offset: np.ndarray

    @classmethod
    def fit(cls, z: Any, s: Any) -> Self:
        """Least squares on paired latents (..., d) and states (..., k).

        Constant latents give a constant map. Tiny variation is amplified without limit, so a
        good fit does not exclude collapse; look at the spread of z beside it.
        """
        z, s = as_rows(z), as_rows(s)
        if len(z) != len(s):
            raise DataError(f"Needs one state for each latent, got {len(z)} and {len(s)}.")
        z_mean, s_mean = z.mean(0), s.mean(0)
        left, singular, right = np.linalg.svd(z - z_mean, full_matrices=False)
        # Relative to z itself, not to its spread: a constant leaves rounding errors behind.
        keep = singular > 1e-12 * np.linalg.norm(z)
        inverse = np.divide(1.0, singular, out=np.zeros_like(singular), where=keep)
        matrix = (right.T * inverse) @ (left.T @ (s - s_mean))
        return cls(matrix, s_mean - z_mean @ matrix)

    def __call__(self, z: Any) -> np.ndarray:
        """(..., d) -> (..., k)."""
        return as_array(z) @ self.matrix + self.offset


def r2(predicted: Any, target: Any) -> float:
    """Coefficient of determination, averaged over coordinates; 1 is perfect, 0 is the mean."""
    predicted, target = as_rows(predicted), as_rows(target)
    residual = ((target - predicted) ** 2).sum(0)
    total = ((target - target.mean(0)) ** 2).sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.mean(1.0 - residual / total))


@dataclass(frozen=True)
class ProbeScore:
    """R² of the affine state probe on the data it was fitted on, and on held-out data."""

    train: float
    test: float


def probe_r2(z_train: Any, s_train: Any, z_test: Any, s_test: Any) -> ProbeScore:
    """How much of the physical state is an affine function of z."""
    probe = AffineMap.fit(z_train, s_train)
    return ProbeScore(r2(probe(z_train), s_train), r2(probe(z_test), s_test))
