"""Laws that were proposed, beside those that a search finds: their numbers, terms and scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sjepa.backend import Problem
from sjepa.backend.proposals import kind_of
from sjepa.data.rows import OnRows
from sjepa.errors import SjepaError
from sjepa.search.parametric import moved
from sjepa.symbolic import Law, refit
from sjepa.symbolic.front import Candidate
from sjepa.symbolic.snap import loosened


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
