"""What a backend is: one class that says what it does, and one method that searches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar


if TYPE_CHECKING:
    from sjepa.backend.problem import Problem
    from sjepa.symbolic.front import Front
    from sjepa.symbolic.grammar import Grammar
    from sjepa.symbolic.library import Library


class StopNote(str):
    """A note of a front: Ctrl-C ended the search of something, or all of it."""

    @classmethod
    def of(cls, what: str = "") -> StopNote:
        text = "stopped by Ctrl-C; these are the laws found until then"
        return cls(f"{what}: {text}" if what else text)


class Backend(ABC):
    """Searches laws. Instances hold settings only, so they pickle and compare.

    Callers read these attributes; none of them compares names.

    Attributes
    ----------
    name : str
        Its registered name, also the prefix of its errors.
    trees : bool
        Whether it searches expression trees of a grammar, or combinations of library terms.
    proves : bool
        Whether it can certify that no simpler law of a library fits as well.
    constrains : bool
        Whether it searches any library by sums and rows of its columns, and respects
        `Problem.signs`; other constraints become such a library.
    owns_structure : bool
        Whether the structure it returns is fixed while the coordinates are trained. Otherwise its
        result only initializes a library whose allowed terms all stay trainable, and the
        training selects among them.
    plain : set of str
        Options that a file may set: numbers, switches and names of a fixed list. Any other may be
        code, a path or a program; from a run folder or a configuration file it needs ``--trust``.

    Examples
    --------
    >>> import numpy as np
    >>> from sjepa import Library, Problem
    >>> class Proportional(Backend):
    ...     name = "proportional"
    ...
    ...     def search(self, problem):
    ...         x, y = problem.rows()
    ...         law = problem.candidate_library.law(np.linalg.lstsq(x, y)[0])
    ...         return problem.front([law], self.name)
    >>> x = np.arange(1.0, 5.0)[:, None]
    >>> library = Library.from_terms(["x"], inputs=["x"])
    >>> Problem(x, 3 * x, library=library).solve(Proportional()).best()
    x' = 3*x
    """

    name: ClassVar[str]
    trees: ClassVar[bool] = False
    proves: ClassVar[bool] = False
    constrains: ClassVar[bool] = False
    owns_structure: ClassVar[bool] = True
    plain: ClassVar[frozenset[str]] = frozenset()

    @property
    def limited(self) -> bool:
        """Whether its settings say how long it searches, so that no default budget is needed."""
        return False

    def space(self, names: Sequence[str]) -> Library | Grammar | None:
        """What its settings say is searched, of these inputs; None leaves it to the defaults.

        A library or grammar that is given beside the backend is searched instead.
        """
        return None

    def prepare(self) -> None:  # noqa: B027
        """Start slow preparations in the background; returns at once and never fails.

        Called as soon as a search is certain, while data are still prepared.
        """

    def describe(self) -> str:
        """External dependencies of the search and their location; usually empty.

        Raises BackendUnavailable if a search could only begin with a download.
        """
        return ""

    @abstractmethod
    def search(self, problem: Problem) -> Front:
        """Return the Pareto front of the laws found.

        To be written by a backend and called by :meth:`Problem.solve`, which checks the answer.
        The same problem, settings and seed give the same answer. Laws are in canonical form with
        the problem's names, allowed by its library or grammar, and scored on all of its rows.
        Finding nothing is an empty front with a note, not an error.
        """
