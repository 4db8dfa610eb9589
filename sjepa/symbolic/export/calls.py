"""What the languages with function calls have in common: Python with numpy or torch, and Julia."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import sympy

from sjepa.symbolic.definitions import python_text
from sjepa.symbolic.operators import OPERATORS, Operator
from sjepa.symbolic.parse import plain_letters, symbol
from sjepa.symbolic.text import TextPrinter, safe_quotient


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law


class CallPrinter(TextPrinter):
    """Text with function names and powers spelled as another language has them."""

    conjunctions: ClassVar[dict[str, str]] = {"and": " & ", "or": " | "}
    power = "**"
    root = "sqrt"

    def _print_Pow(self, expr: sympy.Expr, rational: bool = False) -> str:
        base, exponent = expr.args
        if exponent == sympy.S.Half:
            return f"{self.root}({self._print(base)})"
        if exponent.is_Rational and exponent < 0:
            return f"(1/{self._wrapped(base**-exponent)})"
        return f"{self._wrapped(base)}{self.power}{self._wrapped(exponent)}"

    def _wrapped(self, expr: sympy.Expr) -> str:
        text = self._print(expr)
        atom = expr.is_Symbol or (
            expr.is_Number and expr >= 0 and (expr.is_Integer or expr.is_Float)
        )
        return text if atom else f"({text})"

    def _print_Mul(self, expr: sympy.Expr) -> str:
        if quotient := safe_quotient(self, expr):
            return quotient
        coefficient, rest = expr.as_coeff_Mul()
        factors = [
            self._wrapped(f) if f.is_Add else self._print(f) for f in sympy.Mul.make_args(rest)
        ]
        if coefficient == -1:
            return "-" + "*".join(factors)
        return "*".join(([] if coefficient == 1 else [self._print(coefficient)]) + factors)

    def _condition(self, condition: sympy.Basic) -> str:
        if isinstance(condition, sympy.And | sympy.Or):
            word = self.conjunctions["and" if isinstance(condition, sympy.And) else "or"]
            return word.join(f"({self._condition(a)})" for a in condition.args)
        return f"{self._print(condition.lhs)} {condition.rel_op} {self._print(condition.rhs)}"


class PythonPrinter(CallPrinter):
    """Calls of a library's functions, and of the definitions that it lacks."""

    library: ClassVar[str]
    prefix: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.used: dict[str, str] = {}  # what has to stand above the function, by name

    def call(self, row: Operator, arguments: Sequence[sympy.Expr]) -> str:
        values = ", ".join(self.value(a) for a in arguments)
        known = row.calls.get(self.library)
        if known is None:
            assert row.define is not None
            name = row.define.__name__
            self.used.setdefault(name, python_text(row.define))
            return f"{name}({self.prefix}, {values})"
        package, _, name = known.rpartition(".")
        if package:
            self.used.setdefault(name, f"from {package} import {name}\n")
            return f"{name}({values})"
        return f"{self.prefix}.{name}({values})"

    def rows(
        self, law: Law, expressions: Sequence[sympy.Expr], taken: Sequence[str]
    ) -> tuple[list[str], list[str]]:
        """Names of the inputs beside those that the text has taken, and the expressions in them."""
        defined = (row.define.__name__ for row in OPERATORS.values() if row.define)
        names = local_names(law.inputs, (*taken, self.prefix, *defined))
        local = {old: symbol(new) for old, new in zip(law.symbols, names, strict=True)}
        return names, [self.doprint(e.xreplace(local)) for e in expressions]


def local_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The names, with underscores after those that the generated text uses for itself.

    Compared as the other language reads them, in which letters may be the same that look alike.
    """
    used, result = {*taken, *map(plain_letters, names)}, []
    for name in names:
        while plain_letters(name) in taken or name in result:
            name += "_"
            if plain_letters(name) not in used:
                break
        result.append(name)
    return result
