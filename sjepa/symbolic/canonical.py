"""One form for equal expressions.

The form is reached by a fixed, bounded sequence of rewrites in exact arithmetic, never by
searching for a nicer expression: doubles become the decimal fractions that people read, so
``0.1*x + 0.2*x`` is ``0.3*x`` and cancellation leaves nothing behind.

1. constants are folded, bottom up;
2. products and integer powers of sums are multiplied out, as long as the result stays small;
3. terms over the same denominator are gathered and common factors canceled;
4. numbers become doubles again (whole numbers stay whole).

Only rewrites that hold wherever the input is defined are used. A term is dropped only where
contributions to that same term cancel; how small it is beside other terms is a matter of units.

Expressions are compared in this form and evaluated in another one: multiplied out, ``(x - 1)**50``
is a sum of huge terms that cancel, so a law keeps factors unless that takes more additions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

import sympy

from sjepa.errors import LawError
from sjepa.symbolic.operators import NODES
from sjepa.symbolic.powers import MAX_ROOT, NEGLIGIBLE, add, power, rational, tame
from sjepa.symbolic.text import to_text


# A product of sums with more terms than this stays a product.
MAX_TERMS = 200
# Denominators longer than this are not searched for common factors.
MAX_CANCEL = 40
# Doubles carry 15 to 16 digits; two roads to the same number agree to about this many.
DIGITS = 14
# exp(c + x) is written exp(c)*exp(x) up to this c; beyond it the factor would be absurd.
MAX_CONSTANT_EXPONENT = 50


def canonicalize(expr: sympy.Expr) -> sympy.Expr:
    """The canonical form: equal for equal expressions, stable under repetition.

    >>> x, y = sympy.symbols("x y", real=True)
    >>> canonicalize((x + 1) * (x - 1.0) + 1) == canonicalize(x**2)
    True
    """
    return _reduced(_exact(expr, canonicalize))


def factored(expr: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
    """The form to evaluate, and the canonical one: the same where factors save no addition."""
    exact = _exact(expr, canonicalize)
    canonical = _reduced(exact)
    kept: dict[sympy.Symbol, sympy.Expr] = {}
    whole = _exact(expr, lambda case: factored(case)[0]) if expr.has(sympy.Piecewise) else exact
    if any(map(_multiplies_sums, sympy.preorder_traversal(whole))):
        whole = _keep_factors(whole, kept)
    if whole != exact:
        shorter = _reduced(whole).xreplace(kept)
        if _additions(shorter) <= _additions(canonical):
            # Of its rounded numbers: what is read back from text has no others.
            return shorter, canonicalize(shorter)
    return canonical, canonical


def _additions(expr: sympy.Expr) -> int:
    """How many there are: digits cancel in nothing else."""
    return sum(len(e.args) - 1 for e in sympy.preorder_traversal(expr) if e.is_Add)


def _reduced(exact: sympy.Expr) -> sympy.Expr:
    reduced = _gather(_join_exponentials(_multiply_out(exact)))
    if reduced.has(sympy.I):  # roots of what is negative wherever it is defined, as sqrt(-x**2)
        raise LawError(f"{to_text(exact, 4)} is not a real number.")
    return _doubles(reduced)


def _multiplies_sums(expr: sympy.Basic, sign: int = 0) -> bool:
    """Whether sums are multiplied with each other, above the line (1), below it (-1) or on either.

    One sum times a term loses no digits by being multiplied out; with every further one the
    digits that cancel add up.
    """
    if not (expr.is_Mul or expr.is_Pow):
        return False
    exponents = [n for base, n in map(_whole_power, sympy.Mul.make_args(expr)) if base.is_Add]
    above, below = sum(max(n, 0) for n in exponents), sum(max(-n, 0) for n in exponents)
    return (above > 1 and sign >= 0) or (below > 1 and sign <= 0)


def _keep_factors(expr: sympy.Expr, kept: dict[sympy.Symbol, sympy.Expr]) -> sympy.Expr:
    """Symbols in place of the sums that would be multiplied with each other."""
    if not expr.args or isinstance(expr, sympy.Piecewise):
        return expr
    if not _multiplies_sums(expr):
        return _again(expr, [_keep_factors(a, kept) for a in expr.args])
    factors = []
    for base, n in map(_whole_power, sympy.Mul.make_args(expr)):
        if base.is_Add and _multiplies_sums(expr, 1 if n > 0 else -1):
            form = _reduced(_keep_factors(base, kept)).xreplace(kept)
            new = sympy.Symbol(f"factor[{len(kept)}]", real=True)  # no name of an input
            symbol = next((s for s, known in kept.items() if known == form), new)
            kept[symbol] = form
            factors.append(symbol**n)
        else:
            factors.append(_keep_factors(base, kept) ** n)
    return sympy.Mul(*factors)


def _whole_power(factor: sympy.Expr) -> tuple[sympy.Expr, int]:
    """A factor as a base and a whole exponent, which is 1 for what is no such power."""
    if factor.is_Pow and factor.exp.is_Integer:
        return factor.base, int(factor.exp)
    return factor, 1


@lru_cache(maxsize=4096)
def term_text(term: sympy.Expr) -> str:
    return to_text(term, digits=12)


def canonical_sum(pairs: Iterable[tuple[float, sympy.Expr]]) -> sympy.Expr:
    """The canonical form of a sum of canonical terms, no two of which can be gathered."""
    return sympy.Add(*(_times(c, t) for c, t in pairs))


def _times(coefficient: float, term: sympy.Expr) -> sympy.Expr:
    """A number times a term without one, as SymPy would order it but without its searches."""
    number = _as_double(coefficient)
    if number == 1 or term == 1:
        return term if number == 1 else number
    return sympy.Mul._from_args((number, *sympy.Mul.make_args(term)))


def threshold(expr: sympy.Expr, smallest: float) -> sympy.Expr:
    """Drop the terms of a sum whose coefficient is smaller than `smallest` in size."""
    kept = [
        term for term in sympy.Add.make_args(expr) if abs(float(term.as_coeff_Mul()[0])) >= smallest
    ]
    return factored(sympy.Add(*kept))[0]


def _exact(expr: sympy.Expr, form: Callable[[sympy.Expr], sympy.Expr]) -> sympy.Expr:
    """Fold constants and make every number a fraction; rebuilds the tree bottom up.

    `form` is applied to the cases of case distinctions, which no later step looks into.
    """
    if expr.is_Float:
        return rational(float(expr))
    if expr.is_Rational or expr.is_Symbol or not expr.args:
        return rational(float(expr)) if expr.is_NumberSymbol else expr
    if isinstance(expr, sympy.Piecewise):
        return sympy.Piecewise(
            *((form(value), _exact_condition(condition, form)) for value, condition in expr.args)
        )
    arguments = [_exact(a, form) for a in expr.args]
    rebuilt = _rebuild(expr, arguments)
    if rebuilt.is_number and not rebuilt.is_Rational:
        return rational(_value(rebuilt))
    return rebuilt


def _rebuild(expr: sympy.Expr, arguments: list[sympy.Expr]) -> sympy.Expr:
    if expr.is_Mul:
        return tame(_fold_signs(sympy.Mul(*arguments)))
    if expr.func not in NODES:
        return _again(expr, arguments)
    node = NODES[expr.func].node
    assert node is not None
    folded = node(*arguments)
    return sympy.Float(_value(folded)) if all(a.is_number for a in arguments) else folded


def _again(expr: sympy.Expr, arguments: Iterable[sympy.Expr]) -> sympy.Expr:
    """The same node of other arguments."""
    if expr.is_Add:
        return add(arguments)
    return power(*arguments) if expr.is_Pow else expr.func(*arguments)


def _value(expr: sympy.Expr) -> float:
    value = complex(expr.evalf(17))
    if value.imag or not math.isfinite(value.real):
        raise LawError(f"The constant {to_text(expr)} is not a finite real number.")
    return value.real


def _fold_signs(product: sympy.Expr) -> sympy.Expr:
    """sign(a)*a is abs(a), and abs(a)/a is sign(a) up to the point a = 0."""
    if not product.is_Mul or not product.has(sympy.sign):
        return product
    for factor in product.args:
        if isinstance(factor, sympy.sign):
            (inner,) = factor.args
            powers = product.as_powers_dict()
            if powers.get(inner, 0) >= 1:
                rest = product / factor / inner
                return _fold_signs(rest * sympy.Abs(inner))
    return product


def _exact_condition(
    condition: sympy.Basic, form: Callable[[sympy.Expr], sympy.Expr]
) -> sympy.Basic:
    if isinstance(condition, sympy.And | sympy.Or):
        return condition.func(*(_exact_condition(a, form) for a in condition.args))
    if isinstance(condition, sympy.core.relational.Relational):
        return _relation(condition, form)
    if isinstance(condition, sympy.ITE | sympy.Not):
        # What SymPy makes of a comparison with a comparison; "and" and "or" can say it too.
        return _exact_condition(sympy.to_nnf(condition, simplify=True), form)
    return condition


def _relation(relation: sympy.Basic, form: Callable[[sympy.Expr], sympy.Expr]) -> sympy.Basic:
    """A comparison with the first term of the difference free of a factor, so that SymPy, which
    would divide by whole numbers only, finds nothing to do."""
    difference = form(relation.lhs - relation.rhs)
    leading = _leading_coefficient(difference.as_coeff_Add()[1])
    if leading == 0:
        return relation.func(difference, 0)
    number, rest = form(_divided(difference, leading)).as_coeff_Add()
    relation = relation if leading > 0 else relation.reversed
    if number == 0 and rest.is_Add and len(rest.args) == 2:  # x > y rather than x - y > 0
        return relation.func(rest.args[0], -rest.args[1])
    return relation.func(rest, -number)


def _terms(expr: sympy.Expr) -> int:
    """How many terms the expression has once multiplied out (an upper bound)."""
    if expr.is_Add:
        return sum(_terms(a) for a in expr.args)
    if expr.is_Mul:
        return math.prod(_terms(a) for a in expr.args)
    if expr.is_Pow and expr.exp.is_Integer and expr.base.is_Add:
        n, k = abs(int(expr.exp)), _terms(expr.base)
        return math.comb(n + k - 1, n) if n + k < 400 else MAX_TERMS + 1
    return 1


def _multiply_out(expr: sympy.Expr) -> sympy.Expr:
    """Expand products and powers of sums, inside function arguments too."""
    if not expr.args or isinstance(expr, sympy.Piecewise):
        return expr
    rebuilt = _again(expr, (_multiply_out(a) for a in expr.args))
    if (rebuilt.is_Mul or rebuilt.is_Pow) and rebuilt.has(sympy.Add):
        if 1 < _terms(rebuilt) <= MAX_TERMS or _has_product_below(rebuilt):
            return _expand(rebuilt)
    return rebuilt


def _expand(product: sympy.Expr) -> sympy.Expr:
    """The product multiplied out, without what rounding leaves of contributions that cancel."""

    def multiply(expr: sympy.Expr) -> sympy.Expr:
        return sympy.expand(expr, deep=False, power_base=False, power_exp=False, log=False)

    # SymPy would multiply a denominator with that of the number before it, and with exp(x) where
    # exp(-x) stands beside it.
    number, product = product.as_coeff_Mul()
    factors = sympy.Mul.make_args(product)
    beside = [a for a in factors if isinstance(a, sympy.exp) or (a.is_Pow and not a.exp.is_Integer)]
    product = sympy.Mul(*(a for a in factors if a not in beside))
    expanded = multiply(product)
    pairs = [a.as_coeff_Mul() for a in sympy.Add.make_args(expanded)]
    if min(abs(c) for c, _ in pairs) <= NEGLIGIBLE * _sizes(product, lambda term: sympy.S.One):
        sizes = multiply(_sizes(product, lambda term: term)).as_coefficients_dict()
        pairs = [(c, t) for c, t in pairs if abs(c) > NEGLIGIBLE * sizes[t]]
    return sympy.Add(*(sympy.Mul(number * c, t, *beside) for c, t in pairs))


def _sizes(product: sympy.Expr, of: Callable[[sympy.Expr], sympy.Expr]) -> sympy.Expr:
    """The product with every coefficient of its sums made positive, and something of each term."""
    if product.is_Add:
        return sympy.Add(*(abs(c) * of(t) for c, t in (a.as_coeff_Mul() for a in product.args)))
    if product.is_Mul:
        return sympy.Mul(*(_sizes(a, of) for a in product.args))
    if product.is_Pow and product.exp.is_Integer and product.exp.is_positive:
        return _sizes(product.base, of) ** product.exp
    return abs(product) if product.is_Number else of(product)


def _join_exponentials(expr: sympy.Expr) -> sympy.Expr:
    """exp(a)*exp(b) is exp(a + b), and a constant in an exponent is a factor."""
    if not expr.has(sympy.exp) or not expr.args or isinstance(expr, sympy.Piecewise):
        return expr
    rebuilt = _again(expr, (_join_exponentials(a) for a in expr.args))
    factors = sympy.Mul.make_args(rebuilt)
    exponents = [a.args[0] for a in factors if isinstance(a, sympy.exp)]
    if not exponents:
        return rebuilt
    constant, exponent = sympy.Add(*exponents).as_coeff_Add()
    if abs(constant) > MAX_CONSTANT_EXPONENT:
        constant, exponent = sympy.S.Zero, sympy.Add(*exponents)
    rest = [a for a in factors if not isinstance(a, sympy.exp)]
    return sympy.Mul(rational(math.exp(float(constant))), *rest, sympy.exp(exponent))


def _has_product_below(expr: sympy.Expr) -> bool:
    """A denominator such as (x+1)*(x+2), which counts as one term but can be multiplied out."""
    denominators = [
        a for a in sympy.Mul.make_args(expr) if a.is_Pow and a.exp.is_negative and a.exp.is_Integer
    ]
    if not denominators:
        return False
    return 1 < math.prod(_terms(1 / a) for a in denominators) <= MAX_TERMS


def _gather(expr: sympy.Expr) -> sympy.Expr:
    """Add up the terms that share a denominator, and cancel what they have in common."""
    if not expr.args or isinstance(expr, sympy.Piecewise):
        return expr
    if not expr.is_Add and not expr.is_Mul and not expr.is_Pow:
        return expr.func(*(_gather(a) for a in expr.args))
    groups: dict[sympy.Expr, list[sympy.Expr]] = {}
    for term in sympy.Add.make_args(expr):
        top, bottom = _fraction(term)
        groups.setdefault(bottom, []).append(top)
    return add(_quotient(add(tops), bottom) for bottom, tops in groups.items())


def _fraction(term: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
    """Split off the denominators that are sums: only those can hide a common factor."""
    top, bottom = [], []
    for factor in sympy.Mul.make_args(term):
        base, exponent = _whole_power(factor)
        if base.is_Add and exponent < 0:
            gathered = _gather(base)
            bottom.append((gathered if gathered.is_Add else base) ** -exponent)
        else:
            top.append(_inner(factor))
    return sympy.Mul(*top), _product(bottom)


def _inner(expr: sympy.Expr) -> sympy.Expr:
    """Gather inside function arguments of one factor."""
    if expr.is_Mul or expr.is_Pow:
        return _again(expr, (_inner(a) for a in expr.args))
    return _gather(expr) if expr.args else expr


def _product(factors: list[sympy.Expr]) -> sympy.Expr:
    product = sympy.Mul(*factors)
    return product if product.is_Add or _terms(product) > MAX_TERMS else _expand(product)


def _quotient(top: sympy.Expr, bottom: sympy.Expr) -> sympy.Expr:
    if bottom == 1:
        return top
    if max(_terms(top), _terms(bottom)) <= MAX_CANCEL and _may_share_factor(top, bottom):
        symbols = sorted(top.free_symbols | bottom.free_symbols, key=str)
        # The polynomials are over fractions, so `cancel` returns whole-number coefficients.
        upper, lower = sympy.Poly(top, *symbols).cancel(sympy.Poly(bottom, *symbols), include=True)
        top, bottom = upper.as_expr(), lower.as_expr()
    leading = _leading_coefficient(bottom)
    return _divided(top, leading) / _divided(bottom, leading)


def _divided(total: sympy.Expr, by: sympy.Rational) -> sympy.Expr:
    """Every coefficient of a sum over a number, which leaves quotients inside it as they are."""
    return sympy.Add(*(a / by for a in sympy.Add.make_args(total)))


def _may_share_factor(top: sympy.Expr, bottom: sympy.Expr) -> bool:
    """Whether looking for a common divisor is worth it: two polynomials, not trivially coprime."""
    if not top.is_Add and bottom.as_coeff_Add()[0] != 0:
        return False  # a monomial over a sum with a constant term
    return all(
        part.is_Symbol
        or part.is_Rational
        or part.is_Add
        or part.is_Mul
        or (part.is_Pow and part.exp.is_Integer and part.exp.is_positive)
        for expr in (top, bottom)
        for part in sympy.preorder_traversal(expr)
    )


def _leading_coefficient(bottom: sympy.Expr) -> sympy.Rational:
    first = min(
        sympy.Add.make_args(bottom), key=lambda a: sympy.default_sort_key(a.as_coeff_Mul()[1])
    )
    return first.as_coeff_Mul()[0]


def _doubles(expr: sympy.Expr) -> sympy.Expr:
    """Fractions to doubles, except whole numbers and exponents."""
    if expr.is_Rational:
        return expr if expr.is_Integer and abs(expr) < 10**15 else _as_double(expr)
    if not expr.args or isinstance(expr, sympy.Piecewise):
        return expr
    if expr.is_Pow:
        exponent = expr.exp if _is_structure(expr.exp) else _doubles(expr.exp)
        return _doubles(expr.base) ** exponent
    return expr.func(*(_doubles(a) for a in expr.args))


def _is_structure(exponent: sympy.Expr) -> bool:
    return bool(exponent.is_Rational and exponent.q <= MAX_ROOT)


def _as_double(value: sympy.Rational | float) -> sympy.Expr:
    rounded = float(f"{float(value):.{DIGITS}g}")
    return (
        sympy.Integer(int(rounded))
        if rounded == int(rounded) and abs(rounded) < 1e15
        else sympy.Float(rounded)
    )
