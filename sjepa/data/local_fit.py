"""Moving fits of polynomials: values and slopes at every time, for any grid."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sjepa.data._check import Array, is_even


_MOVING = 4_096  # rows of a moving sum at once
_CHUNK = 65_536  # points in all windows fitted at once; bounds the memory to a few megabytes


class LocalFit(NamedTuple):
    """What a moving polynomial fit says at each time.

    ``value`` and ``slope`` (T, d); ``slope_gain`` (T,): standard deviation of the slope per unit of
    white noise in the data, largest where the trajectory ends.
    """

    value: Array
    slope: Array
    slope_gain: Array


def local_polynomial(
    t: Array,
    x: Array,
    half: int,
    degree: int,
    columns: Any = slice(None),
    into: tuple[Array | None, Array] | None = None,
) -> LocalFit:
    """Fit a polynomial of `degree` to the 2 `half` + 1 points around each time.

    Near the ends the window keeps its size and moves inwards. With ``degree = 2 * half`` the
    polynomial goes through all points: this is then the finite difference of that order,
    on any grid. Otherwise points far away weigh less (tricube), in time rather than in rows.
    Short trajectories get shorter windows and lower degrees. Only `columns` are fitted; their
    values and slopes go `into` the given arrays, values nowhere where None is given.
    """
    n = len(t)
    width = min(2 * half + 1, n)
    degree = min(degree, width - 1)
    value, slope = (np.empty(x.shape), np.empty(x.shape)) if into is None else into
    if is_even(t):
        table, gains = _even_table(float((t[-1] - t[0]) / (n - 1)), width, degree)
        gain = _moving(table, gains, x, half, columns, value, slope)
        return LocalFit(x if value is None else value, slope, gain)
    gain = np.empty(n)
    together = max(1, _CHUNK // width)
    for begin in range(0, n, together):
        here = slice(begin, min(begin + together, n))
        rows = np.arange(here.start, here.stop)
        start = np.clip(rows - half, 0, n - width)
        center = rows - start  # position of each point in its own window
        window = start[:, None] + np.arange(width)  # (c, width)
        w = _weights(t[window], center, degree)
        fitted = np.einsum("crw,cwd->rcd", w, x[window][..., columns])
        slope[here, columns] = fitted[1]
        if value is not None:
            value[here, columns] = fitted[0]
        gain[here] = np.linalg.norm(w[:, 1], axis=1)
    return LocalFit(x if value is None else value, slope, gain)


@lru_cache(maxsize=64)
def _even_table(step: float, width: int, degree: int) -> tuple[Array, Array]:
    """Weights (width, 2, width) for equal steps, where only the place in a window matters.

    And the gains (width,) of the slopes.
    """
    grid = np.broadcast_to(step * np.arange(width), (width, width))
    table = _weights(grid, np.arange(width), degree)
    return table, np.linalg.norm(table[:, 1], axis=1)


def _moving(
    table: Array, each: Array, x: Array, half: int, columns: Any, value: Array | None, slope: Array
) -> Array:
    """Values and slopes for equal steps: moving sums inside, other rows of the table at the ends.

    Returns the slope's gain.
    """
    n, width = len(x), len(table)
    inside = n - width + 1 if half < width else 0
    first = half if inside else n
    wanted = [(i, out) for i, out in enumerate((value, slope)) if out is not None]
    gain = np.full(n, each[min(half, width - 1)])
    for rows, places in (
        (slice(0, first), slice(0, first)),
        (slice(first + inside, n), slice(half + 1, width)),
    ):
        ends = x[:width] if rows.start == 0 else x[n - width :]
        w = table[places]
        if len(w):
            for i, out in wanted:
                out[rows, columns] = w[:, i] @ ends[:, columns]
            gain[rows] = each[places]
    for begin in range(0, inside, _MOVING):  # pieces that stay in the cache
        size = min(_MOVING, inside - begin)
        part = np.asarray(x[begin : begin + size + width - 1, columns], dtype=float)
        product = np.empty((size, part.shape[1]))
        here = slice(first + begin, first + begin + size)
        for i, out in wanted:
            weights = table[half, i]
            total = np.multiply(part[half : half + size], weights[half])
            for k in np.flatnonzero(weights).tolist():
                if k != half:
                    total += np.multiply(part[k : k + size], weights[k], out=product)
            out[here, columns] = total
    return gain


def _weights(t: Array, center: Array, degree: int) -> Array:
    """Weights (c, 2, width) that turn windows of data into value and slope at one point of each."""
    width = t.shape[1]
    away = t - t[np.arange(len(t)), center][:, None]
    reach = np.abs(away).max(axis=1, keepdims=True)
    s = away / reach
    # Slightly wider than the window, or its last points would get no weight at all. A polynomial
    # through all points needs no weights.
    tricube = (1 - np.abs(s * width / (width + 1)) ** 3) ** 3
    root = np.sqrt(tricube) if degree < width - 1 else np.ones_like(s)
    design = s[..., None] ** np.arange(degree + 1) * root[..., None]
    weights = np.linalg.pinv(design)[:, :2] * root[:, None, :]
    weights[:, 1] /= reach
    # A constant has no slope and is its own value, however large it is: the solution by itself says
    # so only within its rounding.
    rows = np.arange(len(t))
    weights[rows, :, center] -= weights.sum(axis=2) - [1.0, 0.0]
    if degree == width - 1:  # the polynomial goes through the point itself
        weights[:, 0] = np.arange(width) == center[:, None]
    return weights


def local_slopes(t: Array, x: Array, half: int, degree: int) -> LocalFit:
    """A fit of which only the slopes are asked for."""
    return local_polynomial(t, x, half, degree, into=(None, np.empty(x.shape)))
