"""What the engines on a Gram matrix share: supports in, a front of laws out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sjepa.backend import Problem
from sjepa.errors import LawError
from sjepa.symbolic.front import Candidate, Front, combine_outputs


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


def warm_supports(problem: Problem) -> list[set[tuple[int, ...]]]:
    """For each output, the supports of the previous answer that this library can express."""
    found: list[set[tuple[int, ...]]] = [set() for _ in problem.outputs]
    for candidate in problem.warm or ():
        if candidate.law.inputs != problem.names or candidate.law.outputs != problem.outputs:
            continue
        try:
            coefficients = problem.candidate_library.coefficients(candidate.law)
        except LawError:
            continue
        allowed = problem.candidate_library.mask(problem.outputs)
        for j, supports in enumerate(found):
            support = np.flatnonzero(coefficients[:, j])
            if allowed[support, j].all():
                supports.add(tuple(support.tolist()))
    return found


def joint_front(
    problem: Problem,
    fits: Sequence[Sequence[Fit]],
    engine: str,
    notes: Sequence[str] = (),
    min_gain: float = 0.0,
) -> Front:
    """Whole laws from one front for each output."""
    library = problem.candidate_library
    rows = [[(f.cost, f.loss, f) for f in undominated(output)] for output in fits]
    candidates = []
    for _, _, parts in combine_outputs(rows):
        coefficients = np.stack([f.coefficients for f in parts], axis=1)
        law = library.law(coefficients, problem.outputs, problem.realisation)
        # The proof is about the weights of the library, so it says nothing about tree sizes.
        certified = problem.measure == "terms" and all(f.certified for f in parts)
        losses = problem.losses(law).tolist()
        candidates.append(Candidate.score(law, losses, problem.library, certified))
    return Front.of(candidates, problem.measure, engine, notes, min_gain=min_gain)
