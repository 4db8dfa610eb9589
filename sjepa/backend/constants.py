"""Where the numbers inside terms lie: a beam over places on a grid, then variable projection.

Terms with open numbers stand in the search as many columns, one for each place on a grid. A beam
keeps the best sets of shapes of every size, each at its best places; the numbers of those are then
moved by least squares, with the coefficients of all terms solved for at every step. What comes out
is an ordinary library whose terms have their numbers, which any backend can search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from sjepa.symbolic import Gram, Library
from sjepa.symbolic.complexity import term_weight
from sjepa.symbolic.shapes import Shape


Array = np.ndarray
# A function of inputs (T, d) with any number of columns, and its values on the rows of a problem.
Pointwise = Callable[[Array], Array]
OnRows = Callable[[Pointwise], Array]

# Sets that are followed for every shape, and the most terms of one equation.
BEAM, MAX_TERMS = 8, 6
# Of the sets of every size, how many have their numbers moved.
POLISHED = 25
# Shapes that are tried beside every other.
PARTNERS = 5
# A column must keep this share of itself beside the others; what is less is a copy.
OWN = 1e-7
# Terms with numbers that an output may end up with.
MOST = 14
MAX_STEPS = 30
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
        weights = [*base.weights, *map(term_weight, new)]
        self.base = Library([*base.terms, *new], base.inputs, weights, canonical=False)
        self.of = of
        placed = [(s, s.places(x)) for s in shapes if s.constants]
        self.open = [(s, places) for s, places in placed if len(places)]
        self.fixed = of(self.base.numpy())
        self.columns = [of(_at(s, places)) for s, places in self.open]
        self.costs = [term_weight(s.at(places[0])) for s, places in self.open]


def _at(shape: Shape, places: Array) -> Pointwise:
    return lambda x: shape.columns(x, places)


def place_constants(
    base: Library, shapes: Sequence[Shape], of: OnRows, x: Array, targets: Array,
    floor: Array, time_left: Callable[[], bool] = lambda: True,
) -> Library:  # fmt: skip
    """The base library and the shapes that explain the targets (n, k) best, with numbers.

    `x` (m, d) are inputs at points, for the scale of the numbers; `of` takes a function of such
    points to the rows. `floor` (k,) is the loss of a true law: where terms without open numbers
    reach it, shapes are not looked at. Each output may use the terms that were placed for it.
    """
    grid = Columns(base, shapes, of, x)
    found: dict[sympy.Expr, set[int]] = {}
    for j, y in enumerate(targets.T):
        for term in _chosen(placed_sets(grid, y, float(floor[j]), time_left), grid):
            found.setdefault(term, set()).add(j)
    known = set(base.terms)
    new = [t for t in found if t not in known]
    k = targets.shape[1]
    own = base.mask([f"y{j}" for j in range(k)])
    added = np.array([[j in found[t] for j in range(k)] for t in new], dtype=bool).reshape(-1, k)
    weights = [*base.weights, *map(term_weight, new)]
    mask = np.concatenate([own, added])
    return Library([*base.terms, *new], base.inputs, weights, mask, canonical=False)


def placed_sets(
    grid: Columns, y: Array, floor: float, time_left: Callable[[], bool] = lambda: True
) -> list[Placed]:
    """Sets of terms for one target, with none, one and two open shapes."""
    variance = max(float(np.var(y)), 1e-300)
    plain = _Search(grid.fixed, y)
    sets = [
        Placed(support, (), float(grid.base.weights[list(support)].sum()), plain.loss(support))
        for support in plain.best([()])
    ]
    if min(s.loss for s in sets) <= floor:
        return sets
    one = _with_open(grid, y, (), plain, time_left)
    sets += one
    if min(s.loss for s in sets) <= floor or not time_left():
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
    cost = sum(term_weight(s.at(v)) for s, v in given)
    found: dict[int, list[tuple[float, Placed]]] = {}
    for k, (shape, places) in enumerate(grid.open):
        search = _Search(np.concatenate([grid.fixed, *more, grid.columns[k]], axis=1), y)
        always = tuple(range(grid.fixed.shape[1], own))
        starts = [(*always, own + i) for i in range(len(places))]
        for support in search.best(starts, own):
            values = [places[i - own] for i in support if i >= own]
            base = tuple(i for i in support if i < grid.fixed.shape[1])
            total = float(grid.base.weights[list(base)].sum()) + cost + grid.costs[k]
            shapes = (*given, *((shape, tuple(v.tolist())) for v in values))
            one = Placed(base, shapes, total, search.loss(support))
            found.setdefault(len(support), []).append((one.loss, one))
        if not time_left():
            break
    ranked = [one for rows in found.values() for _, one in sorted(rows, key=lambda r: r[0])[:POLISHED]]
    return [polish(grid, one, y) for one in ranked]


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

    def best(self, starts: Sequence[tuple[int, ...]], columns: int | None = None) -> list[tuple[int, ...]]:
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


def _chosen(sets: Sequence[Placed], grid: Columns) -> list[sympy.Expr]:
    """The terms with numbers of the best sets: those nothing beats, then those that come close."""
    best = np.inf
    ranked = []
    for one in sorted(sets, key=lambda s: (s.cost, s.loss)):
        ranked.append((one.loss / best, one))
        best = min(best, one.loss)
    terms: dict[sympy.Expr, None] = {}
    for _, one in sorted(ranked, key=lambda pair: pair[0]):
        own = [shape.at(values) for shape, values in one.shapes]
        for term in [*own, *(grid.base.terms[i] for i in one.base)]:
            if len(terms) < MOST:
                terms.setdefault(term)
    return list(terms)


def polish(grid: Columns, one: Placed, y: Array, tolerance: float = 1e-3) -> Placed:
    """The set with its numbers moved to the lowest loss near them."""
    counts = [len(v) for _, v in one.shapes]
    start = np.array([c for _, v in one.shapes for c in v])
    if not len(start):
        return one
    fixed = grid.fixed[:, list(one.base)]
    splits = np.cumsum(counts)[:-1]
    first = np.cumsum([0, *(1 + n for n in counts[:-1])])
    inner = np.setdiff1d(np.arange(sum(counts) + len(counts)), first)
    owner = np.repeat(np.arange(len(counts)), counts)
    solved: dict[str, Any] = {}

    def residuals(values: Array) -> Array:
        parts = np.split(values, splits)
        both = grid.of(
            lambda x: np.concatenate(
                [s.with_slopes(x, v) for (s, _), v in zip(one.shapes, parts, strict=True)], axis=1
            )
        )
        theta = np.concatenate([fixed, both[:, first]], axis=1)
        if not np.isfinite(both).all():
            return np.full(len(y), 1e3 * np.abs(y).max())
        scale = np.maximum(np.linalg.norm(theta, axis=0), 1e-300)
        q, r = np.linalg.qr(theta / scale)
        c = np.linalg.lstsq(r, q.T @ y, rcond=1e-13)[0] / scale
        # Kaufman: how the fit moves with a number, less what the coefficients make good.
        slopes = both[:, inner] * c[fixed.shape[1] :][owner]
        solved["jacobian"] = -(slopes - q @ (q.T @ slopes))
        return y - theta @ c

    from scipy.optimize import least_squares  # slow to import, and most data do not need it

    found = least_squares(
        residuals, start, jac=lambda _: solved["jacobian"], x_scale=np.maximum(np.abs(start), 1e-3),
        max_nfev=MAX_STEPS, ftol=tolerance, xtol=TOLERANCE, gtol=TOLERANCE,
    )  # fmt: skip
    loss = float(np.mean(found.fun**2) / max(np.var(y), 1e-300))
    parts = np.split(found.x, splits)
    shapes = tuple((s, tuple(v.tolist())) for (s, _), v in zip(one.shapes, parts, strict=True))
    return Placed(one.base, shapes, one.cost, loss)
