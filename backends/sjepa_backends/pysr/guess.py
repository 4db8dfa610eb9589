"""Write the laws of a previous front as guesses that a PySR search can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy

from sjepa.backend import Problem
from sjepa.symbolic.complexity import split_terms
from sjepa.symbolic.operators import NODES, operator
from sjepa.symbolic.parse import symbol
from sjepa_backends.pysr.request import PySRTask


MAX_GUESSES = 20
# SymbolicRegression.jl replaces these by guarded versions of its own, under which a guess that
# calls them by their plain name may not be recognized.
_REPLACED = {"pow", "log", "log2", "log10", "log1p", "sqrt", "asin", "acos"}


def guesses(task: PySRTask, problem: Problem) -> list[list[str]] | None:
    """The laws of the previous front in PySR's variables, for each output of the task."""
    if problem.warm is None or task.template is not None or not task.columns:
        return None
    known = {column: name for name, column in zip(task.names, task.columns, strict=True)}
    found: list[list[str]] = []
    for j in task.outputs:
        texts: dict[str, None] = {}
        for candidate in problem.warm:
            law = candidate.law
            if law.inputs == tuple(problem.names) and problem.outputs[j] in law.outputs:
                expr = law.expressions[law.outputs.index(problem.outputs[j])]
                text = _linear_text(expr, known) if task.linear else _text(expr, task)
                if text is not None and any(name in text for name in task.names):
                    texts.setdefault(text)
        found.append(list(texts)[-MAX_GUESSES:])
    if not any(found):
        return None
    return [texts or [task.names[0]] for texts in found]  # an empty list is no list of texts


def _linear_text(expr: sympy.Expr, known: Mapping[sympy.Expr, str]) -> str | None:
    parts = []
    for coefficient, term in split_terms(expr):
        if term == 1:
            parts.append(repr(coefficient))
        elif term in known:
            parts.append(f"({known[term]} * {coefficient!r})")
        else:
            return None
    return _chain(parts, "+") if parts else None


def _text(expr: sympy.Expr, task: PySRTask) -> str | None:
    places = {column: symbol(name) for name, column in zip(task.names, task.columns, strict=True)}
    try:
        return _Writer(set(task.operators) - _REPLACED).write(expr.xreplace(places))
    except KeyError:
        return None


def _chain(parts: Sequence[str], sign: str) -> str:
    text = parts[0]
    for part in parts[1:]:
        text = f"({text} {sign} {part})"
    return text


class _Writer:
    """An expression in binary operations that a search offers; KeyError if that cannot be."""

    def __init__(self, available: set[str]) -> None:
        self.available = available

    def need(self, name: str) -> str:
        if name not in self.available:
            raise KeyError(name)
        return operator(name).pysr

    def write(self, expr: sympy.Expr) -> str:
        if expr.is_Symbol:
            return str(expr)
        if expr.is_number:
            return repr(float(expr))
        if expr.is_Add:
            return _chain([self.write(a) for a in expr.args], self.need("add"))
        if expr.is_Mul:
            return self.product(expr)
        if expr.is_Pow:
            return self.power(expr.base, expr.exp)
        row = NODES[expr.func]
        arguments = [self.write(a) for a in expr.args]
        name = self.need(row.name)
        text = f"{name}({', '.join(arguments[:2])})"
        for further in arguments[2:]:  # max and min of several
            text = f"{name}({text}, {further})"
        return text

    def product(self, expr: sympy.Expr) -> str:
        coefficient, rest = expr.as_coeff_Mul()
        if coefficient != 1:  # numbers may multiply anything
            return f"({self.write(rest)} * {float(coefficient)!r})"
        top, bottom = sympy.fraction(rest)
        factors = sympy.Mul.make_args(top)
        text = _chain([self.write(a) for a in factors], self.need("mul") if factors[1:] else "")
        return text if bottom == 1 else f"({text} {self.need('div')} {self.write(bottom)})"

    def power(self, base: sympy.Expr, exponent: sympy.Expr) -> str:
        text = self.write(base)
        if not exponent.is_Integer or abs(exponent) > 6:
            raise KeyError("pow")
        n = abs(int(exponent))
        short = {2: "square", 3: "cube"}.get(n, "")
        if short in self.available:
            text = f"{short}({text})"
        elif n > 1:
            self.need("mul")
            text = _chain([text] * n, "*")
        if exponent > 0:
            return text
        if "inv" in self.available:
            return f"inv({text})"
        self.need("div")
        return f"(1.0 / {text})"
