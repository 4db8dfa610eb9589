"""Genetic programming by Operon, through pyoperon."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sjepa.backend import Backend, Problem, StopNote
from sjepa.errors import ConfigError
from sjepa.symbolic import Grammar
from sjepa.symbolic.front import Front, combine_outputs
from sjepa.symbolic.law import Law
from sjepa.symbolic.refit import refit
from sjepa_backends.adapters import grammar_of
from sjepa_backends.operon.refinement import Refinement, ScoredExpression
from sjepa_backends.operon.run import OperonRun, output_space, sample_rows


# Runs for an output end once so little of the variance is unexplained: single precision.
EXACT = 1e-11
# Share of the time for pyoperon itself; the rest is for cleaning and refitting.
SEARCH_SHARE = 0.75


@dataclass(frozen=True)
class Operon(Backend):
    """Expression trees by Operon's multi-objective search (error and length).

    Outputs are searched one by one on a sample of the rows; then every model on the fronts is
    cleaned (small terms, nearly simple numbers), its terms are pooled and selected again, and
    the survivors are refitted on all rows. Operators that Operon does not have are named in the
    notes. It knows no sample weights, so rows are drawn in proportion to them. The terms of a
    previous front join the pool; Operon's own population cannot be started from it.

    The same seed gives the same answer whatever `threads` is, unless the clock ends a search:
    how far it came by then depends on the machine.

    Parameters
    ----------
    rows : int, default=2000
        Most rows to search on. More make Operon slower, not better.
    runs : int, default=5
        Independent runs for each output; they end early once a law is exact.
    generations : int, default=18
        Length of one run; with the default population about a second on a thousand rows.
    population : int, default=500
    max_length : int, default=30
        Most nodes of a tree; the grammar's own limit applies to the result.
    threads : int, default=1
    cheap_runs : bool, default=True
        Whether every second run has only the cheap operators.
    operators : sequence of str, optional
        What is searched where no grammar is given.
    options : mapping, optional
        Further arguments of ``pyoperon.sklearn.SymbolicRegressor``.
    """

    name: ClassVar[str] = "operon"
    trees: ClassVar[bool] = True
    plain: ClassVar[frozenset[str]] = frozenset(
        {"rows", "runs", "generations", "population", "max_length", "threads", "cheap_runs"}
    )

    rows: int = 2000
    runs: int = 5
    generations: int = 18
    population: int = 500
    max_length: int = 30
    threads: int = 1
    cheap_runs: bool = True
    operators: Sequence[str] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("rows", "runs", "generations", "population", "max_length", "threads"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}.")

    @property
    def limited(self) -> bool:
        """Whether evaluations or seconds of its own end a search."""
        return bool({"max_evaluations", "max_time"} & self.options.keys())

    def space(self, names: Sequence[str]) -> Grammar | None:
        return grammar_of(self.operators, names)

    def search(self, problem: Problem) -> Front:
        last = problem.deadline()
        rows = sample_rows(problem, self.rows)
        count = len(problem.outputs)
        fronts: list[list[ScoredExpression]] = []
        notes: list[str] = []
        stopped = False
        for j, output in enumerate(problem.outputs):
            now = problem.clock()
            end = now if stopped else now + (last - now) / (count - j)
            front, now_stopped = self._search_output(problem, j, rows, end, notes)
            fronts.append(front)
            stopped = stopped or now_stopped
            problem.report(f"operon: {output} done", (j + 1) / count)
        laws = [
            Law(expressions, problem.names, problem.outputs, problem.dynamics)
            for _, _, expressions in combine_outputs(fronts)
        ]
        for law in _warm(problem):
            fitted = refit(law, *problem.rows(), problem.weights).expressions
            laws += [law, Law(fitted, problem.names, problem.outputs, problem.dynamics)]
        return problem.front(laws, self.name, notes)

    def _search_output(
        self, problem: Problem, j: int, rows: np.ndarray, end: float, notes: list[str]
    ) -> tuple[list[ScoredExpression], bool]:
        """The front of one output, and whether it was stopped by Ctrl-C."""
        inputs, targets = problem.rows()
        output, target = problem.outputs[j], targets[:, j]
        what = output_space(problem, j)
        if what.missing:
            notes.append(f"{output}: Operon has no {', '.join(what.missing)}")
        refinement = Refinement(problem, j, rows)
        if problem.explained[j]:
            return refinement.front(-math.inf), False
        refinement.start_from(law.expressions[j] for law in _warm(problem))
        if what.features and np.ptp(target[rows]) > 1e-12 * np.abs(target[rows]).max():
            names = [f"f{i}" for i in range(len(what.features))]
            features = Law(what.features, problem.names, names, canonical=False).numpy()
            columns, options = features(inputs[rows]), self._options()
            run = OperonRun(what, columns, target[rows], options, problem.clock)
            if run.features:
                try:
                    self._run(problem, j, run, refinement, end, notes)
                except KeyboardInterrupt:
                    notes.append(StopNote.of(output))
                    return refinement.front(end), True
        return refinement.front(end), False

    def _run(
        self,
        problem: Problem,
        j: int,
        run: OperonRun,
        refinement: Refinement,
        end: float,
        notes: list[str],
    ) -> None:
        begin = problem.clock()
        search_end = begin + SEARCH_SHARE * (end - begin)
        runs = problem.budget.iterations or self.runs
        for k in range(runs):
            left = search_end - problem.clock()
            if left <= 0:
                notes.append(f"{problem.outputs[j]}: out of time after {k} of {runs} runs")
                return
            # A short first run measures the speed, so that a small budget can be kept.
            generations = (
                self.generations if math.isinf(left) or k else max(1, self.generations // 6)
            )
            # Operon knows no weights of operators; every second run has only the cheap ones.
            cheap = self.cheap_runs and k % 2 == 1
            found = run.expressions(problem.seed + 1000 * j + k, generations, left, cheap)
            refinement.propose(found, search_end)
            share = (j + (k + 1) / runs) / len(problem.outputs)
            line = f"operon: {problem.outputs[j]}, run {k + 1} of {runs}"
            problem.report(f"{line}, loss {refinement.best:.2e}\n{refinement.table}", share)
            if not refinement.solved(EXACT):
                refinement.refine(search_end)
            if refinement.solved(EXACT):
                return

    def _options(self) -> dict[str, Any]:
        return {
            "population_size": self.population,
            "max_length": self.max_length,
            "n_threads": self.threads,
            "optimizer_iterations": 5,
            **self.options,
        }


def _warm(problem: Problem) -> list[Law]:
    """The laws of the previous answer that are for this problem."""
    names = (problem.names, problem.outputs)
    return [c.law for c in problem.warm or () if (c.law.inputs, c.law.outputs) == names]
