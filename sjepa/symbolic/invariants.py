"""Conserved quantities: functions of the state that do not change along the paths of a law.

F is conserved if its change along the law, grad F . f, is 0 everywhere. Of a sum of candidate
terms that is linear in the coefficients: at many points of a box the changes of all candidates make
a matrix, and its null space holds every conserved sum. Whatever is found there is kept if it holds
at other points too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from math import lcm
from typing import TYPE_CHECKING

import numpy as np
import sympy
from sympy.integrals.manualintegrate import manualintegrate

from sjepa.errors import LawError
from sjepa.symbolic.calculus import jacobian
from sjepa.symbolic.emit import NumpyLaw
from sjepa.symbolic.law_methods import order_of
from sjepa.symbolic.operators import NODES
from sjepa.symbolic.parse import parse
from sjepa.symbolic.program import compile_program


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law

Array = np.ndarray

# Highest degree of the monomials, and of those that multiply other functions (less two).
DEGREE = 4
# The most candidate terms, and points for each.
MAX_TERMS, POINTS = 400, 4
# States lie within this distance of 0 by default, half of the points where all are positive.
RADIUS = 2.0
# Singular values below this share of the largest are 0; so much may be left of a conserved sum, as
# a share of its parts; and no less of a gradient makes a quantity independent of others.
NULL, HOLDS, INDEPENDENT = 1e-10, 1e-9, 1e-6
# Coefficients of a conserved sum, in units of the terms' changes, below which they are rounding.
ZERO = 1e-7
# Ratios within the second number of a fraction with at most this denominator are that fraction.
DENOMINATOR, FRACTION = 1000, 1e-8
# Terms longer than this are not integrated.
MAX_OPERATIONS = 40


def invariants(
    law: Law,
    terms: Sequence[str] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    *,
    seed: int = 0,
) -> list[sympy.Expr]:
    """Conserved quantities that are sums of candidate terms, the simplest first.

    Parameters
    ----------
    terms : list of str, optional
        What a conserved quantity may be a sum of. By default monomials of the states up to degree
        four, the terms of the law and their integrals, logarithms of states that stay at 0, and
        products of all those with states; lower degrees where these would be more than 400.
    bounds : mapping, optional
        Least and largest value of states and inputs by name, where they are not of the order of 1.
        A quantity counts as conserved if it is constant inside these bounds.
    seed : int
        Of the points.

    Returns
    -------
    list of sympy.Expr
        Each independent of those before: neither constant nor a function of them, so the square of
        an energy is not listed beside it. Coefficients are fractions where the law's allow it. A
        quantity is conserved for any values of the control inputs, or it is not in the list.

    Examples
    --------
    >>> from sjepa import Law
    >>> Law.from_string(["p", "-sin(q)"], ["q", "p"]).invariants()
    [p**2 - 2*cos(q)]
    >>> Law.from_string(["p", "-sin(q) - 0.1*p"], ["q", "p"]).invariants()
    []
    """
    flow = _Flow.of(law, bounds or {}, seed)
    if terms is None:
        stages = _stages(flow)
    else:
        known = [str(s) for s in flow.state]
        given = [parse(text, known) for text in terms]
        if len(given) > MAX_TERMS:
            raise LawError(f"There are {len(given)} terms; give at most {MAX_TERMS}.")
        stages = iter([given])
    # Along a path of a vector field something changes, unless it is at rest.
    count = len(flow.state) - (law.dynamics == "continuous")
    found: list[sympy.Expr] = []
    for candidates in stages:
        found += flow.conserved(candidates, found)
        if len(found) >= count:
            break
    return found


@dataclass(frozen=True, eq=False)
class _Flow:
    """A law as the velocity of its state, and points (2, n, inputs) of a box: to find, to test."""

    law: Law
    state: tuple[sympy.Symbol, ...]
    velocity: tuple[sympy.Expr, ...]
    points: Array

    @classmethod
    def of(cls, law: Law, bounds: Mapping[str, tuple[float, float]], seed: int) -> _Flow:
        if unknown := sorted(set(bounds) - set(law.inputs)):
            raise LawError(f"bounds names {unknown[0]!r}; the inputs are {', '.join(law.inputs)}.")
        count = len(law.outputs)
        order = order_of(law)
        state = law.symbols[: order * count]
        velocity = law.expressions if order == 1 else (*state[count:], *law.expressions)
        rng = np.random.default_rng(seed)
        share = rng.uniform(size=(2, POINTS * MAX_TERMS, len(law.inputs)))
        low, high = np.full((2, len(law.inputs)), [[-RADIUS], [RADIUS]])
        for i, name in enumerate(law.inputs):
            if name in bounds:
                low[i], high[i] = bounds[name]
        if not (np.isfinite([low, high]).all() and (low < high).all()):
            raise LawError("bounds are pairs of a least and a larger value.")
        points = low + share * (high - low)
        free = np.array([name not in bounds for name in law.inputs])
        points[:, ::2] = np.where(free, np.abs(points[:, ::2]), points[:, ::2])
        return cls(law, state, tuple(velocity), points)

    def conserved(
        self, candidates: Sequence[sympy.Expr], known: Sequence[sympy.Expr]
    ) -> list[sympy.Expr]:
        """What sums of the candidates conserve beyond what is known."""
        terms = list(dict.fromkeys(candidates))
        find, test = (self._at(terms, points) for points in self.points)
        if min(len(find[0]), len(test[0])) < 2 * len(terms):
            return []
        terms, find, test = _distinct(terms, find, test)
        found = list(known)
        null, unit = _null_space(find[0])
        for sum_ in _sparse(null) / unit:
            places = np.flatnonzero(sum_)
            rough = [(sympy.Float(float(sum_[i])), terms[i]) for i in places]
            for pairs in (_simplified(rough), rough):
                values = np.array([float(c) for c, _ in pairs])
                if _holds(test[0][:, places], values):
                    expression = sympy.Add(*(c * t for c, t in pairs))
                    if self._independent(expression, found):
                        found.append(expression)
                    break
        return found[len(known) :]

    def _at(self, terms: Sequence[sympy.Expr], points: Array) -> tuple[Array, Array]:
        """Changes (n, terms) along the law and gradients (n, d, terms), where they are defined."""
        d = len(self.state)
        slopes = _values(list(jacobian(terms, self.state)), self.law, points)
        gradient = slopes.reshape(len(points), len(terms), d).transpose(0, 2, 1)
        velocity = _values(self.velocity, self.law, points)
        if self.law.dynamics == "continuous":
            change = np.einsum("nd,ndk->nk", velocity, gradient)
        else:
            after = np.concatenate([velocity, points[:, d:]], axis=1)
            change = _values(terms, self.law, after) - _values(terms, self.law, points)
        good = np.isfinite(change).all(axis=1) & np.isfinite(gradient).all(axis=(1, 2))
        return change[good], gradient[good]

    def _independent(self, expression: sympy.Expr, known: Sequence[sympy.Expr]) -> bool:
        """Whether the gradient leaves the span of the others' at most points."""
        gradient = self._at([*known, expression], self.points[1])[1]
        size = np.linalg.norm(gradient, axis=1, keepdims=True)
        gradient = gradient / np.maximum(size, 1e-300)
        smallest = np.linalg.svd(gradient, compute_uv=False)[:, -1]
        wide = gradient.shape[2] > gradient.shape[1]
        return not wide and bool(np.median(smallest) > INDEPENDENT)


def _values(expressions: Sequence[sympy.Expr], law: Law, points: Array) -> Array:
    return NumpyLaw(compile_program(expressions, law.symbols), ())(points)


# Candidates -----------------------------------------------------------------------------------


def _stages(flow: _Flow) -> Iterator[list[sympy.Expr]]:
    """Ever more candidates, so that what is simple is found in its simplest form."""
    state = flow.state
    other = [t for t in _functions(flow) if not t.is_polynomial(*state)]
    for degree in range(1, DEGREE + 1):
        products = [m * t for m in _monomials(state, degree - 2) for t in other]
        stage = [*_monomials(state, degree), *other, *products]
        if len(stage) > MAX_TERMS:
            return
        yield stage


def _monomials(state: Sequence[sympy.Symbol], degree: int) -> list[sympy.Expr]:
    return [
        sympy.Mul(*factors)
        for k in range(1, degree + 1)
        for factors in combinations_with_replacement(state, k)
    ]


def _functions(flow: _Flow) -> list[sympy.Expr]:
    """Terms of the law, their integrals, logarithms of states that stay at 0."""
    found: dict[sympy.Expr, None] = {}
    states = set(flow.state)
    for x, velocity in zip(flow.state, flow.velocity, strict=True):
        if velocity.subs(x, 0) == 0 and velocity != 0:
            found.setdefault(sympy.log(x))
    parts = [t for row in flow.law.terms for _, t in row]
    for term in dict.fromkeys(parts):
        if not term.free_symbols or not term.free_symbols <= states:
            continue
        found.setdefault(term)
        for x in flow.state:
            found.setdefault(x * term)  # the integral of a power
            for part in _integral(term, x):
                found.setdefault(part)
    return list(found)


def _integral(term: sympy.Expr, x: sympy.Symbol) -> Iterator[sympy.Expr]:
    """The terms of an integral that the operators can write."""
    if x not in term.free_symbols or sympy.count_ops(term) > MAX_OPERATIONS:
        return
    try:
        whole = manualintegrate(term, x)
    except (NotImplementedError, ValueError, TypeError):
        return
    for part in sympy.Add.make_args(sympy.expand(whole)):
        bare = part.as_independent(*term.free_symbols, as_Add=False)[1]
        functions = bare.atoms(sympy.Function, sympy.Integral, sympy.Piecewise)
        if all(type(f) in NODES for f in functions):
            yield bare


# Linear algebra -------------------------------------------------------------------------------


def _distinct(
    terms: list[sympy.Expr], find: tuple[Array, Array], test: tuple[Array, Array]
) -> tuple[list[sympy.Expr], tuple[Array, Array], tuple[Array, Array]]:
    """Without terms that are sums of those before them and a constant, as sin**2 is of cos**2."""
    gradient = find[1].reshape(-1, len(terms))
    basis, kept = np.zeros((len(gradient), 0)), []
    for k in range(len(terms)):
        size = np.linalg.norm(gradient[:, k])
        left = gradient[:, k] / max(size, 1e-300)
        for _ in range(2):
            left = left - basis @ (basis.T @ left)
        if size > 0 and np.linalg.norm(left) > INDEPENDENT**1.5:
            basis = np.column_stack([basis, left / np.linalg.norm(left)])
            kept.append(k)
    chosen = [terms[k] for k in kept]
    return chosen, (find[0][:, kept], find[1][..., kept]), (test[0][:, kept], test[1][..., kept])


def _null_space(change: Array) -> tuple[Array, Array]:
    """Sums (s, terms) without change at any of the points (n, terms), and a unit of each term."""
    column = np.linalg.norm(change, axis=0)
    still = column <= NULL * column.max(initial=0.0)
    column = np.where(still, 1.0, column)
    scaled = change / column
    row = np.linalg.norm(scaled, axis=1, keepdims=True)
    scaled = scaled / np.where(row > 0, row, 1.0)
    norm = np.linalg.norm(scaled, axis=0)
    norm = np.where(norm > 0, norm, 1.0)
    _, size, right = np.linalg.svd(scaled / norm, full_matrices=False)
    null = right[size <= NULL * max(size[0], 1e-300)]
    return null, norm * column


def _sparse(null: Array) -> Array:
    """The same sums combined so that few terms are in each, those of simple terms first.

    Terms come the simplest first: a sum with a complicated one is left with as few others as can
    be, and what needs none of them stands alone.
    """
    rows = np.where(np.abs(null).max(axis=0, initial=0.0) > ZERO, null, 0.0)
    pivots: list[int] = []
    for place in range(null.shape[1] - 1, -1, -1):
        done = len(pivots)
        if done == len(rows):
            break
        best = done + int(np.argmax(np.abs(rows[done:, place])))
        if abs(rows[best, place]) <= ZERO:
            continue
        rows[[done, best]] = rows[[best, done]]
        rows[done] /= rows[done, place]
        for other in range(len(rows)):
            if other != done:
                rows[other] -= rows[other, place] * rows[done]
        pivots.append(place)
    rows = rows[: len(pivots)][::-1]
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    return np.where(np.abs(rows) > ZERO * largest, rows, 0.0)


Pairs = list[tuple[sympy.Expr, sympy.Expr]]


def _simplified(pairs: Pairs) -> Pairs:
    """The sum times a number that makes its coefficients whole, if they can be, most positive."""
    ratios = [float(c) / float(pairs[0][0]) for c, _ in pairs]
    if sum(r > 0 for r in ratios) < sum(r < 0 for r in ratios):
        ratios = [-r for r in ratios]
    fractions = [Fraction(r).limit_denominator(DENOMINATOR) for r in ratios]
    near = [abs(f - r) <= FRACTION * abs(r) for f, r in zip(fractions, ratios, strict=True)]
    factor = lcm(*(f.denominator for f in fractions)) if all(near) else 1
    return [
        (
            sympy.Rational(f.numerator * factor, f.denominator) if ok else sympy.Float(r * factor),
            term,
        )
        for f, ok, r, (_, term) in zip(fractions, near, ratios, pairs, strict=True)
    ]


def _holds(change: Array, coefficients: Array) -> bool:
    """Whether the parts of a sum cancel at every point."""
    parts = change * coefficients
    size = np.abs(parts).sum(axis=1)
    typical = np.median(size)
    return bool((np.abs(parts.sum(axis=1)) <= HOLDS * (size + typical)).all())
