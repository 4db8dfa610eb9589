"""What `discover` returns: a front with its verdict, and the sums from which it can be updated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sjepa.backend import Backend, Problem
from sjepa.backend.collinearity import CopyNote
from sjepa.data import Trajectories
from sjepa.data.clock import TIME, with_time
from sjepa.data.forms import continuous_rows
from sjepa.data.history import before
from sjepa.data.streams import PieceSums
from sjepa.errors import DataError, NumericalWarning, warn_caller
from sjepa.search.ladder import Ladder
from sjepa.symbolic import Front, Law
from sjepa.symbolic.known import whole_front
from sjepa.symbolic.parse import symbol


@dataclass(frozen=True, eq=False)
class SufficientStatistics:
    """Sums over the data of a front, and how rows become sums: enough for :meth:`Front.update`.

    `problem` has the sums in place of rows; `names` are the inputs of the law, `states` and
    `actions` those of the data.
    """

    problem: Problem
    again: Mapping[str, Any]
    backend: Backend
    names: tuple[str, ...]
    states: tuple[str, ...]
    actions: tuple[str, ...]
    refit: bool

    @classmethod
    def of(
        cls,
        problem: Problem,
        again: Mapping[str, Any],
        backend: Backend,
        names: tuple[str, ...],
        data: Trajectories,
        refit: bool,
    ) -> SufficientStatistics | None:
        """None where there are no such sums: for trees, maps, derivatives that were given, and
        parametric terms, which more data would move."""
        if problem.library is None or backend.trees or not again:
            return None
        if problem.library.has_numbers:
            return None
        sums = problem.with_(
            gram=problem.sums, inputs=None, targets=None, features=None, on_rows=None, warm=None,
            progress=None, proposals=None,
        )  # fmt: skip
        return cls(sums, again, backend, names, data.names or (), data.action_names or (), refit)

    def update(self, x: Any, t: Any, u: Any) -> Front:
        """See :meth:`Front.update`."""
        data = Trajectories.of(x, t, u, names=self.states, states=True)
        if TIME in self.actions:
            data = with_time(data)
        if len(data.action_names or ()) != len(self.actions):
            raise DataError(
                f"The first data had {len(self.actions)} actions, these have "
                f"{len(data.action_names or ())}: give the same columns."
            )
        old, library = self.problem.sums, self.problem.library
        near = None if old.near is None else old.near.coefficients
        more = PieceSums(library, self.again, near=near)(0, data)
        problem = self.problem.with_(gram=old + more)
        end, form = problem.deadline(), str(self.again["form"])
        rows = continuous_rows(data, library, **self.again)
        ladder = Ladder(
            self.backend, rows, data, self.names, int(self.again["order"]), end, self.refit
        )
        front = ladder.conclude(problem.solve(self.backend), problem).front
        front = replace(front, kept=replace(self, problem=problem))
        return finalize(front, problem, form, self.names, known=self.again.get("known"))


def finalize(
    front: Front,
    problem: Problem,
    form: str,
    names: tuple[str, ...],
    late: Sequence[str] = (),
    known: Law | None = None,
) -> Front:
    """The front as it is returned, after a warning where its law is not adequate."""
    weights = None if problem.grammar is None else problem.grammar.weights
    front = whole_front(front, known, problem.library, weights)
    verdict = front.verdict
    rows = problem.sums.rows if problem.targets is None else len(problem.targets)
    terms = len(problem.candidate_library) if problem.library is not None else 0
    if verdict is not None and rows <= terms:
        few = f"There are {rows} rows for {terms} candidate terms: almost any law fits."
        verdict = replace(verdict, adequate=None, reasons=(few, *verdict.reasons))
    if verdict is not None:
        rivals = tuple(replace(r, law=_widened(r.law, names, late)) for r in verdict.rivals)
        verdict = replace(verdict, law=_widened(verdict.law, names, late), rivals=rivals)
        if verdict.adequate is False:
            warn_caller(NumericalWarning(verdict.reasons[0]))
    pairs = [(c, _widened(c.law, names, late)) for c in front]
    wide = tuple(c if law is c.law else replace(c, law=law) for c, law in pairs)
    law = front.best() if len(front) else None
    notes = tuple(
        n for n in front.notes if not isinstance(n, CopyNote) or (law and n.concerns(law))
    )
    return replace(front, candidates=wide, form=form, verdict=verdict, notes=notes)


def _widened(law: Law, names: tuple[str, ...], late: Sequence[str] = ()) -> Law:
    """The law with coordinates, velocities and actions as inputs, whether or not it uses them.

    Lagged values get the equations that they have by their meaning, so that the law is whole.
    """
    if law.inputs == names and not late:
        return law
    shifts = [symbol(before(name)) for name in late]
    outputs = (*law.outputs, *late)
    return Law([*law.expressions, *shifts], names, outputs, law.dynamics, canonical=False)
