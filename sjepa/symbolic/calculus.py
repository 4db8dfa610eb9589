"""Derivatives of expressions, also through steps and absolute values."""

from __future__ import annotations

from collections.abc import Sequence

import sympy


# Constant between their jumps: their derivative is zero wherever it exists.
_STEPS = (sympy.floor, sympy.ceiling, sympy.sign, sympy.Heaviside)


def jacobian(expressions: Sequence[sympy.Expr], symbols: Sequence[sympy.Symbol]) -> sympy.Matrix:
    """Matrix of d expression / d symbol, without delta functions."""
    return sympy.Matrix([[_derivative(e, s) for s in symbols] for e in expressions])


def _derivative(expr: sympy.Expr, s: sympy.Symbol) -> sympy.Expr:
    expr = expr.replace(sympy.Mod, lambda a, b: a - b * sympy.floor(a / b))
    steps = {node: sympy.Dummy(real=True) for node in expr.atoms(*_STEPS)}
    derivative = sympy.diff(expr.xreplace(steps), s)
    return derivative.xreplace({dummy: node for node, dummy in steps.items()})
