"""Numbers and powers in exact arithmetic whose work is bounded for every input."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import sympy

from sjepa.errors import LawError


# Exponents up to this denominator are fractions, part of the structure; others are numbers.
MAX_ROOT = 12
# Fractions with more digits than this stand for a double.
MAX_DIGITS = 60
MAX_EXPONENT = 400
# Doubles carry 15 to 16 digits: what is left of contributions to one term that cancel to less
# than this share of them is rounding.
NEGLIGIBLE = 1e-14


def add(parts: Iterable[sympy.Expr]) -> sympy.Expr:
    """The sum, without what rounding leaves of contributions to one term that cancel."""
    every = [a for part in parts for a in sympy.Add.make_args(part)]
    total = sympy.Add(*every)
    terms = sympy.Add.make_args(total)
    if len(terms) == len(every):
        return total
    sizes: dict[sympy.Expr, sympy.Expr] = {}
    for coefficient, term in (a.as_coeff_Mul() for a in every):
        sizes[term] = sizes.get(term, sympy.S.Zero) + abs(coefficient)
    pairs = [a.as_coeff_Mul() for a in terms]
    return sympy.Add(*(c * t for c, t in pairs if abs(c) > NEGLIGIBLE * sizes.get(t, 0)))


def rational(value: float) -> sympy.Rational:
    """The shortest decimal that means this double; rounding happens once, at the end."""
    if not math.isfinite(value):
        raise LawError("An expression contains a constant that is not a finite number.")
    exact = Fraction(repr(value))
    return sympy.Rational(exact.numerator, exact.denominator)


def power(base: sympy.Expr, exponent: sympy.Expr) -> sympy.Expr:
    """base**exponent in bounded time.

    SymPy takes numbers out of a power exactly, looking for roots of the numerator and
    denominator; for an exponent like 0.20704003 those would have millions of digits.
    """
    exponent = nice_exponent(exponent)
    if not exponent.is_Number:
        return base**exponent
    inner = [abs(f.exp) for f in sympy.Mul.make_args(base) if f.is_Pow and f.exp.is_Number]
    if abs(exponent) * max(inner, default=sympy.S.One) > MAX_EXPONENT:
        raise LawError(f"An exponent is larger than {MAX_EXPONENT}.")
    number, rest = base.as_coeff_Mul()
    if number == 0 or (abs(number) == 1 and rest != 1):
        return base**exponent
    digits = len(str(number.p)) + len(str(number.q)) if number.is_Rational else MAX_DIGITS
    if exponent.is_Integer and digits * abs(int(exponent)) <= 4 * MAX_DIGITS:
        return base**exponent
    if exponent.is_Rational and exponent.q <= MAX_ROOT and digits <= MAX_DIGITS:
        return base**exponent
    sign = sympy.sign(number)
    try:
        size = rational(abs(float(number)) ** float(exponent))
    except OverflowError:
        size = sympy.oo
    if not 0 < size < sympy.oo:
        raise LawError("A constant is too large or too small for a double.")
    if rest == 1 and sign < 0 and not exponent.is_Integer:
        raise LawError("A constant is not a real number.")
    return tame(size * (sign * rest) ** exponent)


def tame(expr: sympy.Expr) -> sympy.Expr:
    """Numbers and exponents whose fractions are too long to use, as the doubles they are."""
    number, rest = expr.as_coeff_Mul()
    if rest.is_Pow and rest.exp.is_Rational and rest.exp.q > 10**MAX_DIGITS:
        rest = rest.base ** rational(float(rest.exp))
    if number.is_Rational and number.q > 10 ** (2 * MAX_DIGITS):
        number = rational(float(number))
    return number * rest


def nice_exponent(exponent: sympy.Expr) -> sympy.Expr:
    """0.333... was meant as 1/3: exponents with a small denominator are that fraction."""
    if exponent.is_Rational and exponent.q > MAX_ROOT:
        near = Fraction(int(exponent.p), int(exponent.q)).limit_denominator(MAX_ROOT)
        if abs(near - Fraction(int(exponent.p), int(exponent.q))) < 1e-12:
            return sympy.Rational(near.numerator, near.denominator)
    return exponent
