"""The affine gauge: the basis and origin of a latent space in which its law has fewest terms."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sjepa.symbolic import Library
from sjepa.training.joint.subspace import Subspace


# Contributions, as shares of an equation's size, that may count as present.
THRESHOLDS = (0.1, 0.05, 0.02, 0.01)
# Two coordinates more parallel than this determinant allows are one.
MIN_DETERMINANT = 0.1


@dataclass(frozen=True, eq=False)
class Gauge:
    """Coordinates y = z A + b of a subspace, and the shares (terms, d) of its law's terms."""

    matrix: Tensor
    offset: Tensor
    shares: Tensor

    def support(self, threshold: float) -> tuple[tuple[int, ...], ...]:
        present = self.shares > threshold
        return tuple(tuple(torch.nonzero(c)[:, 0].tolist()) for c in present.T)


def search_gauge(
    subspace: Subspace,
    points: Tensor,
    library: Library,
    *,
    restarts: int = 64,
    steps: int = 500,
    seed: int = 0,
) -> list[Gauge]:
    """Gauges in which the dense law of a subspace is sparse, the sparsest first.

    `points` are whitened observations (n, rank) to measure the size of terms on. The law is
    carried from one gauge to the next exactly: monomials of the old coordinates are combinations
    of those of the new ones. The penalty goes from smooth L1 to smooth L0.
    """
    generator = torch.Generator().manual_seed(seed)
    z = points @ subspace.readout  # (n, d), unit covariance
    d = z.shape[1]
    features = library.torch()
    velocity = features(z) @ subspace.coefficients  # (n, d)
    weight = torch.tensor(
        [1.0 if t.free_symbols else 1.2 for t in library.terms], dtype=torch.float64
    )
    matrix = torch.randn(restarts, d, d, generator=generator, dtype=torch.float64)
    matrix = (matrix / matrix.norm(dim=1, keepdim=True)).requires_grad_()
    offset = 0.5 * torch.randn(restarts, d, generator=generator, dtype=torch.float64)
    offset.requires_grad_()
    optimizer = torch.optim.Adam([matrix, offset], lr=0.03)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, eta_min=5e-4)
    for step in range(steps):
        width = 0.5 * (0.01 / 0.5) ** (step / steps)
        basis = matrix / matrix.norm(dim=1, keepdim=True).clamp_min(1e-9)
        shares, _ = term_shares(features, z, velocity, basis, offset)
        penalty = (shares.square() / (shares.square() + width**2)).mul(weight[:, None])
        if step < steps // 3:  # broad first: every term pulls toward zero a little
            penalty = shares * weight[:, None]
        flat = torch.relu(MIN_DETERMINANT - torch.linalg.det(basis).abs())
        loss = penalty.sum((1, 2)) + 50.0 * flat
        optimizer.zero_grad()
        loss.sum().backward()
        for p in (matrix, offset):
            assert p.grad is not None
            p.grad.nan_to_num_(0.0).clamp_(-10.0, 10.0)
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        basis = matrix / matrix.norm(dim=1, keepdim=True).clamp_min(1e-9)
        shares, _ = term_shares(features, z, velocity, basis, offset)
        price = ((shares > THRESHOLDS[-1]) * weight[:, None]).sum((1, 2))
        apart = torch.linalg.det(basis).abs() > 0.5 * MIN_DETERMINANT
        price = torch.where(apart, price, torch.inf) + 1e-3 * shares.sum((1, 2))
    order = price.argsort().tolist()
    return [Gauge(basis[i], offset.detach()[i], shares[i]) for i in order]


def term_shares(
    features: nn.Module, z: Tensor, velocity: Tensor, basis: Tensor, offset: Tensor
) -> tuple[Tensor, Tensor]:
    """Shares and coefficients (R, terms, d) of the law of y = z A + b.

    z (n, d) moves with `velocity` (n, d). A share is the root mean square of a term over that
    of its equation.
    """
    y = z @ basis + offset[:, None]  # (R, n, d)
    columns = features(y)  # (R, n, P)
    size = columns.square().mean(1).sqrt().clamp_min(1e-12)  # (R, P)
    scaled = columns / size[:, None]
    gram = scaled.mT @ scaled / len(z) + 1e-12 * torch.eye(size.shape[1], dtype=z.dtype)
    moved = velocity @ basis  # (R, n, d)
    contribution = torch.linalg.solve(gram, scaled.mT @ moved / len(z))  # in rms of the term
    unit = moved.square().mean(1).sqrt().clamp_min(1e-12)
    return (contribution / unit[:, None]).abs(), contribution / size[..., None]
