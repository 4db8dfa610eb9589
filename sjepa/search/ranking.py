"""Which of the fitted laws leads a search, and what is needed to compare them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

import sympy

from sjepa.backend import Problem
from sjepa.inference.constants import ODDS, STRUCTURE
from sjepa.inference.evidence import Simulation
from sjepa.inference.score import Fit, Scores
from sjepa.symbolic import Law
from sjepa.symbolic.snap import variants
from sjepa.symbolic.term_templates import weight


def best_of(fits: Mapping[Law, Fit], keep: Callable[[Law], bool] | None = None) -> Law:
    some = {law: fit for law, fit in fits.items() if keep is None or keep(law)} or fits
    return law_of(Scores(tuple(some.values())).best, fits)


def law_of(fit: Fit, fits: Mapping[Law, Fit]) -> Law:
    return next(law for law, other in fits.items() if other is fit)


def leader(evidence: Simulation, keep: Callable[[Law], bool] | None) -> tuple[Law, Scores, bool]:
    """The best law so far, scores by which others are compared with it, and whether it may do."""
    fits = evidence.fits
    some = tuple(fit for law, fit in fits.items() if keep is None or keep(law))
    scores = Scores(some or tuple(fits.values()))
    law = law_of(scores.best, fits)
    if evidence.adequacy(law).adequate is not False:
        return law, scores, True
    scores = replace(scores, memory=False)
    return law_of(scores.best, fits), scores, False


@lru_cache(maxsize=1024)
def structure_of(law: Law) -> tuple[sympy.Expr, ...]:
    """The equations without their coefficients."""
    return law.with_free_terms().skeleton[0]


def priced(problem: Problem) -> Callable[[Law], float]:
    """Complexity in units that cost STRUCTURE nats, more where a unit chooses among more terms."""
    light = len(problem.names)
    if problem.library is not None:
        light = int((problem.library.weights <= 1).sum())
    price = max(1.0, math.log(max(light, 1)) / STRUCTURE)
    return lambda law: price * problem.complexity(law)


def is_long(law: Law, j: int, problem: Problem, each: float) -> bool:
    """Whether an equation with a parametric term could have a score near that of equation `j`.

    It has a plain term and one with a parameter at the least, three coefficients in all.
    """
    known = problem.library.term_weights if problem.library is not None else {}
    shortest = STRUCTURE * 3.5 + 3 * each
    row = law.terms[j]
    length = STRUCTURE * sum(known.get(t, weight(t)) for _, t in row) + each * len(row)
    return length > shortest - ODDS


def simplified(law: Law) -> list[Law]:
    """The law with parameters inside terms that are nearly simple numbers made simple."""
    found = []
    for j, expr in enumerate(law.expressions):
        for other in variants(expr):
            rows = [*law.expressions[:j], other, *law.expressions[j + 1 :]]
            found.append(Law(rows, law.inputs, law.outputs, law.dynamics))
    return found


def inside(law: Law, problem: Problem) -> Law | None:
    """The law in the problem's own inputs, if its terms are those of the library."""
    if any(str(s) not in problem.names for e in law.expressions for s in e.free_symbols):
        return None
    renamed = Law(law.expressions, problem.names, law.outputs, law.dynamics, canonical=False)
    renamed = renamed.canonical()
    return renamed if problem.candidate_library.covers(renamed) else None
