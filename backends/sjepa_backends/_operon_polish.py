"""From what genetic programming writes to what a person would: exact structure, best numbers.

Constants next to an exact structure are never quite right (``0.9999999*p + 1e-8*q``), so every
expression is also tried with small terms left out and inner numbers replaced by simple ones, and
the terms of all expressions are pooled and selected again. What is better stays.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import sympy

from sjepa.backend import Problem
from sjepa.errors import SjepaError
from sjepa.symbolic.canonical import canonicalise
from sjepa.symbolic.complexity import split_terms
from sjepa.symbolic.gram import Gram
from sjepa.symbolic.law import Law
from sjepa.symbolic.refit import refit


# Terms that contribute less than these shares of the target are left out, one share at a time.
SHARES = (0.0, 1e-6, 1e-4, 1e-3, 1e-2, 5e-2)
# How far an inner number may be from a simple one to be tried as that.
SNAPS = (1e-3, 5e-2)
SIMPLE = (0.0, 0.5, 1.0, 2.0, 3.0)
# Limits that keep the work after a search to a second or two.
MOST_TERMS = 14
MOST_POOLED = 40
MOST_KEPT = 20
# Losses below this are the rounding of double precision; the shorter law wins.
ROUNDING = 1e-20

Kept = tuple[float, float, sympy.Expr]  # complexity, loss, expression


class Polish:
    """Collects candidates for one output, on a sample of the rows."""

    def __init__(self, problem: Problem, j: int, rows: np.ndarray) -> None:
        inputs, targets = problem.rows()
        self.problem, self.output = problem, problem.outputs[j]
        self.j = j
        self.inputs, self.target = inputs[rows], targets[rows, j]
        self.variance = float(np.var(self.target)) or float(np.mean(self.target**2)) or 1.0
        self.size = math.sqrt(float(np.mean(self.target**2))) or 1.0
        self.columns: dict[sympy.Expr, np.ndarray | None] = {}
        self.found: dict[frozenset[sympy.Expr], Kept] = {}
        self.add([])
        self.add([sympy.S.One])

    @property
    def best(self) -> float:
        return min(loss for _, loss, _ in self.found.values())

    def solved(self, loss: float) -> bool:
        """Whether a law fits this well without numbers inside functions.

        With such numbers a few sines imitate any smooth function to single precision.
        """
        return any(
            reached < loss and not any(t.has(sympy.Float) for t in terms)
            for terms, (_, reached, _) in self.found.items()
        )

    def propose(self, expressions: Iterable[sympy.Expr], deadline: float) -> None:
        """Try expressions in their cleaned variants, then select among all of their terms."""
        for expr in expressions:
            for variant in _variants(expr):
                pairs = [(c, t) for c, t in split_terms(variant) if self._admits_term(t)]
                for share in SHARES:
                    self.add([t for c, t in pairs if self._contribution(c, t) >= share])
            if time.monotonic() > deadline:
                return
        for support in self._selected():
            self.add(support)

    def add(self, terms: Sequence[sympy.Expr]) -> None:
        """Solve for the multipliers of these terms and remember the result."""
        key = frozenset(terms)
        if key in self.found or len(terms) > MOST_TERMS:
            return
        columns = [self._column(t) for t in terms]
        if any(c is None for c in columns):
            return
        theta = np.stack(columns, axis=1) if columns else np.zeros((len(self.target), 0))
        solution = np.zeros(0)
        if terms:
            scale = np.maximum(np.linalg.norm(theta, axis=0), 1e-300)
            solution = np.linalg.lstsq(theta / scale, self.target, rcond=1e-13)[0] / scale
        expr = sympy.Add(
            *(sympy.Float(c) * t for c, t in zip(solution.tolist(), terms, strict=True))
        )
        expr = self._canonical(expr)
        if expr is None or self.refusal(expr):
            return
        loss = float(np.mean((theta @ solution - self.target) ** 2)) / self.variance
        self.found[key] = (self.complexity(expr), loss, expr)

    def front(
        self, inputs: np.ndarray, target: np.ndarray, weights: np.ndarray | None
    ) -> list[Kept]:
        """The candidates that nothing beats, with their numbers fitted to all rows."""
        names, result = self.problem.names, []
        for _, _, expr in _undominated(self.found.values())[:MOST_KEPT]:
            for trial in (expr, self._refitted(expr, inputs, target, weights)):
                if trial is None or self.refusal(trial):
                    continue
                values = Law([trial], names, ["y"], canonical=False).numpy()(inputs)[:, 0]
                loss = float(np.average((values - target) ** 2, weights=weights))
                if math.isfinite(loss):
                    result.append((self.complexity(trial), loss / self._unit, trial))
        return _undominated(result)

    @property
    def _unit(self) -> float:
        return float(self.problem.variance[self.j])

    def _refitted(
        self, expr: sympy.Expr, inputs: np.ndarray, target: np.ndarray, weights: np.ndarray | None
    ) -> sympy.Expr | None:
        law = Law([expr], self.problem.names, ["y"], "map", canonical=False)
        with np.errstate(all="ignore"):
            return self._canonical(refit(law, inputs, target[:, None], weights).expressions[0])

    def refusal(self, expr: sympy.Expr) -> bool:
        if self.problem.library is not None:
            return not all(self._admits_term(t) for _, t in split_terms(expr))
        assert self.problem.grammar is not None
        return self.problem.grammar.refusal(expr, self.output) is not None

    def complexity(self, expr: sympy.Expr) -> float:
        law = Law([expr], self.problem.names, ["y"], canonical=False)
        return law.complexity(self.problem.measure, self.problem.library)

    def _admits_term(self, term: sympy.Expr) -> bool:
        if self.problem.library is None:
            assert self.problem.grammar is not None
            return self.problem.grammar.refusal(term, self.output) is None
        terms = self.problem.library.terms
        allowed = self.problem.library.mask(self.problem.outputs)[:, self.j]
        return term in terms and bool(allowed[terms.index(term)])

    def _canonical(self, expr: sympy.Expr) -> sympy.Expr | None:
        try:
            return canonicalise(expr)
        except SjepaError:
            return None

    def _column(self, term: sympy.Expr) -> np.ndarray | None:
        """Values of a term on the sample; None where it is not defined everywhere."""
        if term not in self.columns:
            run = Law([term], self.problem.names, ["y"], canonical=False).numpy()
            with np.errstate(all="ignore"):
                values = run(self.inputs)[:, 0]
            self.columns[term] = values if np.isfinite(values).all() else None
        return self.columns[term]

    def _contribution(self, coefficient: float, term: sympy.Expr) -> float:
        column = self._column(term)
        if column is None:
            return -1.0
        return abs(coefficient) * math.sqrt(float(np.mean(column**2))) / self.size

    def _selected(self) -> Iterator[list[sympy.Expr]]:
        """Supports from the pooled terms: greedily grown, and greedily shrunk from all."""
        pool: dict[sympy.Expr, None] = {}
        for terms, _ in sorted(self.found.items(), key=lambda item: item[1][1]):
            usable = (t for t in terms if not t.has(sympy.Float) or len(pool) < MOST_POOLED // 2)
            pool |= dict.fromkeys(sorted(usable, key=sympy.default_sort_key))
        terms = list(pool)[:MOST_POOLED]
        if not terms:
            return
        theta = np.stack([self.columns[t] for t in terms], axis=1)  # type: ignore[arg-type]
        gram = Gram.from_features(theta, self.target[:, None])
        for path in (_grow(gram, MOST_TERMS), _shrink(gram)):
            yield from ([terms[i] for i in support] for support in path)


def _variants(expr: sympy.Expr) -> Iterator[sympy.Expr]:
    """The expression, and the same with inner numbers made simple."""
    try:
        base = canonicalise(expr)
        yield base
        for tolerance in SNAPS:
            snapped = [sympy.Float(c) * _snap(t, tolerance) for c, t in split_terms(base)]
            yield canonicalise(sympy.Add(*snapped))
    except SjepaError:
        return


def _snap(node: sympy.Expr, tolerance: float) -> sympy.Expr:
    """Replace the numbers inside a term that are close to simple ones."""
    if node.is_Float:
        sign = -1.0 if node < 0 else 1.0
        near = min(SIMPLE, key=lambda s: abs(abs(float(node)) - s))
        close = abs(abs(float(node)) - near) <= tolerance * max(near, 0.2)
        return sympy.nsimplify(sign * near) if close else node
    if not node.args or not node.has(sympy.Float):
        return node
    if isinstance(node, sympy.sin | sympy.cos):
        phase, rest = node.args[0].as_coeff_Add()
        quarters = float(phase) / (math.pi / 2)
        if quarters and abs(quarters - round(quarters)) <= tolerance:
            return node.func(_snap(rest, tolerance) + round(quarters) * sympy.pi / 2)
    return node.func(*(_snap(a, tolerance) for a in node.args))


def _shrink(gram: Gram) -> Iterator[list[int]]:
    """From all terms down to one, each time without the term that is missed least."""
    scale = np.sqrt(np.maximum(np.diag(gram.xx), 1e-300))
    keep = np.arange(len(gram.xx))
    while len(keep):
        yield keep.tolist()
        inverse = np.linalg.pinv(
            gram.xx[np.ix_(keep, keep)] / np.outer(scale[keep], scale[keep]), 1e-14, hermitian=True
        )
        coefficients = inverse @ (gram.xy[keep, 0] / scale[keep])
        # The residual rises by c_i^2 / (A^-1)_ii when term i goes.
        rise = coefficients**2 / np.maximum(np.diag(inverse), 1e-300)
        keep = np.delete(keep, int(np.argmin(rise)))


def _grow(gram: Gram, most: int) -> Iterator[list[int]]:
    """From one term up, each time with the term that helps most."""
    chosen: list[int] = []
    rest = set(range(len(gram.xx)))
    while rest and len(chosen) < most:
        best = min(sorted(rest), key=lambda k: _residual(gram, [*chosen, k]))
        chosen.append(best)
        rest.discard(best)
        yield list(chosen)


def _residual(gram: Gram, support: Sequence[int]) -> float:
    return float(gram.loss(gram.solve(np.array(support, dtype=int), 0)[:, None])[0])


def _undominated(rows: Iterable[Kept]) -> list[Kept]:
    kept: list[Kept] = []
    for row in sorted(rows, key=lambda r: (r[0], r[1], str(r[2]))):
        if not kept or max(row[1], ROUNDING) < 0.999 * max(kept[-1][1], ROUNDING):
            kept.append(row)
    return kept
