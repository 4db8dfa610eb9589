"""Neural vector fields with bounded output: the baseline f_ψ and the correction c_φ."""

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor, nn

from sjepa.errors import ConfigError
from sjepa.models.layers import perceptron, zero_


class BoundedField(nn.Module):
    """bound · tanh(MLP(inputs)): inputs (..., d + s), state and exogenous inputs, to (..., d).

    ``output_dim`` replaces the d of the output: half of it for a second-order transition. With
    ``zero_init`` the output is zero at first. The bound keeps early rollouts finite; a field that
    must exceed it is misfitted, silently, so choose it well above the speeds in the data.
    """

    activation: ClassVar[Callable[[], nn.Module]]
    defaults: ClassVar[tuple[int, float]]  # width and bound

    def __init__(
        self,
        latent_dim: int,
        action_dim: int = 0,
        width: int | None = None,
        bound: float | None = None,
        zero_init: bool = False,
        output_dim: int | None = None,
    ) -> None:
        super().__init__()
        width = self.defaults[0] if width is None else width
        self.bound = self.defaults[1] if bound is None else bound
        if self.bound <= 0:
            raise ConfigError(f"bound must be positive, got {bound}.")
        sizes = [latent_dim + action_dim, width, width, output_dim or latent_dim]
        self.net = perceptron(sizes, type(self).activation)
        if zero_init:
            zero_(self.net[-1])

    def forward(self, inputs: Tensor) -> Tensor:
        return self.bound * self.net(inputs).tanh()


class NeuralField(BoundedField):
    """f_ψ, the unrestricted predictor of Neural JEPA: 3 tanh(MLP), two hidden layers of 96 SiLU."""

    activation = nn.SiLU
    defaults = (96, 3.0)


class Correction(BoundedField):
    """c_φ, what the symbolic law leaves over: tanh(MLP), two hidden layers of 48 tanh units."""

    activation = nn.Tanh
    defaults = (48, 1.0)
