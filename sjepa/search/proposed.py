"""Laws that were proposed, beside those that a search finds: their numbers, terms and scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sjepa.backend import Problem
from sjepa.backend.proposals import Proposals, kind_of
from sjepa.data.rows import OnRows
from sjepa.errors import SjepaError
from sjepa.search.parametric import moved
from sjepa.symbolic import Law, Library, refit
from sjepa.symbolic.front import Candidate
from sjepa.symbolic.snap import loosened
from sjepa.symbolic.text import to_text


def is_defined(law: Law, proposals: Proposals, of: OnRows) -> bool:
    """Whether the terms of a law are finite on the rows; where not, a note says so."""
    terms = list(dict.fromkeys(t for row in law.terms for _, t in row))
    if not terms:
        return True
    with np.errstate(all="ignore"):
        good = np.isfinite(of(Library(terms, law.inputs, canonical=False).numpy())).all(axis=0)
    if not good.all():
        term = to_text(terms[int(np.argmin(good))])
        proposals.refuse(law, f"{term} is not finite on all of the data.")
    return bool(good.all())


def proposed_row(law: Law, problem: Problem) -> Candidate | None:
    """A row of the front; None where the sums of the problem have no such terms."""
    try:
        return replace(problem.candidate(law), backend="proposed")
    except SjepaError:
        return None


def with_numbers(law: Law, problem: Problem, some: Problem, of: OnRows) -> Law | None:
    """The law with numbers fitted to some rows; None where it is not defined on all of them."""
    try:
        free = loosened(Law(law.expressions, problem.names, law.outputs, law.dynamics))
        if problem.weights is not None:
            found = refit(free, *problem.rows(), problem.weights).canonical()
        else:
            found = moved(free, some, of)
        return found if np.isfinite(problem.losses(found)).all() else None
    except (SjepaError, ValueError, np.linalg.LinAlgError):  # numbers that run away
        return None


def as_proposed(law: Law, problem: Problem) -> bool:
    """Whether terms outside the library are those of a proposal, whatever their numbers."""
    if problem.proposals is None:
        return False
    known, proposed = problem.candidate_library.term_weights, problem.proposals.kinds
    return all(t in known or kind_of(t) in proposed for row in law.terms for _, t in row)


def rescored(c: Candidate, problem: Problem) -> Candidate:
    """The row as another library has it."""
    own = problem.candidate(c.law)
    return replace(c, loss=own.loss, losses=own.losses, terms=own.terms, tree=own.tree)
