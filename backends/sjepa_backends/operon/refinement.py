"""From what genetic programming writes to what a person would: exact structure, best numbers.

Constants next to an exact structure are never quite right (``0.9999999*p + 1e-8*q``), so every
expression is also tried with small terms left out and inner numbers replaced by simple ones, and
the terms of all expressions are pooled and selected again. What is better stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import sympy

from sjepa.backend import Problem
from sjepa.backend.problem import ROUNDING
from sjepa.errors import SjepaError
from sjepa.symbolic.canonical import canonicalize
from sjepa.symbolic.complexity import split_terms
from sjepa.symbolic.gram import Gram
from sjepa.symbolic.law import Law
from sjepa.symbolic.refit import refit
from sjepa.symbolic.snap import variants
from sjepa.symbolic.text import to_text
from sjepa_backends.supports import backward


def grow(gram: Gram, max_terms: int) -> Iterator[list[int]]:
    """Supports from one term up, each time with the term that helps most."""
    chosen: list[int] = []
    rest = list(range(len(gram.xx)))
    while rest and len(chosen) < max_terms:
        chosen.append(min(rest, key=lambda k: _residual(gram, [*chosen, k])))
        rest.remove(chosen[-1])
        yield list(chosen)


def _residual(gram: Gram, support: Sequence[int]) -> float:
    return float(gram.loss(gram.solve(np.array(support), 0)[:, None])[0])


# Terms that contribute less than these shares of the target are left out, one share at a time.
SHARES = (0.0, 1e-6, 1e-4, 1e-3, 1e-2, 5e-2)
# Limits that keep the work after a run to about a second.
MAX_TERMS = 14
MAX_POOLED = 40
MAX_KEPT = 20
# Rows of the table that is shown while the search goes on.
MAX_SHOWN = 8
# Where losses are rounding the shorter law wins; above it a longer one has to be better by more
# than this share.
GAIN = 1e-3
# Least squares tell contributions to this share of the target.
SOLVED = 1e-13
# Laws with numbers inside functions whose numbers are fitted while others are still searched.
REFINED = 3

ScoredExpression = tuple[float, float, sympy.Expr]  # complexity, loss, expression


class Refinement:
    """Collects candidates for one output, on a sample of the rows."""

    def __init__(self, problem: Problem, j: int, rows: np.ndarray) -> None:
        inputs, targets = problem.rows()
        self.problem, self.j = problem, j
        self.inputs, self.target = inputs[rows], targets[rows, j]
        self.size = math.sqrt(float(np.mean(self.target**2))) or 1.0
        self.unit = float(problem.variance[j])
        self.columns: dict[sympy.Expr, np.ndarray] = {}
        self.found: dict[frozenset[sympy.Expr], ScoredExpression] = {}
        self.known: frozenset[frozenset[sympy.Expr]] = frozenset()
        self.refined: set[frozenset[sympy.Expr]] = set()
        self.add([])
        if not problem.explained[j]:
            self.add([sympy.S.One])

    @property
    def best(self) -> float:
        return min((loss for _, loss, _ in self.found.values()), default=math.inf)

    @property
    def table(self) -> str:
        """The front so far, one line for each law, the longest at the end."""
        rows = _undominated(self.found.values())[-MAX_SHOWN:]
        texts = [f"{c:10g}  {loss:8.2e}  {to_text(e, 4):.80}" for c, loss, e in rows]
        return "\n".join(["complexity      loss  equation", *texts])

    def solved(self, loss: float) -> bool:
        """Whether a law fits to rounding, or without nonlinear parameters this well.

        With such numbers a few sines imitate any smooth function to single precision.
        """
        return any(
            reached <= ROUNDING or (reached < loss and not any(map(_has_number, terms)))
            for terms, (_, reached, _) in self.found.items()
            if terms not in self.known
        )

    def start_from(self, expressions: Iterable[sympy.Expr]) -> None:
        """Take in what others found: its terms may be part of the answer, but it is not one."""
        self.propose(expressions)
        self.known = frozenset(self.found)

    def refine(self, deadline: float = math.inf) -> None:
        """Fit the nonlinear parameters of the best laws that have some, and keep what comes out."""
        inner = [k for k in self.found if k not in self.refined and any(map(_has_number, k))]
        for key in sorted(inner, key=lambda k: self.found[k][1])[:REFINED]:
            if self.problem.clock() > deadline:
                return
            self.refined.add(key)
            with np.errstate(all="ignore"):
                law = refit(self._law(self.found[key][2]), self.inputs, self.target[:, None])
            for variant in variants(law.expressions[0]):
                self.add([t for _, t in split_terms(variant) if self.admits(t)])

    def propose(self, expressions: Iterable[sympy.Expr], deadline: float = math.inf) -> None:
        """Try expressions in their cleaned variants, then select among all of their terms."""
        for expr in expressions:
            for variant in variants(self._unsigned(expr)):
                pairs = [(c, t) for c, t in split_terms(variant) if self.admits(t)]
                for share in SHARES:
                    self.add([t for c, t in pairs if self._contribution(c, t) >= share])
            if self.problem.clock() > deadline:
                return
        for support in self._selections():
            self.add(support)

    def add(self, terms: Sequence[sympy.Expr]) -> None:
        """Solve for the multipliers of these terms and keep the result."""
        key = frozenset(terms)
        if key in self.found or len(terms) > MAX_TERMS:
            return
        theta = self._theta(terms)
        if not np.isfinite(theta).all():
            return
        scale = np.maximum(np.linalg.norm(theta, axis=0), 1e-300)
        contribution = np.linalg.lstsq(theta / scale, self.target, rcond=SOLVED)[0]
        significant = np.abs(contribution) > SOLVED * np.linalg.norm(self.target)
        if not significant.all():  # the rest is the solution's own rounding
            return self.add([t for t, needed in zip(terms, significant, strict=True) if needed])
        solution = contribution / scale
        pairs = zip(solution.tolist(), terms, strict=True)
        expr = _canonical(sympy.Add(*(sympy.Float(c) * t for c, t in pairs)))
        if expr is not None and self.admits(expr):
            loss = float(np.mean((theta @ solution - self.target) ** 2)) / self.unit
            self.found[key] = (self.complexity(expr), loss, expr)

    def front(self, deadline: float = math.inf) -> list[ScoredExpression]:
        """The candidates that nothing beats, with their numbers fitted to all rows.

        After the deadline the numbers stay as the sample gave them.
        """
        inputs, targets = self.problem.rows()
        result = []
        for _, _, expr in _undominated(self.found.values())[:MAX_KEPT]:
            trials = [expr]
            if self.problem.clock() < deadline:
                target = targets[:, [self.j]]
                with np.errstate(all="ignore"):
                    fitted = refit(self._law(expr), inputs, target, self.problem.weights)
                trials.append(_canonical(fitted.expressions[0]) or expr)
            for trial in filter(self.admits, trials):
                loss = self.problem.candidate(self._law(trial)).loss
                if math.isfinite(loss):
                    result.append((self.complexity(trial), loss, trial))
        return _undominated(result)

    def admits(self, expr: sympy.Expr) -> bool:
        """Whether this output may be this expression."""
        return self.problem.admits(self._law(expr))

    def complexity(self, expr: sympy.Expr) -> float:
        return self.problem.complexity(self._law(expr))

    def _law(self, expr: sympy.Expr) -> Law:
        return self.problem.equation(self.j, expr, canonical=False)

    def _theta(self, terms: Sequence[sympy.Expr]) -> np.ndarray:
        """Values (rows, terms) on the sample; each term is computed once."""
        for t in terms:
            if t not in self.columns:
                with np.errstate(all="ignore"):
                    self.columns[t] = self._law(t).numpy()(self.inputs)[:, 0]
        empty = np.zeros((len(self.target), 0))
        return np.column_stack([empty, *(self.columns[t] for t in terms)])

    def _unsigned(self, expr: sympy.Expr) -> sympy.Expr:
        """Without absolute values of what has one sign on all rows, or stands in a cosine."""
        if not expr.has(sympy.Abs):
            return expr
        if expr.args:
            expr = expr.func(*map(self._unsigned, expr.args))
        if isinstance(expr, sympy.cos) and isinstance(expr.args[0], sympy.Abs):
            return sympy.cos(expr.args[0].args[0])
        if not isinstance(expr, sympy.Abs):
            return expr
        with np.errstate(all="ignore"):
            values = self._law(expr.args[0]).numpy()(self.inputs)[:, 0]
        for sign in (1, -1):
            if (sign * values >= 0).all():
                return sign * expr.args[0]
        return expr

    def _contribution(self, coefficient: float, term: sympy.Expr) -> float:
        """Share of the target; NaN, which passes no threshold, where the term is undefined."""
        with np.errstate(all="ignore"):
            mean_square = float(np.mean(self._theta([term]) ** 2))
        return abs(coefficient) * math.sqrt(mean_square) / self.size

    def _selections(self) -> Iterator[list[sympy.Expr]]:
        """Supports from the pooled terms of all candidates, the best candidates' terms first."""
        pool: dict[sympy.Expr, None] = {}
        for support, _ in sorted(self.found.items(), key=lambda item: item[1][1]):
            # Terms with numbers inside are many and rarely exact: they get half of the places.
            room = len(pool) < MAX_POOLED // 2
            usable = (t for t in support if room or not _has_number(t))
            pool |= dict.fromkeys(sorted(usable, key=sympy.default_sort_key))
        terms = list(pool)[:MAX_POOLED]
        if terms:
            gram = Gram.from_features(self._theta(terms), self.target[:, None])
            everything = range(len(terms))
            for path in (grow(gram, MAX_TERMS), [everything], backward(gram, 0, everything)):
                yield from ([terms[i] for i in support] for support in path)


def _has_number(term: sympy.Expr) -> bool:
    return bool(term.has(sympy.Float))


def _canonical(expr: sympy.Expr) -> sympy.Expr | None:
    try:
        return canonicalize(expr)
    except SjepaError:
        return None


def _undominated(rows: Iterable[ScoredExpression]) -> list[ScoredExpression]:
    kept: list[ScoredExpression] = []
    for row in sorted(rows, key=lambda r: (r[0], r[1], str(r[2]))):
        if not kept or max(row[1], ROUNDING) < (1 - GAIN) * max(kept[-1][1], ROUNDING):
            kept.append(row)
    return kept
