"""The noise of observations: heavy-tailed, of any scale, possibly correlated in time.

Nothing is known beforehand of how large the noise is. Its scale is a parameter of the likelihood,
one for each channel and trajectory, and is maximized out for every law.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from sjepa.inference.constants import DEGREES_OF_FREEDOM, PRIOR_VALUES


Array = np.ndarray

# What a value tells of a mean, as a share of what it tells under normal noise.
INFORMATION = (DEGREES_OF_FREEDOM + 1) / (DEGREES_OF_FREEDOM + 3)

# Fixed-point steps of the scale, which grows at most (nu + 1)-fold in each; few are needed mostly.
_STEPS = 60


class Profile(NamedTuple):
    """Residuals under Student's distribution with the scales of the highest likelihood.

    ``scale`` (groups, d) belongs to each channel of each trajectory; ``weight`` is the influence
    that the tail leaves each residual (1 for small ones), ``log_likelihood`` (S,) sums over the
    values of each segment.
    """

    scale: Array
    weight: Array
    log_likelihood: Array

    @property
    def total(self) -> float:
        return float(self.log_likelihood.sum())


def profile(residual: Array, group: Array, floor: float | Array = 0.0) -> Profile:
    """Scales of residuals (n, S, d) of segments that belong to groups (S,), by maximum likelihood.

    A group of few values borrows from the others: its squared scale is averaged with that of the
    channel as if that had been seen PRIOR_VALUES times. No scale goes below the `floor`, the error
    of the computation itself.
    """
    nu = DEGREES_OF_FREEDOM
    count = int(group.max()) + 1
    square = residual**2  # (n, S, d)
    values = len(residual) * np.bincount(group, minlength=count).astype(float)[:, None]
    least = np.maximum(np.asarray(floor, dtype=float) ** 2, 1e-300)
    variance = np.maximum(np.median(square, axis=(0, 1)) / 0.55, least)  # of each channel (d,)
    variance = np.tile(variance, (count, 1))
    for _ in range(_STEPS):
        weight = (nu + 1) / (nu + square / variance[group])
        sums = np.zeros((count, residual.shape[2]))
        np.add.at(sums, group, (weight * square).sum(axis=0))
        pooled = sums.sum(axis=0) / values.sum()
        new = (sums + PRIOR_VALUES * pooled) / (values + PRIOR_VALUES)
        new = np.maximum(new, least)
        settled = np.abs(new / variance - 1).max() < 1e-4
        variance = new
        if settled:
            break
    scale = np.sqrt(variance)
    ratio = square / variance[group]
    weight = (nu + 1) / (nu + ratio)
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
    density = constant - np.log(scale)[group] - (nu + 1) / 2 * np.log1p(ratio / nu)
    return Profile(scale, weight, density.sum(axis=(0, 2)))


def correlation_time(residual: Array) -> float:
    """How many successive residuals (n, S, d) count as one: the integrated autocorrelation.

    1 for white noise. Sums over pairs of lags are taken as long as they are positive (Geyer).
    """
    n = len(residual)
    if n < 4:
        return 1.0
    z = _clipped(residual)
    total, power = 0.0, float((z**2).mean())
    if not power > 0:
        return 1.0
    for lag in range(1, n // 2, 2):
        pair = sum(float((z[k:] * z[:-k]).mean()) / power for k in (lag, lag + 1))
        if pair <= 0:
            break
        total += pair
    return max(1.0 + 2.0 * total, 1.0)


def smooth_share(residual: Array) -> float:
    """The share of residuals (n, S, d) that the ones before tell: their first autocorrelation."""
    z = _clipped(residual)
    power = float((z**2).sum())
    return float((z[1:] * z[:-1]).sum()) / power if power > 0 else 0.0


def _clipped(residual: Array) -> Array:
    """Residuals at most three typical sizes large, so that outliers do not hide the rest."""
    size = 1.4826 * np.median(np.abs(residual), axis=(0, 1))
    return np.asarray(np.clip(residual / np.maximum(size, 1e-300), -3, 3))


def resolution(series: list[Array]) -> Array:
    """The last digit (d,) of readings that lie on a grid; 0 where they do not.

    Readings that were rounded repeat: where most values of a channel occur again, the smallest
    difference between two of them is the step of the grid.
    """
    x = np.concatenate([np.asarray(a, dtype=float).reshape(len(a), -1) for a in series])
    steps = np.zeros(x.shape[1])
    for j, column in enumerate(x.T):
        values = np.unique(column)
        if 1 < len(values) < 0.5 * len(column):
            steps[j] = np.diff(values).min()
    return steps
