"""How a simulated path would change if the law had a further term: sensitivities along the path."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from sjepa.inference.adequacy import BUMPS, COVERED, WIDTH, Blocks
from sjepa.inference.noise import Array
from sjepa.inference.shooting import ShootingFit, blocks, normal_equations


def bumps(points: Array, seed: int = 0):
    """Gaussian bumps of the state around some of its points (rows, d), as a function of rows."""
    spread = np.maximum(points.std(axis=0), 1e-300)
    rng = np.random.default_rng(seed)
    d = points.shape[1]
    count = min(BUMPS * max(1, d - 1), len(points))
    centers = points[rng.choice(len(points), count, replace=False)] / spread
    width = WIDTH * max(1.0, (d / 2) ** 0.5)

    def values(x: Array) -> Array:
        gap = ((x / spread)[..., None, :] - centers) ** 2
        return np.exp(-0.5 * gap.sum(axis=-1) / width**2)

    return values


def segment_blocks(fit: ShootingFit, half: Array) -> Blocks:
    """Normal equations of every segment for the law's coefficients and a correction of its field."""
    segments, size = fit.segments, fit.path.shape[2]
    d = segments.x.shape[2]
    path = fit.path  # (n, S, size)
    n, count, _ = path.shape
    phi = bumps(path.reshape(-1, size)[:: max(1, path.shape[0]*path.shape[1] // 4000)])(path)  # (n, S, M)
    m = phi.shape[2]
    outputs = len(fit.law.outputs)
    if segments.u is not None and len(fit.law.inputs) > size:
        u = np.repeat(segments.u[:, :, 0], segments.every, axis=1)
        u = np.concatenate([u, segments.u[:, -1:, 2]], axis=1)
        rows = np.concatenate([path, np.moveaxis(u, 1, 0)], axis=2)
    else:
        rows = path
    f, flat = fit.law.numpy(), rows.reshape(n * count, -1)
    by = 1e-5 * np.maximum(path.std(axis=(0, 1)), 1e-300)
    columns = []
    for j in range(size):
        move = np.zeros(flat.shape[1])
        move[j] = by[j]
        columns.append((f(flat + move) - f(flat - move)) / (2 * by[j]))
    a = np.nan_to_num(np.stack(columns, axis=2)).reshape(n, count, outputs, size)
    if size > outputs:  # second order
        top = np.zeros((n, count, outputs, size))
        top[..., outputs:] = np.eye(outputs)
        a = np.concatenate([top, a], axis=2)
    steps = np.diff(segments.t, axis=1).T  # (n - 1, S)
    sens = np.zeros((n, count, size, m * outputs))
    force = np.zeros((n, count, size, m * outputs))
    for j in range(outputs):
        force[:, :, size - outputs + j, j * m : (j + 1) * m] = phi
    eye = np.eye(size)
    for k in range(n - 1):
        h = steps[k][:, None, None] / 2
        right = (eye + h * a[k]) @ sens[k] + h * (force[k] + force[k + 1])
        sens[k + 1] = np.linalg.solve(eye - h * a[k + 1], right)
    change = segments.scaled(sens[:, :, :d])
    both = np.concatenate([fit.jacobian, change], axis=3)
    r, starts, rest = blocks(fit.residual, both, size, fit.weighted)
    h, g = normal_equations(r, starts, rest)
    return Blocks(h, g, half, fit.jacobian.shape[3] - size)


def covered(points: Array, half: Array, rows: bool = False) -> bool:
    """Whether the states (n, S, size) of each half of the segments lie among those of the other.

    With `rows`, `half` says it of each row instead.
    """
    size = points.shape[2]
    z = points / np.maximum(points.std(axis=(0, 1)), 1e-300)
    one, two = (
        (z[half == k] if rows else z[:, half == k]).reshape(-1, size) for k in (0, 1)
    )
    if not (len(one) and len(two)):
        return False
    for a, b in ((one, two), (two, one)):
        near = cKDTree(a[:: max(1, len(a) // 4000)]).query(b[:: max(1, len(b) // 1000)])[0]
        if (near < WIDTH).mean() < COVERED:
            return False
    return True
