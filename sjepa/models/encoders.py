"""Encoders E_θ: observations (..., *obs) to latent states (..., d), for any leading shape."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from sjepa.errors import ConfigError, lookup
from sjepa.models.layers import (
    ObsShape,
    as_shape,
    check_observations,
    flatten_observations,
    perceptron,
    zero_,
)


# Variances from e^-16 to e^4: wide enough to be no constraint, narrow enough for float32.
LOWEST, HIGHEST = -16.0, 4.0


class GaussianEncoder(nn.Module):
    """q(z|x) = N(mean, diag(exp(log_var))), for the variational bottleneck.

    Called like any encoder it gives the mean, so whatever is not training (targets, validation,
    evaluation) sees one definite state. The objective draws from :meth:`posterior` instead.

    Parameters
    ----------
    encoder : nn.Module
        Observations to 2d values: d means, then d log-variances.
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance, each (..., d)."""
        mean, log_var = self.encoder(x).chunk(2, dim=-1)
        return mean, log_var.clamp(LOWEST, HIGHEST)

    def forward(self, x: Tensor) -> Tensor:
        return self.posterior(x)[0]


def draw(mean: Tensor, log_var: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """A sample that passes gradients on to both."""
    noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
    return mean + (0.5 * log_var).exp() * noise


class IdentityEncoder(nn.Module):
    """The observations are the state: z = x, flattened."""

    def __init__(self, obs_shape: ObsShape, latent_dim: int) -> None:
        super().__init__()
        self.obs_shape = as_shape(obs_shape)
        if prod(self.obs_shape) != latent_dim:
            raise ConfigError(
                f"The identity encoder keeps all {prod(self.obs_shape)} observed values; "
                f"set latent_dim={prod(self.obs_shape)} instead of {latent_dim}."
            )

    def forward(self, x: Tensor) -> Tensor:
        return flatten_observations(x, self.obs_shape)


class LinearEncoder(nn.Module):
    """An affine read-out, z = A x + b. The encoder to start a search with."""

    def __init__(self, obs_shape: ObsShape, latent_dim: int) -> None:
        super().__init__()
        self.obs_shape = as_shape(obs_shape)
        self.linear = nn.Linear(prod(self.obs_shape), latent_dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(flatten_observations(x, self.obs_shape))


class MLPEncoder(nn.Module):
    """Hidden layers of SiLU units; the defaults are the paper's 32-96-96-2."""

    def __init__(
        self, obs_shape: ObsShape, latent_dim: int, width: int = 96, depth: int = 2
    ) -> None:
        super().__init__()
        self.obs_shape = as_shape(obs_shape)
        self.net = perceptron([prod(self.obs_shape), *[width] * depth, latent_dim], nn.SiLU)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(flatten_observations(x, self.obs_shape))


class ResidualEncoder(nn.Module):
    """A linear read-out plus an MLP that starts at zero: z = A x + b + g(x), g = 0 at first.

    Growing a trained linear encoder into this one therefore changes nothing until it is
    trained further; pass it as ``linear``.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        latent_dim: int,
        width: int = 96,
        depth: int = 2,
        linear: LinearEncoder | None = None,
    ) -> None:
        super().__init__()
        self.linear = linear or LinearEncoder(obs_shape, latent_dim)
        self.residual = MLPEncoder(obs_shape, latent_dim, width, depth)
        zero_(self.residual.net[-1])

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + self.residual(x)


class FrameEncoder(nn.Module):
    """A small convolutional network for frames (H, W) or (C, H, W).

    Three strided convolutions, then a dense layer over all positions: there is no pooling,
    because where something is in the frame is usually the state.
    """

    def __init__(
        self, obs_shape: ObsShape, latent_dim: int, channels: int = 16, width: int = 64
    ) -> None:
        super().__init__()
        self.obs_shape = as_shape(obs_shape)
        if len(self.obs_shape) < 2:
            raise ConfigError(
                f"cnn needs frames (H, W) or (C, H, W), got {self.obs_shape}; use 'mlp'."
            )
        # Everything before (H, W) is a channel, as colors are.
        self.frame = (prod(self.obs_shape[:-2]), *self.obs_shape[-2:])
        sizes = [self.frame[0], channels, 2 * channels, 2 * channels]
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise(sizes):
            layers += [nn.Conv2d(n_in, n_out, 3, stride=2, padding=1), nn.SiLU()]
        self.features = nn.Sequential(*layers, nn.Flatten())
        with torch.no_grad():
            n_features = self.features(torch.zeros(1, *self.frame)).shape[1]
        self.head = perceptron([n_features, width, latent_dim], nn.SiLU)

    def forward(self, x: Tensor) -> Tensor:
        lead = check_observations(x, self.obs_shape)
        z = self.head(self.features(x.reshape(-1, *self.frame)))
        return z.reshape(*lead, z.shape[-1])


ENCODERS: Mapping[str, Callable[..., nn.Module]] = {
    "cnn": FrameEncoder,
    "identity": IdentityEncoder,
    "linear": LinearEncoder,
    "mlp": MLPEncoder,
    "residual": ResidualEncoder,
}


def make_encoder(
    encoder: str | nn.Module,
    obs_shape: ObsShape,
    latent_dim: int,
    stochastic: bool = False,
    **options: Any,
) -> nn.Module:
    """Build an encoder of observations (..., *obs) by name, or take a module as it is.

    With ``stochastic`` it learns a variance beside every coordinate (:class:`GaussianEncoder`).
    A module is responsible for its own shapes and takes no options.
    """
    if stochastic:
        if isinstance(encoder, nn.Module):
            raise ConfigError("stochastic applies to named encoders; wrap it in GaussianEncoder.")
        return GaussianEncoder(make_encoder(encoder, obs_shape, 2 * latent_dim, **options))
    if isinstance(encoder, nn.Module):
        if options:
            raise ConfigError(
                f"Options {sorted(options)} apply to named encoders; configure the module instead."
            )
        return encoder
    try:
        return lookup(ENCODERS, encoder, "encoder")(as_shape(obs_shape), latent_dim, **options)
    except TypeError as error:
        raise ConfigError(f"Encoder {encoder!r} refused its options: {error}.") from error
