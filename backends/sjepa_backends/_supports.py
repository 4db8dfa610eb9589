"""What the engines on a Gram matrix share: supports in, a front of laws out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sjepa.backend import Problem
from sjepa.symbolic.front import Front, combine_outputs
from sjepa.symbolic.law import Law


@dataclass(frozen=True)
class Fit:
    """One output on one support: its cost, its loss in units of variance, its coefficients."""

    cost: float
    loss: float
    coefficients: np.ndarray
    certified: bool = False


def fit(problem: Problem, output: int, support: Iterable[int], certified: bool = False) -> Fit:
    """Unpenalised least squares on a support."""
    index = np.fromiter(support, dtype=int)
    coefficients = problem.sums.solve(index, output)
    index = np.flatnonzero(coefficients)
    columns = np.zeros((len(coefficients), len(problem.outputs)))
    columns[:, output] = coefficients
    loss = float(problem.sums.loss(columns)[output])
    cost = float(problem.candidate_library.weights[index].sum())
    return Fit(cost, loss, coefficients, certified)


def undominated(fits: Iterable[Fit]) -> list[Fit]:
    """Those that no other fit beats, cheapest first."""
    kept: list[Fit] = []
    for f in sorted(fits, key=lambda f: (f.cost, f.loss, not f.certified)):
        if not kept or f.loss < kept[-1].loss:
            kept.append(f)
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


def refit_on_sums(problem: Problem, law: Law) -> Law:
    """The law's supports with the coefficients that fit best."""
    library = problem.candidate_library
    support = library.coefficients(law) != 0
    columns = [problem.sums.solve(support[:, j], j) for j in range(len(problem.outputs))]
    return library.law(np.stack(columns, axis=1), problem.outputs, problem.dynamics)


def joint_front(
    problem: Problem,
    fits: Sequence[Sequence[Fit]],
    engine: str,
    notes: Sequence[str] = (),
    min_gain: float = 0.0,
) -> Front:
    """Whole laws from one front for each output."""
    library = problem.candidate_library
    rows = [
        [(f.cost, f.loss, f) for f in undominated(output) if _allowed(problem, j, f)]
        for j, output in enumerate(fits)
    ]
    candidates = []
    for _, _, parts in combine_outputs(rows, min_gain):
        coefficients = np.stack([f.coefficients for f in parts], axis=1)
        law = library.law(coefficients, problem.outputs, problem.dynamics).canonical()
        # The proof is about the weights of the library, so it says nothing about tree sizes.
        certified = problem.measure == "terms" and all(f.certified for f in parts)
        candidates.append(problem.candidate(law, certified))
    candidates += [problem.candidate(law) for law in warm_laws(problem)]
    return Front.of(candidates, problem.measure, engine, notes, min_gain=min_gain)


def _allowed(problem: Problem, j: int, found: Fit) -> bool:
    """A sum of allowed terms may still be longer than a grammar wants it."""
    if problem.library is not None:
        return True
    law = problem.candidate_library.law(found.coefficients[:, None], [problem.outputs[j]])
    return problem.admits(law.canonical())
