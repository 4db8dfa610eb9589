"""Terms that are zero inside the admissible class Θ_repr and positive outside."""

import torch
from torch import Tensor

from sjepa.errors import DataError
from sjepa.losses.statistics import covariance_matrix, off_diagonal, rows


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


def within_shares(z: Tensor, mask: Tensor | None = None, ridge: float = 1e-5) -> Tensor:
    """Share of variance that lies within trajectories, for d directions, ascending: (d,).

    The directions are those in which the share is extreme (generalised eigenvectors of the
    within against the total covariance), so mixing a conserved coordinate into a moving one
    does not hide it. ``ridge``, a fraction of the mean variance, gives a direction without any
    variation the share 0.
    """
    if z.ndim < 3:
        raise DataError(f"Needs trajectories (..., T, d), got {tuple(z.shape)}.")
    if mask is None:
        mask = torch.ones(z.shape[:-1], dtype=torch.bool, device=z.device)
    weight = mask.unsqueeze(-1).to(z.dtype)  # (..., T, 1)
    z = torch.where(mask.unsqueeze(-1), z, 0.0)
    count = weight.sum().clamp(min=1)
    own_mean = z.sum(-2, keepdim=True) / weight.sum(-2, keepdim=True).clamp(min=1)
    within = rows((z - own_mean) * weight)
    overall = rows((z - rows(z).sum(0) / count) * weight)
    total = overall.T @ overall / count
    floor = ridge * total.diagonal().mean() + 1e-12
    factor = torch.linalg.cholesky(total + floor * torch.eye(len(total)).to(total))
    scaled = torch.linalg.solve_triangular(factor, within.T, upper=False)  # (d, n)
    return torch.linalg.eigvalsh(scaled @ scaled.T / count)
