"""A law as a Julia function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sympy

from sjepa.symbolic.delays import names_with_delays
from sjepa.symbolic.export.calls import CallPrinter, local_names
from sjepa.symbolic.operators import Operator
from sjepa.symbolic.parse import symbol
from sjepa_julia import definitions


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law


class JuliaPrinter(CallPrinter):
    """Scalar Julia."""

    conditional = "ifelse"
    power = "^"

    def call(self, row: Operator, arguments: Sequence[sympy.Expr]) -> str:
        return f"{row.julia}({', '.join(self._print(a) for a in arguments)})"


# What Julia keeps for itself and Python does not.
_JULIA_WORDS = (
    "baremodule", "begin", "catch", "const", "do", "elseif", "end", "export", "function", "im",
    "let", "local", "macro", "module", "quote", "struct", "true", "false", "using",
)  # fmt: skip


def julia(law: Law, name: str = "law") -> str:
    """Julia source of a scalar function of the inputs, with the operators it needs."""
    printer = JuliaPrinter()
    names = local_names(law.inputs, (*_JULIA_WORDS, name))
    local = {old: symbol(new) for old, new in zip(law.symbols, names, strict=True)}
    expressions = [printer.doprint(e.xreplace(local)) for e in law.expressions]
    text = ", ".join(expressions)
    helpers = [d for d in definitions().values() if d.split("(")[0] + "(" in text]
    result = f"({text},)" if len(expressions) == 1 else f"({text})"
    head = "".join(d + "\n" for d in helpers) + ("\n" if helpers else "")
    if law.delays:
        head += f"# of {', '.join(names_with_delays(law))}\n"
    return f"{head}{name}({', '.join(names)}) = {result}\n"
