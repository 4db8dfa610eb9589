"""How long an equation is: the measures of the paper, and description length.

``tree`` adds up the weights of the nodes of the canonical tree (the paper's Ω of an expression
tree). ``terms`` adds up one weight for every active pair of output and term (the measure of the
paper's experiments). Both are always named in tables, since their values are not comparable.
``dag`` is the tree with repeated subexpressions counted once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import sympy

from sjepa.errors import LawError
from sjepa.settings import number_of, whole_of
from sjepa.symbolic import operators as table
from sjepa.symbolic.functions import safe_div
from sjepa.symbolic.operators import NODES, OPERATORS


MEASURES = ("tree", "terms")

_NODE_WEIGHTS = {
    "constant": table.CONSTANT,
    "variable": table.VARIABLE,
    "add": table.SUM,
    "mul": table.PRODUCT,
    "div": table.QUOTIENT,
    "power": table.POWER,
    "exponent": table.EXPONENT,
    "where": 2.0,
    "compare": 1.0,
}

# What one term costs in the experiments of the paper, as a rule: a bare constant 0.5, a variable
# 1, each function 1 on top of its argument, each further degree 0.5. It reproduces the weights
# printed there: 1, z, sin z, z^2, z1*z2, p|p| cost 0.5, 1, 2, 1.5, 2, 3.
_TERM_CONSTANT = 0.5
_TERM_VARIABLE = 1.0
_TERM_FUNCTION = 1.0
EACH_DEGREE = 0.5


def weights_for_tree(overrides: Mapping[str, float] | None = None) -> dict[str, float]:
    """Node weights by name, with some of them replaced."""
    weights = _NODE_WEIGHTS | {name: row.weight for name, row in OPERATORS.items()}
    for name, weight in (overrides or {}).items():
        key = name if name in weights else table.operator(name).name
        if not weight >= 0:
            raise LawError(f"The weight of {name!r} must be at least 0, got {weight}.")
        weights[key] = float(weight)
    return weights


# Subexpressions that were counted already, where those that repeat are to be shared.
Seen = set[sympy.Basic] | None


def tree_complexity(
    expressions: sympy.Expr | Iterable[sympy.Expr], weights: Mapping[str, float] | None = None
) -> float:
    """Sum of the node weights of canonical expressions (the paper's Eq. omega).

    Subtraction costs what addition costs: a factor -1 is free.
    """
    if isinstance(expressions, sympy.Expr):
        expressions = [expressions]
    full = weights_for_tree(weights)
    return float(sum(_tree(e, full) for e in expressions))


def sum_complexity(pairs: Sequence[tuple[float, sympy.Expr]]) -> float:
    """The same of a sum in canonical form, without writing it down."""
    if not pairs:
        return _NODE_WEIGHTS["constant"]
    parts = sum(_part_complexity(term, abs(c) == 1) for c, term in pairs)
    return float(parts + _NODE_WEIGHTS["add"] * (len(pairs) - 1))


@lru_cache(maxsize=4096)
def _part_complexity(term: sympy.Expr, bare: bool) -> float:
    """Of a term alone, or with a number, whichever."""
    return tree_complexity(term if bare else sympy.Float(0.5) * term)


def dag_complexity(
    expressions: Iterable[sympy.Expr], weights: Mapping[str, float] | None = None
) -> float:
    """The same with subexpressions shared, within and between equations (the paper's option).

    What occurs again costs as much as a variable, since it needs a name only.
    """
    full, seen = weights_for_tree(weights), set[sympy.Basic]()
    return float(sum(_tree(e, full, seen) for e in expressions))


def code_lengths(corpus: Iterable[sympy.Expr]) -> dict[str, float]:
    """Weights from frequencies: what occurs with probability p in a corpus costs -log2 p bits.

    For ``weights`` of a complexity or a grammar; every kind of node is counted once more than it
    occurs, so that none is impossible. Take a corpus that is fixed before laws are compared.

    >>> x = sympy.Symbol("x", real=True)
    >>> bits = code_lengths([sympy.sin(x), x + sympy.sin(2 * x)])
    >>> bits["sin"] < bits["cos"]
    True
    """
    expressions = list(corpus)
    names = list(weights_for_tree())
    none = dict.fromkeys(names, 0.0)
    counts = {n: 1.0 + tree_complexity(expressions, none | {n: 1.0}) for n in names}
    total = sum(counts.values())
    return {name: -math.log2(count / total) for name, count in counts.items()}


def _tree(expr: sympy.Basic, w: Mapping[str, float], seen: Seen = None) -> float:
    if expr.is_Symbol:
        return w["variable"]
    if getattr(expr, "is_number", False):
        return w["constant"]
    if seen is not None and not expr.is_Atom:
        if expr in seen:
            return w["variable"]  # a reference to what stands somewhere else already
        seen.add(expr)
    if expr.is_Add:
        return sum(_tree(a, w, seen) for a in expr.args) + w["add"] * (len(expr.args) - 1)
    if expr.is_Mul:
        return _tree_product(expr, w, seen)
    if expr.is_Pow:
        return _tree_power(expr, w, seen)
    if isinstance(expr, sympy.Piecewise):
        cases = sum(_tree(value, w, seen) + _tree_condition(c, w, seen) for value, c in expr.args)
        return cases + w["where"] * (len(expr.args) - 1)
    row = NODES.get(expr.func)
    if row is None:
        raise LawError(f"{expr.func.__name__} is not in the operator table.")
    calls = len(expr.args) - 1 if row.max_arity > 2 else 1  # a maximum of three is two maxima
    return w[row.name] * calls + sum(_tree(a, w, seen) for a in expr.args)


def _tree_product(expr: sympy.Expr, w: Mapping[str, float], seen: Seen) -> float:
    coefficient, rest = expr.as_coeff_Mul()
    top = [] if abs(coefficient) == 1 else [w["constant"]]
    bottom = []
    safe = []
    for factor in sympy.Mul.make_args(rest):
        if factor.is_Pow and factor.exp.could_extract_minus_sign():
            bottom.append(_tree(1 / factor, w, seen))
        elif isinstance(factor, safe_div):  # a * safe_div(1, b) is one quotient
            safe.append(w["safe_div"] + _tree(factor.args[1], w, seen))
        else:
            top.append(_tree(factor, w, seen))
    if not top:
        top = [w["constant"]]
    cost = sum(top) + w["mul"] * (len(top) - 1) + sum(safe)
    if bottom:
        cost += w["div"] + sum(bottom) + w["mul"] * (len(bottom) - 1)
    return cost


def _tree_power(expr: sympy.Expr, w: Mapping[str, float], seen: Seen) -> float:
    base, exponent = expr.args
    if exponent.could_extract_minus_sign():
        return w["constant"] + w["div"] + _tree(1 / expr, w, seen)
    if exponent.is_Integer:
        return _tree(base, w, seen) + w["power"] + w["exponent"] * (int(exponent) - 2)
    if exponent == sympy.S.Half:
        return _tree(base, w, seen) + w["sqrt"]
    return _tree(base, w, seen) + w["pow"] + _tree(exponent, w, seen)


def _tree_condition(condition: sympy.Basic, w: Mapping[str, float], seen: Seen) -> float:
    if isinstance(condition, sympy.And | sympy.Or):
        return sum(_tree_condition(a, w, seen) for a in condition.args)
    if isinstance(condition, sympy.core.relational.Relational):
        return w["compare"] + sum(_tree(a, w, seen) for a in condition.args)
    return 0.0


def term_weight(term: sympy.Expr) -> float:
    """What one library term costs by the rule of the paper's experiments; its coefficient is free.

    >>> p = sympy.Symbol("p", real=True)
    >>> term_weight(-0.4 * p * sympy.Abs(p))
    3.0
    """
    _, rest = term.as_coeff_Mul()
    return _term(rest)


def _term(expr: sympy.Basic) -> float:
    if getattr(expr, "is_number", False):
        return _TERM_CONSTANT
    if expr.is_Symbol:
        return _TERM_VARIABLE
    if expr.is_Mul or expr.is_Add:
        return sum(_term(a) for a in expr.args)
    if expr.is_Pow:
        base, exponent = expr.args
        if exponent.is_Integer:
            division = _TERM_FUNCTION if exponent < 0 else 0.0
            return _term(base) + EACH_DEGREE * (abs(int(exponent)) - 1) + division
        return _term(base) + _TERM_FUNCTION
    if isinstance(expr, safe_div):
        return _TERM_FUNCTION + _term(expr.args[1])
    if isinstance(expr, sympy.Piecewise):
        return _TERM_FUNCTION * (len(expr.args) - 1) + sum(_term(v) for v, _ in expr.args)
    return _TERM_FUNCTION + sum(_term(a) for a in expr.args)


@lru_cache(maxsize=4096)
def split_terms(expr: sympy.Expr) -> tuple[tuple[float, sympy.Expr], ...]:
    """The sum as (coefficient, term) pairs; zero has none.

    >>> x = sympy.Symbol("x", real=True)
    >>> split_terms(2 * x - 3)
    ((-3.0, 1), (2.0, x))
    """
    pairs = [a.as_coeff_Mul() for a in sympy.Add.make_args(expr) if a != 0]
    return tuple((float(c), interned(term)) for c, term in pairs)


@lru_cache(maxsize=4096)
def interned(term: sympy.Expr) -> sympy.Expr:
    """The first of equal terms: the same object is found in a table without being compared."""
    return term


def description_length(
    loss: float, rows: int, outputs: int, coefficients: int, nodes: int, alphabet: int
) -> float:
    """Two-part code length in nats (MDL): the residuals, the coefficients, the structure.

    `loss` is the mean squared error in units of the targets' variance. Residuals cost half the
    logarithm of that per number, each coefficient half a logarithm of the number of rows, each
    node of the tree a choice among `alphabet` symbols. Lower is better; only differences on the
    same data mean anything.
    """
    rows, loss = whole_of(rows, "rows", 1), number_of(loss, "loss")
    residuals = 0.5 * rows * outputs * math.log(max(loss, 1e-300))
    return residuals + 0.5 * coefficients * math.log(rows) + nodes * math.log(max(alphabet, 2))


def count_nodes(expressions: Iterable[sympy.Expr]) -> int:
    """Number of nodes of the trees, every kind counted once."""
    return sum(sum(1 for _ in sympy.preorder_traversal(e)) for e in expressions)
