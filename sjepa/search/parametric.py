"""Nonlinear parameters of terms: a beam over places on a grid, then variable projection.

Parametric terms stand in the search as many columns, one for each place on a grid. A beam
keeps the best sets of shapes of every size, each at its best places; the numbers of those are then
moved by least squares, with the coefficients of all terms solved for at every step. What comes out
is an ordinary library whose terms have their numbers, which any backend can search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import sympy

from sjepa.backend.base import Backend
from sjepa.backend.problem import Problem
from sjepa.errors import LawError
from sjepa.symbolic import Front, Gram, Law, Library, canonicalize
from sjepa.symbolic.complexity import split_terms
from sjepa.symbolic.gram import MAX_SIZE
from sjepa.symbolic.snap import variants
from sjepa.symbolic.term_templates import TermTemplate as Shape, weight


Array = np.ndarray
# A function of inputs (T, d) with any number of columns, and its values on the rows of a problem.
Pointwise = Callable[[Array], Array]
OnRows = Callable[[Pointwise], Array]

# Sets that are followed for every shape, and the most terms of one equation.
BEAM, MAX_TERMS = 16, 6
# Of the sets of every size with two shapes, how many have their numbers moved.
POLISHED = 12
# An exact set up to this cost ends the search; a longer one may stand for two shapes.
SHORT = 8.0
# Shapes that are tried beside every other.
PARTNERS = 5
# A column must keep this share of itself beside the others; what is less is a copy.
OWN = 1e-7
# Terms that an output may end up with beside those of the library; numbers within this share of
# each other make the same term. Few rows allow fewer.
MOST, ALIKE, ROWS_PER_TERM = 14, 0.01, 8
MAX_STEPS = 20
TOLERANCE = 1e-12


@dataclass(frozen=True)
class Placed:
    """A set of terms for one output: base columns, and shapes with their numbers."""

    base: tuple[int, ...]
    shapes: tuple[tuple[Shape, tuple[float, ...]], ...]
    cost: float
    loss: float


class Columns:
    """The columns of terms and of open shapes at their places, on the same rows."""

    def __init__(self, base: Library, shapes: Sequence[Shape], of: OnRows, x: Array) -> None:
        closed = [s.at(()) for s in shapes if not s.constants and len(s.places(x))]
        new = [t for t in dict.fromkeys(closed) if t not in base.terms]
        weights = [*base.weights, *map(weight, new)]
        self.base = Library([*base.terms, *new], base.inputs, weights, canonical=False)
        self.of, self.points = of, x
        placed = [(s, s.places(x)) for s in shapes if s.constants]
        self.open = [(s, places) for s, places in placed if len(places)]
        self.fixed = of(self.base.numpy())
        self.columns = [of(_at(s, places)) for s, places in self.open]
        self.costs = [weight(s.at(places[0])) for s, places in self.open]


# Finds sets of terms for one target, given the loss of a true law and whether there is time left.
Source = Callable[[Columns, Array, float, Callable[[], bool]], list[Placed]]


def _at(shape: Shape, places: Array) -> Pointwise:
    return lambda x: shape.columns(x, places)


def place_constants(
    base: Library, shapes: Sequence[Shape], of: OnRows, x: Array, targets: Array,
    floor: Array, sure: bool = True, time_left: Callable[[], bool] = lambda: True,
    also: Source | None = None,
) -> Library:  # fmt: skip
    """The base library and the shapes that explain the targets (n, k) best, with numbers.

    `x` (m, d) are inputs at points, for the scale of the numbers; `of` takes a function of such
    points to the rows. `floor` (k,) is the loss of a true law, `sure` whether no wrong one has it:
    then shapes are not looked at where terms without parameters reach it. `also` finds sets of
    its own where they do not. Each output may use the terms that were placed for it.
    """
    grid = Columns(base, shapes, of, x)
    found: dict[sympy.Expr, set[int]] = {}
    for j, y in enumerate(targets.T):
        sets = placed_sets(grid, y, float(floor[j]), sure, time_left, also)
        for term in _chosen(sets, grid, len(y)):
            found.setdefault(term, set()).add(j)
    known = set(base.terms)
    new = [t for t in found if t not in known]
    k = targets.shape[1]
    own = base.mask([f"y{j}" for j in range(k)])
    added = np.array([[j in found[t] for j in range(k)] for t in new], dtype=bool).reshape(-1, k)
    weights = [*base.weights, *map(weight, new)]
    mask = np.concatenate([own, added])
    return Library([*base.terms, *new], base.inputs, weights, mask, canonical=False)


def placed_sets(
    grid: Columns, y: Array, floor: float, sure: bool,
    time_left: Callable[[], bool] = lambda: True, also: Source | None = None,
) -> list[Placed]:  # fmt: skip
    """Sets of terms for one target, with none, one and two open shapes, and those of a source.

    Where terms without nonlinear parameters reach the floor, and that is sure to be one, they do.
    """
    plain = _Search(grid.fixed, y)
    sets, variance = [], max(float(np.var(y)), 1e-300)
    for support in plain.best([()]):
        # On the rows: sums of squares would say 0 where columns nearly coincide.
        error = projected(grid.of, grid.fixed[:, list(support)], (), y, 0.0)[2]
        cost = float(grid.base.weights[list(support)].sum())
        sets.append(Placed(support, (), cost, error / variance))
    if sure and min(s.loss for s in sets) <= floor:
        return sets
    one = _with_open(grid, y, (), plain, time_left)
    sets += one
    if also is not None:
        sets += also(grid, y, floor, time_left)
    if any(s.loss <= floor and s.cost <= SHORT for s in sets) or not time_left():
        return sets
    partners: dict[int, Placed] = {}
    for s in sorted(one, key=lambda s: s.loss * max(s.cost, 1.0)):
        partners.setdefault(id(s.shapes[0][0]), s)
    for first in list(partners.values())[:PARTNERS]:
        if time_left():
            sets += _with_open(grid, y, first.shapes, plain, time_left)
    return sets


def _with_open(
    grid: Columns, y: Array, given: tuple[tuple[Shape, tuple[float, ...]], ...], plain: _Search,
    time_left: Callable[[], bool],
) -> list[Placed]:  # fmt: skip
    """Sets with one more open shape than those given, at every size, their numbers moved."""
    more = [grid.of(_at(s, np.array([v]))) for s, v in given]
    own = grid.fixed.shape[1] + len(more)
    cost = sum(weight(s.at(v)) for s, v in given)
    found: dict[int, list[tuple[float, Placed]]] = {}
    for k, (shape, places) in enumerate(grid.open):
        search = _Search(np.concatenate([grid.fixed, *more, grid.columns[k]], axis=1), y)
        always = tuple(range(grid.fixed.shape[1], own))
        starts = [(*always, own + i) for i in range(len(places))]
        for support in search.best(starts, own)[:: 1 if given else 2]:
            values = [places[i - own] for i in support if i >= own]
            base = tuple(i for i in support if i < grid.fixed.shape[1])
            total = float(grid.base.weights[list(base)].sum()) + cost + grid.costs[k]
            shapes = (*given, *((shape, tuple(v.tolist())) for v in values))
            one = Placed(base, shapes, total, search.loss(support))
            found.setdefault(len(support), []).append((one.loss, one))
        if not time_left():
            break
    most = POLISHED if given else len(grid.open)
    best = (sorted(rows, key=lambda row: row[0])[:most] for rows in found.values())
    return [polish(grid, one, y) for rows in best for _, one in rows]


class _Search:
    """Forward selection on one Gram matrix, several sets at a time."""

    def __init__(self, features: Array, y: Array) -> None:
        gram = Gram.from_features(features, y[:, None])
        scale = np.sqrt(np.maximum(np.diag(gram.xx), 1e-300))
        self.a = gram.xx / np.outer(scale, scale)
        total = max(float(gram.yy[0]), 1e-300)
        self.b = gram.xy[:, 0] / scale / np.sqrt(total)
        self.unit = total / gram.weight / float(gram.variance[0])
        self.known: dict[tuple[int, ...], float] = {}

    def loss(self, support: tuple[int, ...]) -> float:
        return self.known[support] * self.unit

    def best(
        self, starts: Sequence[tuple[int, ...]], columns: int | None = None
    ) -> list[tuple[int, ...]]:
        """The two best sets of every size that grow from some, by any of the first columns.

        Sets that differ only beyond those columns are one set, at its best place.
        """
        columns = len(self.b) if columns is None else columns
        frontier, kept = list(starts), []
        for support in frontier:
            if support:
                self.known[support] = self._alone(support)
        if len(frontier[0]):
            kept += sorted(frontier, key=self.known.__getitem__)[:2]
        while len(frontier[0]) < MAX_TERMS:
            grown: dict[tuple[int, ...], tuple[float, tuple[int, ...]]] = {}
            for support in frontier:
                losses = self._with_one_more(support)[:columns]
                for i in np.argsort(losses, kind="stable")[:BEAM].tolist():
                    key = tuple(sorted([*(k for k in support if k < columns), i]))
                    if key not in grown or losses[i] < grown[key][0]:
                        place = [k for k in support if k >= columns]
                        grown[key] = (float(losses[i]), (*key, *place))
            ordered = sorted(grown.values())[:BEAM]
            self.known |= {support: loss for loss, support in ordered}
            frontier = [support for _, support in ordered]
            kept += frontier[:2]
        return kept

    def _alone(self, support: tuple[int, ...]) -> float:
        s = list(support)
        inverse = np.linalg.pinv(self.a[np.ix_(s, s)], rcond=1e-13, hermitian=True)
        return max(1.0 - float(self.b[s] @ inverse @ self.b[s]), 0.0)

    def _with_one_more(self, support: tuple[int, ...]) -> Array:
        """Loss (share of the target's square) with each column added to a support."""
        if not support:
            return 1.0 - self.b**2
        s = list(support)
        inverse = np.linalg.inv(self.a[np.ix_(s, s)] + 1e-13 * np.eye(len(s)))
        w = self.a[:, s] @ inverse
        own = 1.0 - np.einsum("ps,ps->p", w, self.a[:, s])
        left = self.b - w @ self.b[s]
        gain = np.where(own > OWN, left**2 / np.maximum(own, OWN), 0.0)
        gain[s] = -1.0
        return np.maximum(1.0 - float(self.b[s] @ inverse @ self.b[s]) - gain, 0.0)


def _chosen(sets: Sequence[Placed], grid: Columns, rows: int) -> list[sympy.Expr]:
    """The terms with numbers of the best sets: those nothing beats, then those that come close."""
    best, most = np.inf, min(MOST, rows // ROWS_PER_TERM)
    ranked = []
    for one in sorted(sets, key=lambda s: (s.cost, s.loss)):
        ranked.append((one.loss / max(best, 1e-300), one))
        best = min(best, one.loss)
    terms: dict[sympy.Expr, None] = {}
    seen: dict[int, list[Array]] = {}
    for _, one in sorted(ranked, key=lambda pair: pair[0]):
        for i in one.base:
            terms.setdefault(grid.base.terms[i])
        for shape, values in one.shapes:
            known = seen.setdefault(id(shape), [])
            if not any(np.allclose(values, other, rtol=ALIKE, atol=0.0) for other in known):
                known.append(np.array(values))
                with suppress(LawError):  # a number that ran away, as an exponent may
                    terms.setdefault(shape.at(values))
        if len(terms) >= most:
            break
    return list(terms)


def polish(grid: Columns, one: Placed, y: Array, tolerance: float = 1e-3) -> Placed:
    """The set with its numbers moved to the lowest loss near them."""
    if not any(s.constants for s, _ in one.shapes):
        return one
    values, _, error = projected(grid.of, grid.fixed[:, list(one.base)], one.shapes, y, tolerance)
    shapes = tuple((s, v) for (s, _), v in zip(one.shapes, values, strict=True))
    return Placed(one.base, shapes, one.cost, error / max(float(np.var(y)), 1e-300))


def projected(
    of: OnRows, fixed: Array, shapes: Sequence[tuple[Shape, tuple[float, ...]]], y: Array,
    tolerance: float, steps: int = MAX_STEPS,
) -> tuple[list[tuple[float, ...]], Array, float]:  # fmt: skip
    """Variable projection: parameters of templates, coefficients of all columns, mean square error.

    Coefficients are solved for at every step, so only the parameters are moved.
    """
    if not shapes:
        scale = np.maximum(np.linalg.norm(fixed, axis=0), 1e-300)
        plain = np.linalg.lstsq(fixed / scale, y, rcond=1e-13)[0] / scale
        return [], plain, float(np.mean((y - fixed @ plain) ** 2))
    counts = [len(v) for _, v in shapes]
    start = np.array([c for _, v in shapes for c in v])
    splits = np.cumsum(counts)[:-1]
    first = np.cumsum([0, *(1 + n for n in counts[:-1])])
    inner = np.setdiff1d(np.arange(sum(counts) + len(counts)), first)
    owner = np.repeat(np.arange(len(counts)), counts)
    solved: dict[str, Array] = {}

    def residuals(values: Array) -> Array:
        parts = np.split(values, splits)
        both = of(
            lambda x: np.concatenate(
                [s.with_slopes(x, v) for (s, _), v in zip(shapes, parts, strict=True)], axis=1
            )
        )
        if not (np.abs(both) <= MAX_SIZE).all():
            return np.full(len(y), 1e3 * np.abs(y).max())
        theta = np.concatenate([fixed, both[:, first]], axis=1)
        scale = np.maximum(np.linalg.norm(theta, axis=0), 1e-300)
        q, r = np.linalg.qr(theta / scale)
        c = np.linalg.lstsq(r, q.T @ y, rcond=1e-13)[0] / scale
        # Kaufman: how the fit moves with a number, less what the coefficients make good.
        slopes = both[:, inner] * c[fixed.shape[1] :][owner]
        solved["jacobian"], solved["coefficients"] = -(slopes - q @ (q.T @ slopes)), c
        return y - theta @ c

    error = residuals(start)
    if len(start) and len(y) > len(start) and "jacobian" in solved:
        from scipy.optimize import least_squares  # slow to import, and most data do not need it

        found = least_squares(
            residuals, start, jac=lambda _: solved["jacobian"],
            x_scale=np.maximum(np.abs(start), 1e-3), max_nfev=steps, ftol=tolerance,
            xtol=TOLERANCE, gtol=TOLERANCE,
        )  # fmt: skip
        if (found.fun**2).sum() <= (error**2).sum():
            start = found.x
        error = residuals(start)
    values = [tuple(v.tolist()) for v in np.split(start, splits)]
    return values, solved.get("coefficients", np.zeros(0)), float(np.mean(error**2))


def solve_open(
    backend: Backend, problem: Problem, shapes: Sequence[Shape], of: OnRows, x: Array,
    floor: Array, sure: bool = True, time_left: Callable[[], bool] = lambda: True,
    also: Source | None = None,
) -> tuple[Front, Problem]:  # fmt: skip
    """A front of laws of the problem's library and of shapes, and the problem with their terms.

    The backend searches the terms that were placed; the parameters in the laws of its front are
    then moved once more, each law's together. Nothing is proven about numbers off the grid.
    """
    base, targets = problem.library, problem.targets
    assert base is not None and targets is not None
    library = place_constants(base, shapes, of, x, targets, floor, sure, time_left, also)
    front = on_library(problem, library, of).solve(backend)
    laws = [moved(c.law, problem, of) for c in front if time_left() or c is front[0]]
    new: dict[sympy.Expr, set[int]] = {}
    for law in laws:
        for j, row in enumerate(law.terms):
            for _, term in row:
                if term not in library.term_weights:
                    new.setdefault(term, set()).add(j)
    if new:
        k = len(problem.outputs)
        mask = np.array([[j in found for j in range(k)] for found in new.values()]).reshape(-1, k)
        mask = np.concatenate([library.mask(problem.outputs), mask])
        weights = [*library.weights, *map(weight, new)]
        library = Library([*library.terms, *new], base.inputs, weights, mask, canonical=False)
    problem = on_library(problem, library, of)
    rows = [problem.candidate(law) for law in laws]
    rows += [replace(c, certified=False) for c in front if problem.admits(c.law)]
    return Front.of(rows, problem.measure, front.backend, front.notes, min_gain=0.01), problem


def on_library(problem: Problem, library: Library, of: OnRows) -> Problem:
    """The same rows with another library."""
    if problem.inputs is not None:
        return problem.with_(library=library, warm=None)
    return problem.with_(library=library, features=of(library.numpy()), on_rows=of, warm=None)


def moved(law: Law, problem: Problem, of: OnRows) -> Law:
    """The law with its nonlinear parameters where they fit best, simple ones where those do."""
    targets = problem.targets
    assert targets is not None
    rows = []
    for j, expr in enumerate(law.expressions):
        best = _fitted(expr, problem, targets[:, j], of)
        for other in variants(best[1]):
            trial = _fitted(other, problem, targets[:, j], of)
            if trial[0] <= 1.02 * best[0]:
                best = trial
        rows.append(best[1])
    return Law(rows, law.inputs, law.outputs, law.dynamics).canonical()


def _fitted(expr: sympy.Expr, problem: Problem, y: Array, of: OnRows) -> tuple[float, sympy.Expr]:
    """Mean square error, and the expression with its numbers moved."""
    pairs = split_terms(expr)
    terms = [t for _, t in pairs if not t.has(sympy.Float)]
    open_ = [Shape.of(t, problem.names) for _, t in pairs if t.has(sympy.Float)]
    if not pairs:
        return float(np.mean(y**2)), expr
    fixed = np.zeros((len(y), 0))
    if terms:
        fixed = of(Library(terms, problem.names, canonical=False).numpy())
    values, coefficients, error = projected(of, fixed, open_, y, 1e-8)
    if not len(coefficients):
        return np.inf, expr
    moved = [*terms, *(s.expr_at(v) for (s, _), v in zip(open_, values, strict=True))]
    found = sympy.Add(
        *(sympy.Float(c) * t for c, t in zip(coefficients.tolist(), moved, strict=True))
    )
    return error, canonicalize(found)
