"""What networks here are made of: stacks of layers, flat observations, scales and read-outs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn

from sjepa.errors import ConfigError, DataError


ObsShape = int | Sequence[int]


def perceptron(sizes: Sequence[int], activation: Callable[[], nn.Module]) -> nn.Sequential:
    """Linear layers ``sizes[0] -> ... -> sizes[-1]`` with an activation between them."""
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), activation()]
    return nn.Sequential(*layers[:-1])


def zero_(layer: nn.Module) -> None:
    """Set a layer to the zero map, so that what it is added to starts out unchanged."""
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)


def as_shape(obs_shape: ObsShape) -> tuple[int, ...]:
    """One observation's shape as a tuple; an integer n means a vector of n numbers."""
    shape = (obs_shape,) if isinstance(obs_shape, int) else tuple(int(n) for n in obs_shape)
    if any(n < 1 for n in shape):
        raise ConfigError(f"obs_shape must hold positive sizes, got {shape}.")
    return shape


def check_observations(x: Tensor, obs_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The leading (batch) shape of x, after making sure that it ends in ``obs_shape``."""
    split = x.ndim - len(obs_shape)
    if split < 0 or tuple(x.shape[split:]) != obs_shape:
        wanted = ", ".join(["...", *map(str, obs_shape)])
        raise DataError(
            f"The encoder was built for observations ({wanted}), got {tuple(x.shape)}; "
            "reshape them or build the encoder with their shape."
        )
    return tuple(x.shape[:split])


def flatten_observations(x: Tensor, obs_shape: tuple[int, ...]) -> Tensor:
    """(..., *obs) -> (..., n): each observation as one vector."""
    return x.reshape(*check_observations(x, obs_shape), prod(obs_shape))


class AffineHead(nn.Module):
    """An affine map (..., D) -> (..., d) that was measured, not trained, and what it keeps."""

    mean: Tensor
    matrix: Tensor

    def __init__(self, size: int, dim: int, note: str = "") -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("matrix", torch.zeros(size, dim, dtype=torch.float64))
        self.note = note

    def forward(self, x: Tensor) -> Tensor:
        return (x.to(self.mean) - self.mean) @ self.matrix


class Scaled(nn.Module):
    """size · net((inputs - mean) / spread): inputs (..., d + s) to (..., d).

    A network with a bounded output is thereby bounded in units of `size`, whatever the units of
    the coordinates.
    """

    def __init__(self, net: nn.Module, mean: Tensor, spread: Tensor, size: Tensor) -> None:
        super().__init__()
        self.net = net
        self.mean: Tensor
        self.spread: Tensor
        self.size: Tensor
        self.register_buffer("mean", mean)
        self.register_buffer("spread", spread)
        self.register_buffer("size", size)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.size * self.net((inputs - self.mean) / self.spread)


class Residual(nn.Module):
    """z + field(z, s): a neural map that starts from staying where one is."""

    def __init__(self, field: nn.Module, latent_dim: int) -> None:
        super().__init__()
        self.field = field
        self.latent_dim = latent_dim

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs[..., : self.latent_dim] + self.field(inputs)
