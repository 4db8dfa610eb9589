"""Checks of the front that a backend returns: names, admissible terms, and recomputed losses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from sjepa.errors import BackendError
from sjepa.symbolic.front import Candidate, Front
from sjepa.symbolic.law import Law


if TYPE_CHECKING:
    from sjepa.backend.base import Backend
    from sjepa.backend.problem import Problem


# How far a claimed loss may be from ours: sums of squares lose digits where a law is nearly exact.
RELATIVE, ABSOLUTE = 1e-4, 1e-9


def checked(problem: Problem, backend: Backend, front: object) -> Front:
    """The same front, every law in canonical form and scored by the problem.

    Raises
    ------
    BackendError
        If a law is not for this problem, not allowed in it, or not what it is claimed to be.
    """
    if not isinstance(front, Front):
        raise BackendError(f"{backend.name}: returned a {type(front).__name__}, not a front.")
    rows = [_checked(problem, backend, c) for c in front]
    return Front.of(rows, problem.measure, backend.name, front.notes)


def _checked(problem: Problem, backend: Backend, claimed: Candidate) -> Candidate:
    if not isinstance(claimed, Candidate):
        raise BackendError(f"{backend.name}: the answer has a {type(claimed).__name__} for a law.")
    law = claimed.law
    for what, given, wanted in (
        ("inputs", law.inputs, problem.names),
        ("outputs", law.outputs, problem.outputs),
        ("dynamics", (law.dynamics,), (problem.dynamics,)),
    ):
        if tuple(given) != tuple(wanted):
            raise BackendError(
                f"{backend.name}: returned a law with {what} {', '.join(given)}; "
                f"the problem has {', '.join(wanted)}."
            )
    law = law.canonical()
    if not problem.admits(law):
        raise BackendError(
            f"{backend.name}: returned {_text(law)}, which the library or grammar does not allow."
        )
    if claimed.certified and not backend.proves:
        raise BackendError(
            f"{backend.name}: certifies {_text(law)}, but does not say that it proves anything."
        )
    recomputed = problem.candidate(law, claimed.certified)
    pairs = [(claimed.loss, recomputed.loss), *zip(claimed.losses, recomputed.losses, strict=False)]
    for loss, ours in pairs:
        if not (loss == ours or abs(loss - ours) <= ABSOLUTE + RELATIVE * abs(ours) < math.inf):
            raise BackendError(
                f"{backend.name}: claims a loss of {loss:.4g} for {_text(law)}; "
                f"on the rows of the problem it is {ours:.4g}."
            )
    return replace(recomputed, backend=claimed.backend or backend.name)


def _text(law: Law) -> str:
    return "; ".join(law.lines(digits=4))
