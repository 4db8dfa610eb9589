"""Terms that are zero inside the admissible class Θ_repr and positive outside."""

import torch
from torch import Tensor

from sjepa.metrics.latents import within_shares


def rows(z: Tensor, at_most: int | None = None) -> Tensor:
    """(..., d) as (n, d), evenly thinned to ``at_most`` rows where a term is quadratic in n."""
    flat = z.reshape(-1, z.shape[-1])
    return flat if at_most is None else flat[:: max(1, -(-len(flat) // at_most))]


def covariance_matrix(z: Tensor) -> Tensor:
    """Covariance of the rows of (..., n, d), divided by n: (..., d, d)."""
    centered = z - z.mean(-2, keepdim=True)
    return centered.mT @ centered / z.shape[-2]


def off_diagonal(matrix: Tensor) -> Tensor:
    """The matrix with its diagonal set to zero."""
    return matrix - torch.diag_embed(matrix.diagonal(dim1=-2, dim2=-1))


def masked_mean(values: Tensor, mask: Tensor | None, dim: int | None = None) -> Tensor:
    """Mean over the entries where ``mask`` is true; without a mask over all of them."""
    if mask is None:
        return values.mean(dim)
    mask = mask.expand_as(values)
    return torch.where(mask, values, 0.0).sum(dim) / mask.sum(dim).clamp(min=1)


def admissibility(z: Tensor, min_variance: float = 0.04, max_covariance: float = 0.5) -> Tensor:
    """Explicit bounds: Var(z_j) >= min_variance and |Cov(z_i, z_j)| <= max_covariance.

    The mean shortfall in variance plus the mean excess in covariance; exactly zero when both
    bounds hold, so it does not shape z any further. The default variance is the square of the
    0.20 that the paper asks of a non-collapsed checkpoint. Conserved and folded coordinates
    are admissible in this sense; see `within_trajectory` and the neighbor test.
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
