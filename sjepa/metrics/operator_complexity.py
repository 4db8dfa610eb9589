"""The paper's Γ: what a law and its correction cost together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sjepa.models import Transition
from sjepa.symbolic import Library


@dataclass(frozen=True)
class OperatorComplexity:
    """Γ = Ω + λ_c R_corr of one transition, and its two parts."""

    omega: float
    r_corr: float
    lambda_c: float

    @property
    def value(self) -> float:
        return self.omega + self.lambda_c * self.r_corr

    def __repr__(self) -> str:
        return (
            f"<Γ = {self.value:.4g}: Ω {self.omega:g} + λ_c {self.lambda_c:g} x R_corr "
            f"{self.r_corr:.4g}>"
        )


def operator_complexity(
    transition: Any,
    states: Any,
    *,
    u: Any = None,
    library: Library | None = None,
    lambda_c: float = 2e-2,
    tau: float = 1e-6,
) -> OperatorComplexity:
    """The paper's Γ of a law, a fitted model or a transition, over states (n, d).

    R_corr = E|c|² + τ|φ|² with the Euclidean norm of the raw correction; the training losses are
    means over the d coordinates, so their R_corr is 1/d of this one.

    Examples
    --------
    >>> from sjepa import Law
    >>> operator_complexity(Law.from_string(["z2", "-sin(z1)"], ["z1", "z2"]), np.eye(2)).value
    3.0
    """
    model = Transition.of(transition)
    law, z = model.law(), torch.as_tensor(np.asarray(states, dtype=float))
    energy = 0.0
    if model.correction is not None:
        side = None if u is None else torch.as_tensor(np.asarray(u, dtype=float))
        with torch.no_grad():
            _, c = model.parts(z, side)
        size = sum(float(p.detach().square().sum()) for p in model.correction.parameters())
        energy = float(c.square().sum(-1).mean()) + tau * size
    omega = 0.0 if law is None else law.complexity("terms", library)
    return OperatorComplexity(omega, energy, lambda_c)
