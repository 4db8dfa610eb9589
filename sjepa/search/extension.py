"""More terms for a problem: those of given laws, and terms with parameters that its rows tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sjepa.backend import Backend, Problem
from sjepa.data import Trajectories
from sjepa.data.forms import Rows
from sjepa.data.rows import OnRows
from sjepa.search.effort import Effort
from sjepa.search.parametric import Source, on_library, solve_open
from sjepa.search.ranking import inside
from sjepa.symbolic import Front, Law, Library
from sjepa.symbolic.gram import variance_of
from sjepa.symbolic.term_templates import TermTemplate, extended_templates, weight


# Noise takes what is nearly nothing below it: an amount is positive up to this share of its range.
BELOW = 0.03


@dataclass(frozen=True)
class Extension:
    """Extends the library of a problem on rows that are ready.

    `floor` (k,) is the mean square error of clean derivatives, None where noise decides; `end` is
    when the search must be over, by the problem's clock.
    """

    backend: Backend
    rows: Rows
    data: Trajectories | None
    floor: np.ndarray | None
    noisy: bool
    ordered: bool
    end: float
    effort: Effort

    def tells_parameters(self, problem: Problem) -> bool:
        """Whether there are rows enough for parameters inside terms."""
        effort = self.effort
        rows = 0 if problem.targets is None else len(problem.targets)
        if self.data is not None and self.ordered:
            rows = max(rows, int(self.data.lengths.sum()) // effort.points)
        least = effort.table_rows if self.data is None else effort.rows
        return len(problem.names) <= effort.max_inputs and rows >= least

    def with_terms_of(self, problem: Problem, laws: Sequence[Law]) -> Problem:
        """The problem with the terms of some laws."""
        base = problem.library
        if base is None or all(inside(law, problem) is not None for law in laws):
            return problem
        terms = dict.fromkeys(t for law in laws for row in law.canonical().terms for _, t in row)
        new = [t for t in terms if t not in base.term_weights]
        weights = [*base.weights, *map(weight, new)]
        library = Library([*base.terms, *new], base.inputs, weights, canonical=False)
        return on_library(self.thinned(problem), library, self.on_rows)

    def parametric(
        self, problem: Problem, templates: list[TermTemplate], also: Source | None = None
    ) -> tuple[Front, Problem]:
        """The backend's front with the parameters of term templates found on the rows."""
        floor = self.floor
        clean = floor is not None
        limit = self._dense(problem) if floor is None else floor / problem.variance
        if problem.loss_unit is not None:  # places are judged by what they leave of the targets
            limit = limit * problem.loss_unit / variance_of(self.rows.targets)
        if math.isfinite(self.end):
            left = max(self.end - problem.clock(), 0.0)
            problem = problem.with_(budget=replace(problem.budget, seconds=left / 2))
        return solve_open(
            self.backend, self.thinned(problem), templates, self.on_rows, self.points(),
            limit, clean, lambda: problem.clock() < self.end, also if clean else None,
        )  # fmt: skip

    def templates(self, names: Sequence[str], points: np.ndarray) -> list[TermTemplate]:
        inputs = () if self.data is None else self.data.input_names or ()
        low = points.min(axis=0) > -BELOW * np.ptp(points, axis=0) * self.noisy
        states = [n for n in names if n not in inputs]
        return extended_templates(
            states, inputs, [n for n, ok in zip(names, low, strict=True) if ok]
        )

    def _dense(self, problem: Problem) -> np.ndarray:
        """About what noise leaves: all terms of the library, for the rows they leave free."""
        sums, usable = problem.sums, problem.usable
        solved = [sums.solve(usable[:, j], j) for j in range(usable.shape[1])]
        rows, terms = sums.rows, len(sums.xx)
        return sums.loss(np.stack(solved, axis=1)) * 1.3 * rows / max(rows - terms, 1)

    @cached_property
    def _every(self) -> int:
        return -(-len(self.rows.targets) // self.effort.max_rows)

    @cached_property
    def on_rows(self) -> OnRows:
        return self.rows.thinned(self._every)

    def points(self) -> np.ndarray:
        """Inputs as they occur, a thousand of them."""
        kept: list[np.ndarray] = []

        def look(z: np.ndarray) -> np.ndarray:
            kept.append(z[:: max(1, len(z) // 1000)])
            return np.zeros((len(z), 1))

        self.on_rows(look)
        x = np.concatenate(kept)
        return x[:: -(-len(x) // 1000)]

    def thinned(self, problem: Problem) -> Problem:
        """The problem on the rows of `_on_rows`: more columns of all of them would fill memory."""
        if (every := self._every) == 1:
            return problem
        assert problem.targets is not None
        rows = "inputs" if problem.features is None else "features"
        some = {rows: getattr(problem, rows)[::every], "targets": problem.targets[::every]}
        return problem.with_(**some)
