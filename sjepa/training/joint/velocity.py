"""Read-outs of a position and its velocity: where laws of the form z1' = z2 start from."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from sjepa.training.joint.observed import Observed
from sjepa.training.joint.quadrature import cumulative, difference


# Share of the mean variance of changes that keeps constants of motion from being positions.
RIDGE = 1e-3


def velocity_pairs(observed: Observed, horizon: int = 5, max_pairs: int = 2) -> Tensor:
    """Read-outs (most, rank, 2) of coordinates whose velocities are linear in the observations.

    Among all read-outs x a, those whose changes a linear model x A of the velocity misses least,
    each with its velocity x A a: of a mechanical system the positions, since velocities are
    observed but forces are not linear.
    """
    x = observed.x.movedim(-1, 0)
    k = max(1, min(horizon, observed.length - 1))
    valid = observed.grid.mask[:, k:]
    change = difference(x, observed.grid.times, k, 1)[:, valid].T
    integral = cumulative(x, observed.grid.weights)
    total = difference(integral, observed.grid.times, k, 1)[:, valid].T
    eye = torch.eye(len(x), dtype=x.dtype)
    gram = total.T @ total
    matrix = torch.linalg.solve(gram + 1e-6 * gram.trace() / len(x) * eye, total.T @ change)
    missed = change - total @ matrix
    size = (change.T @ change / len(change)).numpy()
    size = size + RIDGE * np.trace(size) / len(size) * np.eye(len(size))
    _, vectors = scipy.linalg.eigh((missed.T @ missed / len(change)).numpy(), size)
    position = torch.tensor(vectors[:, :max_pairs])
    pairs = torch.stack([position, matrix @ position], dim=-1)  # (rank, most, 2)
    pairs = pairs.movedim(1, 0)
    return pairs / pairs.norm(dim=1, keepdim=True)
