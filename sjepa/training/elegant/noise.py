"""What noise alone would leave of an exact law."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sjepa.data import noise_level
from sjepa.training.elegant.objective import coarse
from sjepa.training.elegant.observed import Observed
from sjepa.training.elegant.polish import StructureTask
from sjepa.training.elegant.quadrature import difference


@torch.no_grad()
def noise_floor(head: nn.Module, task: StructureTask, observed: Observed) -> float:
    """The risk that white noise alone would leave of the exact law in these coordinates."""
    z = head(observed.x)
    if observed.noise is not None:
        return _share(z, head(observed.x + observed.noise) - z, task, observed)
    lengths = observed.grid.mask.sum(1).tolist()
    series = [own[:n].numpy() for own, n in zip(z, lengths, strict=True)]
    times = [own[:n].numpy() for own, n in zip(observed.grid.times, lengths, strict=True)]
    level = torch.tensor(noise_level(series, times))
    generator = torch.Generator().manual_seed(0)
    noise = level * torch.randn(z.shape, generator=generator, dtype=z.dtype)
    return _share(z, noise, task, observed)


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
