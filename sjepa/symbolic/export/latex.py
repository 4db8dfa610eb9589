"""A law in the part of LaTeX that matplotlib's mathtext reads too."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import sympy
from sympy.printing.latex import LatexPrinter

from sjepa.symbolic.delays import with_delays_shown
from sjepa.symbolic.names import coordinate_of
from sjepa.symbolic.parse import symbol
from sjepa.symbolic.text import for_reading


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law


class _LatexPrinter(LatexPrinter):
    """LaTeX without environments, so that matplotlib's mathtext reads it too."""

    def _print_Piecewise(self, expr: sympy.Piecewise) -> str:
        *cases, (last, _) = expr.args
        text = self._print(last)
        for value, condition in reversed(cases):
            inner = f"{self._print(condition)},\\; {self._print(value)},\\; {text}"
            text = rf"\mathrm{{where}}\left({inner}\right)"
        return text

    def _print_Mod(self, expr: sympy.Expr, exp: str | None = None) -> str:
        inner = ",\\; ".join(self._print(a) for a in expr.args)
        return rf"\mathrm{{mod}}\left({inner}\right)" + (f"^{{{exp}}}" if exp else "")

    def _print_And(self, expr: sympy.Basic) -> str:
        return r" \wedge ".join(self._print(a) for a in expr.args)

    def _print_Or(self, expr: sympy.Basic) -> str:
        return r" \vee ".join(self._print(a) for a in expr.args)


def _latex_name(name: str) -> str:
    """A name of several letters in upright type; z1 and theta are left to SymPy.

    Velocities get the dot that their names spell.
    """
    if stem := coordinate_of(name):
        return rf"\dot{{{_latex_name(stem)}}}"
    text = str(sympy.latex(sympy.Symbol(name)))
    return rf"\mathrm{{{text}}}" if re.fullmatch(r"[A-Za-z]{2,}", text) else text


def latex(law: Law, digits: int = 4, environment: str | None = None) -> str:
    """LaTeX, one equation a line; with `environment` (such as "align") one block."""
    lines = _lines(law, digits)
    if environment is None:
        return "\n".join(lines)
    body = " \\\\\n".join(line.replace(" = ", " &= ", 1) for line in lines)
    return f"\\begin{{{environment}}}\n{body}\n\\end{{{environment}}}"


def notebook_latex(law: Law) -> str:
    """For notebooks without HTML."""
    return f"${latex(law, environment='aligned')}$"


def _lines(law: Law, digits: int) -> list[str]:
    lines = []
    names = {symbol(n): _latex_name(n) for n in (*law.inputs, *law.outputs)}
    printer = _LatexPrinter({"symbol_names": names})
    for name, expr in zip(law.outputs, with_delays_shown(law), strict=True):
        moved = names[symbol(name)]
        if law.dynamics == "continuous":
            stem = coordinate_of(name)
            left = rf"\ddot{{{_latex_name(stem)}}}" if stem else rf"\dot{{{moved}}}"
        else:
            left = rf"{moved}^{{+}}" if name in law.inputs else moved
        right = printer.doprint(for_reading(expr, digits, 1e15))
        lines.append(f"{left} = {right}")
    return lines
