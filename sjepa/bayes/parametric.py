"""A structure: a law whose numbers are unknown, evaluated for many coefficient vectors at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Lock
from typing import Any

import torch
from torch import Tensor
from torch.func import jacfwd

from sjepa.symbolic.emit import evaluate
from sjepa.symbolic.law import Law
from sjepa.symbolic.torch_law import TORCH


# Levels of torch's forward differentiation belong to the process: a second thread ends the first's.
_ONE_AT_A_TIME = Lock()


def jacobian(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """Derivatives of a function (...,) of k numbers by them: (..., k). Threads may share it."""
    with _ONE_AT_A_TIME:
        return jacfwd(function)(at)


class ParametricLaw:
    """The symbolic structure E of a law, with one free coefficient for every term.

    Coefficients of size 1 are unknown like any other; integers inside functions and
    exponents belong to the structure. `complexity` is C_sym(E).
    """

    def __init__(self, law: Law, complexity: float) -> None:
        self.law = law.with_free_terms()
        self.complexity = float(complexity)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Equal for laws that differ in their coefficients only."""
        stripped, _, _ = self.law.skeleton
        return (self.law.inputs, self.law.outputs, self.law.dynamics, stripped)

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return len(self.law.program.coefficients)

    @property
    def start(self) -> Tensor:
        """The coefficients that the search found."""
        return torch.as_tensor(self.law.coefficients, dtype=torch.float64)

    @cached_property
    def owner(self) -> Tensor:
        """The output in which each coefficient stands, (K,)."""
        stripped, symbols, _ = self.law.skeleton
        number = {s: i for i, s in enumerate(symbols)}
        owner = torch.zeros(len(symbols), dtype=torch.long)
        for j, expression in enumerate(stripped):
            for s in expression.free_symbols & number.keys():
                owner[number[s]] = j
        return owner

    def __call__(self, inputs: Tensor, coefficients: Tensor) -> Tensor:
        """F at inputs (..., d + s) for coefficients (..., K) whose leading axes broadcast."""
        shape = torch.broadcast_shapes(inputs.shape[:-1], coefficients.shape[:-1])
        numbers, program = coefficients.unbind(-1), self.law.program
        values = evaluate(program, inputs.unbind(-1), numbers, TORCH, inputs.new_tensor)
        return torch.stack([v.expand(shape) for v in values], dim=-1)

    def law_at(self, coefficients: Tensor) -> Law:
        """The law with these numbers."""
        return self.law.with_coefficients(coefficients.detach().cpu().numpy())
