"""Domain-safe operators as SymPy functions.

Each equals the ordinary operator wherever that one is well behaved, and continues it outside in
a way that keeps value and slope finite, so that a search or a training step never meets NaN:

=============  ==========================================================  ==================
name           value                                                       differs from
=============  ==========================================================  ==================
``safe_div``   a / b for abs(b) >= EPS, else a * b / EPS**2                a / b near b = 0
``exp_clip``   exp(x) with x limited to [-CLIP, CLIP]                      exp(x) for big x
``log_safe``   log(max(abs(x), EPS))                                       log(x) for x < EPS
``sqrt_safe``  sqrt(abs(x)) for abs(x) >= EPS**2, else abs(x) / EPS        sqrt(x) for x < EPS**2
=============  ==========================================================  ==================

Being exact away from the edge is what lets constants fold: ``safe_div(x, 2)`` *is* ``x/2``.
"""

from __future__ import annotations

import math
from typing import Any

import sympy


EPS = 1e-3
CLIP = 20.0

_EPS = sympy.Rational(1, 1000)
_CLIP = sympy.Integer(20)


class SafeFunction(sympy.Function):
    """Real-valued on real arguments; what the four below have in common.

    SymPy asks a function for its simpler form under the name that each class gives to `fold`.
    """

    is_commutative = True

    def _eval_is_extended_real(self) -> bool | None:
        return True if all(a.is_extended_real for a in self.args) else None

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        name = self.func.__name__.replace("_", r"\_")
        arguments = ", ".join(printer.doprint(a) for a in self.args)
        power = f"^{{{exp}}}" if exp else ""
        return rf"\mathrm{{{name}}}{power}\left({arguments}\right)"

    def _eval_evalf(self, prec: int) -> sympy.Expr:
        folded = self.func(*(a.evalf(n=15) for a in self.args))
        return folded if folded.is_Number else self


def _as_float(expr: sympy.Expr) -> float | None:
    return float(expr) if expr.is_Number else None


class safe_div(SafeFunction):
    """a / b, with a linear ramp through zero where abs(b) < EPS.

    It is linear in a, so it is kept as ``a * safe_div(1, b)``: sums and products of quotients
    then find their common form by ordinary algebra.
    """

    nargs = 2

    @classmethod
    def fold(cls, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        if a.is_zero:
            return sympy.S.Zero
        if b.is_Number:
            return a / b if abs(b) >= _EPS else a * b / _EPS**2
        if b.could_extract_minus_sign():
            return -cls(a, -b)
        return None if a == 1 else a * cls(sympy.S.One, b)

    eval = fold

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        a, b = self.args
        if argindex == 1:
            return safe_div(1, b)
        outside = -a * safe_div(1, b) ** 2
        return sympy.Piecewise((outside, sympy.Abs(b) >= _EPS), (a / _EPS**2, True))


class exp_clip(SafeFunction):
    """exp(x) with x limited to [-CLIP, CLIP]."""

    nargs = 1

    @classmethod
    def fold(cls, x: sympy.Expr) -> sympy.Expr | None:
        value = _as_float(x)
        if value is None:
            return None
        return sympy.Float(math.exp(min(max(value, -CLIP), CLIP)))

    eval = fold

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        (x,) = self.args
        return sympy.Piecewise((exp_clip(x), sympy.Abs(x) <= _CLIP), (0, True))


class log_safe(SafeFunction):
    """log(abs(x)), held constant where abs(x) < EPS."""

    nargs = 1

    @classmethod
    def fold(cls, x: sympy.Expr) -> sympy.Expr | None:
        value = _as_float(x)
        if value is not None:
            return sympy.Float(math.log(max(abs(value), EPS)))
        return cls(-x) if x.could_extract_minus_sign() else None

    eval = fold

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        (x,) = self.args
        return sympy.Piecewise((safe_div(1, x), sympy.Abs(x) >= _EPS), (0, True))


class sqrt_safe(SafeFunction):
    """sqrt(abs(x)), with a linear ramp to zero where abs(x) < EPS**2."""

    nargs = 1

    @classmethod
    def fold(cls, x: sympy.Expr) -> sympy.Expr | None:
        value = _as_float(x)
        if value is not None:
            size = abs(value)
            return sympy.Float(math.sqrt(size) if size >= EPS**2 else size / EPS)
        return cls(-x) if x.could_extract_minus_sign() else None

    eval = fold

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        (x,) = self.args
        outside = safe_div(sympy.sign(x), 2 * sqrt_safe(x))
        return sympy.Piecewise((outside, sympy.Abs(x) >= _EPS**2), (sympy.sign(x) / _EPS, True))
