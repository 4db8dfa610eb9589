"""Euler rollouts of a sparse library with a hand-written gradient.

A rollout of a few hundred states is a long chain of tiny operations, and recording each of them
for automatic differentiation costs far more than the arithmetic. Here the states are computed
without a record; the backward pass evaluates features and Jacobians of all visited states at
once and then runs the adjoint recursion

    λ_h = g_h + (I + Δt_h J_h)ᵀ λ_{h+1},      ∂L/∂α = Σ_h Θ(z_h)ᵀ (Δt_h λ_{h+1}).
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import sympy
import torch
from torch import Tensor

from sjepa.errors import SjepaError
from sjepa.models import SparseLaw, Transition
from sjepa.symbolic import Law, Library
from sjepa.symbolic.emit import evaluate
from sjepa.symbolic.torch_law import TORCH


class _Rows:
    """The expressions of a law on a tensor (inputs, n), stacked to (outputs, n)."""

    def __init__(self, law: Law) -> None:
        self.program, self.numbers = law.program, law.coefficients.tolist()

    def __call__(self, z: Tensor) -> Tensor:
        def row(value: float) -> Tensor:
            return torch.full_like(z[0], value)

        numbers = map(row, self.numbers)
        return torch.stack(evaluate(self.program, z.unbind(0), numbers, TORCH, row))


class _Kernel:
    """Features and their derivatives on tensors (d, n): one contiguous row for each quantity."""

    def __init__(self, library: Library) -> None:
        symbols = library._features.symbols
        self.features = _Rows(library._features)
        slopes = [
            (k, i, derivative)
            for k, term in enumerate(library.terms)
            for i, s in enumerate(symbols)
            if not (derivative := sympy.diff(term, s)).is_zero
        ]
        self.terms = [k for k, _, _ in slopes]
        self.inputs = [i for _, i, _ in slopes]
        names = [f"s{e}" for e in range(len(slopes))]
        law = Law([e for *_, e in slopes], library.inputs, names, "discrete", canonical=False)
        self.slopes = _Rows(law)

    def theta(self, z: Tensor) -> Tensor:
        """(d, n) -> (terms, n)."""
        return self.features(z)

    def jacobians(self, z: Tensor, alpha: Tensor) -> Tensor:
        """∂F_j/∂z_i as (outputs, d, n) for coefficients (terms, outputs)."""
        d, k = len(z), alpha.shape[1]
        mix = alpha.new_zeros(k, d, len(self.terms))
        for e, (term, i) in enumerate(zip(self.terms, self.inputs, strict=True)):
            mix[:, i, e] = alpha[term]
        return (mix.flatten(0, 1) @ self.slopes(z)).unflatten(0, (k, d))


_CACHE: WeakKeyDictionary[Library, _Kernel | None] = WeakKeyDictionary()


def _kernel(library: Library) -> _Kernel | None:
    """The kernel of a library; None if a derivative of a term has no torch form."""
    if library not in _CACHE:
        try:
            _CACHE[library] = _Kernel(library)
        except SjepaError:
            _CACHE[library] = None
    return _CACHE[library]


def applies_to(transition: Transition, u: Tensor | None) -> bool:
    """Whether `sparse_rollout` can replace ``transition.rollout``."""
    law = transition.symbolic
    return (
        isinstance(law, SparseLaw)
        and transition.correction is None
        and transition.dynamics == "continuous"
        and transition.integrator == "euler"
        and transition.order == 1
        and u is None
        and len(law.outputs) == len(law.library.inputs)
        and _kernel(law.library) is not None
    )


def sparse_rollout(law: SparseLaw, z0: Tensor, dt: Tensor) -> Tensor:
    """Free Euler rollouts from z0 (..., d) with steps dt (..., K): (..., K + 1, d)."""
    return _EulerRollout.apply(z0, law.active().to(z0.dtype), dt, law.library)


class _EulerRollout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z0: Tensor, alpha: Tensor, dt: Tensor, library: Library) -> Tensor:
        kernel = _kernel(library)
        assert kernel is not None
        d = z0.shape[-1]
        steps = dt.reshape(-1, dt.shape[-1]).T.contiguous()  # (K, n)
        states = z0.new_empty((len(steps) + 1, d, steps.shape[1]))
        states[0] = z0.reshape(-1, d).T
        for h, step in enumerate(steps):
            torch.addcmul(states[h], step, alpha.T @ kernel.theta(states[h]), out=states[h + 1])
        ctx.save_for_backward(states, alpha, steps)
        ctx.kernel = kernel
        return states.permute(2, 0, 1).reshape(*z0.shape[:-1], len(steps) + 1, d)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        states, alpha, steps = ctx.saved_tensors
        count, d, n = states.shape
        k = count - 1
        g = grads[0].reshape(n, count, d).permute(1, 2, 0).contiguous()  # (K + 1, d, n)
        visited = states[:-1].transpose(0, 1).reshape(d, k * n)
        growth = ctx.kernel.jacobians(visited, alpha).unflatten(-1, (k, n)) * steps
        growth.diagonal(dim1=0, dim2=1).add_(1.0)  # I + Δt J, (d, d, K, n)
        adjoint = torch.empty_like(g[1:])
        current = g[-1]
        for h in range(k - 1, -1, -1):
            adjoint[h] = current
            current = torch.addcmul(g[h], current[0], growth[0, :, h])
            for j in range(1, d):
                current.addcmul_(adjoint[h, j], growth[j, :, h])
        weighted = (adjoint * steps.unsqueeze(1)).transpose(0, 1).reshape(d, k * n)
        gradient = ctx.kernel.theta(visited) @ weighted.T if ctx.needs_input_grad[1] else None
        start = current.T.reshape(*grads[0].shape[:-2], d) if ctx.needs_input_grad[0] else None
        return start, gradient, None, None
