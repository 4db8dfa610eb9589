"""What keeps the transition simple: the correction's energy and the law's smooth complexity."""

from collections.abc import Iterable

import torch
from torch import Tensor

from sjepa.training.losses.statistics import masked_mean


def correction_penalty(
    correction: Tensor,
    parameters: Iterable[Tensor] = (),
    tau: float = 1e-6,
    mask: Tensor | None = None,
) -> Tensor:
    """R_corr = E|c|² / d + τ |φ|², for raw corrections c (..., d) before the factor Δt.

    The energy is divided by d, as the squared discrepancy of the prediction terms is; only with
    equal units does a weight λ shrink the correction by 1 / (1 + λ). It limits what the
    correction takes over, but does not make the split between law and correction unique.
    """
    energy = masked_mean(correction.square().mean(-1), mask)
    return energy + tau * sum((p.square().sum() for p in parameters), correction.new_zeros(()))


def smooth_complexity(alpha: Tensor, weights: Tensor, xi: float = 1e-8) -> Tensor:
    """Ω_train = Σ_kj w_k √(α_kj² + ξ), for coefficients (..., terms, outputs): (...).

    A smooth stand-in for the number of active terms, weighted by their complexity. It shrinks
    large coefficients as much as small ones, so the selected law must be refitted without it;
    and it depends on the scale of z, which the representation terms must fix.
    """
    return (weights.unsqueeze(-1) * torch.sqrt(alpha.square() + xi)).sum((-2, -1))
