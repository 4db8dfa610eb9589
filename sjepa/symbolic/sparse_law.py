"""A library whose coefficients are trained: the differentiable form of a sparse law."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from sjepa.symbolic.law import Law, Realisation
from sjepa.symbolic.library import Library


class SparseLaw(nn.Module):
    """Every term of a library in every output, with a support that can shrink.

    Maps inputs (..., d) to outputs (..., k) as features times `coefficients` (terms, outputs).
    Entries outside `support` count as zero and get no gradient.

    Parameters
    ----------
    library : Library
    outputs : names of the outputs
    xi : float, default=1e-8
        Smoothing of the absolute value in :meth:`complexity` (the paper's ξ_α).
    """

    def __init__(
        self,
        library: Library,
        outputs: Sequence[str],
        realisation: Realisation = "field",
        xi: float = 1e-8,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.library, self.outputs = library, tuple(outputs)
        self.realisation: Realisation = realisation
        self.xi = xi
        self.features = library.torch()
        shape = (len(library), len(self.outputs))
        self.coefficients = nn.Parameter(torch.zeros(shape, dtype=dtype))
        self.support: Tensor
        self.weights: Tensor
        self.register_buffer("support", torch.tensor(library.mask(self.outputs)))
        self.register_buffer(
            "weights", torch.tensor(library.weights, dtype=self.coefficients.dtype)
        )

    def active(self) -> Tensor:
        """Coefficients (terms, outputs) with everything outside the support set to zero."""
        return self.coefficients * self.support

    def forward(self, z: Tensor) -> Tensor:
        return self.features(z) @ self.active().to(z.dtype)

    def complexity(self) -> Tensor:
        """Smooth stand-in for the ``terms`` complexity: sum of w_k sqrt(alpha_kj^2 + xi)."""
        size = torch.sqrt(self.coefficients**2 + self.xi) * self.support
        return (self.weights[:, None] * size).sum()

    @torch.no_grad()
    def threshold_(self, smallest: float) -> SparseLaw:
        """Set coefficients below `smallest` to zero and take them out of the support."""
        self.support &= self.coefficients.abs() >= smallest
        self.coefficients.mul_(self.support)
        return self

    @torch.no_grad()
    def set_(self, coefficients: np.ndarray | Tensor, shrink: bool = True) -> SparseLaw:
        """Take over coefficients (terms, outputs); with `shrink`, zeros leave the support."""
        new = torch.as_tensor(coefficients).to(self.coefficients)
        self.support.copy_(torch.tensor(self.library.mask(self.outputs)))
        if shrink:
            self.support &= (new != 0).to(self.support.device)
        self.coefficients.copy_(new * self.support)
        return self

    def set_law_(self, law: Law, shrink: bool = True) -> SparseLaw:
        """Take over a law that uses only terms of the library."""
        return self.set_(self.library.coefficients(law), shrink)

    def law(self, threshold: float = 0.0) -> Law:
        """The present law, without coefficients smaller than `threshold`."""
        values = self.active().detach().double().cpu().numpy()
        values = np.where(np.abs(values) >= threshold, values, 0.0)
        return self.library.law(values, self.outputs, self.realisation)

    def extra_repr(self) -> str:
        return "; ".join(self.law().lines(digits=4))
