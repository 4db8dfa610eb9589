"""What keeps the correction small; the law's own penalty is :meth:`SparseLaw.complexity`."""

from collections.abc import Iterable

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
