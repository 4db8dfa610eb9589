"""From a problem to a verdict: proposals of one stage after the other, decided by one evidence.

The backend's own front comes first, then neighbors of the best law, then terms with nonlinear
parameters. A stage is reached while the law is not adequate, or so long that a shorter one with a
parametric term could have better odds. Settings of a stage steer the effort; what is believed in
the end is decided in :mod:`sjepa.inference`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from sjepa.backend import Backend, Problem
from sjepa.backend.problem import ROUNDING as RESOLUTION
from sjepa.data import Trajectories
from sjepa.data.derivatives import slope_error
from sjepa.data.forms import Rows, is_noisy
from sjepa.data.rows import OnRows
from sjepa.errors import SjepaError
from sjepa.inference.constants import EXACT, LENGTH, STRUCTURE
from sjepa.inference.evidence import Regression, Simulation
from sjepa.inference.input_noise import weighed
from sjepa.inference.noise import resolution
from sjepa.inference.probes import inputs_along
from sjepa.inference.score import Fit, Scores
from sjepa.inference.segments import Segments
from sjepa.search.choice import best_of, is_long, leader, priced, simplified, structure_of
from sjepa.search.linearized import Template, neighbors, on_grid
from sjepa.search.neighbors import exchanges, extensions
from sjepa.search.parametric import Source, on_library, solve_open
from sjepa.search.quotients import quotient_sets
from sjepa.search.verdicts import verdict_of, with_cause
from sjepa.symbolic import Front, Law, Library
from sjepa.symbolic.front import Candidate
from sjepa.symbolic.term_templates import TermTemplate, extended_templates, weight
from sjepa.symbolic.verdict import Domain, Verdict


@dataclass(frozen=True)
class Effort:
    """How much of each stage is searched. None of this changes what is believed of a law."""

    laws: int = 4  # of a front, simulated
    crude: float = 10.0  # laws with more than this many times the lowest loss are not simulated
    neighbors: int = 4  # in each round
    rounds: int = 6  # as long as each finds a better law
    rows: int = 20  # fewer do not tell parameters inside terms
    table_rows: int = 50  # the same for tables, whose columns have hundreds of such terms
    points: int = 5  # observations for one such row
    every_point: int = 7  # of a path, that places of parameters are taken from
    max_inputs: int = 6  # beyond, the extended library would be thousands of columns
    max_rows: int = 5_000  # that tell parameters; there are hundreds of columns for each


# Errors of derivatives are computed to within this factor in the mean square, and sums of squares
# are not told apart below the second number.
ROOM, ROUNDING = 100.0, 1e-11
# Noise takes what is nearly nothing below it: an amount is positive up to this share of its range.
BELOW = 0.03


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
    effort: Effort = Effort()

    def climb(
        self,
        problem: Problem,
        templates: Sequence[TermTemplate] | Literal["wide"] | None,
        extend: bool,
    ) -> Climbed:
        """The law of the problem's library and of term templates, and how far to believe it."""
        floor = self._floor
        if floor is not None:
            problem = problem.with_(exact=float((floor / problem.variance).max()))
        if templates is not None and templates != "wide":
            found, problem = self._parametric(problem, list(templates))
            return self.conclude(found, problem)
        front = problem.solve(self.backend)
        evidence = self._evidence(problem, front)
        if evidence is None:
            return Climbed(front, problem, None)
        self._compare(front, problem, evidence)
        outside = templates is None and not extend  # terms that may only be rivals
        if isinstance(evidence, Simulation):
            return self._concluded(front, problem, evidence, True, outside)
        if templates == "wide" or (
            extend and self._worth(best_of(evidence.fits), problem, evidence)
        ):
            try:
                more, wider = self._parametric(
                    problem, self._templates(problem.names, self._points(problem)), quotient_sets
                )
            except SjepaError as error:
                note = f"the search for parametric terms failed: {error}"
                front = replace(front, notes=(*front.notes, note))
            else:
                laws = [c.law for c in front if wider.admits(c.law)]
                front = Front.of(
                    [*(wider.candidate(law) for law in laws), *more], front.measure,
                    front.backend, front.notes,
                )  # fmt: skip
                problem, evidence = wider, self._again(evidence, wider)
                for one in (more, front):
                    self._compare(one, problem, evidence)
        return self._concluded(front, problem, evidence)

    # Evidence ------------------------------------------------------------------------------------

    @cached_property
    def _noisy(self) -> bool:
        if self.rows.form in ("weak", "zoh"):
            return True
        if self.rows.noisy is None and self.data is not None:
            return is_noisy(self.data)
        return bool(self.rows.noisy)

    @cached_property
    def _floor(self) -> np.ndarray | None:
        """Mean square error (k,) of clean derivatives; None where noise decides."""
        if self.data is None or not self.ordered or self._noisy:
            return None
        if self.rows.form != "derivative" or self.order != 1:
            return None
        smoothing = self.rows.again.get("like")
        error = slope_error(self.data, None if smoothing is None else smoothing.noise)
        variance = self.rows.targets.var(axis=0)
        return np.maximum(ROOM * error, ROUNDING * variance)

    def _cut(self, length: float) -> Segments | None:
        """Segments of a length; None where the data are too short or fast to be simulated."""
        if self.data is None or not self.ordered:
            return None
        smoothing = self.rows.again.get("like") if self.order == 1 else None
        try:
            return Segments.of(
                self.data, order=self.order, zoh=self.rows.form == "zoh", smoothing=smoothing,
                derivatives=self.rows.found if self.order == 1 else None, length=length,
            )  # fmt: skip
        except SjepaError:
            return None

    def _evidence(self, problem: Problem, front: Front) -> Simulation | Regression | None:
        if not len(front):
            return None
        simulate = self._noisy or self.order == 2
        if simulate and (segments := self._cut(LENGTH)) is not None:
            assert self.data is not None
            law = self._simulated(front.best())
            segments = weighed(segments, self.data, law, self.rows.form == "zoh")
            steps = resolution(self.data.x)
            rounded = bool((steps > 2 * segments.unit).any())
            return Simulation(
                segments, problem.complexity, self.refit, rounded, self._cut,
                lambda: self._time_left(problem),
            )  # fmt: skip
        every = -(-len(self.rows.targets) // self.effort.max_rows)
        targets = self.rows.targets[::every]
        floor = RESOLUTION * (targets**2).mean(axis=0)
        if self._floor is not None:
            floor = np.maximum(floor, self._floor)
        return Regression(
            self.rows.thinned(every), targets, priced(problem), floor,
            lambda law: problem.losses(law) * problem.variance,
            problem.sums.weight / every, self.data is not None,
        )  # fmt: skip

    def _again(self, evidence: Regression, problem: Problem) -> Regression:
        """The same data for laws of another problem."""
        losses = lambda law: problem.losses(law) * problem.variance  # noqa: E731
        return replace(evidence, complexity=priced(problem), losses=losses, fits={})

    def _simulated(self, law: Law) -> Law:
        """The law with all states, velocities and inputs as its inputs."""
        if law.inputs == self.names:
            return law
        return Law(law.expressions, self.names, law.outputs, law.dynamics, canonical=False)

    # Rungs ---------------------------------------------------------------------------------------

    def _time_left(self, problem: Problem) -> bool:
        return problem.clock() < self.end

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

    def _explore(self, problem: Problem, evidence: Regression) -> None:
        """Fit neighbors of the best law as long as one of them becomes the best."""
        for _ in range(self.effort.rounds):
            best = best_of(evidence.fits)
            if evidence.exact(best):
                break
            if (inside := self._inside(best, problem)) is not None:
                laws = exchanges(problem, inside, self.effort.neighbors)
                laws += extensions(problem, inside, self.effort.neighbors)
                self._fitted(laws, problem, evidence)
            if best_of(evidence.fits) is best or not self._time_left(problem):
                break

    def _explore_simulated(
        self, problem: Problem, evidence: Simulation, outside: bool, templates: bool
    ) -> None:
        """The same by linearized simulations: terms of the library first, then templates too."""
        effort, weights = self.effort, problem.candidate_library.term_weights
        terms = [
            {t: w for (t, w), ok in zip(weights.items(), usable, strict=True) if ok}
            for usable in problem.usable.T
        ]
        grid: list[Template] = []
        for beyond in (False, True)[: 1 + (templates and self._tells_parameters(problem))]:
            keep = self._within(problem) if outside and not beyond else None
            for _ in range(effort.rounds):
                before, scores, adequate = leader(evidence, keep)
                best, every = before, not beyond or not adequate
                for j in range(len(best.outputs)):
                    if not self._time_left(problem):
                        return
                    if not (every or is_long(best, j, problem, scores.each_parameter)):
                        continue
                    if beyond and not grid:
                        grid = self._grid(best, evidence)
                    laws = neighbors(
                        evidence.shots[best], j, terms[j], grid, scores.each_parameter,
                        scores.correlation_time, effort.neighbors,
                    )  # fmt: skip
                    self._fitted(laws, problem, evidence)
                    best, scores, _ = leader(evidence, keep)
                self._fitted(simplified(evidence.shots[best].law), problem, evidence)
                if leader(evidence, keep)[0] is before:
                    break

    def _grid(self, law: Law, evidence: Simulation) -> list[Template]:
        points = inputs_along(evidence.shots[law]).reshape(-1, len(law.inputs))
        points = points[:: self.effort.every_point]
        return on_grid(self._templates(law.inputs, points), points)

    def _within(self, problem: Problem) -> Callable[[Law], bool]:
        return lambda law: self._inside(law, problem) is not None

    def _fitted(
        self, laws: Sequence[Law], problem: Problem, evidence: Simulation | Regression
    ) -> None:
        """Fit laws of structures that were not fitted yet."""
        known = {structure_of(law) for law in evidence.fits}
        for law in map(self._simulated, laws):
            structure = structure_of(law)
            if structure not in known and (not known or self._time_left(problem)):
                known.add(structure)
                try:
                    evidence.fit(law)
                except SjepaError:  # coefficients ran away to where no law can be written
                    continue

    def _inside(self, law: Law, problem: Problem) -> Law | None:
        """The law in the problem's own inputs, if its terms are those of the library."""
        if any(str(s) not in problem.names for e in law.expressions for s in e.free_symbols):
            return None
        own = Law(law.expressions, problem.names, law.outputs, law.dynamics, canonical=False)
        own = own.canonical()
        return own if problem.candidate_library.covers(own) else None

    def _tells_parameters(self, problem: Problem) -> bool:
        """Whether there are rows enough for parameters inside terms."""
        effort = self.effort
        rows = 0 if problem.targets is None else len(problem.targets)
        if self.data is not None and self.ordered:
            rows = max(rows, int(self.data.lengths.sum()) // effort.points)
        least = effort.table_rows if self.data is None else effort.rows
        return len(problem.names) <= effort.max_inputs and rows >= least

    def _worth(self, law: Law, problem: Problem, evidence: Regression) -> bool:
        """Whether a law with a parametric term could have better odds."""
        if not self._tells_parameters(problem) or evidence.exact(law):
            return False
        # Derivatives of clean data are not noisy: what is left of them belongs to the law.
        if self._floor is not None and (evidence.unexplained(law) > EXACT).any():
            return True
        if evidence.adequacy(law).adequate is False:
            return True
        each = Scores((evidence.fit(law),)).each_parameter
        return any(is_long(law, j, problem, each) for j in range(len(law.outputs)))

    def _extended(self, problem: Problem, laws: Sequence[Law]) -> Problem:
        """The problem with the terms of some laws."""
        base = problem.library
        if base is None or all(self._inside(law, problem) is not None for law in laws):
            return problem
        terms = dict.fromkeys(t for law in laws for row in law.canonical().terms for _, t in row)
        new = [t for t in terms if t not in base.term_weights]
        weights = [*base.weights, *map(weight, new)]
        library = Library([*base.terms, *new], base.inputs, weights, canonical=False)
        return on_library(self._thinned(problem), library, self._on_rows)

    def _parametric(
        self, problem: Problem, templates: list[TermTemplate], also: Source | None = None
    ) -> tuple[Front, Problem]:
        """The backend's front with the parameters of term templates found on the rows."""
        floor = self._floor
        clean = floor is not None
        limit = self._dense(problem) if floor is None else floor / problem.variance
        if math.isfinite(self.end):
            left = max(self.end - problem.clock(), 0.0)
            problem = problem.with_(budget=replace(problem.budget, seconds=left / 2))
        return solve_open(
            self.backend, self._thinned(problem), templates, self._on_rows, self._points(problem),
            limit, clean, lambda: self._time_left(problem), also if clean else None,
        )  # fmt: skip

    def _templates(self, names: Sequence[str], points: np.ndarray) -> list[TermTemplate]:
        inputs = () if self.data is None else self.data.input_names or ()
        low = points.min(axis=0) > -BELOW * np.ptp(points, axis=0) * self._noisy
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
    def _on_rows(self) -> OnRows:
        return self.rows.thinned(self._every)

    def _points(self, problem: Problem) -> np.ndarray:
        """Inputs as they occur, a thousand of them."""
        kept: list[np.ndarray] = []

        def look(z: np.ndarray) -> np.ndarray:
            kept.append(z[:: max(1, len(z) // 1000)])
            return np.zeros((len(z), 1))

        self._on_rows(look)
        x = np.concatenate(kept)
        return x[:: -(-len(x) // 1000)]

    def _thinned(self, problem: Problem) -> Problem:
        """The problem on the rows of `_on_rows`: more columns of all of them would fill memory."""
        if (every := self._every) == 1:
            return problem
        assert problem.targets is not None
        rows = "inputs" if problem.features is None else "features"
        some = {rows: getattr(problem, rows)[::every], "targets": problem.targets[::every]}
        return problem.with_(**some)

    def _domain(self, evidence: Simulation | Regression, law: Law) -> Domain | None:
        if self.data is None or not self.ordered:
            return None
        segments = evidence.segments if isinstance(evidence, Simulation) else self._cut(LENGTH)
        if segments is None:
            return None
        noise = segments.unit
        if isinstance(evidence, Simulation):
            noise = noise * evidence.shots[law].noise.scale.mean(axis=0)
        durations = [float(t[-1] - t[0]) for t in self.data.t]
        low, high = _ranges(self.data, segments)
        return Domain(
            tuple(low), tuple(high), tuple(noise.tolist()), float(np.median(durations)),
            int(np.median(self.data.lengths)),
        )  # fmt: skip

    # The verdict ---------------------------------------------------------------------------------

    def conclude(self, front: Front, problem: Problem) -> Climbed:
        """The verdict on a front that was found elsewhere."""
        evidence = self._evidence(problem, front)
        if evidence is not None:
            self._compare(front, problem, evidence)
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
            else:
                self._explore(problem, evidence)
        fits = evidence.fits
        best = best_of(fits, keep)
        adequacy = evidence.adequacy(best)
        scores = Scores(tuple(fits.values()), fits[best])
        if isinstance(evidence, Simulation):
            problem = self._extended(problem, [best])

        def row(law: Law, fit: Fit, like: Candidate | None) -> Candidate:
            found = like
            if like is None or (isinstance(evidence, Simulation) and self.refit and self._noisy):
                own = Law(fit.law.expressions, problem.names, law.outputs, law.dynamics)
                found = problem.candidate(own)
                if like is not None:
                    found = replace(found, certified=like.certified, backend=like.backend)
            assert found is not None
            error = scores.standard_error(fit)
            return replace(found, evidence=-scores.lead(fit), standard_error=error)

        rows: dict[Law, Candidate] = {}
        for c in front:
            law = self._simulated(c.law)
            rows[law] = row(law, fits[law], c) if law in fits else c
        if best not in rows:
            rows[best] = row(best, fits[best], None)
        marked = rows[best]
        same = marked.law.skeleton[0]  # other coefficients make no other law
        kept = [
            c for c in rows.values()
            if c is marked or (c.law.skeleton[0] != same and not any(
                o.loss <= c.loss and front.complexity(o) < front.complexity(c)
                for o in rows.values()
            ))
        ]  # fmt: skip
        kept.sort(key=lambda c: (front.complexity(c), c.loss))
        front = replace(front, candidates=tuple(kept), chosen=kept.index(marked))
        verdict = replace(
            verdict_of(marked.law, scores, adequacy), domain=self._domain(evidence, best)
        )
        if isinstance(evidence, Simulation) and evidence.rounded:
            verdict = replace(verdict, reasons=(*verdict.reasons, self._resolution()))
        if self._time_left(problem):
            verdict = self._with_cause(verdict, best, front, evidence, problem)
        return Climbed(replace(front, verdict=verdict), problem, verdict)

    def _resolution(self) -> str:
        assert self.data is not None
        steps = zip(self.data.names or (), resolution(self.data.x), strict=False)
        told = ", ".join(f"{name} to {step:.3g}" for name, step in steps if step > 0)
        return f"The readings are rounded as coarsely as their noise ({told})."

    def _with_cause(
        self, verdict: Verdict, law: Law, front: Front, evidence: Simulation | Regression,
        problem: Problem,
    ) -> Verdict:  # fmt: skip
        """The verdict with what acts beside the law; maps and noisy inputs have no such test."""
        segments = evidence.segments if isinstance(evidence, Simulation) else None
        if segments is None and verdict.adequate is False:
            segments = self._cut(LENGTH)
        if segments is None or segments.weights is not None or law.dynamics == "discrete":
            return verdict
        return with_cause(
            verdict, law, front, evidence, segments, self._simulated,
            lambda: self._time_left(problem),
        )  # fmt: skip


def _ranges(data: Trajectories, segments: Segments) -> tuple[list[float], list[float]]:
    """Least and largest values of states, velocities of second-order laws, and inputs."""
    x = np.concatenate(data.x)
    low, high = [x.min(axis=0)], [x.max(axis=0)]
    if segments.start.shape[1] > x.shape[1]:
        low.append(-2 * segments.speed)
        high.append(2 * segments.speed)
    if data.u is not None:
        u = np.concatenate(data.u)
        low.append(u.min(axis=0))
        high.append(u.max(axis=0))
    return np.concatenate(low).tolist(), np.concatenate(high).tolist()
