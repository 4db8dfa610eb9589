"""Nonlinear parameters that are nearly simple numbers: sin(1.0002*q) is probably sin(q)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import sympy

from sjepa.errors import SjepaError
from sjepa.symbolic.canonical import canonicalize
from sjepa.symbolic.complexity import split_terms
from sjepa.symbolic.law import Law


# How far an inner number may be from a simple one to be tried as that.
SNAPS = (1e-3, 5e-2)
SIMPLE = (0.0, 0.5, 1.0, 2.0, 3.0)


def variants(expr: sympy.Expr) -> Iterator[sympy.Expr]:
    """The canonical expression, and the same with inner numbers made simple."""
    try:
        base = canonicalize(expr)
        yield base
        for tolerance in SNAPS:
            snapped = [sympy.Float(c) * _snap(t, tolerance) for c, t in split_terms(base)]
            yield canonicalize(sympy.Add(*snapped))
    except SjepaError:  # a constant that is not finite
        return


def _snap(node: sympy.Expr, tolerance: float) -> sympy.Expr:
    """Replace the nonlinear parameters of a term that are close to simple numbers."""
    if node.is_Float:
        near = min(SIMPLE, key=lambda s: abs(abs(float(node)) - s))
        close = abs(abs(float(node)) - near) <= tolerance * max(near, 0.2)
        return sympy.Rational(math.copysign(near, float(node))) if close else node
    if not node.args or not node.has(sympy.Float):
        return node
    if isinstance(node, sympy.sin | sympy.cos):
        phase, rest = node.args[0].as_coeff_Add()
        quarters = float(phase) / (math.pi / 2)
        if quarters and abs(quarters - round(quarters)) <= tolerance:
            return node.func(_snap(rest, tolerance) + round(quarters) * sympy.pi / 2)
    return node.func(*(_snap(a, tolerance) for a in node.args))


def loosened(law: Law) -> Law:
    """The law with whole nonlinear parameters as doubles, which can be fitted: the 2 of sin(2*q).

    Exponents stay, and so does a 1 that multiplies.
    """
    rows = [
        sympy.Add(*(sympy.Float(c) * _loosened(t, False) for c, t in split_terms(expr)))
        for expr in law.expressions
    ]
    return Law(rows, law.inputs, law.outputs, law.dynamics, canonical=False)


def _loosened(node: sympy.Expr, inside: bool) -> sympy.Expr:
    if node.is_Pow:
        return _loosened(node.base, inside or not node.exp.is_positive) ** node.exp
    if not node.args:
        return node
    least = 1 if node.is_Add else 2  # what a sum has beside its terms, a product before them
    parts = [
        sympy.Float(int(a))
        if inside and a.is_Integer and abs(a) >= least and (node.is_Add or node.is_Mul)
        else _loosened(a, inside or not (node.is_Add or node.is_Mul))
        for a in node.args
    ]
    return node.func(*parts)
