"""The weak form: integrals against smooth test functions, instead of derivatives of noisy data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse

from sjepa.data._check import Array, median_step, segments, spread
from sjepa.data.derivatives import Derivatives
from sjepa.errors import DataError


# Largest factor by which interpolation may multiply noise; 1.3 for equal steps, 3.1 at the ends.
SWING = 4.0
# A test function spans this many times spread over root mean square velocity (2 pi would be a
# period).
TURN = 1.3
MIN_POINTS = 5
_CHUNK = 8_192  # intervals of all windows built at once; bounds the memory


class WeakWindows(NamedTuple):
    """Integrals over K windows as matrices that act on one trajectory's columns.

    ``phi @ f`` is the integral of test function times f, and ``-dphi @ x`` that of test function
    times dx/dt, for any column (T,) or columns (T, d). Both are sparse (K, T). ``center`` (K,) are
    the times of the test functions' maxima. With zero-order hold ``phi`` is (K, 2 (T - 1)) and acts
    on the values of f at the starts of all steps, followed by those at their ends.
    """

    phi: scipy.sparse.csr_array
    dphi: scipy.sparse.csr_array
    center: Array


def window_points(found: Derivatives, sizes: Array | None = None) -> int:
    """Observations under one test function: a share of the time scale of the fastest column.

    A sine has a root mean square velocity of angular frequency times spread, which makes
    spread over velocity the time scale of anything that moves. `sizes` are the spreads, if known.
    """
    data = found.trajectories
    cuts = segments(data.lengths)
    rows = np.concatenate([found.x_dot[i][part][found.valid[i][part]] for i, part in cuts])
    sizes = spread(data.x) if sizes is None else sizes
    moving = sizes > 0
    if not len(rows) or not moving.any():
        return MIN_POINTS
    rate = (np.sqrt((rows**2).mean(axis=0))[moving] / sizes[moving]).max()
    step = median_step([data.t[i][part] for i, part in cuts])
    # What stands still, or seems to where squares round to nothing, has no time scale.
    longest = int(data.lengths.max())
    return max(MIN_POINTS, min(longest, round(TURN / max(rate * step, TURN / longest))))


def default_stride(points: int) -> int:
    """Observations between neighboring test functions."""
    return max(1, points // 8)


def weak_windows(
    t: Array, *, points: int, stride: int | None = None, power: int = 4, hold: bool = False,
    first: Array | None = None,
) -> WeakWindows:  # fmt: skip
    """Test functions (1 - s**2)**power on overlapping segments of a trajectory.

    Between observations f is a polynomial through its six neighbors, and test function times
    polynomial is integrated exactly; so both matrices are right to sixth order in the step, and the
    two sides agree exactly for polynomials up to degree five. Where observations nearly coincide in
    time f is a straight line between two of them.

    Parameters
    ----------
    t : array (T,)
        Times of one trajectory.
    points : int
        Observations under one test function. More average more noise; it should stay shorter than
        the fastest thing of interest (see :func:`window_points`).
    stride : int, optional
        Observations between neighboring test functions; by default an eighth of `points`.
    power : int, default=4
        Smoothness of the test function where it meets zero, at least 1.
    first : array of int, optional
        Where test functions begin, in place of `stride`.
    hold : bool
        Whether f jumps at observations, as under actions with zero-order hold; f and x are then
        straight lines within each step, since x has a kink at both of its ends.
    """
    t = np.asarray(t, dtype=np.float64)
    n = len(t)
    stride = default_stride(points) if stride is None else stride
    if not 3 <= points <= n:
        raise DataError(f"a window of {points} points does not fit {n} observations; use 3 to {n}.")
    if stride < 1 or power < 1:
        raise DataError(f"stride and power must be at least 1, got {stride} and {power}.")

    size = min(6, n)
    start = np.clip(np.arange(n - 1) - (size // 2 - 1), 0, n - size)  # neighbors of an interval
    nodes, weights = np.polynomial.legendre.leggauss(power + size // 2 + 1)  # exact for both
    if first is None:
        first = np.arange(0, n - points + 1, stride)
    parts = [
        _matrices(t, block, points - 1, power, start, size, nodes, weights, hold)
        for block in np.array_split(first, -(-len(first) * points // _CHUNK))
    ]
    phi, dphi = (scipy.sparse.vstack(blocks, format="csr") for blocks in zip(*parts, strict=True))
    return WeakWindows(phi, dphi, (t[first] + t[first + points - 1]) / 2)


def _matrices(
    t: Array, first: Array, inside: int, power: int, start: Array, size: int, nodes: Array,
    weights: Array, hold: bool,
) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array]:  # fmt: skip
    """The rows of both matrices for windows that begin at `first` and hold `inside` intervals."""
    span = first[:, None] + np.arange(inside)  # (K, inside): the intervals of each window
    used = np.arange(first[0], first[-1] + inside)
    half = np.diff(t)[used, None] / 2
    times = t[used, None] + half * (1 + nodes)  # (intervals, g)
    middle = ((t[first] + t[first + inside]) / 2)[:, None, None]
    radius = ((t[first + inside] - t[first]) / 2)[:, None, None]
    local = span - first[0]
    s = (times[local] - middle) / radius  # (K, inside, g)
    window = (1 - s**2) ** power
    slope = -2 * power * s * (1 - s**2) ** (power - 1) / radius
    lengths = (half * weights)[..., None]

    def matrix(weight: Array, basis: Array, column: Array, width: int) -> scipy.sparse.csr_array:
        entries = np.einsum("kig,kigm->kim", weight, basis[local])
        row = np.broadcast_to(np.arange(len(first))[:, None, None], entries.shape)
        where = (row.ravel(), column.ravel())
        return scipy.sparse.coo_array((entries.ravel(), where), (len(first), width)).tocsr()

    steps = len(t) - 1
    if hold:
        ends = np.stack([1 - nodes, 1 + nodes], axis=1) / 2 * lengths
        both = span[..., None] + np.array([0, steps])
        line = span[..., None] + np.array([0, 1])
        return matrix(window, ends, both, 2 * steps), matrix(slope, ends, line, len(t))
    first_neighbor = start[used]
    basis = _lagrange(t[first_neighbor[:, None] + np.arange(size)], times)
    basis = _tame(basis, used - first_neighbor, nodes) * lengths
    columns = first_neighbor[local][..., None] + np.arange(size)
    return matrix(window, basis, columns, len(t)), matrix(slope, basis, columns, len(t))


def _tame(basis: Array, first: Array, nodes: Array) -> Array:
    """Straight lines where neighbors nearly coincide.

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
