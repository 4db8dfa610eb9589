"""A law as a C99 function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy
from sympy.printing.c import C99CodePrinter

from sjepa.symbolic.definitions import formula
from sjepa.symbolic.delays import names_with_delays
from sjepa.symbolic.operators import NODES, Operator


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law


class _CPrinter(C99CodePrinter):
    """C99 with whole numbers as doubles; operators that C lacks are functions of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.used: dict[str, str] = {}  # what has to stand above the function, by name

    def _print_Integer(self, expr: sympy.Integer) -> str:
        return f"{int(expr)}.0"

    def _print_Float(self, expr: sympy.Float) -> str:
        return repr(float(expr))

    def _print(self, expr: Any, **options: Any) -> str:
        row = NODES.get(type(expr))
        if row is None or "c" in row.calls:
            return str(super()._print(expr, **options))
        assert row.define is not None
        name = row.define.__name__
        if name not in self.used:
            self.used[name] = self._definition(row, name, len(expr.args))
        return f"{name}({', '.join(self._print(a) for a in expr.args)})"

    def _definition(self, row: Operator, name: str, arity: int) -> str:
        assert row.define is not None
        arguments = [sympy.Symbol(letter, real=True) for letter in "abcdefgh"[:arity]]
        value = self._print(formula(row.define, arguments))
        signature = ", ".join(f"double {a}" for a in arguments)
        return f"static double {name}({signature}) {{\n    return {value};\n}}"

    def _print_Function(self, expr: sympy.Expr) -> str:
        if expr.func in NODES:
            name = NODES[expr.func].calls["c"]
            return f"{name}({', '.join(self._print(a) for a in expr.args)})"
        return str(super()._print_Function(expr))


def c(law: Law, name: str = "law") -> str:
    """C99 source of ``void name(const double *in, double *out)`` and what it needs."""
    printer = _CPrinter()
    places = {s: sympy.Symbol(f"in[{i}]", real=True) for i, s in enumerate(law.symbols)}
    body = [
        f"    out[{i}] = {printer.doprint(e.xreplace(places))};  /* {law.left_side(i)} */"
        for i, e in enumerate(law.expressions)
    ]
    text = "\n".join(body)
    helpers = list(printer.used.values())
    names = ", ".join(names_with_delays(law))
    head = ["#include <math.h>", "", *helpers, *([""] if helpers else [])]
    signature = f"/* in: {names} */\nvoid {name}(const double *in, double *out) {{"
    return "\n".join([*head, signature, text, "}", ""])
