"""Trajectories as tensors: whole-trajectory mini-batches, and windows over what was encoded.

Each observation is encoded once per batch; rollouts then start from every (or every k-th) time
of the encoded trajectories in parallel, on views that copy nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError


@dataclass(frozen=True)
class TrajectoryBatch:
    """B whole trajectories, padded to the longest.

    Parameters
    ----------
    x : Tensor (B, T, ...)
    dt : Tensor (B, T - 1)
        Time from each observation to the next.
    u : Tensor (B, T, m) or None
    mask : bool Tensor (B, T)
        True where there is data. Padding repeats the last value, so it is always finite.
    """

    x: Tensor
    dt: Tensor
    u: Tensor | None
    mask: Tensor

    @classmethod
    def make(
        cls,
        trajectories: Trajectories,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> TrajectoryBatch:
        """Put all trajectories on a device, once, before training."""
        arrays = trajectories.padded()

        def tensor(name: str) -> Any:
            array = arrays[name]
            return None if array is None else torch.as_tensor(array, device=device, dtype=dtype)

        mask = torch.as_tensor(arrays["mask"], device=device)
        return cls(tensor("x"), tensor("dt"), tensor("u"), mask)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: slice | Tensor) -> TrajectoryBatch:
        """The trajectories of a slice or of an index tensor."""
        u = None if self.u is None else self.u[rows]
        return TrajectoryBatch(self.x[rows], self.dt[rows], u, self.mask[rows])


class Windows(NamedTuple):
    """Overlapping segments of H transitions, starting every `stride` points: S per trajectory.

    ``z`` (B, S, H + 1, ...), ``dt`` (B, S, H), ``u`` (B, S, H + 1, m) or None, and ``valid``
    (B, S), which is False for windows that reach into the padding.
    """

    z: Tensor
    dt: Tensor
    u: Tensor | None
    valid: Tensor


def windows(
    z: Tensor,
    dt: Tensor,
    horizon: int,
    stride: int = 1,
    *,
    mask: Tensor | None = None,
    u: Tensor | None = None,
) -> Windows:
    """Every window of `horizon` transitions of encoded trajectories, as views.

    Windows live inside one trajectory: the first axis is never crossed.

    Parameters
    ----------
    z : Tensor (B, T, ...)
        Encoded observations; gradients flow back through the views.
    dt : Tensor (B, T - 1)
    horizon : int
        Number of transitions in a window, at least 1 and less than T.
    stride : int, default=1
        Distance between the starts of neighboring windows.
    mask : bool Tensor (B, T), optional
        True where there is data, as in :class:`TrajectoryBatch`.
    u : Tensor (B, T, m), optional
    """
    b, points = z.shape[:2]
    if not 1 <= horizon < points:
        raise DataError(
            f"a horizon of {horizon} does not fit into {points} points; use 1 to {points - 1}."
        )
    if stride < 1:
        raise DataError(f"the stride must be at least 1, got {stride}.")
    if dt.shape != (b, points - 1):
        raise DataError(f"dt must have shape {(b, points - 1)}, got {tuple(dt.shape)}.")

    def view(a: Tensor, size: int) -> Tensor:
        return a.unfold(1, size, stride).movedim(-1, 2)

    if mask is None:
        valid = torch.ones_like(z[:, horizon::stride].flatten(2)[..., 0], dtype=torch.bool)
    else:
        valid = mask[:, horizon::stride]  # data come first, so the last point decides
    return Windows(
        view(z, horizon + 1),
        view(dt, horizon),
        None if u is None else view(u, horizon + 1),
        valid,
    )
