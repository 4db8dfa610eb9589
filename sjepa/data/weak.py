"""The weak form: integrals against smooth bumps, instead of derivatives of noisy data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse

from sjepa.data._check import Array
from sjepa.errors import DataError


# Largest factor by which interpolation may multiply noise; 1.3 for equal steps, 3.1 at the ends.
SWING = 4.0


class WeakWindows(NamedTuple):
    """Integrals over K windows as matrices that act on one trajectory's columns.

    ``phi @ f`` is the integral of bump times f, and ``-dphi @ x`` that of bump times dx/dt, for
    any column (T,) or columns (T, d). Both are sparse (K, T). ``centre`` (K,) are the times of
    the bumps' tops.
    """

    phi: scipy.sparse.csr_array
    dphi: scipy.sparse.csr_array
    centre: Array


def weak_windows(
    t: Array, *, points: int | None = None, stride: int | None = None, power: int = 4
) -> WeakWindows:
    """Bumps (1 - s**2)**power on overlapping stretches of a trajectory.

    Between observations f is a polynomial through its six neighbours, and bump times polynomial
    is integrated exactly; so both matrices are right to sixth order in the step, and the two
    sides agree exactly for polynomials up to degree five. Where observations nearly coincide in
    time f is a straight line between two of them.

    Parameters
    ----------
    t : array (T,)
        Times of one trajectory.
    points : int, optional
        Observations under one bump. By default a tenth of the trajectory, at least 15. More
        averages more noise; a bump should stay shorter than the fastest thing of interest.
    stride : int, optional
        Observations between neighbouring bumps; by default a quarter of `points`.
    power : int, default=4
        Smoothness of the bump where it meets zero, at least 1.
    """
    t = np.asarray(t, dtype=np.float64)
    n = len(t)
    points = min(n, max(15, n // 10)) if points is None else points
    stride = max(1, points // 4) if stride is None else stride
    if not 3 <= points <= n:
        raise DataError(f"a window of {points} points does not fit {n} observations; use 3 to {n}.")
    if stride < 1 or power < 1:
        raise DataError(f"stride and power must be at least 1, got {stride} and {power}.")

    inside = points - 1  # intervals under one bump
    first = np.arange(0, n - points + 1, stride)
    span = first[:, None] + np.arange(inside)  # (K, inside): the intervals of each window
    middle = (t[first] + t[first + inside]) / 2
    radius = (t[first + inside] - t[first]) / 2

    size = min(6, n)
    start = np.clip(np.arange(n - 1) - (size // 2 - 1), 0, n - size)  # neighbours of an interval
    nodes, weights = np.polynomial.legendre.leggauss(power + size // 2 + 1)  # exact for both
    half = np.diff(t)[:, None] / 2
    times = t[:-1, None] + half * (1 + nodes)  # (T - 1, g)
    basis = _lagrange(t[start[:, None] + np.arange(size)], times)
    basis = _tame(basis, np.arange(n - 1) - start, nodes) * (half * weights)[..., None]

    s = (times[span] - middle[:, None, None]) / radius[:, None, None]  # (K, inside, g)
    bump = (1 - s**2) ** power
    slope = -2 * power * s * (1 - s**2) ** (power - 1) / radius[:, None, None]
    shape = (len(first), inside, size)
    row = np.broadcast_to(np.arange(len(first))[:, None, None], shape).ravel()
    column = (start[span][..., None] + np.arange(size)).ravel()

    def matrix(weight: Array) -> scipy.sparse.csr_array:
        entries = np.einsum("kig,kigm->kim", weight, basis[span]).ravel()
        return scipy.sparse.coo_array((entries, (row, column)), shape=(len(first), n)).tocsr()

    return WeakWindows(matrix(bump), matrix(slope), middle)


def _tame(basis: Array, first: Array, nodes: Array) -> Array:
    """Straight lines where neighbours nearly coincide.

    Through unevenly spaced points a polynomial swings far beyond them and multiplies their noise;
    the sum of the basis sizes says by how much.
    """
    wild = np.abs(basis).sum(axis=2).max(axis=1) > SWING
    rows = np.flatnonzero(wild)
    tamed = basis.copy()
    tamed[rows] = 0.0
    tamed[rows, :, first[rows]] = (1 - nodes) / 2
    tamed[rows, :, first[rows] + 1] = (1 + nodes) / 2
    return tamed


def _lagrange(knots: Array, at: Array) -> Array:
    """Values (i, g, m) at times (i, g) of the polynomials that are 1 at one of m knots (i, m)."""
    size = knots.shape[1]
    gaps = knots[:, :, None] - knots[:, None, :] + np.eye(size)
    away = at[:, :, None] - knots[:, None, :]
    values = np.empty(away.shape)
    for m in range(size):
        others = np.arange(size) != m
        values[..., m] = away[..., others].prod(axis=2) / gaps[:, m, others].prod(axis=1)[:, None]
    return values
