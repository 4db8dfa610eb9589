"""Structures near a law that fit about as well: what a search that reports one law leaves out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sjepa.backend.problem import Problem
from sjepa.symbolic.law import Law


# Losses within this share of each other may be ordered by noise alone.
CLOSE = 0.25


def exchanges(problem: Problem, law: Law, count: int = 3) -> list[Law]:
    """Laws with one term of one equation exchanged for one that weighs no more, nearest first."""
    return _nearest(problem, law, True, count)


def extensions(problem: Problem, law: Law, count: int = 3) -> list[Law]:
    """Laws with one more term in one equation, the largest fall of the loss first."""
    return _nearest(problem, law, False, count)


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
