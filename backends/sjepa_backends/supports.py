"""What the backends on a Gram matrix share: supports in, a front of laws out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from scipy.optimize import nnls

from sjepa.backend import Problem
from sjepa.symbolic.equation import Equation
from sjepa.symbolic.front import Candidate, Front, combine_outputs
from sjepa.symbolic.gram import Gram
from sjepa.symbolic.law import Law


# Share of a budget for the search; writing long laws down takes the rest.
SEARCH_SHARE = 0.7
# What is left of the variance by a law that is exact, in sums of products of doubles.
ROUNDING = 1e-15
# Ill-conditioned inverses up to this size are computed afresh for each term that goes; others are
# updated, and computed afresh after this many terms.
SMALL, REFRESH = 60, 20
# What every column of unit norm must have of its own for that.
UPDATABLE = 0.02
# Supports up to this length are solved together.
SHORT = 8
# Entries of the matrices that are solved at once.
TOGETHER = 100_000


@dataclass(frozen=True)
class SupportFit:
    """One output on one support: its cost, its loss in units of variance, its coefficients."""

    cost: float
    loss: float
    coefficients: np.ndarray
    certified: bool = False


# An output by its number, and the terms that it uses by theirs.
Support = tuple[int, ...]
Choice = tuple[int, Support]


def fit_all(problem: Problem, choices: Sequence[Choice]) -> list[SupportFit]:
    """Unpenalized least squares on supports of similar lengths, of any outputs."""
    outputs, sums = np.array([j for j, _ in choices]), problem.sums
    size = max(len(support) for _, support in choices)
    index = np.array([[*support, *[-1] * (size - len(support))] for _, support in choices], int)
    found = sums.solve_all(index, outputs)
    if problem.signs is not None:
        for i in np.flatnonzero((found * problem.signs.T[outputs] < 0).any(axis=1)):
            used, j = index[i][index[i] >= 0], outputs[i]
            scale = np.sqrt(np.diag(sums.xx)[used])
            a = sums.xx[np.ix_(used, used)] / np.outer(scale, scale)
            b = sums.xy[used, j] / scale
            found[i, used] = signed_solution(a, b, problem.signs[used, j]) / scale
    losses = sums.losses_of(outputs, found)
    costs = np.where(found != 0, problem.candidate_library.weights, 0.0).sum(axis=1)
    rows = zip(costs.tolist(), losses.tolist(), found, strict=True)
    return [SupportFit(cost, loss, c) for cost, loss, c in rows]


def fit(problem: Problem, output: int, support: Iterable[int]) -> SupportFit:
    return fit_all(problem, [(output, tuple(support))])[0]


def signed_solution(a: np.ndarray, b: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Solve normal equations, some coefficients not negative (1) or not positive (-1)."""
    values, vectors = np.linalg.eigh(a)
    root = np.sqrt(np.maximum(values, 1e-14 * values[-1]))
    left, right = root[:, None] * vectors.T, (vectors.T @ b) / root
    # A coefficient that is free is the difference of two that are not negative.
    flip = np.where(signs < 0, -1.0, 1.0)
    free = signs == 0
    found = nnls(np.hstack([left * flip, -left[:, free]]), right)[0]
    solution = flip * found[: len(b)]
    solution[free] -= found[len(b) :]
    return solution


def fit_until(
    problem: Problem, supports: Iterable[Iterable[Support]], end: float
) -> list[list[SupportFit]]:
    """For each output its supports, few terms first, until the time is over; the shortest always.

    All outputs are fitted together: on a few terms a call takes longer than what it computes.
    """
    chosen = [(j, s) for j, of_output in enumerate(supports) for s in of_output]
    fits: list[list[SupportFit]] = [[] for _ in problem.outputs]
    chosen.sort(key=lambda choice: (len(choice[1]), choice[1]))
    for length, alike in groupby(chosen, key=lambda choice: max(len(choice[1]), SHORT)):
        same = list(alike)
        together = max(1, TOGETHER // length**2)
        for start in range(0, len(same), together):
            part = same[start : start + together]
            if any(fits) and problem.clock() > end:
                return fits
            for (j, _), found in zip(part, fit_all(problem, part), strict=True):
                fits[j].append(found)
    return fits


def backward(
    gram: Gram, output: int, support: Iterable[int], weights: np.ndarray | None = None
) -> Iterator[list[int]]:
    """Supports from this one down, each without the term whose absence costs least.

    With `weights`, least for its weight.
    """
    keep = np.array(list(support), dtype=int)
    scale, unit = gram.unit
    price = np.ones(len(scale)) if weights is None else np.maximum(weights, 1e-3)
    target = gram.xy[:, output] / scale
    inverse, fresh = np.zeros((0, 0)), 0
    while len(keep):
        if fresh == 0:
            inverse, sound = _inverse(unit[keep][:, keep])
            fresh = REFRESH if sound or len(keep) > SMALL else 1
        coefficients = inverse @ target[keep]
        # The residual rises by c_i^2 / (A^-1)_ii when term i goes.
        rise = coefficients**2 / np.maximum(inverse.diagonal(), 1e-300)
        out = int(np.argmin(rise / price[keep]))
        stay = [*range(out), *range(out + 1, len(keep))]
        keep = keep[stay]
        yield keep.tolist()
        fresh -= 1
        if fresh:  # the inverse without a row and column of what it inverts
            column = inverse[stay, out]
            changed = np.outer(column, column) / max(inverse[out, out], 1e-300)
            inverse = inverse[stay][:, stay] - changed


def _inverse(a: np.ndarray) -> tuple[np.ndarray, bool]:
    """Of a symmetric matrix, and whether it is so sound that it can be updated."""
    try:
        if np.linalg.cholesky(a).diagonal().min() > UPDATABLE:
            return np.linalg.inv(a), True
    except np.linalg.LinAlgError:
        pass
    return np.linalg.pinv(a, rcond=1e-14, hermitian=True), False


def undominated(fits: Iterable[SupportFit]) -> list[SupportFit]:
    """Those that no other fit beats, cheapest first; what beats an exact one fits rounding."""
    kept: list[SupportFit] = []
    for f in sorted(fits, key=lambda f: (f.cost, f.loss, not f.certified)):
        if not kept or f.loss < kept[-1].loss:
            kept.append(f)
            if f.loss <= ROUNDING:
                break
    return kept


def warm_laws(problem: Problem) -> list[Law]:
    """The laws of the previous answer that are still allowed, as they are.

    They are worth keeping beside their refits: refitting can turn a 1 into a number that costs.
    """
    names = (problem.names, problem.outputs)
    return [
        c.law
        for c in problem.warm or ()
        if (c.law.inputs, c.law.outputs) == names and problem.candidate_library.covers(c.law)
    ]


def warm_supports(problem: Problem) -> list[set[tuple[int, ...]]]:
    """For each output, the supports of those laws."""
    found: list[set[tuple[int, ...]]] = [set() for _ in problem.outputs]
    for law in warm_laws(problem):
        coefficients = problem.candidate_library.coefficients(law)
        for j, supports in enumerate(found):
            supports.add(tuple(np.flatnonzero(coefficients[:, j]).tolist()))
    return found


def joint_front(
    problem: Problem,
    fits: Sequence[Sequence[SupportFit]],
    backend: str,
    notes: Sequence[str] = (),
    min_gain: float = 0.0,
    end: float = math.inf,
) -> Front:
    """Whole laws from one front for each output, simplest first until the time is over."""
    rows = [
        [(f.cost, f.loss, f) for f in _asked_for(problem, output) if _allowed(problem, j, f)]
        for j, output in enumerate(fits)
    ]
    joint = [parts for _, _, parts in combine_outputs(rows, min_gain)]
    candidates = [problem.candidate(law) for law in warm_laws(problem)]
    written = list(_written(problem, joint, end))
    notes = [*notes, *problem.copies]
    if len(written) < len(joint):
        notes.append(f"out of time: {len(joint) - len(written)} longer laws were left out")
    return Front.of([*written, *candidates], problem.measure, backend, notes, min_gain=min_gain)


def _written(
    problem: Problem, joint: Sequence[tuple[SupportFit, ...]], end: float
) -> Iterator[Candidate]:
    """Laws as expressions, as long as there is time: each takes about so long per term."""
    start, terms = problem.clock(), 0
    library, names = problem.candidate_library, (problem.names, problem.outputs)
    equations: dict[int, Equation] = {}  # many laws share an equation
    for parts in joint:
        new = {id(f): f for f in parts if id(f) not in equations}
        length = sum(int(np.count_nonzero(f.coefficients)) for f in new.values())
        now = problem.clock()
        if terms and now + length * (now - start) / terms > end:
            return
        terms += length
        equations |= {key: library.equation(f.coefficients) for key, f in new.items()}
        law = Law.of_equations([equations[id(f)] for f in parts], *names, problem.dynamics)
        # The proof is about the weights of the library, so it says nothing about tree sizes.
        certified = problem.measure == "terms" and all(f.certified for f in parts)
        yield problem.candidate(law, certified)


def _asked_for(problem: Problem, fits: Sequence[SupportFit]) -> list[SupportFit]:
    """What nothing beats, up to the first that is good enough."""
    kept, limit = undominated(fits), problem.adequate
    if limit is None:
        return kept
    return kept[: next((i + 1 for i, f in enumerate(kept) if f.loss <= limit), None)]


def _allowed(problem: Problem, j: int, found: SupportFit) -> bool:
    """A sum of allowed terms may still be longer than a grammar wants it."""
    grammar = problem.grammar
    if grammar is None:
        return True
    if np.count_nonzero(found.coefficients) >= grammar.max_size:  # no need to write it down
        return grammar.terms_for(problem.outputs[j]) is not None
    law = problem.candidate_library.law(found.coefficients[:, None], [problem.outputs[j]])
    return problem.admits(law.canonical())
