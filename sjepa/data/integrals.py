"""Integrals along a path: what a law adds up to, beside the states that were seen.

A state is its first value and the integral of its velocity. On a segment of data that leaves
rows with the plain noise of the observations, the same in all of them and known from elsewhere;
test functions weigh it, and overlap.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.interpolate import CubicSpline

from sjepa.data._check import Array, segments
from sjepa.data.derivatives import Smoothing, differentiate
from sjepa.data.rows import OnRows, inputs_of
from sjepa.data.trajectories import Trajectories


# Observations of one segment, and of all: more adds work and hardly any evidence.
SHORTEST, LONGEST, MAX_OBSERVATIONS = 32, 128, 1024
# What smoothing takes away must be noise: at most this many times its variance.
TAKEN = 1.4
NARROWEST = 4


def integral_rows(data: Trajectories) -> tuple[OnRows, Array, Array]:
    """Integrals of any function of states and actions, the states (n, d), and the inputs.

    On every segment both sides are taken from their means, which a first value would only shift.
    """
    data = data._cut(segments(data.lengths))  # very long data: parts of them
    smooth = smoothed(data)
    inputs = inputs_of(smooth)
    span = int(np.clip(data.lengths.max() // 4, SHORTEST, LONGEST))
    cuts = [
        (i, slice(first, min(first + span, n)))
        for i, n in enumerate(data.lengths)
        for first in range(0, max(n - SHORTEST // 2, 1), span)
        if n >= 8
    ]
    every = -(-len(cuts) * span // MAX_OBSERVATIONS)
    cuts = cuts[:: max(every, 1)]
    points = np.concatenate([inputs[i][part] for i, part in cuts])
    matrices = [_integral(data.t[i][part]) for i, part in cuts]
    ends = np.cumsum([len(m) for m in matrices])[:-1]
    targets = np.concatenate([data.x[i][p] - data.x[i][p].mean(axis=0) for i, p in cuts])

    def on_rows(f: Callable[[Array], Array]) -> Array:
        pieces = np.split(f(points), ends)
        return np.concatenate([m @ values for m, values in zip(matrices, pieces, strict=True)])

    return on_rows, targets.astype(float), points


def smoothed(data: Trajectories) -> Trajectories:
    """States without their noise; windows are narrower than usual where motion would be lost."""
    found = differentiate(data)
    for _ in range(4):
        left = np.concatenate(data.x) - np.concatenate(found.trajectories.x)
        lost = (left**2).mean(axis=0) > TAKEN * found.noise**2
        if found.windows is None or not lost.any():
            break
        narrower = tuple(
            (max(half * 2 // 3, NARROWEST), degree) if bad and half > NARROWEST else (half, degree)
            for (half, degree), bad in zip(found.windows, lost, strict=True)
        )
        if narrower == found.windows:
            break
        like = Smoothing(found.noise, narrower)
        found = differentiate(data, like=like)._replace(windows=narrower)
    return found.trajectories


def _integral(t: Array) -> Array:
    """From values at t to the integral of the spline through them, less its mean (n, n)."""
    matrix = CubicSpline(t, np.eye(len(t))).antiderivative()(t)
    return matrix - matrix.mean(axis=0)
