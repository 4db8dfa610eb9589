"""Principal components of observations that are signal, each value in units of its noise."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sjepa.data import Trajectories, noise_level
from sjepa.errors import DataError
from sjepa.inference.segments import FLOOR
from sjepa.models import Whitening


# Components whose variance is noise to a larger share than this are left out of the search.
NOISE_SHARE = 0.02
MAX_RANK = 40
# Principal components settle long before this many rows.
MAX_ROWS = 20_000


def fit_whitening(
    trajectories: Trajectories, rank: int | None = None, noisier_copy: Trajectories | None = None
) -> Whitening:
    """Whitening that keeps the components which are signal rather than noise.

    Observed values count in units of their noise, so that neither units nor a sensor that only
    rattles decides what the leading components are. Without a `rank`, the components up to the
    first whose white noise, judged from its own roughness in time or from a noisier
    `noisier_copy`, is more than a small share of its variance.
    """
    size = int(np.prod(trajectories.obs_shape, dtype=int))
    every = max(1, int(trajectories.lengths.sum()) // MAX_ROWS)
    rows = torch.as_tensor(np.concatenate([a[::every] for a in trajectories.x])).double()
    most = min(MAX_RANK if rank is None else rank, size)
    unit = noise_units(trajectories, noisier_copy)
    whitening = Whitening.fit(rows, trajectories.obs_shape, rank=most, max_rank=most, unit=unit)
    if rank is not None:
        return whitening
    some = _some(trajectories)
    with torch.no_grad():
        series = [whitening(torch.as_tensor(a).double()).numpy() for a in some.x]
    share = noise_level(series, some.t) ** 2
    if noisier_copy is not None:
        with torch.no_grad():
            added = [
                whitening(torch.as_tensor(a - b).double() + whitening.mean.reshape(a.shape[1:]))
                for a, b in zip(noisier_copy.x, trajectories.x, strict=True)
            ]
        share = torch.cat(added).square().mean(0).numpy()
    quiet = np.flatnonzero(share <= NOISE_SHARE)
    if noisier_copy is None:  # in order of what they are beside noise, noise comes last
        noisy = np.flatnonzero(share > NOISE_SHARE)
        quiet = np.arange(noisy[0] if len(noisy) else whitening.rank)
    if not len(quiet):
        raise DataError(
            "Every principal component looks like noise: the observations do not move smoothly "
            "from one sample to the next. Sample faster, or set the rank."
        )
    return whitening.restricted(quiet.tolist())


def noise_units(trajectories: Trajectories, noisier_copy: Trajectories | None = None) -> Tensor:
    """The noise (size,) of each observed value, and what no computation resolves of its spread.

    The values of a frame share a unit and a sensor: they count as they are.
    """
    if noisier_copy is not None:
        pairs = zip(noisier_copy.x, trajectories.x, strict=True)
        added = np.concatenate([(a - b).reshape(len(a), -1) for a, b in pairs])
        noise = np.sqrt(np.square(added).mean(axis=0))
    elif len(trajectories.obs_shape) == 1:
        some = _some(trajectories)
        noise = noise_level(some.x, some.t)
    else:
        return torch.ones(int(np.prod(trajectories.obs_shape, dtype=int)), dtype=torch.float64)
    spread = np.concatenate([a.reshape(len(a), -1) for a in trajectories.x]).std(axis=0)
    unit = np.hypot(noise, FLOOR * spread)
    return torch.as_tensor(np.where(unit > 0, unit, 1.0))  # a constant tells nothing


def _some(trajectories: Trajectories) -> Trajectories:
    return trajectories[:: max(1, len(trajectories) // 50)]
