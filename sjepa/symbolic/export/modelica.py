"""A law as a Modelica model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import sympy

from sjepa.symbolic.export.calls import CallPrinter
from sjepa.symbolic.export.system import system
from sjepa.symbolic.operators import Operator


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law


class ModelicaPrinter(CallPrinter):
    conjunctions: ClassVar[dict[str, str]] = {"and": " and ", "or": " or "}
    power = "^"
    functions: ClassVar[dict[str, str]] = {
        "Abs": "abs", "Max": "max", "Min": "min", "sign": "sign", "floor": "floor", "ceil": "ceil",
        "sin": "sin", "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
        "asin": "asin", "acos": "acos", "atan": "atan", "exp": "exp", "log": "log",
    }  # fmt: skip

    def call(self, row: Operator, arguments: Sequence[sympy.Expr]) -> str:
        name = self.functions[row.name]
        text, *rest = map(self._print, arguments)
        if not rest:
            return f"{name}({text})"
        for other in rest:  # max and min of two values
            text = f"{name}({text}, {other})"
        return text

    def _print_NumberSymbol(self, expr: sympy.NumberSymbol) -> str:
        return repr(float(expr))

    _print_Pi = _print_Exp1 = _print_NumberSymbol

    def _print_Piecewise(self, expr: sympy.Piecewise) -> str:
        *cases, (last, _) = expr.args
        head = "".join(f"if {self._condition(c)} then {self._print(v)} else " for v, c in cases)
        return f"({head}{self._print(last)})"


def modelica(law: Law, name: str = "Law", x0: Sequence[float] | None = None) -> str:
    """Modelica text: states with their derivatives, or results, from inputs.

    `x0` are the states (of a law of second order then the velocities) at the start.
    """
    parts = system(law, name, x0, ModelicaPrinter.functions, "delay({}, {})")
    text = ModelicaPrinter().doprint

    def declared(kind: str, variable: str, modification: str = "") -> str:
        label = parts.labels[variable]
        comment = "" if label == variable else f' "{label}"'
        return f"  {kind}{variable}{modification}{comment};"

    lines = [
        *(declared("Real ", v, f"(start={x!r}, fixed=true)") for v, x in parts.start.items()),
        *(declared("input Real ", v) for v in parts.inputs),
        *(declared("output Real ", v) for v in parts.results),
        "equation",
        *(f"  der({v}) = {text(e)};" for v, e in parts.rates.items()),
        *(f"  {v} = {text(e)};" for v, e in parts.results.items()),
    ]
    return "\n".join([f"model {name}", *lines, f"end {name};", ""])
