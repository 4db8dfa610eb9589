"""Batches: windows as in the paper, or whole trajectories with many starts each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from sjepa.data import TrajectoryBatch
from sjepa.errors import DataError
from sjepa.training.alternating.config import TrainingConfig


@dataclass(frozen=True)
class Chunk:
    """B segments of T points, with rollouts from `offset`, `offset + stride`, ...

    ``context`` and ``target`` (B, T, ...) are observations, or latents when ``encoded``. ``dt`` is
    (B, T - 1), ``u`` (B, T, m) or None. ``mask`` (B, T) is None when there is no padding.
    """

    context: Tensor
    target: Tensor
    dt: Tensor
    u: Tensor | None = None
    mask: Tensor | None = None
    offset: int = 0
    stride: int = 1
    encoded: bool = False


@dataclass(frozen=True)
class TrainingData:
    """All trajectories of a split, as observations or as cached latents."""

    context: Tensor
    target: Tensor
    dt: Tensor
    u: Tensor | None
    mask: Tensor | None
    encoded: bool

    @classmethod
    def of(
        cls, data: TrajectoryBatch, latents: tuple[Tensor, Tensor] | None = None
    ) -> TrainingData:
        """Observations; or, with (context, target) latents, those in their place."""
        mask = None if bool(data.mask.all()) else data.mask
        context, target = latents or (data.x, data.x)
        return cls(context, target, data.dt, data.u, mask, latents is not None)

    @property
    def points(self) -> int:
        return self.context.shape[1]

    def chunk(self, rows: Tensor | slice, offset: int, stride: int) -> Chunk:
        """Whole trajectories."""
        return Chunk(
            self.context[rows],
            self.target[rows],
            self.dt[rows],
            None if self.u is None else self.u[rows],
            None if self.mask is None else self.mask[rows],
            offset,
            stride,
            self.encoded,
        )

    def windows(self, index: Tensor, horizon: int) -> Chunk:
        """Windows by number: trajectory times starts a trajectory, plus start."""
        starts = self.points - horizon
        rows, first = index // starts, index % starts
        at = first[:, None] + torch.arange(horizon + 1, device=index.device)
        i = rows[:, None]
        target = self.target[i, at]
        return Chunk(
            self.context[i, at] if self.encoded else target,
            target,
            self.dt[i, at[:, :-1]],
            None if self.u is None else self.u[i, at],
            None if self.mask is None else self.mask[i, at],
            0,
            horizon + 1,
            self.encoded,
        )


def check_horizon(data: TrajectoryBatch, horizon: int) -> None:
    longest = int(data.mask.sum(1).max())
    if longest <= horizon:
        raise DataError(
            f"A rollout of {horizon} steps does not fit into trajectories of {longest} points; "
            f"use horizon={longest - 1} or less.",
            "horizon",
        )


def epoch_of(
    source: TrainingData, settings: TrainingConfig, generator: torch.Generator
) -> Iterator[Chunk]:
    """One pass over the data in random order."""
    device, horizon = source.context.device, settings.horizon
    starts = source.points - horizon
    count = len(source.context)

    def shuffled(n: int) -> Tensor:
        return torch.randperm(n, generator=generator, device=generator.device).to(device)

    if settings.batching == "windows":
        index = torch.arange(count * starts, device=device)
        if source.mask is not None:  # data come first, so the last point of a window decides
            index = index[source.mask[:, horizon:].reshape(-1)]
        for part in index[shuffled(len(index))].split(settings.batch):
            yield source.windows(part, horizon)
        return
    stride = min(settings.stride or horizon, starts)
    size = max(1, round(settings.batch * stride / starts))
    for _ in range(settings.passes):
        for rows in shuffled(count).split(size):
            offset = int(torch.randint(stride, (), generator=generator, device=generator.device))
            yield source.chunk(rows, offset, stride)


def validation_chunks(
    source: TrainingData, settings: TrainingConfig, rows: int = 128
) -> list[Chunk]:
    """A fixed, evenly spread choice of at most `validation_windows` windows."""
    starts = source.points - settings.horizon
    stride = max(1, -(-len(source.context) * starts // settings.validation_windows))
    parts = range(0, len(source.context), rows)
    return [source.chunk(slice(i, i + rows), 0, min(stride, starts)) for i in parts]
