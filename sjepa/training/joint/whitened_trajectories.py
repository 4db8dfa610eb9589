"""Trajectories as the search sees them: whitened, rectangular, with their quadrature."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sjepa.data import Trajectories, noise_level
from sjepa.models import Whitening
from sjepa.training.joint.objective import Grid
from sjepa.training.joint.quadrature import STENCIL, interval_weights


# Whitened validation data this far beyond the training data are out of their range.
OUTSIDE = 0.05


@dataclass(frozen=True, eq=False)
class Observed:
    """Whitened observations (N, T, rank) in double precision, and where they were taken.

    `raw` are all components, of which x may be the leading ones, each by the share of its variance
    that is no noise: distances that the neighbor test looks at, in which all that is signal counts
    the same. `noise` is what noise may have added to x, where that is known.
    """

    x: Tensor
    grid: Grid
    raw: Tensor
    noise: Tensor | None = None

    def __len__(self) -> int:
        return len(self.x)

    @property
    def length(self) -> int:
        return self.x.shape[1]

    def thinned(self, samples: int) -> Observed:
        """Some of the trajectories, evenly, so that at most about `most` samples remain."""
        every = -(-self.x[..., 0].numel() // samples)
        return self if every <= 1 else self.pick(torch.arange(0, len(self), every))

    def leading(self, rank: int) -> Observed:
        """The first components alone."""
        return Observed(self.x[..., :rank], self.grid, self.raw)

    def with_zoh(self, zoh: bool) -> Observed:
        """The same, with actions that are held between samples or not."""
        return replace(self, grid=replace(self.grid, zoh=zoh))

    def pick(self, rows: Tensor) -> Observed:
        return Observed(self.x[rows], self.grid.pick(rows), self.raw[rows])

    @classmethod
    def of(cls, trajectories: Trajectories, whitening: Whitening) -> Observed:
        longest = int(trajectories.lengths.max())
        x = torch.zeros(len(trajectories), longest, whitening.rank, dtype=torch.float64)
        with torch.no_grad():
            for i, own in enumerate(trajectories.x):
                z = whitening(torch.as_tensor(own).to(whitening.mean)).double()
                x[i, : len(z)] = z
                x[i, len(z) :] = z[-1]
        series = [own[:n].numpy() for own, n in zip(x, trajectories.lengths.tolist(), strict=True)]
        signal = np.clip(1.0 - noise_level(series, trajectories.t) ** 2, 0.0, 1.0)
        return cls(x, sampling_grid(trajectories), x * torch.as_tensor(signal).sqrt())


def within_range(train: Observed, validation: Observed) -> Observed:
    """The validation trajectories that stay where the training ones are, at least half of them.

    Polynomial encoders do not extrapolate, so they cannot be evaluated outside.
    """
    seen, given = train.x[train.grid.mask], validation.x
    outside = torch.maximum(given - seen.amax(0), seen.amin(0) - given).clamp_min(0.0)
    excess = (outside * validation.grid.mask[..., None]).amax((1, 2))
    limit = max(OUTSIDE, float(excess.quantile(0.5)))
    kept = validation.pick(torch.nonzero(excess <= limit)[:, 0])
    if validation.noise is not None:
        kept = replace(kept, noise=validation.noise[excess <= limit])
    return kept


def sampling_grid(trajectories: Trajectories) -> Grid:
    """Times, quadrature weights and mask of trajectories, padded to the longest."""
    longest = int(trajectories.lengths.max())
    times = np.zeros((len(trajectories), longest))
    weights = np.zeros((len(trajectories), longest - 1, STENCIL))
    for i, t in enumerate(trajectories.t):
        n = len(t)
        times[i, :n] = t - t[0]
        # Padding continues in steps of 1: never used, but slopes over it stay finite.
        times[i, n:] = times[i, n - 1] + np.arange(1, longest - n + 1)
        weights[i, : n - 1] = interval_weights(t)
    mask = np.arange(longest) < trajectories.lengths[:, None]
    if longest >= STENCIL and not mask.all():
        weights = _aligned(weights, trajectories.lengths, longest)
    u = _actions(trajectories)
    return Grid(torch.tensor(times), torch.tensor(weights), torch.tensor(mask), u)


def _actions(trajectories: Trajectories) -> Tensor | None:
    """Actions (N, T, m); the last of a short trajectory is repeated."""
    if trajectories.u is None:
        return None
    longest = int(trajectories.lengths.max())
    rows = [np.pad(u, ((0, longest - len(u)), (0, 0)), mode="edge") for u in trajectories.u]
    return torch.tensor(np.stack(rows), dtype=torch.float64)


def _aligned(weights: np.ndarray, lengths: np.ndarray, longest: int) -> np.ndarray:
    """Move the weights of a short trajectory's last interval to the centered stencil.

    Its own stencil ends at its last sample; the rectangular rule reads one further, which is a
    repetition of that sample.
    """
    for i, n in enumerate(lengths):
        if STENCIL <= n < longest:
            last = weights[i, n - 2].copy()
            weights[i, n - 2] = [last[1], last[2], last[3], 0.0]
            weights[i, n - 2, 0] += last[0]
    return weights


def pieces(trajectories: Trajectories, longest: int, every: int = 1) -> Trajectories:
    """Every k-th sample, cut in time into pieces of at most `longest` samples.

    A remainder too short to be of use is dropped, unless it is all there is.
    """
    x, t, u = [], [], []
    for i, (xi, ti) in enumerate(zip(trajectories.x, trajectories.t, strict=True)):
        xi, ti = xi[::every], ti[::every]
        for start in range(0, max(1, len(xi) - 1), longest):
            part = slice(start, start + longest)
            if len(ti[part]) >= max(STENCIL, longest // 2) or (start == 0 and len(ti) >= 2):
                x.append(xi[part])
                t.append(ti[part])
                if trajectories.u is not None:
                    u.append(trajectories.u[i][::every][part])
    return Trajectories(x, t, u or None, gaps="keep")
