"""From a table to a front with a verdict: columns that matter, terms, parametric terms, trees."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count

import numpy as np

from sjepa.backend import Backend, Budget, Problem, Progress
from sjepa.backend.budget import TREE_SECONDS
from sjepa.backend.portfolio import in_rounds
from sjepa.backend.proposals import Proposals
from sjepa.backend.registry import available_backends, make_backend
from sjepa.data.forms import Rows
from sjepa.errors import SjepaError
from sjepa.estimator.table_space import (
    MAX_TERMS,
    Space,
    default_grammar,
    default_space,
    too_many_columns,
    units_of,
)
from sjepa.inference.constants import ODDS, STRUCTURE
from sjepa.search.ladder import Climbed, Ladder
from sjepa.search.ranking import simplified, structure_of
from sjepa.search.screening import MAX_ACTIVE, active_columns
from sjepa.symbolic import Front, Law, refit
from sjepa.symbolic.front import Candidate
from sjepa.symbolic.gram import variance_of
from sjepa.symbolic.known import with_known
from sjepa.symbolic.verdict import Rival, Verdict


# Of a budget, the most that the default search spends on terms before it turns to trees.
TERMS_SHARE = 0.5
# Seconds for trees where terms took all there was: a budget is never nothing.
LEAST = 0.01
# What the default search writes trees with.
TREES = "operon"
NOTHING = "No structure was found: no column has a significant effect, alone or with another one."


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of inputs (n, d) and targets (n, k) with their names, and how to search them.

    `backend` None is the default search; `space` None leaves the space to it, or to the backend.
    Where a part of the law is `known`, targets, guesses and the front are of the rest.
    """

    inputs: np.ndarray
    targets: np.ndarray
    names: Sequence[str]
    outputs: Sequence[str]
    backend: Backend | None
    space: Space | None
    library: str | None = None
    weights: np.ndarray | None = None
    units: Mapping[str, str] | None = None
    constraints: Sequence[str] = ()
    known: Law | None = None
    loss_unit: np.ndarray | None = None
    budget: Budget = field(default_factory=Budget)
    tree_seconds: float = TREE_SECONDS
    delta: float | None = None
    seed: int = 0
    guesses: Sequence[Law] = ()
    proposals: Proposals | None = None
    progress: Progress | None = None
    trees: bool = True  # whether the default search may turn to them

    def less(self, known: Law | None) -> Table:
        """The search for the rest beside a known part."""
        if known is None:
            return self
        return replace(
            self, known=known, targets=self.targets - known.numpy()(self.inputs),
            loss_unit=variance_of(self.targets, self.weights),
            guesses=[with_known(known, guess, -1) for guess in self.guesses],
        )  # fmt: skip

    def share(self, share: float) -> Table:
        """The same search in this share of the time."""
        seconds = self.budget.seconds
        budget = replace(self.budget, seconds=None if seconds is None else share * seconds)
        return replace(self, budget=budget, tree_seconds=share * self.tree_seconds)

    def search(self) -> Front:
        """The front, its laws with all columns as inputs."""
        if self.space is not None or self.constraints:
            return self._searched()
        rows, columns = self.inputs.shape
        if columns <= MAX_ACTIVE or not too_many_columns(rows, columns):
            return self._searched()
        active = self._active
        used = {s.name for g in self.guesses for e in g.expressions for s in e.free_symbols}
        active = sorted({*active, *(i for i, n in enumerate(self.names) if n in used)})
        if not active:
            return replace(self, trees=False)._searched()
        names = [self.names[i] for i in active]
        units = None
        if self.units is not None:
            units = {n: self.units[n] for n in (*names, *self.outputs)}
        own = self.proposals and replace(self.proposals, inputs=names)
        front = replace(
            self, inputs=self.inputs[:, active], names=names, units=units, proposals=own
        )._searched()
        note = f"of {columns} columns only {', '.join(names)} have a significant effect"
        return with_inputs(replace(front, notes=(note, *front.notes)), self.names)

    def _searched(self) -> Front:
        space, backend = self.space, self.backend
        default = backend is None
        if backend is None:
            backend = _default_backend(space)
        if space is None:
            space = default_space(self.names, self.inputs, backend, self.library)
        free = self.space is None and self.library is None and not (self.constraints or self.units)
        widen = free and not backend.trees and backend.space(self.names) is None
        further = default and widen and self.trees
        extend = widen and self.delta is None
        end = self._problem(backend, space, 1.0).deadline()
        climbed = self._climb(backend, space, extend, TERMS_SHARE if further else 1.0)
        if extend:
            climbed = self._with_simple_numbers(climbed, backend)
        if further and (self.guesses or self._wants_trees(climbed)):
            return self._with_trees(climbed, end)
        return self._without_structure(climbed)

    def _with_simple_numbers(self, climbed: Climbed, backend: Backend) -> Climbed:
        """The law may have simple numbers where its parameters nearly are: 1/x for x**-0.99."""
        verdict, terms = climbed.verdict, climbed.problem
        if verdict is None:
            return climbed
        known = {structure_of(c.law) for c in climbed.front}
        laws = [
            refit(law, self.inputs, self.targets, self.weights).canonical()
            for law in simplified(verdict.law)
            if structure_of(law) not in known
        ]
        if not laws:
            return climbed
        rows = [replace(terms.candidate(law), backend=backend.name) for law in laws]
        return self._concluded(climbed, backend, rows)

    def _concluded(
        self, climbed: Climbed, backend: Backend, rows: Sequence[Candidate],
        notes: Sequence[str] = (),
    ) -> Climbed:  # fmt: skip
        """The verdict on the front with further rows."""
        front, terms = climbed.front, climbed.problem
        both = Front.of(
            [*front, *rows], front.measure, front.backend,
            list(dict.fromkeys([*front.notes, *notes])),
        )  # fmt: skip
        return self._ladder(backend, terms).conclude(both, terms, [c.law for c in rows])

    @cached_property
    def _active(self) -> list[int]:
        return active_columns(self.inputs, self.targets, self.weights)

    def _is_noise(self, climbed: Climbed) -> bool:
        """Whether nothing is better than a constant, by a test that could see what is.

        The test of adequacy has a say where rows are dense; among many columns those with an
        effect are looked for one by one.
        """
        verdict = climbed.verdict
        if verdict is None or verdict.adequate is not None:
            return False
        if any(term.free_symbols for row in verdict.law.terms for _, term in row):
            return False
        return "p_value" in verdict.figures or not self._active

    def _without_structure(self, climbed: Climbed) -> Front:
        """The front, whose verdict says so where no column has an effect."""
        front, verdict = climbed.front, climbed.verdict
        if verdict is None or "p_value" in verdict.figures or not self._is_noise(climbed):
            return front
        return replace(front, verdict=replace(verdict, reasons=(NOTHING, *verdict.reasons)))

    def _wants_trees(self, climbed: Climbed) -> bool:
        """Whether no law of terms is good enough: by its evidence, or by what was asked for."""
        if self.delta is not None:
            return all(c.loss > self.delta for c in climbed.front)
        verdict = climbed.verdict
        if verdict is None:
            return not len(climbed.front)
        # A tree could have better odds than a law that is not adequate, or long.
        poor = verdict.adequate is not True or _is_long(climbed, verdict.law)
        return poor and not self._is_noise(climbed)

    def _problem(self, backend: Backend, space: Space, share: float) -> Problem:
        budget = self.share(share).budget
        budget = budget.for_backend(backend.trees, backend.limited, self.tree_seconds)
        problem = Problem(
            self.inputs, self.targets, self.names, self.outputs, weights=self.weights,
            dynamics="discrete", seed=self.seed, budget=budget, library=space.library,
            grammar=space.grammar, adequate=self.delta, constraints=tuple(self.constraints),
            units=units_of(self.units, self.names, self.outputs), progress=self.progress,
            loss_unit=self.loss_unit, proposals=self.proposals,
        )  # fmt: skip
        return self._started(problem)

    def _started(self, problem: Problem) -> Problem:
        """The problem with the guesses, fitted to the rows, as a front to start from."""
        if not self.guesses:
            return problem
        laws = [Law(g.expressions, self.names, g.outputs, g.dynamics) for g in self.guesses]
        laws += [refit(law, self.inputs, self.targets, self.weights).canonical() for law in laws]
        rows = [replace(problem.candidate(law), backend="guess") for law in laws]
        return problem.with_(warm=Front.of(rows, problem.measure, "guess"))

    def _climb(self, backend: Backend, space: Space, extend: bool, share: float) -> Climbed:
        problem = self._problem(backend, space, share)
        ladder = self._ladder(backend, problem)
        return ladder.climb(problem, space.templates, extend)

    def _ladder(self, backend: Backend, problem: Problem) -> Ladder:
        rows = Rows(
            "discrete", np.asarray(problem.targets), self.inputs, noisy=False, known=self.known,
            loss_unit=self.loss_unit,
        )  # fmt: skip
        end = problem.deadline()
        return Ladder(backend, rows, None, tuple(self.names), end=end, refit=False, ordered=False)

    def _with_trees(self, climbed: Climbed, end: float) -> Front:
        """The front with expression trees among its laws, all compared by the same evidence.

        They have the rest of the budget, until `end`, or seconds of their own where there is none.
        Other populations are bred as long as no law is good enough and time is left.
        """
        if not available_backends().get(TREES):
            note = f"expression trees were not searched: the backend {TREES!r} is not installed"
            return replace(climbed.front, notes=(*climbed.front.notes, note))
        backend = in_rounds(make_backend(TREES), self.proposals)
        space = Space(grammar=default_grammar(self.names, self.inputs))
        for attempt in count():
            problem = replace(self, seed=self.seed + attempt)._problem(backend, space, 1.0)
            if math.isfinite(end):
                left = max(end - problem.clock(), LEAST)
                problem = problem.with_(budget=replace(problem.budget, seconds=left))
            else:
                end = problem.deadline()
            climbed = self._joined(climbed, backend, problem)
            left_over = math.isfinite(end) and problem.clock() < end
            if not (left_over and self._wants_more_trees(climbed)):
                break
        return climbed.front

    def _wants_more_trees(self, climbed: Climbed) -> bool:
        if self.delta is not None:
            return self._wants_trees(climbed)
        verdict = climbed.verdict
        return verdict is None or verdict.adequate is False or _is_long(climbed, verdict.law)

    def _joined(self, climbed: Climbed, backend: Backend, problem: Problem) -> Climbed:
        """The laws so far and the trees of a problem, with the verdict on all of them."""
        front, terms = climbed.front, climbed.problem
        try:
            trees = problem.solve(backend)
        except SjepaError as error:
            front = replace(front, notes=(*front.notes, f"{backend.name}: {error}"))
            return replace(climbed, front=front)
        rows = [
            replace(terms.candidate(law), backend=TREES)
            for law in (
                Law(c.law.expressions, terms.names, terms.outputs, "discrete") for c in trees
            )
        ]
        notes = [f"{TREES}: {note}" for note in trees.notes]
        return self._concluded(climbed, backend, rows, notes)


def _default_backend(space: Space | None) -> Backend:
    """Exact search of small libraries, thresholds for large ones, trees of a grammar."""
    if space is not None and space.grammar is not None:
        trees = available_backends().get(TREES)
        return make_backend(["subset", TREES] if trees else "subset")
    large = space is not None and space.library is not None and len(space.library) > MAX_TERMS
    return make_backend("stlsq" if large else "subset")


def _is_long(climbed: Climbed, law: Law) -> bool:
    """Whether the shortest law that needs a tree could have better odds."""
    # At the least: one product with two coefficients.
    each = 0.5 * math.log(max(climbed.problem.sums.weight, 2.0))
    shortest = len(law.terms) * (3.5 * STRUCTURE + 2 * each)
    numbers = sum(map(len, law.terms))
    length = STRUCTURE * climbed.problem.complexity(law) + each * numbers
    return length - shortest > 2 * ODDS


def with_inputs(front: Front, names: Sequence[str]) -> Front:
    """The front with laws of these inputs, whether or not they use them."""

    def wider(law: Law) -> Law:
        return Law(law.expressions, names, law.outputs, law.dynamics)

    verdict: Verdict | None = front.verdict
    if verdict is not None:
        rivals = tuple(Rival(wider(r.law), r.odds) for r in verdict.rivals)
        verdict = replace(verdict, law=wider(verdict.law), rivals=rivals)
    rows = tuple(replace(c, law=wider(c.law)) for c in front)
    return replace(front, candidates=rows, verdict=verdict)
