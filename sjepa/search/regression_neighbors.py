"""Structures near a law that fit about as well: what a search that reports one law leaves out."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import sympy

from sjepa.backend.problem import Problem
from sjepa.inference.constants import STRUCTURE
from sjepa.symbolic import Front, Law


# Losses within this share of each other may be ordered by noise alone.
CLOSE = 0.25


def exchanges(problem: Problem, law: Law, count: int = 3) -> list[Law]:
    """Laws with one term of one equation exchanged for one that weighs no more, nearest first."""
    return _nearest(problem, law, True, count)


def extensions(problem: Problem, law: Law, count: int = 3) -> list[Law]:
    """Laws with one more term in one equation, the largest fall of the loss first."""
    return _nearest(problem, law, False, count)


def recombined(
    best: Law, front: Front, problem: Problem, values: float, each: float, floor: np.ndarray
) -> list[Law]:
    """The law with equations of other laws of the front, those that score best by themselves.

    A front of whole laws adds up their losses: what nothing explains in one equation hides how well
    others are known, and no row need have the best of each. Of `values` a target, each parameter
    costs `each` nats, and `floor` (k,) is the loss of rows without an error.
    """
    if len(best.outputs) < 2:
        return []
    chosen = []
    for j, output in enumerate(best.outputs):
        scores: dict[sympy.Expr, float] = {}
        for c in front:
            expr = c.law.expressions[j]
            law = Law([expr], c.law.inputs, [output], c.law.dynamics, canonical=False)
            length = STRUCTURE * problem.complexity(law) + each * len(law.terms[0])
            scores[expr] = -0.5 * values * math.log(c.losses[j] + floor[j]) - length
        chosen.append(max(scores, key=scores.__getitem__))
    found = [Law(chosen, best.inputs, best.outputs, best.dynamics)]
    for j, expr in enumerate(chosen):
        rows = (*best.expressions[:j], expr, *best.expressions[j + 1 :])
        found.append(Law(rows, best.inputs, best.outputs, best.dynamics))
    return found


def _nearest(problem: Problem, law: Law, drop: bool, count: int) -> list[Law]:
    library, sums = problem.candidate_library, problem.sums
    own = library.coefficients(law)
    losses = np.maximum(sums.loss(own), 1e-300)
    found = []
    for j, support, term in _trials(problem, own, drop):
        trial = own.copy()
        trial[:, j] = sums.solve(np.append(support, term), j)
        ratio = float(sums.loss(trial)[j] / losses[j])
        if ratio <= 1 + CLOSE:
            found.append((ratio, j, term, trial))
    found.sort(key=lambda one: one[:3])
    return [library.law(f[3], problem.outputs, problem.dynamics).canonical() for f in found[:count]]


def _trials(problem: Problem, own: np.ndarray, drop: bool) -> Iterator[tuple[int, np.ndarray, int]]:
    """Output, what stays of its support, and the term that comes in."""
    weights = problem.candidate_library.weights
    for j in range(own.shape[1]):
        support = np.flatnonzero(own[:, j])
        free = problem.usable[:, j] & (own[:, j] == 0)
        if not drop:
            yield from ((j, support, int(term)) for term in np.flatnonzero(free))
            continue
        for out in support:
            for term in np.flatnonzero(free & (weights <= weights[out])):
                yield j, support[support != out], int(term)
