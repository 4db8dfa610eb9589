"""A law as an SBML document (Level 3 Version 2): states are parameters with rate rules."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import sympy

from sjepa.symbolic.export.system import CLOCK, system
from sjepa.symbolic.operators import NODES


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law

FUNCTIONS = {
    "Abs": "abs", "Max": "max", "Min": "min", "floor": "floor", "ceil": "ceiling",
    "sin": "sin", "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
    "exp": "exp", "log": "ln",
}  # fmt: skip
_SIGNS: dict[type, str] = {
    sympy.Add: "plus", sympy.Mul: "times", sympy.And: "and", sympy.Or: "or",
    sympy.StrictGreaterThan: "gt", sympy.GreaterThan: "geq",
    sympy.StrictLessThan: "lt", sympy.LessThan: "leq",
}  # fmt: skip
_TIME = (
    '<csymbol encoding="text" definitionURL="http://www.sbml.org/sbml/symbols/time">time</csymbol>'
)


def content(expr: sympy.Basic) -> str:
    """An expression in content MathML, without the element around it."""
    if expr == CLOCK:
        return _TIME
    if expr.is_Symbol:
        return f"<ci>{expr}</ci>"
    if expr.is_Rational:
        if expr.is_Integer:
            return f"<cn>{expr}</cn>"
        return _apply("divide", *expr.as_numer_denom())
    if expr.is_Number or expr.is_NumberSymbol:
        digits, _, exponent = repr(float(expr)).partition("e")
        if exponent:
            return f'<cn type="e-notation">{digits}<sep/>{int(exponent)}</cn>'
        return f"<cn>{digits}</cn>"
    if isinstance(expr, sympy.Piecewise):
        *cases, (last, _) = expr.args
        pieces = "".join(f"<piece>{content(v)}{content(c)}</piece>" for v, c in cases)
        return f"<piecewise>{pieces}<otherwise>{content(last)}</otherwise></piecewise>"
    if expr.is_Pow:
        if expr.exp == sympy.S.Half:
            return _apply("root", expr.base)
        if expr.exp.is_Rational and expr.exp < 0:
            return _apply("divide", sympy.S.One, expr.base**-expr.exp)
        return _apply("power", expr.base, expr.exp)
    return _apply(_SIGNS.get(type(expr)) or FUNCTIONS[NODES[type(expr)].name], *expr.args)


def _apply(name: str, *arguments: sympy.Basic) -> str:
    return f"<apply><{name}/>{''.join(content(a) for a in arguments)}</apply>"


def sbml(law: Law, name: str = "law", x0: Sequence[float] | None = None) -> str:
    """An SBML document (Level 3 Version 2) with a rate rule for each state.

    `x0` are the states (of a law of second order then the velocities) at the start; inputs are
    parameters of value 0, to be set in the tool.
    """
    parts = system(law, name, x0, FUNCTIONS)

    def parameter(variable: str, value: float | None) -> str:
        given = "" if value is None else f' value="{value!r}"'
        label = escape(parts.labels[variable])
        return f'      <parameter id="{variable}" name="{label}"{given} constant="false"/>'

    def rule(kind: str, variable: str, expr: sympy.Expr) -> str:
        math = f'<math xmlns="http://www.w3.org/1998/Math/MathML">{content(expr)}</math>'
        return f'      <{kind}Rule variable="{variable}">\n        {math}\n      </{kind}Rule>'

    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<sbml xmlns="http://www.sbml.org/sbml/level3/version2/core" level="3" version="2">',
        f'  <model id="{name}">',
        "    <listOfParameters>",
        *(parameter(v, x) for v, x in parts.start.items()),
        *(parameter(v, 0.0) for v in parts.inputs),
        *(parameter(v, None) for v in parts.results),
        "    </listOfParameters>",
        "    <listOfRules>",
        *(rule("rate", v, e) for v, e in parts.rates.items()),
        *(rule("assignment", v, e) for v, e in parts.results.items()),
        "    </listOfRules>",
        "  </model>",
        "</sbml>",
        "",
    ]
    return "\n".join(lines)
