"""Sets of terms that explain one target, by their lengths in bits rather than by a beam.

For a few terms without open numbers every pair of columns beside them is looked at, at every place
of their numbers, by arithmetic on one matrix of inner products. The best sets of every size have
their numbers moved. A set is as good as its description of the data is short: what it leaves
of them, and the numbers and terms that have to be written down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import sympy

from sjepa.search.parametric import Array, Columns, Placed, projected
from sjepa.symbolic.gram import MAX_SIZE
from sjepa.symbolic.parse import symbol
from sjepa.symbolic.shapes import POWERS, Shape


# Sets of terms without open numbers that grow, the most terms, and columns of one search.
GROWING, MOST_TERMS, MAX_COLUMNS = 30, 5, 500
# Sets of every size and number of open shapes that have their numbers moved, and without any.
MOVED, PLAIN = 30, 12
# A column must keep this share of itself beside the others; what is less is a copy.
OWN = 1e-6
# Steps that move numbers, at first and to the end.
FIRST, STEPS = 4, 20
# Open shapes that are remembered beside every set of plain terms.
MOST_BENT = 6
# A shape that differs from a plain term by less than this (1 - cosine) is that term.
COPY = 1e-5
# Nats for a unit of a term's weight; sets that are this much worse than the best are left out.
FOR_WEIGHT, WORSE = 2.5, 20.0
# Most sets that are kept, and how near a number must be to a simple one to be tried as that.
KEPT, NEAR = 30, 0.06
# What a sine of an amount weighs more; a share of its range below 0 does not make it negative.
ODD, BELOW = 1.5, 0.03
SIMPLE = (*POWERS, 0.5, 1.0, 2.0, 3.0)


@dataclass(frozen=True, eq=False)
class Described:
    """Terms of one equation with their coefficients, and the length of the description in nats."""

    base: tuple[int, ...]
    shapes: tuple[tuple[Shape, tuple[float, ...]], ...]
    fixed: frozenset[int]  # shapes whose numbers are simple ones
    coefficients: Array
    length: float  # of terms and numbers, in nats
    data: float  # and of what they leave of the data

    @property
    def total(self) -> float:
        return self.length + self.data

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.base, tuple(sorted(id(s) for s, _ in self.shapes))


class Describer:
    """Sets of columns for one target."""

    def __init__(self, grid: Columns, y: Array) -> None:
        self.grid, self.y = grid, y
        self.size = float(np.linalg.norm(y))
        self._plain = _unit(grid.base.numpy()(grid.points))
        low, wide = grid.points.min(axis=0), np.ptp(grid.points, axis=0)
        amounts = {
            symbol(n)
            for n, above in zip(grid.base.inputs, low > -BELOW * wide, strict=True)
            if above
        }
        self._weights = grid.base.weights + [_odd(t, amounts) for t in grid.base.terms]
        self._costs = {
            id(s): c + _odd(s.expr, amounts)
            for (s, _), c in zip(grid.open, grid.costs, strict=True)
        }

    def of(
        self, base: tuple[int, ...], shapes: Sequence[tuple[Shape, tuple[float, ...]]],
        fixed: frozenset[int] = frozenset(), *, shared: int = -1, steps: int = STEPS,
    ) -> Described | None:  # fmt: skip
        """A set with its numbers moved but for fixed ones; a shared one stands elsewhere too."""
        grid, y = self.grid, self.y
        columns, open_ = [grid.fixed[:, list(base)]], list(shapes)
        still = sorted(fixed)
        columns += [grid.of(_column(*shapes[i])) for i in still]
        open_ = [s for i, s in enumerate(shapes) if i not in still]
        theta = np.concatenate(columns, axis=1)
        if not (np.abs(theta) <= MAX_SIZE).all():  # a number made simple may put a pole on a row
            return None
        values, solved, error = projected(grid.of, theta, open_, y, 1e-3, steps)
        moved = iter(values)
        new = tuple(one if i in still else (one[0], next(moved)) for i, one in enumerate(shapes))
        if not (len(solved) and np.isfinite(error) and error > 0):
            return None
        if any(_turned(v, w) for (_, v), (_, w) in zip(shapes, new, strict=True)):
            return None
        if any(self._is_copy(*one) for one in new):
            return None
        order = [*still, *(i for i in range(len(shapes)) if i not in still)]
        places = [len(base) + order.index(i) for i in range(len(shapes))]
        coefficients = solved[[*range(len(base)), *places]]
        # Parts that cancel need more digits than the whole.
        whole = np.concatenate(
            [theta, *(grid.of(_column(*new[i])) for i in order[len(still) :])], 1
        )
        parts = np.abs(solved) * np.linalg.norm(whole, axis=0) / max(self.size, 1e-300)
        if not np.isfinite(parts).all():
            return None
        digits = 0.5 * math.log(len(y))
        weights = [self._costs[id(s)] for s, _ in shapes]
        length = float(np.log(np.maximum(parts, 1.0)).sum()) + digits * len(solved)
        length += FOR_WEIGHT * float(self._weights[list(base)].sum())
        for i, (_, v) in enumerate(new):
            if i == shared:
                length += FOR_WEIGHT  # a word that says where else the term stands
            else:
                length += FOR_WEIGHT * weights[i] + digits * len(v) * (i not in fixed)
        left = 0.5 * len(y) * math.log(error)
        return Described(base, new, fixed, coefficients, length, left)

    def _is_copy(self, shape: Shape, values: tuple[float, ...]) -> bool:
        """Whether a shape has become a term without open numbers."""
        column = _unit(shape.columns(self.grid.points, np.array([values])))
        return (
            bool((np.abs(column.T @ self._plain) > 1 - COPY).any()) or not np.isfinite(column).all()
        )

    def found(self, time_left: Callable[[], bool] = lambda: True) -> list[Described]:
        """The shortest descriptions, best first."""
        pool = _Pool(self.grid, self.y)
        best: dict[object, Described] = {}

        def keep(one: Described | None) -> None:
            if one is not None and (one.key not in best or one.total < best[one.key].total):
                best[one.key] = one

        for placed in pool.sets(time_left):
            if time_left():
                keep(self.of(placed.base, placed.shapes, steps=FIRST))
        for one in sorted(best.values(), key=lambda d: d.total)[:MOVED]:
            if one.shapes and time_left():
                full = self.of(one.base, one.shapes) or one
                keep(full)
                for i, (shape, values) in enumerate(full.shapes):
                    near = tuple(_simple(v) for v in values)
                    if near != values:
                        shapes = [*full.shapes[:i], (shape, near), *full.shapes[i + 1 :]]
                        keep(self.of(full.base, shapes, frozenset({i})))
        ranked = sorted(best.values(), key=lambda d: d.total)
        return [d for d in ranked[:KEPT] if d.total <= ranked[0].total + WORSE]


def _odd(term: sympy.Expr, amounts: set[sympy.Symbol]) -> float:
    """What a wave of an amount weighs more: what is never negative is hardly an angle."""
    waves = term.atoms(sympy.sin, sympy.cos)
    return ODD * sum(bool(wave.free_symbols & amounts) for wave in waves)


def _unit(columns: Array) -> Array:
    return columns / np.maximum(np.linalg.norm(columns, axis=0), 1e-300)


def _column(shape: Shape, values: tuple[float, ...]) -> Callable[[Array], Array]:
    return lambda x: shape.columns(x, np.array([values]))


def _turned(before: tuple[float, ...], after: tuple[float, ...]) -> bool:
    """Whether a number changed its sign: c + x has a pole in the data then, or soon after them."""
    return len(before) == 1 and before[0] * after[0] <= 0


def _simple(value: float) -> float:
    near = min(SIMPLE, key=lambda s: abs(abs(value) - abs(s)))
    close = abs(abs(value) - abs(near)) <= NEAR * abs(near)
    return math.copysign(near, value) if close else value


def _slopes(shape: Shape, places: Array) -> Callable[[Array], Array]:
    def run(x: Array) -> Array:
        return np.stack([shape.with_slopes(x, v)[:, 1] for v in places], axis=1)

    return run


# By kinds of columns: the loss, terms without open numbers, and one or two columns beside them.
Found = dict[tuple[int, ...], tuple[float, tuple[int, ...], int, int]]


class _Pool:
    """All columns of one search, and the losses of sets of them from their inner products."""

    def __init__(self, grid: Columns, y: Array) -> None:
        self.grid = grid
        self.plain = grid.fixed.shape[1]
        total = self.plain + sum(c.shape[1] for c in grid.columns)
        every = -(-(total - self.plain) // max(MAX_COLUMNS - self.plain, 100))
        self.places = [
            np.arange(n)[min(every // 2, n - 1) :: every]  # of few places the last one stays
            for n in (len(places) for _, places in grid.open)
        ]
        chosen = [c[:, k] for c, k in zip(grid.columns, self.places, strict=True)]
        columns = _unit(np.concatenate([grid.fixed, *chosen], axis=1))
        # How a column with one open number changes with it, less its own direction.
        slopes = [
            grid.of(_slopes(s, p[k])) if len(s.constants) == 1 else np.zeros((len(y), len(k)))
            for (s, p), k in zip(grid.open, self.places, strict=True)
        ]
        own = columns[:, self.plain :]
        bend = np.concatenate(slopes, axis=1) if slopes else own
        bend = _unit(np.where(np.isfinite(bend), bend, 0.0))
        bend = _unit(bend - own * (own * bend).sum(axis=0))
        self.bend = columns[:, : self.plain].T @ bend, (own * bend).sum(axis=0), bend.T @ y
        self.bend = (*self.bend[:2], self.bend[2] / max(float(np.linalg.norm(y)), 1e-300))
        self.a, self.b = columns.T @ columns, columns.T @ y / max(float(np.linalg.norm(y)), 1e-300)
        sizes = [1] * self.plain + [len(k) for k in self.places]
        self.first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int)
        self.kind = np.repeat(np.arange(len(sizes)), sizes)

    def sets(self, time_left: Callable[[], bool]) -> list[Placed]:
        """The best sets of every size, each kind of column at its best place."""
        found: Found = {}
        bent: Found = {}
        growing: list[tuple[int, ...]] = [()]
        for size in range(MOST_TERMS - 1):
            for base in growing[: GROWING if size > 1 else None]:
                self._look(base, found)
                if not time_left():
                    break
            wider = {
                tuple(sorted((*b, i))) for b in growing for i in range(self.plain) if i not in b
            }
            for base in wider:
                self._bent(base, bent)
            growing = sorted(wider, key=self._with_one)[: GROWING if size else None]
        self._bent((), bent)
        groups: dict[tuple[int, int], list[tuple[float, tuple[int, ...], int, int]]] = {}
        for kinds, row in found.items():
            opened = sum(k >= self.plain for k in kinds)
            if opened != 1:
                groups.setdefault((len(kinds), opened), []).append(row)
        for kinds, row in bent.items():
            groups.setdefault((len(kinds), 1), []).append(row)
        return [
            self._placed(*row[1:])
            for (_, opened), rows in groups.items()
            for row in sorted(rows, key=lambda r: r[0])[: MOVED if opened else PLAIN]
        ]

    def _bent(self, base: tuple[int, ...], found: Found) -> None:
        """Losses with one open column beside some, its number moved by one linear step."""
        if not len(self.places):
            return
        s, p = list(base), self.plain
        across, along, pull = self.bend
        a, c = self.a[s, p:], across[s]  # columns and bends by the base
        inverse = np.linalg.inv(self.a[np.ix_(s, s)] + 1e-13 * np.eye(len(s)))
        wa, wc = inverse @ a, inverse @ c
        aa, cc = 1.0 - (a * wa).sum(axis=0), 1.0 - (c * wc).sum(axis=0)
        ac = along - (a * wc).sum(axis=0)
        f, g = self.b[p:] - wa.T @ self.b[s], pull - wc.T @ self.b[s]
        det = aa * cc - ac**2
        with np.errstate(divide="ignore", invalid="ignore"):
            both = (f * f * cc - 2 * f * g * ac + g * g * aa) / det
            alone = f * f / aa
        gain = np.where((det > OWN * OWN) & (cc > OWN) & (aa > OWN), both, alone)
        gain = np.where(aa > OWN, gain, 0.0)
        loss = 1.0 - float(self.b[s] @ inverse @ self.b[s]) - gain
        first = self.first[p:] - p
        least = np.minimum.reduceat(loss, first)
        for k in np.argsort(least)[:MOST_BENT].tolist():
            found[tuple(sorted((*base, p + k)))] = (float(least[k]), base, p + k, -1)

    def _look(self, base: tuple[int, ...], found: Found) -> None:
        """Losses with every pair of kinds of columns beside some."""
        losses = _pairs(self.a, self.b, base)
        single = np.minimum.reduceat(losses.diagonal(), self.first)
        np.fill_diagonal(losses, np.inf)
        for axis in (0, 1):
            losses = np.minimum.reduceat(losses, self.first, axis=axis)
        i, j = np.triu_indices(len(losses))
        values = losses[i, j]
        most = min(2 * MOVED, len(values) - 1)
        pairs = [(i[k], j[k], values[k]) for k in np.argpartition(values, most)[:most].tolist()]
        for one, other, loss in [*((k, -1, v) for k, v in enumerate(single)), *pairs]:
            kinds = tuple(sorted(int(k) for k in (*base, one, other) if k >= 0))
            repeated = len(set(base) | {one, other}) < len(base) + 2 and one != other
            if not repeated and loss < found.get(kinds, (np.inf,))[0]:
                found[kinds] = (float(loss), base, int(one), int(other))

    def _with_one(self, base: tuple[int, ...]) -> float:
        """The loss with any one column more."""
        s = list(base)
        inverse = np.linalg.inv(self.a[np.ix_(s, s)] + 1e-13 * np.eye(len(s)))
        w = self.a[:, s] @ inverse
        own = 1.0 - np.einsum("ps,ps->p", w, self.a[:, s])
        gain = (self.b - w @ self.b[s]) ** 2 / np.maximum(own, OWN)
        loss = 1.0 - float(self.b[s] @ inverse @ self.b[s])
        return loss - float(np.where(own > OWN, gain, 0.0).max())

    def _placed(self, base: tuple[int, ...], one: int, other: int) -> Placed:
        """The best places of two kinds of columns beside some."""
        mine = np.flatnonzero(self.kind == one)
        theirs = mine if other < 0 else np.flatnonzero(self.kind == other)
        used = np.unique([*base, *mine, *theirs]).tolist()
        at = {c: k for k, c in enumerate(used)}
        losses = _pairs(self.a[np.ix_(used, used)], self.b[used], [at[c] for c in base])
        if other >= 0:
            np.fill_diagonal(losses, np.inf)
        rows, across = [at[c] for c in mine.tolist()], [at[c] for c in theirs.tolist()]
        losses = losses[np.ix_(rows, across)]
        if other < 0:
            losses = np.where(np.eye(len(mine), dtype=bool), losses, np.inf)
        p, q = np.unravel_index(np.argmin(losses), losses.shape)
        columns = dict.fromkeys((int(mine[p]), int(theirs[q])))
        shapes = []
        for c in columns:
            if c >= self.plain:
                k = int(self.kind[c]) - self.plain
                shape, places = self.grid.open[k]
                place = self.places[k][c - self.first[self.kind[c]]]
                shapes.append((shape, tuple(places[place].tolist())))
        terms = tuple(sorted([*base, *(c for c in columns if c < self.plain)]))
        return Placed(terms, tuple(shapes), 0.0, float(losses.min()))


def _beside(a: Array, b: Array, base: Sequence[int]) -> tuple[Array, Array, float]:
    """Inner products of what columns and target have beside some columns; what that leaves."""
    if not len(base):
        return a, b, 1.0
    s = list(base)
    inverse = np.linalg.inv(a[np.ix_(s, s)] + 1e-13 * np.eye(len(s)))
    w = a[:, s] @ inverse
    return a - w @ a[s], b - w @ b[s], 1.0 - float(b[s] @ inverse @ b[s])


def _pairs(a: Array, b: Array, base: Sequence[int]) -> Array:
    """Losses with each pair of columns beside some; on the diagonal with one more."""
    a, b, loss = _beside(a, b, base)
    own = np.diag(a).copy()
    usable = own > OWN
    own[~usable] = 1.0
    z = np.where(usable, b / np.sqrt(own), 0.0)
    r = a / np.sqrt(np.outer(own, own))
    free = 1.0 - r * r
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = (z[:, None] ** 2 + z**2 - 2.0 * r * np.outer(z, z)) / free
    gain[(free <= OWN) | ~usable | ~usable[:, None]] = 0.0
    np.fill_diagonal(gain, z**2)
    return loss - gain
