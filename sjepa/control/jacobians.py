"""Derivatives of a transition's two parts: analytic for the law, automatic for the correction."""

from __future__ import annotations

from collections.abc import Callable

import sympy
from torch import Tensor, nn
from torch.func import jacrev, vmap

from sjepa.models import Transition
from sjepa.symbolic import Law


class LawJacobian(nn.Module):
    """∂F/∂(z, u) of a law, from SymPy's derivatives: inputs (..., n) to (..., k, n).

    Compiled like the law itself, so it runs on any batch shape, dtype and device. Entries that
    are zero everywhere cost nothing.
    """

    def __init__(self, law: Law) -> None:
        super().__init__()
        matrix = law.jacobian()
        self.shape = (len(law.outputs), len(law.inputs))
        entries = [
            (i, j, e) for i in range(self.shape[0]) for j in range(self.shape[1])
            if (e := matrix[i, j]) != 0
        ]  # fmt: skip
        self.rows = [i for i, _, _ in entries]
        self.columns = [j for _, j, _ in entries]
        self.entries: nn.Module | None = None
        if entries:
            names = [f"e{n}" for n in range(len(entries))]
            expressions: list[sympy.Expr] = [e for *_, e in entries]
            derivative = Law(expressions, law.inputs, names, "discrete", canonical=False)
            self.entries = derivative.torch(trainable=False)

    def forward(self, inputs: Tensor) -> Tensor:
        out = inputs.new_zeros((*inputs.shape[:-1], *self.shape))
        if self.entries is not None:
            out[..., self.rows, self.columns] = self.entries(inputs)
        return out


def module_jacobian(module: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """Jacobian of any module by automatic differentiation: (..., n) to (..., k, n)."""
    flat = inputs.reshape(-1, inputs.shape[-1])
    jacobian = vmap(jacrev(module))(flat)
    return jacobian.reshape(*inputs.shape[:-1], *jacobian.shape[1:]).detach()


class PartJacobians:
    """The Jacobians of F and of c, prepared once for many evaluations."""

    def __init__(self, transition: Transition) -> None:
        self.transition = transition
        law = transition.law()
        self.analytic = None if law is None else LawJacobian(law)

    def symbolic(self, inputs: Tensor) -> Tensor | None:
        """∂F/∂(z, u), (..., k, d + m); None without a law."""
        if self.analytic is not None:
            return self.analytic(inputs)
        module = self.transition.symbolic
        return None if module is None else module_jacobian(module, inputs)

    def correction(self, inputs: Tensor) -> Tensor | None:
        """∂c/∂(z, u), (..., k, d + m); None without a correction."""
        module = self.transition.correction
        return None if module is None else module_jacobian(module, inputs)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Of the sum F + c."""
        parts = [p for p in (self.symbolic(inputs), self.correction(inputs)) if p is not None]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]
