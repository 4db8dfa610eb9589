"""A law as modeling tools have it: states with a rate and a start, results, inputs from outside."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sympy

from sjepa.errors import LawError
from sjepa.symbolic.definitions import formula
from sjepa.symbolic.delays import without_delays
from sjepa.symbolic.law_methods import order_of
from sjepa.symbolic.names import TIME
from sjepa.symbolic.operators import NODES
from sjepa.symbolic.parse import symbol


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law

# Modelica and SBML know ASCII letters only; the other words Modelica keeps for itself.
_PLAIN = re.compile(r"(?!_*\d)[A-Za-z0-9_]*[A-Za-z0-9]")
_TAKEN = frozenset(
    "algorithm annotation block connect connector constant der discrete each else elseif elsewhen "
    "encapsulated end enumeration equation expandable extends external final flow function if "
    "initial inner input loop model operator outer output package parameter partial protected "
    "public pure record redeclare replaceable stream then time type when within".split()
)
# The symbol of the time; no name is equal to it.
CLOCK = sympy.Symbol("time")


@dataclass(frozen=True)
class ToolModel:
    """Expressions are in the tool's names and functions; the law's own names are the values."""

    rates: dict[str, sympy.Expr]
    results: dict[str, sympy.Expr]
    inputs: list[str]
    start: dict[str, float]
    labels: dict[str, str]


def system(
    law: Law, name: str, x0: Sequence[float] | None, functions: Collection[str],
    delay: str = "",
) -> ToolModel:  # fmt: skip
    """The law's equations with the operators that are not among `functions` written out.

    Inputs that act late are written as the text `delay` says, with places for input and time.
    """
    if not delay:
        without_delays(law, "SBML, as it is written here,")
    if not _PLAIN.fullmatch(name):
        raise LawError(
            f"A model's name has letters, digits and underscores only, got {name!r:.40}."
        )
    count, moving = len(law.outputs), bool(set(law.outputs) & set(law.inputs))
    if moving and law.dynamics == "discrete":
        raise LawError(
            "SBML and Modelica describe laws in continuous time, and this one is a map; "
            "c(), julia() and python() write maps too."
        )
    everything = dict.fromkeys((*law.inputs, *law.outputs))
    names: dict[str, str] = {}
    for i, name in enumerate(everything):
        plain = name if _PLAIN.fullmatch(name) and name not in _TAKEN else f"v{i + 1}"
        while plain != name and (plain in everything or plain in names.values()):
            plain += "_0"
        names[name] = plain
    symbols = {
        s: CLOCK if s.name == TIME else sympy.Symbol(names[s.name], real=True) for s in law.symbols
    }
    for late, by in law.delays.items():
        symbols[symbol(late)] = sympy.Symbol(delay.format(names[late], repr(by)), real=True)
    values = [lowered(e, functions).xreplace(symbols) for e in law.expressions]
    given = {names[n]: e for n, e in zip(law.outputs, values, strict=True)}
    rates = given if moving else {}
    if moving and order_of(law) == 2:
        velocities = map(symbols.__getitem__, law.symbols[count : 2 * count])
        rates = dict(zip((names[n] for n in law.inputs[:count]), velocities, strict=True)) | given
    start = [0.0] * len(rates) if x0 is None else [float(v) for v in x0]
    if len(start) != len(rates):
        raise LawError(f"x0 has {len(start)} values for {len(rates)} states ({', '.join(rates)}).")
    return ToolModel(
        rates,
        {} if moving else given,
        [names[n] for n in law.inputs if names[n] not in rates and n != TIME],
        dict(zip(rates, start, strict=True)),
        {plain: name for name, plain in names.items()},
    )


def lowered(expr: sympy.Expr, functions: Collection[str]) -> sympy.Expr:
    """The expression with operators that are not among `functions` written out."""
    if not expr.args:
        return expr
    arguments = [lowered(a, functions) for a in expr.args]
    row = NODES.get(type(expr))
    if row is None:
        return expr.func(*arguments, evaluate=False) if arguments != [*expr.args] else expr
    if row.name in functions:
        return expr.func(*arguments)
    x = arguments[0]
    if row.define is not None:
        return lowered(formula(row.define, arguments), functions)
    if row.name == "asinh":
        return sympy.log(x + sympy.sqrt(x**2 + 1))
    if row.name == "sign":
        return sympy.Piecewise((1, x > 0), (-1, x < 0), (0, True), evaluate=False)
    raise LawError(f"{row.name} has no counterpart in the language asked for.")
