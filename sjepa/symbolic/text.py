"""Write an expression as text that :func:`sjepa.symbolic.parse.parse` reads back unchanged."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy
from sympy.printing.str import StrPrinter

from sjepa.errors import LawError
from sjepa.symbolic.functions import safe_div
from sjepa.symbolic.operators import NODES, Operator


class TextPrinter(StrPrinter):
    """SymPy's own notation, with doubles in full and conditions as calls."""

    conditional = "where"

    def __init__(self, digits: int | None = None) -> None:
        super().__init__()
        self.digits = digits

    def _print(self, expr: Any, **options: Any) -> str:
        row = NODES.get(type(expr))
        if row is not None:
            return self.call(row, expr.args)
        return str(super()._print(expr, **options))

    def call(self, row: Operator, arguments: Sequence[sympy.Expr]) -> str:
        """An operator of the table applied to its arguments."""
        return f"{row.name}({', '.join(self.value(a) for a in arguments)})"

    def value(self, expr: sympy.Expr) -> str:
        """An expression where a call expects a value."""
        return self._print(expr)

    def _print_Float(self, expr: sympy.Float) -> str:
        return repr(float(expr)) if self.digits is None else f"{float(expr):.{self.digits}g}"

    def _print_Mul(self, expr: sympy.Expr) -> str:
        return safe_quotient(self, expr) or str(super()._print_Mul(expr))

    def _print_Piecewise(self, expr: sympy.Piecewise) -> str:
        *cases, (last, _) = expr.args
        text = self.value(last)
        for value, condition in reversed(cases):
            text = f"{self.conditional}({self._condition(condition)}, {self.value(value)}, {text})"
        return text

    def _condition(self, condition: Any) -> str:
        if isinstance(condition, sympy.And | sympy.Or):
            word = " and " if isinstance(condition, sympy.And) else " or "
            return "(" + word.join(self._condition(a) for a in condition.args) + ")"
        return f"{self._print(condition.lhs)} {condition.rel_op} {self._print(condition.rhs)}"


def safe_quotient(printer: TextPrinter, expr: sympy.Expr) -> str | None:
    """``c*safe_div(a, b)`` for a product c * a * safe_div(1, b); None for other products."""
    quotients = [a for a in expr.args if isinstance(a, safe_div)]
    if not quotients:
        return None
    coefficient, top = sympy.Mul(*(a for a in expr.args if a is not quotients[-1])).as_coeff_Mul()
    text = printer.call(NODES[safe_div], [top, quotients[-1].args[1]])
    if coefficient == 1:
        return text
    return f"-{text}" if coefficient == -1 else f"{printer._print(coefficient)}*{text}"


def to_text(expr: sympy.Expr, digits: int | None = None) -> str:
    """The expression as one line; `digits` rounds its numbers for reading.

    >>> x = sympy.Symbol("x", real=True)
    >>> to_text(sympy.Float(0.1) * x + sympy.sin(x))
    '0.1*x + sin(x)'
    """
    if digits is not None:
        digits = digits_of(digits)
        expr = for_reading(expr, digits)
    return str(TextPrinter(digits).doprint(expr))


def digits_of(digits: Any) -> int:
    """As many as a double has at most."""
    if not isinstance(digits, int | np.integer) or digits < 1:
        raise LawError(f"digits is a whole number of at least 1, got {digits!r:.40}.")
    return min(int(digits), sys.float_info.dig + 2)


def rounded(expr: sympy.Expr, digits: int) -> sympy.Expr:
    """The expression with its doubles rounded to `digits` significant digits."""
    digits = digits_of(digits)
    floats = {f: sympy.Float(float(f"{float(f):.{digits}g}")) for f in expr.atoms(sympy.Float)}
    return expr.xreplace(floats)


def for_reading(expr: sympy.Expr, digits: int, whole_below: float = 0) -> sympy.Expr:
    """Numbers rounded to `digits` digits; 1.0000002*x reads as x, and 2.00001*x as 2*x.

    Larger ones stay doubles, up to `whole_below`: a typesetter writes those with a fraction.
    """
    digits = digits_of(digits)

    def number(value: float) -> sympy.Expr:
        whole = value == int(value) and abs(value) < max(10**digits, whole_below)
        return sympy.Integer(int(value)) if whole else sympy.Float(value)

    floats = expr.atoms(sympy.Float)
    return expr.xreplace({f: number(float(f"{float(f):.{digits}g}")) for f in floats})
