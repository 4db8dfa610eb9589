"""Neural vector fields with bounded output: the baseline f_ψ and the correction c_φ."""

from collections.abc import Callable

from torch import Tensor, nn

from sjepa.errors import ConfigError
from sjepa.models.layers import perceptron, zero_


class BoundedField(nn.Module):
    """bound · tanh(MLP(inputs)): inputs (..., d + s), state and exogenous inputs, to (..., d).

    ``output_dim`` replaces the d of the output: half of it for a second-order transition.
    The bound keeps early rollouts finite; a field that must exceed it is misfitted, silently,
    so choose it well above the speeds in the data.
    """

    def __init__(
        self,
        latent_dim: int,
        action_dim: int,
        width: int,
        bound: float,
        activation: Callable[[], nn.Module],
        zero_init: bool,
        output_dim: int | None,
    ) -> None:
        super().__init__()
        if bound <= 0:
            raise ConfigError(f"bound must be positive, got {bound}.")
        self.bound = bound
        sizes = [latent_dim + action_dim, width, width, output_dim or latent_dim]
        self.net = perceptron(sizes, activation)
        if zero_init:
            zero_(self.net[-1])

    def forward(self, inputs: Tensor) -> Tensor:
        return self.bound * self.net(inputs).tanh()


class NeuralField(BoundedField):
    """f_ψ, the unrestricted predictor of Neural JEPA: 3 tanh(MLP), two hidden layers of 96 SiLU."""

    def __init__(
        self,
        latent_dim: int,
        action_dim: int = 0,
        width: int = 96,
        bound: float = 3.0,
        zero_init: bool = False,
        output_dim: int | None = None,
    ) -> None:
        super().__init__(latent_dim, action_dim, width, bound, nn.SiLU, zero_init, output_dim)


class Correction(BoundedField):
    """c_φ, what the symbolic law leaves over: tanh(MLP), two hidden layers of 48 tanh units.

    With ``zero_init`` a hybrid starts out as its symbolic part.
    """

    def __init__(
        self,
        latent_dim: int,
        action_dim: int = 0,
        width: int = 48,
        bound: float = 1.0,
        zero_init: bool = False,
        output_dim: int | None = None,
    ) -> None:
        super().__init__(latent_dim, action_dim, width, bound, nn.Tanh, zero_init, output_dim)
