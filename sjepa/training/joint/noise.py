"""The noise floor: the residual of an exact law on noisy data."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sjepa.data import noise_level
from sjepa.models.polynomials import PolynomialEncoder
from sjepa.training.joint.objective import coarse
from sjepa.training.joint.observed import Observed
from sjepa.training.joint.quadrature import difference
from sjepa.training.joint.refinement import StructureTask
from sjepa.training.joint.restarts import join_velocities


@torch.no_grad()
def noise_floor(head: nn.Module, task: StructureTask, observed: Observed) -> float:
    """The risk of the exact law in these coordinates under white noise alone."""
    z = head(observed.x)
    if observed.noise is not None:
        noise = head(observed.x + observed.noise) - z
    else:
        lengths = observed.grid.mask.sum(1).tolist()
        series = [own[:n].numpy() for own, n in zip(z, lengths, strict=True)]
        times = [own[:n].numpy() for own, n in zip(observed.grid.times, lengths, strict=True)]
        # A nonlinear encoder amplifies noise where it is steep, and risks are means of squares.
        nonlinear = isinstance(head, PolynomialEncoder)
        level = torch.tensor(noise_level(series, times, mean_square=nonlinear))
        generator = torch.Generator().manual_seed(0)
        noise = level * torch.randn(z.shape, generator=generator, dtype=z.dtype)
    return _share(z, noise - _carried(z, noise, task, observed), task, observed)


def _carried(z: Tensor, noise: Tensor, task: StructureTask, observed: Observed) -> Tensor:
    """What the law's right-hand side, integrated, takes of the noise (N, T, d)."""
    features = task.features
    numbers = task.fit(features, z, observed).coefficients[0]
    grid = observed.grid
    wide = len(task.library.inputs) - grid.actions > z.shape[-1]

    def integral(own: Tensor) -> Tensor:
        inputs = join_velocities(own, grid.times) if wide else own
        values = grid.integrals(lambda q: features.evaluate(q[None]), inputs, task.order)
        return torch.einsum("ds,ds...->...d", numbers, features.arranged(values)[0])

    return integral(z + noise) - integral(z)


def _share(z: Tensor, noise: Tensor, task: StructureTask, observed: Observed) -> float:
    """Differences of the noise as shares of the variance of those of z."""
    shares = []
    for k in coarse(task.horizons, 1, z.shape[1], task.order):
        valid = observed.grid.mask[:, task.order * k :]
        if valid.sum() < 2:  # too far for these data: one difference has no spread
            continue
        moved = difference(z.movedim(-1, 0), observed.grid.times, k, task.order)[:, valid]
        blur = difference(noise.movedim(-1, 0), observed.grid.times, k, task.order)[:, valid]
        shares.append(blur.square().mean(1) / moved.var(1).clamp_min(1e-12))
    return float(torch.stack(shares).mean()) if shares else 0.0
