"""Terms that are zero inside the admissible class Θ_repr and positive outside."""

import torch
from torch import Tensor

from sjepa.metrics.latents import within_shares
from sjepa.training.losses.statistics import covariance_matrix, off_diagonal, rows


def admissibility(z: Tensor, min_variance: float = 0.04, max_covariance: float = 0.5) -> Tensor:
    """Explicit bounds: Var(z_j) >= min_variance and |Cov(z_i, z_j)| <= max_covariance.

    The mean shortfall in variance plus the mean excess in covariance; exactly zero when both
    bounds hold, so it does not shape z any further. The default variance is the square of the
    0.20 that the paper asks of a non-collapsed checkpoint. Conserved and folded coordinates
    are admissible in this sense; see `within_trajectory` and the neighbour test.
    """
    c = covariance_matrix(rows(z))
    d = len(c)
    shortfall = torch.relu(min_variance - c.diagonal()).mean()
    excess = torch.relu(off_diagonal(c).abs() - max_covariance).sum() / max(d * (d - 1), 1)
    return shortfall + excess


def within_trajectory(z: Tensor, mask: Tensor | None = None, floor: float = 0.3) -> Tensor:
    """How far motion along trajectories falls short of a ``floor`` share of all variation.

    Blocks coordinates that are functions of conserved quantities: they vary between
    trajectories, stay constant along each and are predicted perfectly by dz/dt = 0. Measured on
    the pendulum such coordinates have a share of about 0.04, informative ones 0.6 to 0.75. It
    does not see folding, and it must be off when the state truly contains constants of motion.
    z is (..., T, d), mask (..., T) false at padding.
    """
    return torch.relu(floor - within_shares(z, mask)).mean()
