"""Prediction terms: one step ahead, along a rollout, and the price of a correction.

Both are blind to collapse: constant embeddings are predicted perfectly. That is the job of the
representation terms.

Units: squared distances are divided by the latent dimension d and rollouts averaged over their
steps. The paper leaves both open; these are the choices under which its weights lead to the
coefficients it reports for Experiment 2.
"""

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from sjepa.errors import ConfigError, DataError, lookup
from sjepa.training.losses.admissibility import masked_mean


def squared(predicted: Tensor, target: Tensor, scale: Tensor | None = None) -> Tensor:
    """Squared distance per coordinate, |ẑ - z|² / d, for each entry: (..., d) -> (...).

    ``scale`` divides each coordinate's error, normally by the variance of z (`variance_of`).
    An absolute loss can be lowered by shrinking the latent space; the divided one cannot.
    """
    error = (predicted - target).square()
    return (error if scale is None else error / scale).mean(-1)


def cosine(predicted: Tensor, target: Tensor, scale: Tensor | None = None) -> Tensor:
    """1 - cos(ẑ, z), for each entry: (..., d) -> (...). Blind to the length of both."""
    if scale is not None:
        raise ConfigError("The cosine discrepancy has no scale; use 'squared' or leave it out.")
    return 1.0 - torch.cosine_similarity(predicted, target, dim=-1)


DISCREPANCIES: Mapping[str, Callable[[Tensor, Tensor, Tensor | None], Tensor]] = {
    "cosine": cosine,
    "squared": squared,
}


def variance_of(z: Tensor, floor: float = 1e-6) -> Tensor:
    """Variance of each coordinate over all leading axes, plus a floor: the scale of `squared`.

    Gradients pass through it, so that a loss divided by it does not change when z is rescaled.
    """
    return z.reshape(-1, z.shape[-1]).var(0, correction=0) + floor


def one_step_loss(
    predicted: Tensor,
    target: Tensor,
    *,
    discrepancy: str = "squared",
    scale: Tensor | None = None,
    mask: Tensor | None = None,
    stop_gradient: bool = True,
) -> Tensor:
    """L_pred: mean discrepancy between predicted and encoded next states, both (..., d).

    No gradient reaches the target, unless asked for. ``mask`` (...) is false at padding.
    """
    target = target.detach() if stop_gradient else target
    distance = lookup(DISCREPANCIES, discrepancy, "discrepancy")
    return masked_mean(distance(predicted, target, scale), mask)


def rollout_loss(
    predicted: Tensor,
    target: Tensor,
    *,
    weights: Tensor | None = None,
    discrepancy: str = "squared",
    scale: Tensor | None = None,
    mask: Tensor | None = None,
    stop_gradient: bool = True,
) -> Tensor:
    """L_roll = Σ_h w_h d(ẑ_{t+h}, sg z_{t+h}) for rollouts (..., K, d), without the start.

    ``weights`` (K,) are the w_h. By default each is 1/K, so that the term stays comparable with
    L_pred when the horizon grows; it does not favor late steps, whose errors are larger anyway.
    With a mask (..., K) every step is averaged over its own valid entries.
    """
    target = target.detach() if stop_gradient else target
    error = lookup(DISCREPANCIES, discrepancy, "discrepancy")(predicted, target, scale)  # (..., K)
    horizon = error.shape[-1]
    if weights is None:
        weights = error.new_full((horizon,), 1.0 / horizon)
    if weights.shape != (horizon,):
        raise DataError(f"A rollout of {horizon} steps needs as many weights, got {weights.shape}.")
    if mask is not None:
        mask = mask.expand_as(error).reshape(-1, horizon)
    return (weights * masked_mean(error.reshape(-1, horizon), mask, dim=0)).sum()


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
