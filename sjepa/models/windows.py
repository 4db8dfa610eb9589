"""Sliding windows over time."""

import torch
from torch import Tensor, nn

from sjepa.errors import ConfigError, DataError
from sjepa.models.layers import ObsShape, as_shape, check_observations


def sliding_windows(x: Tensor, length: int, axis: int = 1, every: int = 1) -> Tensor:
    """Windows of ``length`` successive entries along ``axis``, starting at every k-th entry.

    (B, T, *rest) with ``axis=1`` becomes (B, S, length, *rest), S = (T - length) // every + 1.
    The result is a view: many rollouts share one encoded batch without copying it.
    """
    axis = axis % x.ndim
    if not 1 <= length <= x.shape[axis]:
        raise DataError(
            f"Windows of {length} entries do not fit in {x.shape[axis]}; "
            "shorten the horizon or use longer trajectories."
        )
    return x.unfold(axis, length, every).movedim(-1, axis + 1)


def pad_past(x: Tensor, k: int, axis: int) -> Tensor:
    """Prepend k - 1 copies of the first entry, so that every entry has k - 1 before it."""
    first = x.narrow(axis, 0, 1)
    return torch.cat([*[first] * (k - 1), x], dim=axis)


class HistoryWindow(nn.Module):
    """Give each observation its own past: (..., T, *obs) -> (..., T, k, *obs).

    Entry t holds X_{t-k+1}, ..., X_t, oldest first. Before the start of a trajectory the first
    observation is repeated, so nothing is ever read from the future or from a neighbor.
    """

    def __init__(self, k: int, obs_shape: ObsShape) -> None:
        super().__init__()
        if k < 1:
            raise ConfigError(f"A history needs at least 1 observation, got {k}.")
        self.k = k
        self.obs_shape = as_shape(obs_shape)

    def forward(self, x: Tensor) -> Tensor:
        time = time_axis(x, self.obs_shape)
        return sliding_windows(pad_past(x, self.k, time), self.k, axis=time)


def time_axis(x: Tensor, obs_shape: tuple[int, ...]) -> int:
    """Where time is in (..., T, *obs)."""
    lead = check_observations(x, obs_shape)
    if not lead:
        raise DataError(
            f"A history needs a time axis before the observation {obs_shape}, got {tuple(x.shape)};"
            " pass whole trajectories (..., T, *obs)."
        )
    return len(lead) - 1
