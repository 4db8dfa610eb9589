"""Networks in the units of the data: standardised inputs, outputs in typical sizes."""

from __future__ import annotations

from torch import Tensor, nn


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
