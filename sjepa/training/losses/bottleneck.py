"""Terms that limit or measure how much information z carries."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from sjepa.errors import ConfigError, DataError
from sjepa.training.losses.admissibility import covariance_matrix, off_diagonal, rows


def barlow_twins(
    view_a: Tensor, view_b: Tensor, redundancy: float = 5e-3, floor: float = 1e-6
) -> Tensor:
    """Cross-correlation of two views, pulled to the identity; divided by d.

    Asks each coordinate to agree with itself and with no other. Correlations ignore scale, so
    it does not stop z from shrinking; exact collapse costs 1.
    """
    a, b = _standardized(rows(view_a), floor), _standardized(rows(view_b), floor)
    correlation = a.T @ b / len(a)
    agreement = (1.0 - correlation.diagonal()).square().sum()
    return (agreement + redundancy * off_diagonal(correlation).square().sum()) / len(correlation)


def variational(posterior_mean: Tensor, posterior_log_var: Tensor) -> Tensor:
    """E KL(q(z|x) || N(0, I)), summed over coordinates: the rate of a stochastic encoder.

    Zero when z ignores x altogether, so it needs a predictive loss that pays for information.
    """
    excess = posterior_mean.square() + posterior_log_var.exp() - 1.0 - posterior_log_var
    return 0.5 * excess.sum(-1).mean()


def predictive_information(
    predicted: Tensor, target: Tensor, temperature: float = 0.1, at_most: int = 1024
) -> Tensor:
    """InfoNCE: does each target recognize its own prediction among those of the batch?

    log n minus this term is a lower bound on I(Z_C; Z_T), up to log n for n rows. Collapse
    costs the full log n. It does not ask for all of the state: what tells the rows of a batch
    apart (an energy, a nuisance) is enough. ``temperature`` is the variance of the prediction
    error of one coordinate, times d; with the true one the bound is tight for Gaussian errors.
    Quadratic in n, hence thinned to ``at_most`` rows.
    """
    p, z = rows(predicted, at_most), rows(target, at_most)
    if p.shape != z.shape:
        raise DataError(f"Predictions {tuple(p.shape)} and targets {tuple(z.shape)} must pair up.")
    # -|z - p|² / 2 without |z|², which is the same for all predictions that a target compares.
    # Expanded by hand: the gradient of cdist is not defined where two points coincide.
    logits = (z @ p.T - 0.5 * p.square().sum(-1)) / (temperature * p.shape[-1])
    return functional.cross_entropy(logits, torch.arange(len(p), device=p.device))


def rank(z: Tensor, floor: float = 1e-8) -> Tensor:
    """Participation ratio (tr C)² / tr C² of the covariance: directions in use, from 0 to d.

    A soft dimensional bottleneck: it empties superfluous directions. It also rewards collapse,
    so it only makes sense beside a term that forbids it, and too large a weight removes
    coordinates that prediction needs.
    """
    c = covariance_matrix(rows(z))
    return c.diagonal().sum().square() / (c.square().sum() + floor)


class LatentNoise(nn.Module):
    """z + η with η ~ N(0, std²) while training, z unchanged in evaluation.

    Makes encodings that rely on tiny differences expensive, because the noise drowns them. Its
    strength is relative to the scale of z, so it needs a term that fixes that scale; otherwise
    z grows until the noise no longer matters.
    """

    def __init__(self, std: float) -> None:
        super().__init__()
        if std < 0:
            raise ConfigError(f"std must not be negative, got {std}.")
        self.std = std

    def forward(self, z: Tensor, generator: torch.Generator | None = None) -> Tensor:
        if not self.training or self.std == 0:
            return z
        noise = torch.randn(z.shape, generator=generator, dtype=z.dtype, device=z.device)
        return z + self.std * noise


def _standardized(z: Tensor, floor: float) -> Tensor:
    centered = z - z.mean(0)
    return centered / (centered.square().mean(0) + floor).sqrt()
