"""What `discover` hands out: a front with its doubts, and the sums from which it can go on."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sjepa.backend import Backend, Problem
from sjepa.data import Trajectories
from sjepa.data.history import before
from sjepa.data.streams import PieceSums
from sjepa.errors import DataError, NumericalWarning
from sjepa.models.selection import judge_front
from sjepa.symbolic import Front, Law
from sjepa.symbolic.parse import symbol


# A law that leaves more than this share of the variance unexplained is worth a warning.
POOR = 0.2


@dataclass(frozen=True, eq=False)
class Kept:
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
    ) -> Kept | None:
        """None where there are no such sums: for trees, maps, derivatives that were given, and
        terms with numbers inside, which more data would move."""
        if problem.library is None or backend.trees or not again:
            return None
        if problem.library.has_numbers:
            return None
        sums = problem.with_(
            gram=problem.sums, inputs=None, targets=None, features=None, on_rows=None, warm=None,
            progress=None,
        )  # fmt: skip
        return cls(sums, again, backend, names, data.names or (), data.action_names or (), refit)

    def update(self, x: Any, t: Any, u: Any) -> Front:
        """See :meth:`Front.update`."""
        data = Trajectories.of(x, t, u, names=self.states, states=True)
        if len(data.action_names or ()) != len(self.actions):
            raise DataError(
                f"The first data had {len(self.actions)} actions, these have "
                f"{len(data.action_names or ())}: give the same columns."
            )
        old, library = self.problem.sums, self.problem.library
        near = None if old.near is None else old.near.coefficients
        more = PieceSums(library, self.again, near=near)(0, data)
        problem = self.problem.with_(gram=old + more)
        end, form, doubt = problem.deadline(), str(self.again["form"]), ""
        front = problem.solve(self.backend)
        if self.again["order"] == 1:
            front, doubt = judge_front(
                front, problem, data, 1, form == "zoh", end, refit=self.refit,
                like=self.again["like"],
            )  # fmt: skip
        front = replace(front, kept=replace(self, problem=problem))
        return answered(front, problem, doubt, form, self.names, depth=4)


def answered(
    front: Front,
    problem: Problem,
    doubt: str,
    form: str,
    names: tuple[str, ...],
    late: Sequence[str] = (),
    depth: int = 3,
) -> Front:
    """The front as it is handed out, after a warning for every doubt.

    Warnings are those of the caller `depth` calls up.
    """
    doubts = _doubts(front, problem, doubt)
    for text in doubts:
        warnings.warn(text, NumericalWarning, stacklevel=depth)
    pairs = [(c, _widened(c.law, names, late)) for c in front]
    wide = tuple(c if law is c.law else replace(c, law=law) for c, law in pairs)
    notes = (*front.notes, *doubts)
    return replace(front, candidates=wide, form=form, notes=notes, doubts=tuple(doubts))


def _doubts(front: Front, problem: Problem, doubt: str) -> list[str]:
    """What makes a law doubtful."""
    doubts = [doubt] if doubt else []
    rows = problem.sums.rows if problem.targets is None else len(problem.targets)
    terms = len(problem.candidate_library) if problem.library is not None else 0
    if rows <= terms:
        doubts.append(
            f"Only {rows} rows for {terms} candidate terms: almost any law fits. "
            "Give more data or a smaller library."
        )
    if len(front) and (loss := front.best_candidate().loss) > POOR:
        doubts.append(
            f"The best law leaves {100 * loss:.0f} % of the variance unexplained: the library "
            "may lack a term, or the derivatives may be too noisy."
        )
    return doubts


def _widened(law: Law, names: tuple[str, ...], late: Sequence[str] = ()) -> Law:
    """The law with coordinates, velocities and actions as inputs, whether or not it uses them.

    Lagged values get the equations that they have by their meaning, so that the law is whole.
    """
    if law.inputs == names and not late:
        return law
    shifts = [symbol(before(name)) for name in late]
    outputs = (*law.outputs, *late)
    return Law([*law.expressions, *shifts], names, outputs, law.dynamics, canonical=False)
