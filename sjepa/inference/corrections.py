"""A flexible correction of a law: Gaussians of the state, and how they move a simulated path."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.spatial import cKDTree

from sjepa.inference.adequacy import Blocks
from sjepa.inference.constants import FUNCTIONS, MIN_BLOCKS, WIDTH
from sjepa.inference.noise import Array
from sjepa.inference.shooting import ShootingFit, blocks, normal_equations


# Points that bumps are placed on, and that distances are measured between.
POINTS = 4_000


def bumps(points: Array) -> Callable[[Array], Array]:
    """Gaussian functions around some of the points (rows, d), as a function of rows."""
    d = points.shape[1]
    spread = np.maximum(points.std(axis=0), 1e-300)
    count = min(FUNCTIONS * max(1, d - 1), len(points))
    centers = points[np.random.default_rng(0).choice(len(points), count, replace=False)] / spread
    width = WIDTH * max(1.0, (d / 2) ** 0.5)

    def values(x: Array) -> Array:
        gap = ((x / spread)[..., None, :] - centers) ** 2
        return np.asarray(np.exp(-0.5 * gap.sum(axis=-1) / width**2))

    return values


def segment_blocks(fit: ShootingFit, half: Array) -> Blocks:
    """Each segment's normal equations for the law's coefficients and a correction of its field."""
    size = fit.path.shape[2]
    flat = fit.path.reshape(-1, size)
    flexible = bumps(flat[:: max(1, len(flat) // POINTS)])(fit.path)
    moved = response(fit, flexible, range(len(fit.law.outputs)))
    both = np.concatenate([fit.jacobian, moved], axis=3)
    r, starts, rest = blocks(fit.residual, both, size, fit.weighted)
    information, score = normal_equations(r, starts, rest)
    return Blocks(information, score, half, fit.jacobian.shape[3] - size)


def response(fit: ShootingFit, functions: Array, outputs: Sequence[int]) -> Array:
    """How the path (n, S, d, m) moves with functions (n, S, m') added to velocities of outputs.

    Functions (n - 1, S, m') are constant from one row to the next. The linearized law is followed
    along the path by the trapezoidal rule, which is stable.
    """
    segments, path, count = fit.segments, fit.path, len(fit.law.outputs)
    n, cut, size = path.shape
    m = functions.shape[2]
    force = np.zeros((len(functions), cut, size, m * len(outputs)))
    for k, j in enumerate(outputs):
        force[:, :, size - count + j, k * m : (k + 1) * m] = functions
    a, step = _linearized(fit), np.diff(segments.t, axis=1).T
    if fit.law.dynamics == "discrete":
        eye, step = np.eye(size), np.ones((n - 1, cut))
        a = 2 * (a - eye) @ np.linalg.pinv(a + eye)  # the same step by the trapezoidal rule
    half = step[..., None, None] / 2
    left = np.linalg.inv(np.eye(size) - half * a[1:])
    right = left @ (np.eye(size) + half * a[:-1])
    pushed = left @ (half * (2 * force if len(force) < n else force[:-1] + force[1:]))
    moved = np.zeros((n, *force.shape[1:]))
    for k in range(n - 1):
        moved[k + 1] = right[k] @ moved[k] + pushed[k]
    return segments.scaled(moved[:, :, : segments.x.shape[2]])


def inputs_along(fit: ShootingFit) -> Array:
    """What the law takes (n, S, inputs) on its simulated path."""
    segments, path = fit.segments, fit.path
    if segments.u is None or len(fit.law.inputs) == path.shape[2]:
        return path
    u = np.repeat(segments.u[:, :, 0], segments.every, axis=1)
    u = np.concatenate([u, segments.u[:, -1:, 2]], axis=1)
    return np.concatenate([path, np.moveaxis(u, 1, 0)], axis=2)


def _linearized(fit: ShootingFit) -> Array:
    """Jacobian (n, S, size, size) of the field along the path, by central differences."""
    size = fit.path.shape[2]
    outputs = len(fit.law.outputs)
    z = inputs_along(fit)
    by = 1e-5 * np.maximum(fit.path.std(axis=(0, 1)), 1e-300)
    columns = []
    for j in range(size):
        move = np.zeros(z.shape[2])
        move[j] = by[j]
        columns.append((fit.field(z + move) - fit.field(z - move)) / (2 * by[j]))
    a = np.nan_to_num(np.stack(columns, axis=3))
    if size == outputs:
        return a
    velocities = np.zeros(a.shape)
    velocities[..., outputs:] = np.eye(outputs)
    return np.concatenate([velocities, a], axis=2)


def covered(points: Array, half: Array) -> bool:
    """Whether most points (n, S, d) of each half of the S groups lie among those of the other."""
    d = points.shape[2]
    z = points / np.maximum(points.std(axis=(0, 1)), 1e-300)
    one, two = (z[:, half == k].reshape(-1, d) for k in (0, 1))
    if not (len(one) and len(two)):
        return False
    for a, b in ((one, two), (two, one)):
        near = cKDTree(a[:: max(1, len(a) // POINTS)]).query(b[:: max(1, len(b) // 1000)])[0]
        if (near > WIDTH).mean() > 1 / MIN_BLOCKS:  # as many as one block of the fewest
            return False
    return True
