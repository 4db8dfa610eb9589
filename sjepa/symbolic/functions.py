"""The operators of :mod:`sjepa.symbolic.definitions` as nodes of a SymPy tree.

A node needs no more than its definition: values and derivative follow from it. Those below say
more, because SymPy can do algebra with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import sympy

from sjepa.symbolic import definitions
from sjepa.symbolic.definitions import CLIP, EPS


_EPS = sympy.Rational(str(EPS))
_CLIP = sympy.Integer(int(CLIP))


class DefinedFunction(sympy.Function):
    """Real-valued on real arguments, with the value that `define` gives.

    SymPy asks a function for its simpler form under the name that each class gives to `fold`.
    """

    is_commutative = True
    define: ClassVar[Callable[..., Any]]

    @classmethod
    def fold(cls, *arguments: sympy.Expr) -> sympy.Expr | None:
        if all(a.is_Number for a in arguments):
            return sympy.Float(float(cls.define(np, *(float(a) for a in arguments))))
        return None

    eval = fold

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        names = [sympy.Dummy(real=True) for _ in self.args]
        slope = definitions.formula(type(self).define, names).diff(names[argindex - 1])
        return slope.xreplace(dict(zip(names, self.args, strict=True)))

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


class _Extremum:
    """Compares arguments only where their difference is a number.

    SymPy asks of every pair whether one is always the larger, which for 64 sines takes a minute.
    """

    direction: ClassVar[int]

    @classmethod
    def _collapse_arguments(cls, args: Any, **assumptions: Any) -> Any:
        return args

    @classmethod
    def _is_connected(cls, x: sympy.Expr, y: sympy.Expr) -> bool | str:
        """True if x takes the place of y, a text if y that of x, False if neither is known."""
        difference = x - y
        if not difference.is_number:
            return False
        return True if cls.direction * difference > 0 else "the other"


class Max(_Extremum, sympy.Max):
    """The largest of its arguments."""

    direction = 1


class Min(_Extremum, sympy.Min):
    """The smallest of its arguments."""

    direction = -1


class _Even(DefinedFunction):
    """f(-x) is f(x)."""

    nargs = 1

    @classmethod
    def fold(cls, *arguments: sympy.Expr) -> sympy.Expr | None:
        (x,) = arguments
        if not x.is_Number and x.could_extract_minus_sign():
            return cls(-x)
        return super().fold(x)

    eval = fold


class safe_div(DefinedFunction):
    """a / b, kept as ``a * safe_div(1, b)`` since it is linear in a: sums and products of
    quotients then find their common form by ordinary algebra.
    """

    nargs = 2
    define = staticmethod(definitions.safe_div)

    @classmethod
    def fold(cls, *arguments: sympy.Expr) -> sympy.Expr | None:
        a, b = arguments
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


class exp_clip(DefinedFunction):
    """exp(x) with x limited to [-CLIP, CLIP]."""

    nargs = 1
    define = staticmethod(definitions.exp_clip)

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        (x,) = self.args
        return sympy.Piecewise((exp_clip(x), sympy.Abs(x) <= _CLIP), (0, True))


class log_safe(_Even):
    """log(abs(x)), held constant where abs(x) < EPS."""

    define = staticmethod(definitions.log_safe)

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        (x,) = self.args
        return sympy.Piecewise((safe_div(1, x), sympy.Abs(x) >= _EPS), (0, True))


class sqrt_safe(_Even):
    """sqrt(abs(x)), with a linear ramp to zero where abs(x) < EPS**2."""

    define = staticmethod(definitions.sqrt_safe)

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        (x,) = self.args
        outside = safe_div(sympy.sign(x), 2 * sqrt_safe(x))
        return sympy.Piecewise((outside, sympy.Abs(x) >= _EPS**2), (sympy.sign(x) / _EPS, True))
