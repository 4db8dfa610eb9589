"""Local polynomials on any time grid: one tool for differences, smoothing and their noise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sjepa.data._check import Array


_CHUNK = 4096  # points fitted at once; bounds the memory to a few tens of megabytes


class LocalFit(NamedTuple):
    """What a moving polynomial fit says at each time.

    ``value`` and ``slope`` (T, d); ``value_gain`` and ``slope_gain`` (T,): standard deviation of
    each per unit of white noise in the data, largest where the trajectory ends.
    """

    value: Array
    slope: Array
    value_gain: Array
    slope_gain: Array


def local_polynomial(t: Array, x: Array, half: int, degree: int) -> LocalFit:
    """Fit a polynomial of `degree` to the 2 `half` + 1 points around each time.

    Near the ends the window keeps its size and moves inwards. With ``degree = 2 * half`` the
    polynomial goes through all points: this is then the finite difference of that order,
    on any grid. Otherwise points far away weigh less (tricube), in time rather than in rows.
    Short trajectories get shorter windows and lower degrees.
    """
    n = len(t)
    width = min(2 * half + 1, n)
    degree = min(degree, width - 1)
    start = np.clip(np.arange(n) - half, 0, n - width)
    centre = np.arange(n) - start  # position of each point in its own window
    value, slope = np.empty(x.shape), np.empty(x.shape)
    gains = np.empty((2, n))
    step = np.diff(t)
    even = bool(np.ptp(step) < 1e-9 * step.max())
    if even:  # only the position in the window matters: fit `width` windows instead of n
        grid = np.broadcast_to(np.mean(step) * np.arange(width), (width, width))
        table = _weights(grid, np.arange(width), degree)
    for begin in range(0, n, _CHUNK):
        here = slice(begin, min(begin + _CHUNK, n))
        window = start[here, None] + np.arange(width)  # (c, width)
        w = table[centre[here]] if even else _weights(t[window], centre[here], degree)
        value[here], slope[here] = np.einsum("crw,cwd->rcd", w, x[window])
        gains[:, here] = np.linalg.norm(w, axis=2).T
    return LocalFit(value, slope, gains[0], gains[1])


def _weights(t: Array, centre: Array, degree: int) -> Array:
    """Weights (c, 2, width) that turn windows of data into value and slope at one point of each."""
    width = t.shape[1]
    away = t - t[np.arange(len(t)), centre][:, None]
    reach = np.abs(away).max(axis=1, keepdims=True)
    s = away / reach
    # Slightly wider than the window, or its last points would get no weight at all. A polynomial
    # through all points needs no weights.
    tricube = (1 - np.abs(s * width / (width + 1)) ** 3) ** 3
    root = np.sqrt(tricube) if degree < width - 1 else np.ones_like(s)
    design = s[..., None] ** np.arange(degree + 1) * root[..., None]
    weights = np.linalg.pinv(design)[:, :2] * root[:, None, :]
    weights[:, 1] /= reach
    return weights
