"""Encoders that answer with a distribution."""

import torch
from torch import Tensor, nn


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
