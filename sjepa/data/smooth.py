"""Smoothing in time of observations that are largely noise, over as long as motion allows."""

from __future__ import annotations

import numpy as np

from sjepa.data._check import Array
from sjepa.data.local_fit import local_polynomial
from sjepa.data.noise import noise_level
from sjepa.data.trajectories import Trajectories


# Smoothing is for observations whose variance is noise to more than this share.
NOISY = 0.05
# Half widths of the windows to choose from, and the power of the polynomials in them.
HALVES, DEGREE = (3, 4, 6, 8, 11, 15, 20, 27), 4
# Trajectories that noise and window are judged by.
SOME = 20


def noise_of(trajectories: Trajectories) -> tuple[Array, float]:
    """Standard deviation (*obs) of the white noise in each value, and its share of all variance."""
    some = trajectories[:: max(1, len(trajectories) // SOME)]
    rows = [x.reshape(len(x), -1) for x in some.x]
    level = noise_level(rows, some.t)
    share = np.square(level).sum() / max(np.concatenate(rows).var(axis=0).sum(), 1e-300)
    return level.reshape(trajectories.obs_shape), float(share)


def choose_half(trajectories: Trajectories, level: Array) -> int:
    """The half width of least error by Mallows's Cp: what is left over tells bias from noise."""
    some = trajectories[:: max(1, len(trajectories) // SOME)]
    noise = float(np.square(level).sum())
    errors = []
    for half in HALVES:
        smooth = smoothed(some, half)
        left = np.concatenate([a - b for a, b in zip(some.x, smooth.x, strict=True)])
        self_weight = np.mean([_own_weight(t, half) for t in some.t])
        errors.append(float(np.square(left).mean(axis=0).sum()) + 2 * noise * self_weight)
    return HALVES[int(np.argmin(errors))]


def smoothed(trajectories: Trajectories, half: int) -> Trajectories:
    """Moving fits of polynomials over 2 `half` + 1 observations in the place of the middle one."""
    series = iter(trajectories.t)

    def fit(x: Array) -> Array:
        rows = x.reshape(len(x), -1).astype(float)
        value = local_polynomial(next(series), rows, half, DEGREE).value
        return value.reshape(x.shape).astype(x.dtype)

    return trajectories.map(fit)


def _own_weight(t: Array, half: int) -> float:
    """How much a smoothed value is the observation at its own time, on average."""
    return float(np.trace(local_polynomial(t, np.eye(len(t)), half, DEGREE).value) / len(t))
