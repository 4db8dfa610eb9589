"""Neighbors of a law by its linearized simulation.

Around a law that was fitted by shooting, the residuals of the data are linear in small changes of
its field. So all terms that an equation could have instead, with places on a grid for those with
parameters, are columns of one least-squares problem in nats, in which sets of them are compared by
arithmetic. Those that could come near the law's own score are worth a fit of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import sympy
from scipy.linalg import solve_triangular

from sjepa.errors import SjepaError
from sjepa.inference.constants import ODDS, STRUCTURE
from sjepa.inference.corrections import inputs_along, response
from sjepa.inference.noise import Array
from sjepa.inference.shooting import ShootingFit, blocks
from sjepa.symbolic import Law, Library
from sjepa.symbolic.term_templates import TermTemplate, weight


# Segments that tell which sets are promising, their observations, columns of one equation, and
# templates that are looked at on their whole grid.
SEGMENTS, ROWS, MAX_COLUMNS, PROMISING = 24, 1_200, 400, 16
# Sets of plain terms that are grown term by term, and the most terms that are.
GROWING, MAX_TERMS = 6, 4
# A column must keep this share of itself beside the others; what is less is a copy.
OWN = 1e-6


@dataclass(frozen=True)
class Column:
    """A term, or a place of a term template; `kind` is the same for all places of one."""

    kind: int
    weight: float
    parameters: int
    term: sympy.Expr | None = None
    shape: TermTemplate | None = None
    values: tuple[float, ...] = ()

    @property
    def reach(self) -> Array:
        """How far a linear step of each parameter is believed."""
        assert self.shape is not None
        return self.shape.reach(self.values)


@dataclass(frozen=True, eq=False)
class Template:
    """A term template with the places on a grid at which it is looked at."""

    shape: TermTemplate
    places: Array
    weight: float


def on_grid(shapes: Sequence[TermTemplate], points: Array) -> list[Template]:
    """The templates at places that the points (rows, inputs) suggest."""
    found = []
    for shape in shapes:
        places = shape.places(points)
        if len(places):
            found.append(Template(shape, places, weight(shape.expr_at(places[0]))))
    return found


def _coarse(templates: Sequence[Template]) -> list[Template]:
    """The same at fewer places, no more than MAX_COLUMNS in all."""
    every = max(1, -(-sum(len(t.places) for t in templates) // MAX_COLUMNS))
    return [replace(t, places=t.places[(every // 2) % len(t.places) :: every]) for t in templates]


def _groups(templates: Sequence[Template]) -> Iterator[list[int]]:
    """Numbers of templates that have MAX_COLUMNS places together, all of them in turn."""
    group: list[int] = []
    columns = 0
    for k, one in enumerate(templates):
        if group and columns + len(one.places) > MAX_COLUMNS:
            yield group
            group, columns = [], 0
        group.append(k)
        columns += len(one.places)
    yield group


def neighbors(
    fit: ShootingFit, j: int, terms: Mapping[sympy.Expr, float], templates: Sequence[Template],
    each: float, correlation_time: float, count: int,
    is_new: Callable[[Law], bool] = lambda law: True,
) -> list[Law]:  # fmt: skip
    """Laws with other terms in equation `j` whose score may be within the odds, best first.

    `terms` have their weights, and a parameter costs `each` nats. What is returned, `count` laws at
    most that are new, is linearized: it should be fitted.
    """
    values: dict[int, float] = {}
    for group in _groups(templates):
        sets = _Equation(fit, j, terms, [templates[k] for k in group])
        found = _ranked(sets, each, correlation_time)
        for one in found:
            for kind in set(sets.kinds(one.support)) - set(range(sets.plain)):
                number = group[kind - sets.plain]
                values[number] = max(values.get(number, -math.inf), one.value)
    if len(values) > PROMISING:  # those that are the best of their group, together
        promising = sorted(values, key=lambda k: -values[k])[:PROMISING]
        sets = _Equation(fit, j, terms, _coarse([templates[k] for k in promising]))
        found = _ranked(sets, each, correlation_time)
    own = next(one for one in found if one.support == sets.own)
    laws: list[Law] = []
    for one in found:
        if one is not own and one.may_beat(own) and len(laws) < count:
            try:
                law = sets.law(one.support)
            except SjepaError:  # a number that ran away
                continue
            if is_new(law):
                laws.append(law)
    return laws


class _Set(NamedTuple):
    """Columns of an equation, the score that they would have, and what the rows used say of it."""

    value: float
    shown: float
    length: float
    support: tuple[int, ...]

    def may_beat(self, own: _Set) -> bool:
        """A shorter law is excluded by the rows that were used, not by more of the same kind.

        By chance they fit a term that is not there, and all rows together do not.
        """
        shorter = self.length < own.length
        return self.value > own.value - ODDS or (shorter and self.shown > own.shown - ODDS)


def _ranked(sets: _Equation, each: float, correlation_time: float) -> list[_Set]:
    """The best place of every set of kinds with its score, highest first."""
    n, used = sets.rows / correlation_time, len(sets.y) / correlation_time
    best: dict[tuple[int, ...], _Set] = {}

    def look(support: Sequence[int], loss: float) -> None:
        columns = [sets.columns[i] for i in support]
        length = sum(STRUCTURE * c.weight + each * c.parameters for c in columns)
        kinds = tuple(sorted(c.kind for c in columns))
        gain = -0.5 * math.log(max(loss, 1e-300))
        value = n * gain - length
        if len(set(kinds)) == len(kinds) and (kinds not in best or value > best[kinds].value):
            best[kinds] = _Set(value, used * gain - length, length, tuple(support))

    for support, loss in sets.near(sets.own):
        look(support, loss)
    # The law itself in the order of its own terms.
    best.pop(tuple(sorted(sets.kinds(sets.own))), None)
    look(sets.own, sets.beside(sets.own).loss)
    return sorted(best.values(), key=lambda one: -one.value)


class _Equation:
    """The least-squares problem of one equation, the others and the starts eliminated."""

    def __init__(
        self, fit: ShootingFit, j: int, terms: Mapping[sympy.Expr, float],
        templates: Sequence[Template],
    ) -> None:  # fmt: skip
        self.before, self.j, self.rows = fit.law, j, fit.residual.size
        chosen = np.unique(
            np.linspace(0, len(fit.segments) - 1, min(SEGMENTS, len(fit.segments))).astype(int)
        )
        fit = fit.part(chosen)
        along = inputs_along(fit)
        self.columns: list[Column] = []
        functions: list[Callable[[Array], Array]] = []
        own_terms = fit.law.terms[j]
        plain = dict.fromkeys([*terms, *(t for _, t in own_terms)])
        for k, term in enumerate(plain):
            known = terms.get(term)
            inner = len(term.atoms(sympy.Float))
            w = weight(term) if known is None else known
            self.columns.append(Column(k, w, 1 + inner, term))
        functions.append(Library(list(plain), fit.law.inputs, canonical=False).numpy())
        self.plain = len(plain)
        slopes: list[Callable[[Array], Array]] = []
        for k, one in enumerate(templates):
            self.columns += [
                Column(self.plain + k, one.weight, 1 + len(v), None, one.shape, tuple(v))
                for v in one.places
            ]
            functions.append(partial(one.shape.columns, places=one.places))
            slopes.append(partial(_slopes, one.shape, one.places))
        # Parameters of the law's own terms move with them.
        tangents: list[Callable[[Array], Array]] = []
        self.tied: dict[int, list[int]] = {}
        at = len(self.columns)
        for i, term in enumerate(plain):
            if self.columns[i].parameters > 1:
                shape, numbers = TermTemplate.of(term, fit.law.inputs)
                tangents.append(partial(_tangents, shape, np.array(numbers)))
                self.tied[i] = list(range(at, at + len(numbers)))
                at += len(numbers)
        flat = along.reshape(-1, along.shape[2])
        with np.errstate(all="ignore"):
            phi = np.concatenate([f(flat) for f in (*functions, *tangents, *slopes)], axis=1)
        phi = np.where(np.isfinite(phi), phi, 0.0).reshape(*along.shape[:2], -1)
        moved = response(fit, phi, [j])
        size = fit.path.shape[2]
        every = -(-len(fit.path) * len(chosen) // ROWS)
        both = np.concatenate([fit.jacobian, moved], axis=3)[::every]
        r, starts, rest = blocks(fit.residual[::every], both, size, fit.weighted[::every])
        q = np.linalg.qr(starts)[0]
        across = q.transpose(0, 2, 1)
        r = r - (q @ (across @ r[..., None]))[..., 0]
        rest = rest - q @ (across @ rest)
        p = fit.jacobian.shape[3] - size
        theta, y = rest[..., p:].reshape(-1, rest.shape[2] - p), r.ravel()
        index = {term: i for i, term in enumerate(plain)}
        self.own = tuple(index[t] for _, t in own_terms)
        y = y + theta[:, list(self.own)] @ np.array([c for c, _ in own_terms])
        others = self._others(rest[..., :p].reshape(len(y), p))
        if others.shape[1]:
            q2 = np.linalg.qr(others / np.maximum(np.linalg.norm(others, axis=0), 1e-300))[0]
            y, theta = y - q2 @ (q2.T @ y), theta - q2 @ (q2.T @ theta)
        self.size = max(float(np.linalg.norm(y)), 1e-300)
        norms = np.maximum(np.linalg.norm(theta, axis=0), 1e-300)
        self.unit, self.y, self.norms = theta / norms, y / self.size, norms
        own = self.unit[:, :at]
        self.gram, self.b = own.T @ self.unit, self.unit.T @ self.y
        m = len(self.columns)
        # Each template's column with its slopes, as many as the longest has; -1 where it has less.
        counts = [len(c.values) for c in self.columns[self.plain :]]
        self.moving = np.full((m - self.plain, 1 + max(counts, default=0)), -1)
        self.moving[:, 0] = np.arange(self.plain, m)
        for row, count, first in zip(self.moving, counts, np.cumsum([at, *counts]), strict=False):
            row[1 : 1 + count] = np.arange(first, first + count)
        parts = self.unit[:, self.moving] * (self.moving >= 0)
        self.reach = np.zeros((m - self.plain, self.moving.shape[1] - 1))
        for row, column in zip(self.reach, self.columns[self.plain :], strict=True):
            row[: len(column.values)] = column.reach
        self.local = np.einsum("rna,rnb->nab", parts, parts)
        kinds = np.array([c.kind for c in self.columns])
        self.first = np.flatnonzero(np.diff(kinds, prepend=-1))

    def kinds(self, support: Sequence[int]) -> list[int]:
        return [self.columns[i].kind for i in support]

    def _others(self, own: Array) -> Array:
        """The columns of coefficients of the other equations."""
        stripped, symbols, _ = self.before.skeleton
        mine = stripped[self.j].free_symbols
        return own[:, [i for i, s in enumerate(symbols) if s not in mine]]

    def _with_tied(self, support: Sequence[int]) -> list[int]:
        return [*support, *(k for i in support for k in self.tied.get(i, ()))]

    def beside(self, support: Sequence[int]) -> _Span:
        """Coordinates of all columns and of the target in the span of some."""
        s = self._with_tied(support)
        try:
            root = np.linalg.cholesky(self.gram[np.ix_(s, s)])
            if not s or np.diag(root).min() ** 2 > OWN:
                return _Span(*(_solve(root, v) for v in (self.gram[s], self.b[s])))
        except np.linalg.LinAlgError:
            pass
        q = np.linalg.qr(self.unit[:, s])[0]  # nearly collinear: Gram matrices lose the digits
        return _Span(q.T @ self.unit, q.T @ self.y)

    def near(self, own: Sequence[int]) -> Iterator[tuple[tuple[int, ...], float]]:
        """Sets worth a look: those built from nothing, and the law's own with terms exchanged."""
        m = len(self.columns)
        for base in self._bases(own):
            span = self.beside(base)
            yield base, span.loss
            left = self.gram[:m, :m] - span.columns[:, :m].T @ span.columns[:, :m]
            losses = _pairs(left, self.b[:m] - span.columns[:, :m].T @ span.target, span.loss)
            one = self._with_one(span)
            for i in self._best_places(one):
                yield (*base, i), float(one[i])
            np.fill_diagonal(losses, np.inf)
            yield from self._best_pairs(base, losses)

    def _bases(self, own: Sequence[int]) -> Iterator[tuple[int, ...]]:
        seen = {tuple(sorted(own))}
        yield from seen
        plain = range(self.plain)
        growing: list[tuple[int, ...]] = [()]
        less = [tuple(sorted(set(own) - {i})) for i in own]
        less += [tuple(sorted(set(b) - {i})) for b in less for i in b]
        for base in less:
            if base not in seen:
                seen.add(base)
                yield base
        for _ in range(MAX_TERMS):
            for base in growing:
                if base not in seen:
                    seen.add(base)
                    yield base
            wider = {tuple(sorted((*b, i))) for b in growing for i in plain if i not in b}
            growing = sorted(wider, key=lambda b: self._with_one(self.beside(b)).min())[:GROWING]

    def _with_one(self, span: _Span) -> Array:
        """Losses with one more column each, parameters moved by a linear step."""
        m, p = len(self.columns), span.columns
        own, f = 1.0 - (p**2).sum(axis=0), self.b - p.T @ span.target
        losses = span.loss - np.where(own > OWN, f**2 / np.maximum(own, OWN), 0.0)[:m]
        gain, _ = self._moves(span, f)
        losses[self.plain :] = np.minimum(losses[self.plain :], span.loss - gain)
        return losses

    def _moves(self, span: _Span, f: Array) -> tuple[Array, Array]:
        """Gains with each template's column and its slopes, and how far its parameters move."""
        index, there = self.moving, self.moving >= 0
        columns = span.columns[:, index] * there
        left = self.local - np.einsum("kna,knb->nab", columns, columns)
        left = left + np.eye(index.shape[1]) * ~there[:, None]
        diagonal = np.diagonal(left, axis1=1, axis2=2)
        good = (np.linalg.det(left) > OWN) & (diagonal > OWN).all(axis=1)
        left[~good] = np.eye(index.shape[1])
        f = f[index] * there
        found = np.linalg.solve(left, f[..., None])[..., 0]
        unit = self.norms[index[:, :1]] / self.norms[index[:, 1:]]
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = found[:, 1:] / found[:, :1] * unit
        good &= (np.where(there[:, 1:], np.abs(moved), 0.0) <= self.reach).all(axis=1)
        gain = (f * found).sum(axis=1)
        return np.where(good, gain, 0.0), np.where(good[:, None] & there[:, 1:], moved, 0.0)

    def _best_places(self, losses: Array) -> list[int]:
        ends = [*self.first[1:], len(losses)]
        return [int(f + np.argmin(losses[f:e])) for f, e in zip(self.first, ends, strict=True)]

    def _best_pairs(
        self, base: tuple[int, ...], losses: Array
    ) -> Iterator[tuple[tuple[int, ...], float]]:
        """For the most promising pairs of kinds their best places."""
        least = np.minimum.reduceat(np.minimum.reduceat(losses, self.first, 0), self.first, 1)
        i, k = np.triu_indices(len(least), 1)
        values = least[i, k]
        ends = [*self.first[1:], len(losses)]
        for at in np.argsort(values)[: 2 * GROWING].tolist():
            fi, fk = self.first[i[at]], self.first[k[at]]
            part = losses[fi : ends[i[at]], fk : ends[k[at]]]
            p, q = np.unravel_index(np.argmin(part), part.shape)
            yield (*base, int(fi + p), int(fk + q)), float(part[p, q])

    def _moved(self, i: int, support: Sequence[int]) -> sympy.Expr:
        """The term of a column, its parameter moved by a linear step beside the others."""
        column = self.columns[i]
        if column.shape is None:
            return column.term
        rest = tuple(sorted(set(support) - {i}))
        if not column.values or any(k >= self.plain for k in rest):
            return column.shape.expr_at(column.values)
        span = self.beside(rest)
        _, moved = self._moves(span, self.b - span.columns.T @ span.target)
        steps = moved[i - self.plain, : len(column.values)]
        return column.shape.expr_at((np.array(column.values) + steps).tolist())

    def law(self, support: Sequence[int]) -> Law:
        law, s = self.before, self._with_tied(support)
        numbers = np.linalg.lstsq(self.unit[:, s], self.y, rcond=None)[0][: len(support)]
        numbers = numbers * self.size / self.norms[list(support)]
        terms = [self._moved(i, support) for i in support]
        pairs = zip(numbers.tolist(), terms, strict=True)
        expr = sympy.Add(*(sympy.Float(c) * t for c, t in pairs))
        rows = [*law.expressions[: self.j], expr, *law.expressions[self.j + 1 :]]
        return Law(rows, law.inputs, law.outputs, law.dynamics).canonical()


class _Span(NamedTuple):
    """Coordinates of columns (k, M) and of the target (k,), of length 1, in a span."""

    columns: Array
    target: Array

    @property
    def loss(self) -> float:
        return 1.0 - float(self.target @ self.target)


def _solve(root: Array, v: Array) -> Array:
    return np.asarray(solve_triangular(root, v, lower=True, check_finite=False)) if len(v) else v


def _tangents(shape: TermTemplate, values: Array, x: Array) -> Array:
    return np.asarray(shape.with_slopes(x, values)[:, 1:])


def _slopes(shape: TermTemplate, places: Array, x: Array) -> Array:
    """Derivatives (rows, places times parameters) by the parameters, place by place."""
    return np.concatenate([shape.with_slopes(x, v)[:, 1:] for v in places], axis=1)


def _pairs(left: Array, b: Array, loss: float) -> Array:
    """Losses with each pair of columns, of which this is `left`; on the diagonal with one."""
    own = np.diag(left).copy()
    usable = own > OWN
    own[~usable] = 1.0
    z = np.where(usable, b / np.sqrt(own), 0.0)
    r = left / np.sqrt(np.outer(own, own))
    free = 1.0 - r * r
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = (z[:, None] ** 2 + z**2 - 2.0 * r * np.outer(z, z)) / free
    gain[(free <= OWN) | ~usable | ~usable[:, None]] = 0.0
    np.fill_diagonal(gain, z**2)
    return np.asarray(loss - gain)
