"""How noisy a signal is, judged from itself."""

from __future__ import annotations

import math

import numpy as np

from sjepa.data._check import Array, is_even, joined, medians, segments


_ORDERS = range(3, 9)
_CHUNK = 4096  # windows at once; bounds the memory to a few megabytes
_TO_STD = 1.4826  # from the median of |r| to the standard deviation, for normal r


def noise_level(
    x: Array | list[Array], t: Array | list[Array], *, mean_square: bool = False
) -> Array:
    """Standard deviation (d,) of the white noise in each column of x (T, d), sampled at t (T,).

    Neighboring points are combined so that smooth motion cancels and noise does not (differences
    of order 3 to 8, exact on irregular grids); the median over time ignores outliers and sharp
    turns. A noise-free signal gives its roughness at the sampling step, usually
    many orders of magnitude smaller. Lists are pooled; fewer than five points give 0.

    Noise that is larger in some places than in others has no typical size: `mean_square` gives
    the root of its mean square instead of the median.
    """
    series = x if isinstance(x, list) else [x]
    times = t if isinstance(t, list) else [t]
    cuts = segments(map(len, series))
    times = [times[i][part] for i, part in cuts]
    series = [series[i][part].reshape(len(times[k]), -1) for k, (i, part) in enumerate(cuts)]
    levels = []
    even, uneven = [], []
    for a, b in zip(series, times, strict=True):
        if is_even(b):
            even.append(a.astype(float))
        else:
            uneven.append((a, b))
    differences, done = _stacked(even), 0  # of order `done`
    for order in _ORDERS:
        differences = [a for a in differences if a.shape[2] > order + 1 - done]
        for _ in range(order - done):
            differences = [a[..., 1:] - a[..., :-1] for a in differences]
        done, scale = order, math.sqrt(math.comb(2 * order, order))
        parts = [a.reshape(len(a), -1) for a in differences]
        parts += [scale * _residuals(a, b, order).T for a, b in uneven if len(a) > order + 1]
        if parts:
            r = np.abs(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1))
            size = np.sqrt(np.square(r).mean(1)) if mean_square else _TO_STD * medians(r)
            levels.append(size / scale)
    if not levels:
        return np.zeros(series[0].shape[1])
    # Motion that does not quite cancel only adds, so the smallest is the nearest.
    return np.maximum(np.min(levels, axis=0), _rounding(series))


def _rounding(series: list[Array]) -> Array:
    """Noise of readings so coarse that most repeat the one before, which hides it from medians."""
    changes = np.abs(joined([a[1:] - a[:-1] for a in series]))
    coarse = (changes == 0).mean(axis=0) > 0.5
    if not coarse.any():
        return np.zeros(len(coarse))
    resolution = np.min(np.where(changes > 0, changes, np.inf), axis=0)
    return np.where(coarse & np.isfinite(resolution), resolution, 0.0) / np.sqrt(12)


def _stacked(series: list[Array]) -> list[Array]:
    """Series of equal lengths in one array (d, series, T)."""
    lengths = sorted({len(a) for a in series})
    return [np.stack([a.T for a in series if len(a) == n], axis=1) for n in lengths]


def _residuals(x: Array, t: Array, order: int) -> Array:
    """Divided differences of one order, scaled so that unit noise gives unit variance."""
    unit, found = np.diff(t).mean(), []  # keeps the products below near 1
    for begin in range(0, len(t) - order, _CHUNK):
        first = np.arange(begin, min(begin + _CHUNK, len(t) - order))
        window = first[:, None] + np.arange(order + 1)
        at = t[window] / unit
        gaps = at[:, :, None] - at[:, None, :] + np.eye(order + 1)
        weights = 1 / gaps.prod(axis=2)
        weights /= np.linalg.norm(weights, axis=1, keepdims=True)
        found.append(np.einsum("cw,cwd->cd", weights, x[window]))
    return np.concatenate(found)
