"""Libraries that are closed under affine maps: only the subspace of the encoder matters at first.

Whatever basis and origin the latent coordinates have, all monomials up to some degree span the
same functions. So the subspace is searched with the whole library in every equation, and the
basis and origin that make the law sparse afterwards (:mod:`sjepa.training.joint.gauge`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy
import torch
from torch import Tensor

from sjepa.symbolic import Library
from sjepa.training.joint.objective import Grid, coarse
from sjepa.training.joint.quadrature import cumulative, difference
from sjepa.training.joint.successive_halving import ladder
from sjepa.training.joint.whitened_trajectories import Observed


# Subspaces whose directions are as near as this cosine are the same.
SAME = 0.99


def closed_under_affine_maps(library: Library, latent_dim: int) -> bool:
    """Whether the terms are all monomials up to some degree, allowed in every equation."""
    if len(library.inputs) != latent_dim or library.to_dict()["mask"] is not None:
        return False
    symbols = sympy.symbols(library.inputs, real=True)
    if not all(t.is_polynomial(*symbols) for t in library.terms):
        return False
    degree = max(sympy.Poly(t, *symbols).total_degree() for t in library.terms)
    return len(library) == len(Library.polynomial(library.inputs, degree))


@dataclass(frozen=True, eq=False)
class Subspace:
    """An orthonormal read-out (rank, d) and the dense law (terms, d) of its coordinates."""

    readout: Tensor
    coefficients: Tensor
    risk: float


def search_subspace(
    observed: Observed,
    library: Library,
    latent_dim: int,
    horizon: int,
    *,
    order: int = 1,
    restarts: int = 24,
    steps: int = 300,
    batch: int = 1500,
    seed: int = 0,
    starts: Tensor | None = None,
) -> list[Subspace]:
    """Subspaces in which the whole library explains the motion best, the best first.

    They begin with `starts` (n, rank, d), or with as many random ones as there are `restarts`.
    """
    generator = torch.Generator().manual_seed(seed)
    if starts is None:
        shape = restarts, observed.x.shape[-1], latent_dim
        starts = torch.randn(*shape, generator=generator, dtype=torch.float64)
    free = torch.linalg.qr(starts).Q.requires_grad_()
    optimizer = torch.optim.Adam([free], lr=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=steps + 1)
    features = library.torch()
    size = max(2, batch // observed.length)
    for _ in range(steps):
        rows = torch.randperm(len(observed), generator=generator)[:size]
        part = observed.pick(rows)
        readout = torch.linalg.qr(free).Q
        risk, _ = dense_fit(features, part.x, readout, part.grid, ladder(horizon), order)
        optimizer.zero_grad()
        risk.sum().backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        readout = torch.linalg.qr(free).Q
        sample = observed.thinned(20 * batch)
        risk, law = dense_fit(features, sample.x, readout, sample.grid, ladder(horizon), order)
    found = [Subspace(q, c, float(r)) for q, c, r in zip(readout, law, risk, strict=True)]
    return sorted(found, key=lambda s: s.risk)


def apart(spaces: Sequence[Subspace]) -> list[Subspace]:
    """Those that have a direction which none before them has."""
    kept: list[Subspace] = []
    for space in spaces:
        shared = (torch.linalg.svdvals(k.readout.T @ space.readout).min() for k in kept)
        if all(float(cosine) < SAME for cosine in shared):
            kept.append(space)
    return kept


def dense_fit(
    features: torch.nn.Module,
    x: Tensor,
    readout: Tensor,
    grid: Grid,
    horizons: Sequence[int],
    order: int = 1,
) -> tuple[Tensor, Tensor]:
    """Risk (R,) and coefficients (R, terms, d) of the whole library, in the integral form."""
    z = torch.einsum("btr,Rrd->Rbtd", x, readout)
    columns = features(z).movedim(-1, 1)  # (R, P, B, T)
    for _ in range(order):
        columns = cumulative(columns, grid.weights)
    states = z.movedim(-1, 1)
    targets, designs = [], []
    for k in coarse(horizons, 1, x.shape[1], order):
        valid = grid.mask[:, order * k :]
        y = difference(states, grid.times, k, order)[..., valid]  # (R, d, n)
        scale = (y.square().mean((1, 2), keepdim=True) * y.shape[-1]).rsqrt()
        targets.append(y * scale.detach())
        designs.append(difference(columns, grid.times, k, order)[..., valid] * scale.detach())
    target, design = torch.cat(targets, -1), torch.cat(designs, -1)
    with torch.no_grad():
        coefficients = _solve(design, target)  # (R, P, d)
    residual = target - torch.einsum("Rpd,Rpn->Rdn", coefficients, design)
    # In units of each coordinate's own change, so that slow directions are no refuge.
    share = residual.square().sum(-1) / target.square().sum(-1).clamp_min(1e-12)
    return share.mean(-1), coefficients


def _solve(design: Tensor, target: Tensor) -> Tensor:
    size = design.square().sum(-1).clamp_min(1e-300).sqrt()  # (R, P)
    scaled = design / size[..., None]
    gram = scaled @ scaled.mT + 1e-10 * torch.eye(design.shape[1], dtype=design.dtype)
    moment = scaled @ target.mT
    return torch.linalg.solve(gram, moment) / size[..., None]
