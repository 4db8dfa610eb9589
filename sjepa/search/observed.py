"""Trajectories as the search sees them: whitened, rectangular, with their quadrature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sjepa.data import Trajectories, noise_level
from sjepa.errors import DataError
from sjepa.models import Whitening
from sjepa.search.objective import Grid
from sjepa.search.quadrature import STENCIL, interval_weights


# Components whose variance is noise to a larger share than this are left out of the search.
NOISE_SHARE = 0.02
MAX_RANK = 40


@dataclass(frozen=True, eq=False)
class Observed:
    """Whitened observations (N, T, rank) in double precision, and where they were taken.

    `raw` are the observations themselves, for the neighbour test.
    """

    x: Tensor
    grid: Grid
    raw: Tensor

    def __len__(self) -> int:
        return len(self.x)

    @property
    def length(self) -> int:
        return self.x.shape[1]

    @classmethod
    def of(cls, trajectories: Trajectories, whitening: Whitening) -> Observed:
        arrays = trajectories.padded()
        raw = torch.as_tensor(arrays["x"])
        with torch.no_grad():
            x = torch.stack([whitening(row.to(whitening.mean)) for row in raw]).double()
        return cls(x, sampling_grid(trajectories), raw)


def sampling_grid(trajectories: Trajectories) -> Grid:
    """Times, quadrature weights and mask of trajectories, padded to the longest."""
    longest = int(trajectories.lengths.max())
    times = np.zeros((len(trajectories), longest))
    weights = np.zeros((len(trajectories), longest - 1, STENCIL))
    for i, t in enumerate(trajectories.t):
        n = len(t)
        times[i, :n] = t - t[0]
        # Padding goes on in steps of 1: never used, but slopes over it stay finite.
        times[i, n:] = times[i, n - 1] + np.arange(1, longest - n + 1)
        weights[i, : n - 1] = interval_weights(t)
    mask = np.arange(longest) < trajectories.lengths[:, None]
    if longest >= STENCIL and not mask.all():
        weights = _aligned(weights, trajectories.lengths, longest)
    return Grid(torch.tensor(times), torch.tensor(weights), torch.tensor(mask))


def _aligned(weights: np.ndarray, lengths: np.ndarray, longest: int) -> np.ndarray:
    """Move the weights of a short trajectory's last interval to the centred stencil.

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
    """Every so-many-th sample, cut in time into pieces of at most `longest` samples.

    A remainder too short to be of use is dropped, unless it is all there is.
    """
    x, t = [], []
    for xi, ti in zip(trajectories.x, trajectories.t, strict=True):
        xi, ti = xi[::every], ti[::every]
        for start in range(0, max(1, len(xi) - 1), longest):
            part = slice(start, start + longest)
            if len(ti[part]) >= max(STENCIL, longest // 2) or (start == 0 and len(ti) >= 2):
                x.append(xi[part])
                t.append(ti[part])
    return Trajectories(x, t)


def fit_whitening(trajectories: Trajectories, rank: int | None = None) -> Whitening:
    """Whitening that keeps the components which are signal rather than noise.

    Without a `rank`, the components up to the first whose white noise, judged from its own
    roughness in time, is more than a small share of its variance.
    """
    x = torch.as_tensor(np.concatenate([a.reshape(len(a), -1) for a in trajectories.x])).double()
    size = int(np.prod(trajectories.obs_shape, dtype=int))
    flat = x.reshape(len(x), size)
    most = min(MAX_RANK if rank is None else rank, size)
    # No component may be dropped for being small: that is decided by its noise.
    whitening = Whitening.fit(flat, size, rank=most, max_rank=most)
    if rank is not None:
        return whitening
    with torch.no_grad():
        series = [
            whitening(torch.as_tensor(a.reshape(len(a), size)).double()).numpy()
            for a in trajectories.x
        ]
    share = noise_level(series, trajectories.t) ** 2
    noisy = np.flatnonzero(share > NOISE_SHARE)
    keep = int(noisy[0]) if len(noisy) else whitening.rank
    if keep < 1:
        raise DataError(
            "Every principal component looks like noise: the observations do not move smoothly "
            "from one sample to the next. Sample faster, or set the rank."
        )
    return Whitening.fit(flat, size, rank=keep, max_rank=keep)
