"""The angle of a circular coordinate: two linear read-outs determine it, a single one cannot."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from sjepa.models.layers import ObsShape, as_shape, flatten_observations


class Angle(nn.Module):
    """The direction of two linear read-outs: (..., *obs) to (..., 1), between -π and π.

    A full circle has no single coordinate. Where trajectories are encoded, the angle is unwrapped
    (:func:`sjepa.models.pretrained.embedder.encode_all`).
    """

    weight: Tensor
    offset: Tensor

    def __init__(self, obs_shape: ObsShape) -> None:
        super().__init__()
        self.obs_shape = as_shape(obs_shape)
        size = torch.Size(self.obs_shape).numel()
        self.register_buffer("weight", torch.eye(size, 2))
        self.register_buffer("offset", torch.zeros(2))

    def point(self, x: Tensor) -> Tensor:
        """The two read-outs (..., 2), on a circle of radius about 1."""
        flat = flatten_observations(x, self.obs_shape)
        return flat @ self.weight.to(x.dtype) + self.offset.to(x.dtype)

    def forward(self, x: Tensor) -> Tensor:
        return torch.atan2(*self.point(x).flip(-1).unbind(-1)).unsqueeze(-1)


def turn(encoder: object) -> float | None:
    """The period of the coordinate of an encoder; None if it is not circular."""
    parts = list(_parts(encoder)) if isinstance(encoder, nn.Module) else []
    position = next((i for i, part in enumerate(parts) if isinstance(part, Angle)), None)
    if position is None:
        return None
    angle = parts[position]
    assert isinstance(angle, Angle)
    full_turn = torch.tensor([[0.0], [2 * math.pi]]).to(angle.offset)
    with torch.no_grad():
        start, end = nn.Sequential(*parts[position + 1 :])(full_turn)
    return abs(float(end - start))


def _parts(encoder: nn.Module) -> Iterator[nn.Module]:
    if isinstance(encoder, nn.Sequential):
        for part in encoder:
            yield from _parts(part)
    else:
        yield encoder
