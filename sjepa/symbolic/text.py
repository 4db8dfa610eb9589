"""Write an expression as text that :func:`sjepa.symbolic.parse.parse` reads back unchanged."""

from __future__ import annotations

from typing import Any

import sympy
from sympy.printing.str import StrPrinter


class TextPrinter(StrPrinter):
    """SymPy's own notation, with doubles in full and conditions as calls."""

    def __init__(self, digits: int | None = None) -> None:
        super().__init__()
        self.digits = digits

    def _print_Float(self, expr: sympy.Float) -> str:
        return repr(float(expr)) if self.digits is None else f"{float(expr):.{self.digits}g}"

    def _print_Piecewise(self, expr: sympy.Piecewise) -> str:
        *cases, (last, _) = expr.args
        text = self._print(last)
        for value, condition in reversed(cases):
            text = f"where({self._condition(condition)}, {self._print(value)}, {text})"
        return text

    def _condition(self, condition: Any) -> str:
        if isinstance(condition, sympy.And | sympy.Or):
            word = " and " if isinstance(condition, sympy.And) else " or "
            return "(" + word.join(self._condition(a) for a in condition.args) + ")"
        return f"{self._print(condition.lhs)} {condition.rel_op} {self._print(condition.rhs)}"

    def _print_ceiling(self, expr: sympy.Expr) -> str:
        return f"ceil({self._print(expr.args[0])})"

    def _print_Mod(self, expr: sympy.Expr) -> str:
        return f"Mod({', '.join(self._print(a) for a in expr.args)})"

    def _print_Heaviside(self, expr: sympy.Expr) -> str:
        return f"Heaviside({', '.join(self._print(a) for a in expr.args)})"


def to_text(expr: sympy.Expr, digits: int | None = None) -> str:
    """The expression as one line; `digits` rounds its numbers for reading.

    >>> x = sympy.Symbol("x", real=True)
    >>> to_text(sympy.Float(0.1) * x + sympy.sin(x))
    '0.1*x + sin(x)'
    """
    return str(TextPrinter(digits).doprint(expr))
