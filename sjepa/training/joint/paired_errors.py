"""Whether one law is clearly worse than another, the same held-out data considered."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from sjepa.training.joint.objective import coarse, rows_of, valid_starts
from sjepa.training.joint.observed import Observed
from sjepa.training.joint.quadrature import difference
from sjepa.training.joint.refinement import StructureTask
from sjepa.training.joint.restarts import join_velocities
from sjepa.training.joint.result import JointCandidate


# A difference counts from this many standard errors.
CLEARLY = 3.0


def standard_errors(
    score: Callable[[JointCandidate, Observed], float],
    one: JointCandidate,
    best: JointCandidate,
    holdout: Observed,
) -> float:
    """By how many standard errors a score of one law is above that of another.

    Both are judged without each piece of the held-out data in turn (the jackknife): what makes a
    piece hard for one law mostly makes it hard for the other. Fewer than three pieces give no
    error.
    """
    count = len(holdout)
    if count < 3:
        return 0.0
    rows = torch.arange(count)
    apart = [
        score(one, part) - score(best, part)
        for part in (holdout.pick(rows[rows != i]) for i in range(count))
    ]
    mean = sum(apart) / count
    spread = math.sqrt((count - 1) / count * sum((a - mean) ** 2 for a in apart))
    return mean / max(spread, 1e-300)


@torch.no_grad()
def joint_residual(
    head: nn.Module, task: StructureTask, coefficients: Tensor, observed: Observed
) -> float:
    """Residual of the increments of all coordinates together, in units of their covariance.

    The same for all coordinates that linear maps make of each other: a law and its longer form in
    skewed coordinates leave equal shares, which their losses, one coordinate at a time, do not.
    """
    z, grid, features = head(observed.x), observed.grid, task.features
    wide = len(task.library.inputs) - grid.actions > z.shape[-1]
    inputs = join_velocities(z, grid.times) if wide else z
    terms = features.arranged(grid.integrals(features.evaluate, inputs[None], task.order))[0]
    moved = torch.einsum("ds,ds...->d...", coefficients, terms)
    shares = []
    for k in coarse(task.horizons, 1, z.shape[1], task.order):
        valid = valid_starts(grid.mask, k, task.order)
        change, law = (
            rows_of(difference(part, grid.times, k, task.order), valid)
            for part in (z.movedim(-1, 0), moved)
        )
        left, change = change - law, change - change.mean(1, keepdim=True)
        shares.append((torch.linalg.pinv(change @ change.T) @ (left @ left.T)).trace() / len(left))
    return float(torch.stack(shares).mean())
