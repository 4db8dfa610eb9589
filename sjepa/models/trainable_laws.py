"""Laws that training moves: a library with its coefficients, and an expression tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy
import torch
from torch import Tensor, nn

from sjepa.symbolic import Law, Library
from sjepa.symbolic.complexity import term_weight
from sjepa.symbolic.law import Dynamics


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
        dynamics: Dynamics = "continuous",
        xi: float = 1e-8,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.library, self.outputs = library, tuple(outputs)
        self.dynamics: Dynamics = dynamics
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
        return self.library.law(values, self.outputs, self.dynamics)

    def extra_repr(self) -> str:
        return "; ".join(self.law().lines(digits=4))


class TreeLaw(nn.Module):
    """An emitted law with the methods of a sparse library: what phases ask of a symbolic part.

    The multiplier of every term is trained, and every number inside a term. Complexity counts
    the multipliers with the weights of their terms, taken from `library` where it has them.

    Parameters
    ----------
    law : Law
    xi : float
        Smoothing of the absolute value in :meth:`complexity`.
    """

    def __init__(self, law: Law, library: Library | None = None, xi: float = 1e-8) -> None:
        super().__init__()
        self.library, self.xi = library, xi
        self.emit = law.torch(trainable="terms", dtype=torch.float32)
        position, weights = self._multipliers(law.with_free_terms())
        self.position: Tensor
        self.weights: Tensor
        self.register_buffer("position", position, persistent=False)
        self.register_buffer("weights", weights, persistent=False)

    def _multipliers(self, free: Law) -> tuple[Tensor, Tensor]:
        """Where the multipliers stand among the coefficients, and the weights of their terms."""
        known = self.library.term_weights if self.library else {}
        stripped, symbols, values = free.skeleton
        number = {symbol: i for i, symbol in enumerate(symbols)}
        numbers = dict(zip(symbols, map(sympy.Float, values.tolist()), strict=True))
        position, weights = [], []
        for part in (p for e in stripped for p in sympy.Add.make_args(e)):
            factors = sympy.Mul.make_args(part)
            if (multiplier := next((f for f in factors if f in number), None)) is not None:
                term = sympy.Mul(*(f for f in factors if f is not multiplier)).xreplace(numbers)
                position.append(number[multiplier])
                weights.append(known.get(term, term_weight(term)))
        return torch.tensor(position, dtype=torch.long), torch.tensor(weights, dtype=torch.float32)

    def forward(self, z: Tensor) -> Tensor:
        return self.emit(z)

    def complexity(self) -> Tensor:
        """Σ w_k √(α_k² + ξ) over the multipliers of the terms."""
        size = torch.sqrt(self.emit.coefficients[self.position] ** 2 + self.xi)
        return (self.weights * size).sum()

    def threshold_(self, smallest: float) -> TreeLaw:
        """Drop the terms whose multiplier is smaller than this."""
        device = self.emit.coefficients.device
        TreeLaw.__init__(self, self.law(smallest), self.library, self.xi)
        self.to(device)
        return self

    def law(self, threshold: float = 0.0) -> Law:
        law = self.emit.law()
        return law.threshold(threshold) if threshold else law

    def to_text(self) -> dict[str, object]:
        """Plain data from which :meth:`from_text` builds a module of the same structure."""
        library = self.library.to_dict() if self.library else None
        return {"law": self.emit.law().to_json(), "library": library, "xi": self.xi}

    @classmethod
    def from_text(cls, data: dict[str, object]) -> TreeLaw:
        library = Library.from_dict(data["library"]) if data["library"] else None  # type: ignore[arg-type]
        return cls(Law.from_json(data["law"]), library, data["xi"])  # type: ignore[arg-type]
