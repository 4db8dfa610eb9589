"""From a problem to a verdict: proposals of one stage after the other, decided by one evidence.

The backend's own front comes first, then neighbors of the best law, then terms with nonlinear
parameters. A stage is reached while the law is not adequate, or so long that a shorter one with a
parametric term could have better odds. Settings of a stage steer the effort; what is believed in
the end is decided in :mod:`sjepa.inference`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal

import numpy as np

from sjepa.backend import Backend, Problem
from sjepa.data import Trajectories
from sjepa.data.forms import Rows
from sjepa.errors import SjepaError
from sjepa.inference.constants import EXACT, LENGTH, STRUCTURE
from sjepa.inference.corrections import inputs_along
from sjepa.inference.evidence import Regression, Simulation
from sjepa.inference.score import Scores
from sjepa.search.effort import Effort
from sjepa.search.extension import Extension
from sjepa.search.observed import Observed
from sjepa.search.proposed import (
    as_proposed,
    is_defined,
    proposed_row,
    rescored,
    with_numbers,
)
from sjepa.search.quotients import quotient_sets
from sjepa.search.ranking import best_of, inside, is_long, leader, simplified, structure_of
from sjepa.search.regression_neighbors import exchanges, extensions, recombined
from sjepa.search.scored_front import scored_front
from sjepa.search.simulated_neighbors import Template, neighbors, on_grid
from sjepa.search.verdicts import domain_of, rounding_reason, verdict_of, with_cause
from sjepa.symbolic import Front, Law
from sjepa.symbolic.snap import loosened
from sjepa.symbolic.term_templates import TermTemplate
from sjepa.symbolic.verdict import Domain, Verdict


@dataclass(frozen=True)
class Climbed:
    """A front with its verdict, and the problem it answers."""

    front: Front
    problem: Problem
    verdict: Verdict | None


@dataclass(frozen=True)
class Ladder:
    """Searches for the law of measured states on rows that are ready.

    `names` are all inputs that a simulation knows; `ordered` is False for given derivatives and
    tables, whose rows may come in any order; without `refit` coefficients stay as constraints made
    them.
    """

    backend: Backend
    rows: Rows
    data: Trajectories | None
    names: tuple[str, ...]
    order: int = 1
    end: float = math.inf
    refit: bool = True
    ordered: bool = True
    effort: Effort = field(default_factory=Effort)

    def climb(
        self,
        problem: Problem,
        templates: Sequence[TermTemplate] | Literal["wide"] | None,
        extend: bool,
    ) -> Climbed:
        """The law of the problem's library and of term templates, and how far to believe it."""
        floor = self._observed.floor
        if floor is not None:
            problem = problem.with_(exact=float((floor / problem.variance).max()))
        if templates is not None and templates != "wide":
            found, problem = self._extension.parametric(problem, list(templates))
            return self.conclude(found, problem)
        front = problem.solve(self.backend)
        evidence = self._evidence(problem, front)
        if evidence is None:
            return Climbed(front, problem, None)
        self._compare(front, problem, evidence)
        front, problem, evidence = self._with_proposals(front, problem, evidence)
        outside = templates is None and not extend  # terms that may only be rivals
        if isinstance(evidence, Simulation):
            return self._concluded(front, problem, evidence, True, outside)
        if templates == "wide" or (
            extend and self._worth(best_of(evidence.fits), problem, evidence)
        ):
            try:
                more, wider = self._extension.parametric(
                    problem,
                    self._extension.templates(problem.names, self._extension.points()),
                    quotient_sets,
                )
            except SjepaError as error:
                note = f"the search for parametric terms failed: {error}"
                front = replace(front, notes=(*front.notes, note))
            else:
                own, laws = front, [c.law for c in front if wider.admits(c.law)]
                front = Front.of(
                    [*(wider.candidate(law) for law in laws), *more], front.measure,
                    front.backend, front.notes,
                )  # fmt: skip
                problem, evidence = wider, self._observed.again(evidence, wider)
                for one in (more, own):
                    self._compare(one, problem, evidence)
        return self._concluded(front, problem, evidence)

    @cached_property
    def _observed(self) -> Observed:
        return Observed(self.rows, self.data, self.names, self.order, self.ordered)

    @cached_property
    def _extension(self) -> Extension:
        return Extension(
            self.backend, self.rows, self.data, self._observed.floor, self._observed.noisy,
            self.ordered, self.end, self.effort,
        )  # fmt: skip

    def _evidence(self, problem: Problem, front: Front) -> Simulation | Regression | None:
        return self._observed.evidence(
            problem, front, self.refit, self.effort.max_rows, lambda: self._time_left(problem)
        )

    # Rungs ---------------------------------------------------------------------------------------

    def _time_left(self, problem: Problem, evidence: Simulation | Regression | None = None) -> bool:
        """Whether there is time, for a further fit and for the test of adequacy, if of evidence.

        The test takes about as long as a fit: both follow the law's linearization along the data.
        """
        reserve = 2 * evidence.longest if isinstance(evidence, Simulation) else 0.0
        return problem.clock() + reserve < self.end

    def _compare(self, front: Front, problem: Problem, evidence: Simulation | Regression) -> None:
        """Fit the laws of a front that may be the best."""
        effort = self.effort
        if not len(front):
            return
        limit = effort.crude * min(c.loss for c in front)
        near = [c for c in front if c.loss <= limit]
        if isinstance(evidence, Simulation):
            n = 0.5 * evidence.segments.x.size
            near.sort(key=lambda c: n * math.log(c.loss + 1e-300) / 8 + STRUCTURE * c.terms)
            # Whatever is believed explains more than the shortest law, that nothing moves.
            near = [*near[: effort.laws], min(front, key=lambda c: c.terms)]
        knee = front.best_candidate()  # first: it is believed where there is no time for others
        self._fitted([knee.law, *(c.law for c in near if c is not knee)], problem, evidence)
        if isinstance(evidence, Regression) and not evidence.exact(best := best_of(evidence.fits)):
            each = Scores(tuple(evidence.fits.values()))
            values = evidence.fits[best].values / len(best.outputs) / each.correlation_time
            floor = np.maximum(evidence.floor / problem.variance, EXACT)
            laws = recombined(best, front, problem, values, each.each_parameter, floor)
            self._fitted(laws, problem, evidence)

    def _with_proposals(
        self, front: Front, problem: Problem, evidence: Simulation | Regression
    ) -> tuple[Front, Problem, Simulation | Regression]:
        """Fit what is proposed as long as some of it is new; its terms join the library."""
        proposals = problem.proposals
        for _ in range(0 if proposals is None else self.effort.rounds):
            assert proposals is not None
            best = best_of(evidence.fits)
            leading = [self._observed.whole(c.law) for c in front]
            chosen = leading.index(best) if best in leading else None
            laws = proposals.ask(replace(front, chosen=chosen))
            laws = [law for law in laws if is_defined(law, proposals, self._extension.on_rows)]
            wider = self._extension.with_terms_of(problem, laws)
            if isinstance(evidence, Simulation):  # which fits nonlinear parameters itself
                laws = [loosened(law) for law in laws]
            else:
                rows = self._extension.thinned(wider)
                numbered = (with_numbers(law, wider, rows, self._extension.on_rows) for law in laws)
                laws = [law for law in numbered if law is not None]
            fitted = {structure_of(law) for law in evidence.fits}
            new = [w for w in laws if structure_of(self._observed.whole(w)) not in fitted]
            if not new or not self._time_left(problem):
                break
            scored = [rescored(c, wider) for c in front]
            scored += [c for law in new if (c := proposed_row(law, wider)) is not None]
            front = Front.of(scored, front.measure, front.backend, front.notes)
            if wider is not problem and isinstance(evidence, Regression):
                evidence = self._observed.again(evidence, wider)
                self._compare(front, wider, evidence)
            problem = wider
            self._fitted(new, problem, evidence)
        return front, problem, evidence

    def _explore(self, problem: Problem, evidence: Regression) -> None:
        """Fit neighbors of the best law as long as one of them becomes the best."""
        for _ in range(self.effort.rounds):
            best = best_of(evidence.fits)
            if evidence.exact(best):
                break
            if (law := inside(best, problem)) is not None:
                laws = exchanges(problem, law, self.effort.neighbors)
                laws += extensions(problem, law, self.effort.neighbors)
                self._fitted(laws, problem, evidence)
            if best_of(evidence.fits) is best or not self._time_left(problem):
                break

    def _explore_simulated(
        self, problem: Problem, evidence: Simulation, outside: bool, templates: bool
    ) -> None:
        """The same by linearized simulations: terms of the library first, then templates too.

        What made up for a template that one equation lacked is left over in the others once it is
        found: the terms of the library are gone through again.
        """
        effort, weights = self.effort, problem.candidate_library.term_weights
        terms = [
            {t: w for (t, w), ok in zip(weights.items(), usable, strict=True) if ok}
            for usable in problem.usable.T
        ]
        grid: list[Template] = []
        stages = [False]
        if templates and self._extension.tells_parameters(problem):
            stages += [True] if outside else [True, False]
        settled: Law | None = None
        for beyond in stages:
            keep = self._within(problem) if outside and not beyond else None
            start = leader(evidence, keep)[0]
            if beyond:
                settled = start
            elif start is settled:
                break
            for _ in range(effort.rounds):
                before, scores, adequate = leader(evidence, keep)
                best, every = before, not beyond or not adequate
                for j in range(len(best.outputs)):
                    if not self._time_left(problem, evidence):
                        return
                    if not (every or is_long(best, j, problem, scores.each_parameter)):
                        continue
                    if beyond and not grid:
                        grid = self._grid(best, evidence)
                    laws = neighbors(
                        evidence.shots[best], j, terms[j], grid if beyond else [],
                        scores.each_parameter,
                        scores.correlation_time, effort.neighbors,
                        partial(self._is_new, evidence=evidence),
                    )  # fmt: skip
                    self._fitted(laws, problem, evidence)
                    best, scores, _ = leader(evidence, keep)
                self._fitted(simplified(evidence.shots[best].law), problem, evidence)
                if leader(evidence, keep)[0] is before:
                    break

    def _is_new(self, law: Law, evidence: Simulation) -> bool:
        structure = structure_of(self._observed.whole(law))
        return all(structure != structure_of(other) for other in evidence.fits)

    def _grid(self, law: Law, evidence: Simulation) -> list[Template]:
        points = inputs_along(evidence.shots[law]).reshape(-1, len(law.inputs))
        points = points[:: self.effort.every_point]
        return on_grid(self._extension.templates(law.inputs, points), points)

    def _within(self, problem: Problem) -> Callable[[Law], bool]:
        return lambda law: inside(law, problem) is not None or as_proposed(law, problem)

    def _fitted(
        self, laws: Sequence[Law], problem: Problem, evidence: Simulation | Regression
    ) -> None:
        """Fit laws of structures that were not fitted yet."""
        known = {structure_of(law) for law in evidence.fits}
        for law in map(self._observed.whole, laws):
            structure = structure_of(law)
            if structure not in known and (not known or self._time_left(problem, evidence)):
                known.add(structure)
                start = problem.clock()
                try:
                    evidence.fit(law)
                except SjepaError:  # coefficients ran away to where no law can be written
                    continue
                finally:
                    if isinstance(evidence, Simulation):
                        evidence.longest = max(evidence.longest, problem.clock() - start)

    def _worth(self, law: Law, problem: Problem, evidence: Regression) -> bool:
        """Whether a law with a parametric term could have better odds."""
        if not self._extension.tells_parameters(problem) or evidence.exact(law):
            return False
        # Derivatives of clean data are not noisy: what is left of them belongs to the law.
        if self._observed.floor is not None and (evidence.unexplained(law) > EXACT).any():
            return True
        if evidence.adequacy(law).adequate is False:
            return True
        each = Scores((evidence.fit(law),)).each_parameter
        return any(is_long(law, j, problem, each) for j in range(len(law.outputs)))

    # The verdict ---------------------------------------------------------------------------------

    def conclude(self, front: Front, problem: Problem) -> Climbed:
        """The verdict on a front that was found elsewhere."""
        evidence = self._evidence(problem, front)
        if evidence is not None:
            self._compare(front, problem, evidence)
            front, problem, evidence = self._with_proposals(front, problem, evidence)
        return self._concluded(front, problem, evidence)

    def _concluded(
        self,
        front: Front,
        problem: Problem,
        evidence: Simulation | Regression | None,
        templates: bool = False,
        outside: bool = False,
    ) -> Climbed:
        """The front with scores, the chosen law among its rows, and the verdict.

        Terms `outside` the library make rivals only.
        """
        if evidence is None:
            return Climbed(front, problem, None)
        keep = None
        if self.refit and problem.library is not None:
            if isinstance(evidence, Simulation):
                self._explore_simulated(problem, evidence, outside, templates)
                keep = self._within(problem) if outside else None
                self._compare_shorter(front, problem, evidence, keep)
            else:
                self._explore(problem, evidence)
        fits = evidence.fits
        best = best_of(fits, keep)
        adequacy = evidence.adequacy(best)
        scores = Scores(tuple(fits.values()), fits[best])
        simulated = isinstance(evidence, Simulation)
        if simulated:
            problem = self._extension.with_terms_of(problem, [best])
        moved = simulated and self.refit and self._observed.noisy
        front = scored_front(front, problem, fits, scores, best, self._observed.whole, moved)
        verdict = replace(
            verdict_of(front.best(), scores, adequacy, self.rows.known),
            domain=self._domain(evidence, best),
        )
        if isinstance(evidence, Simulation) and np.any(np.asarray(evidence.grid) > 0):
            assert self.data is not None
            verdict = replace(verdict, reasons=(*verdict.reasons, rounding_reason(self.data)))
        if self._time_left(problem):
            verdict = self._with_cause(verdict, best, front, evidence, problem)
        return Climbed(replace(front, verdict=verdict), problem, verdict)

    def _compare_shorter(
        self, front: Front, problem: Problem, evidence: Simulation,
        keep: Callable[[Law], bool] | None,
    ) -> None:  # fmt: skip
        """Fit what is shorter than the best law and leaves less in the regression.

        It may only be passed over if the evidence, too, is against it.
        """
        while self._time_left(problem, evidence):
            best = best_of(evidence.fits, keep)
            terms, loss = self._measures(evidence.fits[best].law, problem)
            count = len(evidence.fits)
            shorter = [c.law for c in front if c.terms <= terms and c.loss < loss]
            self._fitted(shorter, problem, evidence)
            if len(evidence.fits) == count or best_of(evidence.fits, keep) is best:
                break

    def _measures(self, law: Law, problem: Problem) -> tuple[float, float]:
        """Complexity and loss of a law on the front."""
        candidate = self._extension.with_terms_of(problem, [law]).candidate(
            Law(law.expressions, problem.names, law.outputs, law.dynamics)
        )
        return candidate.terms, candidate.loss

    def _domain(self, evidence: Simulation | Regression, law: Law) -> Domain | None:
        if self.data is None or not self.ordered:
            return None
        if isinstance(evidence, Simulation):
            scale = evidence.shots[law].noise.scale.mean(axis=0)
            return domain_of(self.data, evidence.segments, scale)
        segments = self._observed.cut(LENGTH)
        return None if segments is None else domain_of(self.data, segments, 1.0)

    def _with_cause(
        self, verdict: Verdict, law: Law, front: Front, evidence: Simulation | Regression,
        problem: Problem,
    ) -> Verdict:  # fmt: skip
        """The verdict with what acts beside the law; maps and noisy inputs have no such test."""
        segments = evidence.segments if isinstance(evidence, Simulation) else None
        if segments is None and verdict.adequate is False:
            segments = self._observed.cut(LENGTH)
        if segments is None or segments.weights is not None or law.dynamics == "discrete":
            return verdict
        return with_cause(
            verdict, law, front, evidence, segments, self._observed.whole,
            lambda: self._time_left(problem),
        )  # fmt: skip
