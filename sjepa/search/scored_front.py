"""A front whose rows have scores, with the chosen law among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sjepa.backend import Problem
from sjepa.inference.score import Fit, Scores
from sjepa.symbolic import Candidate, Front, Law


def scored_front(
    front: Front,
    problem: Problem,
    fits: Mapping[Law, Fit],
    scores: Scores,
    best: Law,
    whole: Callable[[Law], Law],
    moved: bool,
) -> Front:
    """The front with the best law marked, whether or not a backend had found it.

    `fits` are of laws with all inputs, which `whole` gives them. If the fits `moved` coefficients,
    rows have those. Rows that a simpler law beats are left out.
    """

    def scored(law: Law, fit: Fit, row: Candidate | None) -> Candidate:
        if row is None or moved:
            fitted = Law(fit.law.expressions, problem.names, law.outputs, law.dynamics)
            new = problem.candidate(fitted)
            if row is not None:
                new = replace(new, certified=row.certified, backend=row.backend)
            row = new
        error = scores.standard_error(fit)
        return replace(row, evidence=-scores.lead(fit), standard_error=error)

    rows: dict[Law, Candidate] = {}
    for row in front:
        law = whole(row.law)
        rows[law] = scored(law, fits[law], row) if law in fits else row
    if best not in rows:
        rows[best] = scored(best, fits[best], None)
    marked = rows[best]
    # Other coefficients make no other law; the complexity tells most structures apart at once.
    length, same = front.complexity(marked), marked.law.skeleton[0]

    def is_beaten(row: Candidate) -> bool:
        return any(
            other.loss <= row.loss and front.complexity(other) < front.complexity(row)
            for other in rows.values()
        )

    kept = [
        row for row in rows.values()
        if row is marked or (
            (front.complexity(row) != length or row.law.skeleton[0] != same) and not is_beaten(row)
        )
    ]  # fmt: skip
    kept.sort(key=lambda row: (front.complexity(row), row.loss))
    return replace(front, candidates=tuple(kept), chosen=kept.index(marked))
