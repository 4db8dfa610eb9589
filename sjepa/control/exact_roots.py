"""Exact roots of small systems of equations, where elimination finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy


Box = Mapping[sympy.Symbol, tuple[float, float]]
Solution = dict[sympy.Symbol, sympy.Expr]

MAX_ROOTS = 200
HIGHEST_DEGREE = 12


class _Unsolved(Exception):
    """Elimination got stuck, or the solutions are not isolated points."""


def exact_roots(
    equations: Sequence[sympy.Expr], unknowns: Sequence[sympy.Symbol], box: Box
) -> list[Solution] | None:
    """All real solutions in the box, or None where they cannot be solved for exactly.

    Products are split into their factors, unknowns that stand alone are eliminated, and what is
    left with one unknown is solved as a polynomial or as an equation in one sine or cosine. No
    general solver is asked, so this always comes back quickly.
    """
    exact = [sympy.nsimplify(e, rational=True) for e in equations]
    try:
        roots = _solve([e for e in exact if e != 0], list(unknowns), box)
    except (_Unsolved, NotImplementedError, sympy.PolynomialError):
        return None
    inside = [s for s in roots if all(_within(s[x], box[x]) for x in unknowns)]
    return list({tuple(s[x] for x in unknowns): s for s in inside}.values())


def _within(value: sympy.Expr, limits: tuple[float, float]) -> bool:
    number = complex(value.evalf(20))
    return abs(number.imag) < 1e-12 and limits[0] - 1e-9 <= number.real <= limits[1] + 1e-9


def _solve(equations: list[sympy.Expr], unknowns: list[sympy.Symbol], box: Box) -> list[Solution]:
    if any(not e.free_symbols for e in equations):
        constants = [e for e in equations if not e.free_symbols]
        if any(abs(complex(e.evalf(30))) > 1e-20 for e in constants):
            return []
        equations = [e for e in equations if e.free_symbols]
    if not unknowns:
        return [{}]
    if not equations:
        raise _Unsolved  # a whole line or surface of solutions
    for i, e in enumerate(equations):
        factors = _factors(e)
        if len(factors) > 1:
            rest = equations[:i] + equations[i + 1 :]
            roots = [s for f in factors for s in _solve([f, *rest], unknowns, box)]
            if len(roots) > MAX_ROOTS:
                raise _Unsolved
            return roots
    for e in equations:
        for x in unknowns:
            slope = sympy.diff(e, x)
            if e.has(x) and not slope.free_symbols and slope != 0:
                return _substitute(e, x, [sympy.solve(e, x)[0]], equations, unknowns, box)
    for e in equations:
        if len(e.free_symbols) == 1:
            (x,) = e.free_symbols
            return _substitute(e, x, _one_unknown(e, x, box[x]), equations, unknowns, box)
    raise _Unsolved


def _factors(e: sympy.Expr) -> list[sympy.Expr]:
    product = sympy.factor_terms(e) if not e.is_polynomial() else sympy.factor(e)
    parts = [f.base if f.is_Pow else f for f in sympy.Mul.make_args(product)]
    return [f for f in parts if f.free_symbols]


def _substitute(
    e: sympy.Expr,
    x: sympy.Symbol,
    values: Sequence[sympy.Expr],
    equations: list[sympy.Expr],
    unknowns: list[sympy.Symbol],
    box: Box,
) -> list[Solution]:
    roots = []
    for value in values:
        rest = [sympy.expand(q.subs(x, value)) for q in equations if q is not e]
        others = [y for y in unknowns if y != x]
        for s in _solve([q for q in rest if q != 0], others, box):
            roots.append({**s, x: sympy.simplify(value.subs(s)) if value.free_symbols else value})
    return roots


def _one_unknown(e: sympy.Expr, x: sympy.Symbol, limits: tuple[float, float]) -> list[sympy.Expr]:
    if e.is_polynomial(x):
        polynomial = sympy.Poly(e, x)
        if polynomial.degree() > HIGHEST_DEGREE:
            raise _Unsolved
        return list(dict.fromkeys(polynomial.real_roots()))
    waves = e.atoms(sympy.sin, sympy.cos)
    if len(waves) != 1:
        raise _Unsolved
    (wave,) = waves
    w = sympy.Dummy("w", real=True)
    inner = e.xreplace({wave: w})
    rate = sympy.diff(wave.args[0], x)
    if inner.has(x) or rate.has(x) or not inner.is_polynomial(w):
        raise _Unsolved
    offset = wave.args[0].subs(x, 0)
    roots = []
    for level in dict.fromkeys(sympy.Poly(inner, w).real_roots()):
        if abs(float(level)) > 1:
            continue
        if isinstance(wave, sympy.sin):
            angles = [sympy.asin(level), sympy.pi - sympy.asin(level)]
        else:
            angles = [sympy.acos(level), -sympy.acos(level)]
        for angle in angles:
            # Every turn that can bring x into its limits.
            ends = sorted(float((rate * b + offset - angle) / (2 * sympy.pi)) for b in limits)
            for turn in range(int(ends[0]) - 1, int(ends[1]) + 2):
                value = (angle + 2 * sympy.pi * turn - offset) / rate
                if limits[0] - 1e-9 <= float(value) <= limits[1] + 1e-9:
                    roots.append(sympy.nsimplify(value) if value.is_Rational else value)
        if len(roots) > MAX_ROOTS:
            raise _Unsolved
    return list(dict.fromkeys(roots))
