"""Many linear encoders trained at once, each for a structure of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sjepa.symbolic import Library
from sjepa.training.joint.objective import ActiveFeatures, IntegralFit, integral_fit
from sjepa.training.joint.structures import Structure
from sjepa.training.joint.whitened_trajectories import Observed


class Restarts:
    """R read-outs z = x W of whitened observations in one tensor (R, rank, d).

    Whitened observations have zero mean, so coordinates are centered: where a law could be
    shifted (sin into cos), this picks one version of it.
    """

    def __init__(
        self,
        library: Library,
        structures: Sequence[Structure],
        readouts: Tensor,
        order: int = 1,
    ) -> None:
        self.library, self.structures, self.order = library, list(structures), order
        self.readouts = readouts.detach().clone().requires_grad_()
        self.parameters = [self.readouts]
        self.features = ActiveFeatures(library, [s.support for s in self.structures])

    def __len__(self) -> int:
        return len(self.structures)

    def encode(self, x: Tensor) -> Tensor:
        """(B, T, rank) -> (R, B, T, d)."""
        flat = x.flatten(0, -2) @ self.readouts.movedim(0, 1).flatten(1)  # (n, R d)
        z = flat.reshape(*x.shape[:-1], len(self), -1)
        return z.movedim(-2, 0)

    def penalty(self, z: Tensor, observed: Observed, rows: Tensor, within: float) -> Tensor:
        """(R,) what coordinates pay that stand still within a trajectory or repeat each other."""
        return degeneracy(z, within)

    def fit(
        self,
        observed: Observed,
        rows: Tensor,
        horizons: Sequence[int],
        stride: int = 1,
        coefficients: Tensor | None = None,
    ) -> tuple[IntegralFit, Tensor]:
        """The integral form on some trajectories, and their latents."""
        dtype = self.readouts.dtype
        grid = observed.grid.pick(rows).to(dtype)
        z = self.encode(observed.x[rows].to(dtype))
        wide = len(self.library.inputs) - grid.actions > z.shape[-1]
        inputs = join_velocities(z, grid.times) if wide else None
        fit = integral_fit(
            self.features, z, grid, horizons, order=self.order, inputs=inputs, stride=stride,
            coefficients=coefficients,
        )  # fmt: skip
        return fit, z

    def __reduce__(self) -> Any:
        """Structures and numbers travel; the rest is made of them."""
        return type(self), (self.library, self.structures, self._numbers(), self.order)

    def _numbers(self) -> Any:
        return self.readouts.detach()

    def keep(self, chosen: Sequence[int]) -> Restarts:
        """The chosen restarts alone: everything after is faster by that share."""
        index = torch.as_tensor(chosen)
        picked = [self.structures[i] for i in index.tolist()]
        return Restarts(self.library, picked, self.readouts.detach()[index], self.order)


def join_velocities(z: Tensor, times: Tensor) -> Tensor:
    """z and its central differences side by side: (..., B, T, d) -> (..., B, T, 2 d)."""
    span = (times[..., 2:] - times[..., :-2]).unsqueeze(-1)
    inner = (z[..., 2:, :] - z[..., :-2, :]) / span
    first, last = inner[..., :1, :], inner[..., -1:, :]
    return torch.cat([z, torch.cat([first, inner, last], dim=-2)], dim=-1)


def degeneracy(z: Tensor, within_floor: float, most_correlated: float = 0.9) -> Tensor:
    """Penalty (R,) on coordinates that hardly move along trajectories or repeat each other."""
    total = z - z.mean((1, 2), keepdim=True)
    variance = total.square().mean((1, 2)).clamp_min(1e-12)  # (R, d)
    own = (z - z.mean(2, keepdim=True)).square().mean((1, 2)) / variance
    scaled = total / variance.sqrt()[:, None, None]
    correlation = torch.einsum("rbti,rbtj->rij", scaled, scaled) / (z.shape[1] * z.shape[2])
    excess = torch.relu(correlation.abs() - most_correlated).sum((1, 2)) - z.shape[-1] * (
        1 - most_correlated
    )
    return torch.relu(within_floor - own).sum(1) + 5.0 * torch.relu(excess)
