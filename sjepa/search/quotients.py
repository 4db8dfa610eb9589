"""Laws that are quotients, x' = q(x)/p(x), from p(x) x' = q(x), which is linear in all its numbers.

For every small set of monomials that may make up the denominator, least squares on all monomials of
the numerator, which are then left out one by one, the least needed first: the idea of SINDy-PI
(Kaheman, Kutz and Brunton, 2020). The derivative stands on both sides, so it must be clean; and
p x' may be small for a p that explains nothing, so sets are judged by what q/p leaves of x'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import sympy

from sjepa.search.parametric import Array, Columns, Placed, _Search, polish, projected
from sjepa.symbolic import Library, canonicalize
from sjepa.symbolic.parse import symbol
from sjepa.symbolic.term_templates import TermTemplate as Shape, weight


# Monomials of a numerator at first, their highest degree, and how many may be left.
MOST, DEGREE, LEFT = 35, 4, 8
# Rows for each monomial above or below.
ROWS = 2
# Weighed by p, a true law may leave this many times the floor.
ROOM = 100.0
# Every part of a denominator must reach this share of it.
PART = 1e-4
# Quotients of the fewest monomials that are spelt out; heavier ones imitate any path.
KEPT, HEAVIEST = 3, 10.0


@dataclass(frozen=True)
class Quotient:
    """Monomials above and below, numbers of those below, how many in all, and their residual."""

    above: list[sympy.Expr]
    below: tuple[sympy.Expr, ...]
    numbers: Array
    parts: int
    error: float


def quotient_sets(
    grid: Columns, y: Array, floor: float, time_left: Callable[[], bool] = lambda: True
) -> list[Placed]:
    """Sets of terms for one target that reach the floor with one quotient, each of another p."""
    found = sorted(_quotients(grid, y, floor, time_left), key=lambda q: (q.parts, q.error))
    spelt = (list(_spelt(grid, y, floor, one)) for one in found[:KEPT])
    best = [min(sets, key=lambda s: (s.cost, s.loss)) for sets in spelt if sets]
    return [polish(grid, one, y) for one in best]


def _denominators(inputs: Sequence[str], degree: int) -> Iterator[tuple[sympy.Expr, ...]]:
    """c + m, c + m + n, m + n and (c + m)(d + n) of monomials m and n, without common factors."""
    z, one = [symbol(n) for n in inputs], sympy.S.One
    low = [sympy.Mul(*f) for k in (1, 2) for f in combinations_with_replacement(z, k) if k < degree]
    low += [x**3 for x in z if degree > 3]
    yield from ((one, m) for m in low)
    for m, n in combinations(low, 2):
        yield one, m, n
        if not m.free_symbols & n.free_symbols:
            yield m, n
            if len(m.free_symbols | n.free_symbols) == 2:
                yield one, m, n, m * n


def _quotients(
    grid: Columns, y: Array, floor: float, time_left: Callable[[], bool]
) -> Iterator[Quotient]:
    inputs, degree = grid.base.inputs, DEGREE
    while len(top := Library.polynomial(inputs, degree)) > MOST:
        degree -= 1
    sets = list(_denominators(inputs, degree))
    monomials_below = list(dict.fromkeys(m for p in sets for m in p))
    # Too many inputs have no sets, and few rows would be fitted by any.
    if not sets or len(y) < ROWS * (len(top) + len(monomials_below)):
        return
    bottom = Library(monomials_below, inputs, canonical=False)
    place = {m: i for i, m in enumerate(bottom.terms)}
    above, below = grid.of(top.numpy()), grid.of(bottom.numpy())
    corners = np.array(list(product(*np.stack([grid.points.min(0), grid.points.max(0)], axis=1))))
    everywhere = np.concatenate([below, bottom.numpy()(corners)])
    columns = np.concatenate([above, -below * y[:, None]], axis=1)
    scale = np.maximum(np.abs(columns).max(axis=0), 1e-300)
    # Any choice of columns has the same least squares on this triangle as on the rows.
    triangle = np.asarray(np.linalg.qr(columns / scale, mode="r"))
    for monomials in sets:
        if not time_left():
            return
        p, best = [place[m] for m in monomials], None
        for kept, c in _leaving_out(triangle, [len(top) + i for i in p], len(top), ROOM * floor):
            c = c / scale[[*(len(top) + i for i in p), *kept]]
            c = c / c[0]
            parts = everywhere[:, p] * c[: len(p)]
            values = parts.sum(axis=1)
            largest = np.abs(values).max()
            if values.min() * values.max() <= 0 or np.abs(parts).max(0).min() < PART * largest:
                continue
            error = float(np.mean((y - above[:, kept] @ c[len(p) :] / values[: len(y)]) ** 2))
            if error <= floor * np.var(y):
                chosen = [top.terms[i] for i in kept]
                best = Quotient(chosen, monomials, c[: len(p)], len(c), error)
        if best is not None:
            yield best


def _leaving_out(
    columns: Array, below: list[int], free: int, limit: float
) -> Iterator[tuple[list[int], Array]]:
    """Numerators of the first `free` columns for a denominator, one column less each time.

    With coefficients of p and q so that p x' = q, that of the first part of p being 1.
    """
    left, fixed, kept = columns[:, below[0]], below[1:], list(range(free))
    while kept:
        q, r = np.linalg.qr(columns[:, [*fixed, *kept]])
        inverse = np.linalg.inv(r + 1e-15 * np.eye(len(r)))
        c = -inverse @ (q.T @ left)
        whole = left + columns[:, fixed] @ c[: len(fixed)]
        rest = whole + columns[:, kept] @ c[len(fixed) :]
        if rest @ rest > limit * (whole @ whole):
            return
        if len(kept) <= LEFT:
            yield list(kept), np.array([1.0, *c])
        needed = c**2 / (inverse**2).sum(axis=1)
        kept.pop(int(np.argmin(needed[len(fixed) :])))


def _spelt(grid: Columns, y: Array, floor: float, one: Quotient) -> Iterator[Placed]:
    """Sums of terms and of a monomial over the denominator that reach the floor."""
    plain = [i for i, t in enumerate(grid.base.terms) if t.is_polynomial()]
    above, below = (
        grid.of(Library(terms, grid.base.inputs, canonical=False).numpy())
        for terms in (one.above, one.below)
    )
    p, variance = sympy.Add(*map(sympy.Mul, one.numbers.tolist(), one.below)), float(np.var(y))
    for monomial, column in zip(one.above, above.T, strict=True):
        term = canonicalize(monomial / p).as_coeff_Mul()[1]
        if (own := weight(term)) > HEAVIEST:
            continue
        columns = np.column_stack([grid.fixed[:, plain], column / (below @ one.numbers)])
        for support in _Search(columns, y).best([(len(plain),)]):
            error = projected(grid.of, columns[:, list(support)], (), y, 0.0)[2]
            if error <= floor * variance:
                base = tuple(plain[i] for i in support if i < len(plain))
                cost = float(grid.base.weights[list(base)].sum()) + own
                yield Placed(base, (Shape.of(term, grid.base.inputs),), cost, error / variance)
