"""One equation of a law: a sum of terms, written down only if somebody reads it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import sympy

from sjepa.errors import LawError
from sjepa.symbolic.canonical import DIGITS, canonical_sum, term_text
from sjepa.symbolic.complexity import split_terms, sum_complexity, term_weight, tree_complexity


Pair = tuple[float, sympy.Expr]


class Equation:
    """A right-hand side, as an expression or as (coefficient, term) pairs.

    Searches weigh hundreds of sums that nobody reads, and what is asked of those, how long they
    are and whether two are the same, needs no expression. Equal expressions are the same object.
    """

    free = False  # whether a number stands before every term, 1 among them, and nowhere else

    def __init__(self, pairs: tuple[Pair, ...], expression: sympy.Expr | None = None) -> None:
        self.pairs = pairs
        self._given = expression

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(expression: sympy.Expr) -> Equation:
        return Equation(split_terms(expression), expression)

    @classmethod
    def sum(cls, coefficients: Iterable[float], terms: Iterable[sympy.Expr]) -> Equation:
        """Of canonical terms, no two of which can be gathered; in canonical form."""
        pairs = [(c, t) for c, t in zip(coefficients, terms, strict=True) if c]
        if not all(math.isfinite(c) for c, _ in pairs):
            raise LawError("An expression contains a constant that is not a finite number.")
        return cls(tuple((float(f"{c:.{DIGITS}g}"), t) for c, t in pairs))

    @cached_property
    def expression(self) -> sympy.Expr:
        if self._given is not None:
            return self._given
        if self.free:
            return sympy.Add(*(sympy.Float(c) * t for c, t in self.pairs))
        return canonical_sum(self.pairs)

    def freed(self) -> Equation:
        """With a number before every term, which can be fitted; in the order of a skeleton."""
        if any(_has_numbers(t) for _, t in self.pairs):
            return Equation.of(sympy.Add(*(sympy.Float(c) * t for c, t in self.pairs)))
        free = Equation(tuple(sorted(self.pairs, key=lambda pair: _order(pair[1]))))
        free.free = True
        return free

    @cached_property
    def key(self) -> str:
        """Text that is equal for equal canonical forms, across processes and versions of Python."""
        # Term by term: the laws of a front are written in the same few terms.
        return " + ".join(sorted(f"{c:.12g}*{term_text(t)}" for c, t in self.pairs))

    @cached_property
    def tree(self) -> float:
        """Its ``tree`` complexity with the weights of the operator table."""
        if self._given is not None:
            return tree_complexity(self._given)
        return sum_complexity(self.pairs)

    def weight(self, weights: Mapping[sympy.Expr, float]) -> float:
        """Its ``terms`` complexity; a term without a weight costs what the rule says."""
        return float(sum(weights[t] if t in weights else term_weight(t) for _, t in self.pairs))


@lru_cache(maxsize=4096)
def _has_numbers(term: sympy.Expr) -> bool:
    return bool(term.has(sympy.Float))


@lru_cache(maxsize=4096)
def _order(term: sympy.Expr) -> Any:
    return sympy.default_sort_key(term)


def skeleton(
    expressions: Sequence[sympy.Expr],
) -> tuple[tuple[sympy.Expr, ...], tuple[sympy.Symbol, ...], np.ndarray]:
    """Expressions with every double replaced by a symbol of its own, in reading order."""
    symbols: list[sympy.Symbol] = []
    values: list[float] = []

    def strip(node: sympy.Basic) -> sympy.Basic:
        if node.is_Float:
            # Not an identifier, so it can never meet the name of an input.
            symbols.append(sympy.Symbol(f"c[{len(symbols)}]", real=True))
            values.append(float(node))
            return symbols[-1]
        if not node.args or not node.has(sympy.Float):
            return node
        if node.is_Mul and not (rest := node.as_coeff_Mul()[1]).has(sympy.Float):
            return sympy.Mul(strip(node.as_coeff_Mul()[0]), rest)  # most terms
        parts = sorted(node.args, key=_by_structure) if node.is_Add or node.is_Mul else node.args
        return node.func(*(strip(a) for a in parts))

    stripped = tuple(strip(e) for e in expressions)
    array = np.array(values)
    array.flags.writeable = False
    return stripped, tuple(symbols), array


def _by_structure(node: sympy.Basic) -> Any:
    """Sorts the parts of a sum or product so that refitting keeps their order."""
    rest = node.as_coeff_Mul()[1] if node.is_Mul else sympy.S.One if node.is_Float else node
    if not rest.has(sympy.Float):  # most terms, whose keys are kept
        return _order(rest)
    numbers = {f: sympy.S.One for f in node.atoms(sympy.Float)}
    return sympy.default_sort_key(node.xreplace(numbers))
