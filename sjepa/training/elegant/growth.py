"""A nonlinear part for encoders whose observations a linear read-out cannot undo."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import nn

from sjepa.data import noise_level
from sjepa.models.encoders import LinearEncoder, ResidualEncoder
from sjepa.training.elegant.objective import coarse
from sjepa.training.elegant.observed import Observed
from sjepa.training.elegant.polish import StructureTask
from sjepa.training.elegant.quadrature import difference
from sjepa.training.elegant.restarts import degeneracy


# A larger encoder must lower the validation risk below this share: a linear one extrapolates.
MATERIAL = 0.7


@torch.no_grad()
def noise_floor(head: nn.Module, task: StructureTask, observed: Observed) -> float:
    """The risk that white noise alone would leave of the exact law in these coordinates."""
    z = head(observed.x)
    lengths = observed.grid.mask.sum(1).tolist()
    series = [own[:n].numpy() for own, n in zip(z, lengths, strict=True)]
    times = [own[:n].numpy() for own, n in zip(observed.grid.times, lengths, strict=True)]
    level = torch.tensor(noise_level(series, times))
    generator = torch.Generator().manual_seed(0)
    noise = level * torch.randn(z.shape, generator=generator, dtype=z.dtype)
    shares = []
    for k in coarse(task.horizons, 1, z.shape[1], task.order):
        valid = observed.grid.mask[:, task.order * k :]
        moved = difference(z.movedim(-1, 0), observed.grid.times, k, task.order)[:, valid]
        blur = difference(noise.movedim(-1, 0), observed.grid.times, k, task.order)[:, valid]
        shares.append(blur.square().mean(1) / moved.var(1).clamp_min(1e-12))
    return float(torch.stack(shares).mean())


def grow(
    head: LinearEncoder,
    task: StructureTask,
    train: Observed,
    validation: Observed,
    seed: int,
    steps: int = 300,
    width: int = 48,
) -> tuple[nn.Module, float]:
    """Add a residual network to a linear head; it is kept only if it lowers the risk materially.

    Training stops at the step with the lowest validation risk.
    """
    before = float(task.risk(head, train, validation).risk)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        rank, d = head.linear.in_features, head.linear.out_features
        grown = ResidualEncoder(rank, d, width=width, linear=deepcopy(head)).double()
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(grown.parameters(), lr=3e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    features = task.features
    best, state = before, None
    stride = max(1, max(task.horizons) // 8)
    for step in range(steps):
        rows = torch.randperm(len(train), generator=generator)[:32]
        batch = train.pick(rows)
        z = grown(batch.x)
        loss = task.fit(features, z, batch, stride=stride).risk[0]
        loss = loss + degeneracy(z[None], task.within)[0]
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(grown.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 20 == 19:
            now = float(task.risk(grown, train, validation).risk)
            if now < best:
                best, state = now, deepcopy(grown.state_dict())
    if state is None or not best < MATERIAL * before:
        return head, before
    grown.load_state_dict(state)
    return grown, best
