"""When the terms at hand are not enough: a look at terms with numbers inside, and which to keep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import sympy

from sjepa.backend import Backend, Problem
from sjepa.backend.constants import on_library, solve_open
from sjepa.backend.implicit import quotient_sets
from sjepa.backend.sets import BELOW
from sjepa.data import Trajectories
from sjepa.data.derivatives import slope_error
from sjepa.data.forms import Rows, is_noisy
from sjepa.data.rows import OnRows
from sjepa.errors import DataError, SjepaError
from sjepa.models.descriptions import describe, doubt_of, long_stretches, rival_of
from sjepa.models.free_runs import better, free_run
from sjepa.models.noisy_actions import weighed
from sjepa.models.selection import imitates, judge_front, same_terms, twin
from sjepa.models.stretches import Stretches
from sjepa.symbolic import Front, Law, Library
from sjepa.symbolic.shapes import Shape, weight, wide


# A true law leaves up to this many times the error that is estimated for clean derivatives, and
# sums of squares are not told apart below the second number.
ROOM, ROUNDING = 100.0, 1e-11
# Solvers leave errors too: a short law that leaves less than this is no approximation.
APPROXIMATE = 1e-6
# An equation of noisy data that is longer than this may be a shorter one with a number inside.
# and one of clean data that is longer than this even if nothing is left.
LONG, VERY_LONG = 4.5, 8.0
# Runs of which so few are due to noise alone call for a look at other terms.
CHANCE = 0.01
# A set of terms is as good as the whole library within this factor.
NEAR = 1.3
# Inputs beyond which the wide set would be thousands of columns.
MAX_INPUTS = 6
# Fewer rows, each of them of so many points, cannot tell numbers inside terms.
MIN_ROWS, POINTS = 20, 5
# Rows that tell numbers inside terms; there are hundreds of columns for each.
MANY = 5_000
# Clean laws are as near as any within this factor of the lowest loss.
HALF = 2.0
# Laws of the shortest descriptions that a front shows.
SHOWN = 6
# Free runs of a true law leave about 1; a law that leaves more gives way to one that leaves less
# by this share, and a law that does not only to a shorter one that is as good but for chance.
ADEQUATE, CLEARLY, SLACK = 1.3, 0.8, 0.02


@dataclass(frozen=True)
class Judged:
    """A front with its chosen law, the problem it answers, and a doubt ("" for none)."""

    front: Front
    problem: Problem
    doubt: str

    @property
    def complexity(self) -> float:
        return self.front.complexity(self.front.best_candidate())

    def reaches(self, floor: np.ndarray) -> bool:
        return bool((np.array(self.front.best_candidate().losses) <= floor).all())


@dataclass(frozen=True)
class Known:
    """Searches for the law of measured states on rows that are ready."""

    backend: Backend
    rows: Rows
    data: Trajectories
    order: int = 1
    end: float = math.inf
    refit: bool = True
    # Given derivatives may belong to states in any order, which no run passes through.
    ordered: bool = True

    def search(
        self, problem: Problem, shapes: Sequence[Shape] | Literal["wide"] | None, widen: bool
    ) -> Judged:
        """The law of the problem's library and of shapes; or of the wide set if that is needed."""
        found = self._search(problem, shapes, widen)
        if found.doubt or not len(found.front):
            return found
        return replace(found, doubt=imitates(found.front.best(), found.problem))

    def _search(
        self, problem: Problem, shapes: Sequence[Shape] | Literal["wide"] | None, widen: bool
    ) -> Judged:
        floor = self.floor(problem)
        if floor is not None:
            problem = problem.with_(exact=float(floor.max()))
        if shapes == "wide" and self._describable:
            return self._described(problem, self._plain(problem))
        if shapes is not None:
            return self._open(problem, floor, None if shapes == "wide" else shapes)
        names = problem.names
        rows = 0 if problem.targets is None else len(problem.targets)
        if self._describable:  # bumps of slow motion are few, and not needed
            rows = int(self.data.lengths.sum()) // POINTS
        widen = widen and len(names) <= MAX_INPUTS and rows >= MIN_ROWS
        if not widen or (floor is None and not self._noisy):
            return self._plain(problem)
        if floor is not None and (self._dense(problem) > np.maximum(floor, APPROXIMATE)).any():
            # No combination of the default terms is the law: their search would only take time.
            wider = self._open(problem, floor)
            if wider.reaches(floor):
                return _told(wider)
            return self._better(self._plain(problem), wider, floor)
        plain = self._plain(problem)
        poor = floor is not None and not plain.reaches(np.maximum(floor, APPROXIMATE))
        true = floor is not None and plain.reaches(floor)
        long = _is_long(plain, VERY_LONG if true else LONG)
        if plain.doubt or poor or long or self._lacks(plain):
            if self._describable:
                return self._described(problem, plain)
            try:
                wider = self._open(problem, floor)
            except DataError:  # a term that grows beyond all numbers: nobody asked for it
                return plain
            return self._better(plain, wider, floor)
        return plain

    @property
    def _every(self) -> int:
        return -(-len(self.rows.targets) // MANY)

    @cached_property
    def _on_rows(self) -> OnRows:
        return self.rows.thinned(self._every)

    @property
    def _noisy(self) -> bool:
        return self.rows.form in ("weak", "zoh")

    @property
    def _describable(self) -> bool:
        """Whether free runs of all numbers can judge laws: noise of states, nothing that jumps."""
        if not (self.rows.form == "weak" and self.order == 1 and self.ordered and self.refit):
            return False
        # Noise of actions alone is not what runs leave of the states.
        return is_noisy(self.data._like(self.data.x, self.data.t, None, None))

    def floor(self, problem: Problem) -> np.ndarray | None:
        """Losses of a true law on clean data; None where noise decides."""
        if self.rows.form != "derivative" or self.order != 1:
            return None
        if is_noisy(self.data) if self.rows.noisy is None else self.rows.noisy:
            return None
        like = self.rows.again.get("like")
        error = slope_error(self.data, None if like is None else like.noise)
        return np.maximum(ROOM * error / problem.variance, ROUNDING)

    def _dense(self, problem: Problem) -> np.ndarray:
        """Losses of all terms of the library together, from sums: rows may be millions."""
        sums, usable = problem.sums, problem.usable
        solved = [sums.solve(usable[:, j], j) for j in range(usable.shape[1])]
        return sums.loss(np.stack(solved, axis=1))

    def _noise_floor(self, problem: Problem) -> np.ndarray:
        """What the whole library leaves, for the rows it leaves free: about what noise leaves."""
        rows, terms = problem.sums.rows, len(problem.sums.xx)
        return NEAR * self._dense(problem) * rows / max(rows - terms, 1)

    def wide(self, problem: Problem) -> list[Shape]:
        actions = self.data.action_names or ()
        states = [n for n in problem.names if n not in actions]
        points = self._points(problem)
        # Noise takes what is nearly nothing below it.
        low = points.min(axis=0) > -BELOW * np.ptp(points, axis=0) * self._noisy
        positive = [n for n, above in zip(problem.names, low, strict=True) if above]
        return wide(states, actions, positive)

    def _points(self, problem: Problem) -> np.ndarray:
        """Inputs as they occur, a thousand of them."""
        kept: list[np.ndarray] = []

        def look(z: np.ndarray) -> np.ndarray:
            kept.append(z[:: max(1, len(z) // 1000)])
            return np.zeros((len(z), 1))

        self._on_rows(look)
        x = np.concatenate(kept)
        return x[:: -(-len(x) // 1000)]

    def _plain(self, problem: Problem) -> Judged:
        return self._judged(problem.solve(self.backend), problem)

    def _open(
        self, problem: Problem, floor: np.ndarray | None, shapes: Sequence[Shape] | None = None
    ) -> Judged:
        """The law of the library and shapes; by default the wide set and, if clean, quotients."""
        sure = floor is not None
        also = quotient_sets if sure and shapes is None else None
        shapes = self.wide(problem) if shapes is None else shapes
        floor = self._noise_floor(problem) if floor is None else floor
        if math.isfinite(self.end):
            left = max(self.end - problem.clock(), 0.0)
            problem = problem.with_(budget=replace(problem.budget, seconds=left / 2))
        points = self._points(problem)
        problem = self._thinned(problem)
        front, wider = solve_open(
            self.backend, problem, shapes, self._on_rows, points, floor,
            sure, lambda: problem.clock() < self.end, also,
        )  # fmt: skip
        found = self._judged(front, wider)
        if found.doubt or not sure or not len(found.front):
            return found
        return replace(found, doubt=twin(found.front.best_candidate(), wider, points))

    def _thinned(self, problem: Problem) -> Problem:
        """The problem on the rows of `_on_rows`: more columns of all of them would fill memory."""
        if (every := self._every) == 1:
            return problem
        assert problem.targets is not None
        rows = "inputs" if problem.features is None else "features"
        some = {rows: getattr(problem, rows)[::every], "targets": problem.targets[::every]}
        return problem.with_(**some)

    def _described(self, problem: Problem, plain: Judged) -> Judged:
        """The law of the shortest description, terms with numbers inside among its terms."""
        law = plain.front.best()
        base = problem.library
        assert base is not None
        also = [law] if all(t in base.term_weights for row in law.terms for _, t in row) else []
        try:
            found = describe(
                self.data, base, self.wide(problem), problem.outputs, also,
                lambda: problem.clock() < self.end,
            )  # fmt: skip
        except SjepaError:  # too short, or too fast for runs
            found = []
        if not found:
            return plain
        if not self._preferred(found[0].law, plain):
            return replace(plain, doubt=plain.doubt or rival_of(law, found[0]))
        laws = [d.law.canonical() for d in found[:SHOWN]]
        new = dict.fromkeys(t for one in laws for row in one.terms for _, t in row)
        terms = [t for t in new if t not in base.term_weights]
        weights = [*base.weights, *map(weight, terms)]
        library = Library([*base.terms, *terms], base.inputs, weights, canonical=False)
        wider = on_library(self._thinned(problem), library, self._on_rows)
        rows = [
            replace(wider.candidate(one), free_run=float(d.run.errors.mean()))
            for one, d in zip(laws, found, strict=False)
        ]
        best = rows[0]
        short = Front.of([*plain.front, *rows], plain.front.measure, min_gain=0.01)
        kept = [*(c for c in short if not same_terms(c, best)), best]
        kept.sort(key=lambda c: (short.complexity(c), c.loss))
        front = replace(plain.front, candidates=tuple(kept), chosen=kept.index(best))
        judged = Judged(front, wider, doubt_of(found))
        return _told(judged) if any(t in terms for row in laws[0].terms for _, t in row) else judged

    def _lacks(self, plain: Judged) -> bool:
        """Whether long runs leave more than white noise: short ones may start anew in time."""
        if not self._describable or not len(plain.front):
            return False
        try:
            law = plain.front.best()
            run = free_run(law, weighed(long_stretches(self.data), self.data, law, False), 1)
        except SjepaError:
            return False
        return run.chance < CHANCE

    def _preferred(self, law: Law, plain: Judged) -> bool:
        """Whether a law runs better through short stretches than the plain one, or is shorter.

        Long ones may have no fit that a few steps reach, as beside a saddle.
        """
        stretches = Stretches.of(self.data, like=self.rows.again.get("like"))
        two, one = (free_run(r, stretches) for r in (law, plain.front.best()))
        if better(two.errors, one.errors):
            return True
        shorter = sum(map(weight, _terms(law))) <= sum(map(weight, _terms(plain.front.best())))
        return shorter and two.errors.mean() <= one.errors.mean() * (1 + SLACK)

    def _judged(self, front: Front, problem: Problem) -> Judged:
        d = len(problem.outputs)
        # A library of positions alone gives laws that do not simulate as they stand.
        whole = self.order == 1 or tuple(problem.names[d : 2 * d]) == tuple(problem.outputs)
        if self.ordered and whole:
            held = self.rows.form == "zoh"
            judged, doubt = judge_front(
                front,
                problem,
                self.data,
                self.order,
                held,
                self.end,
                refit=self.refit,
                like=self.rows.again.get("like"),
                known=self.rows.found,
            )
            if (i := _settled(front, judged, problem.exact)) is not None:
                return Judged(replace(judged, chosen=i), problem, "")
            return Judged(judged, problem, doubt)
        return Judged(front, problem, "")

    def _better(self, plain: Judged, wider: Judged, floor: np.ndarray | None) -> Judged:
        """The wide law if it is true where the plain one is not, or as true and shorter."""
        if not len(wider.front):
            return plain
        if floor is not None and wider.reaches(floor) != plain.reaches(floor):
            return _told(wider) if wider.reaches(floor) else plain
        one, two = plain.front.best_candidate(), wider.front.best_candidate()
        shorter = wider.complexity < plain.complexity
        if one.free_run is None or two.free_run is None:
            better = two.loss < one.loss and shorter
        elif one.free_run > ADEQUATE:
            better = two.free_run < CLEARLY * one.free_run
        else:
            better = shorter and two.free_run <= one.free_run * (1 + SLACK)
        return _told(wider) if better else plain


def _settled(front: Front, judged: Front, exact: float) -> int | None:
    """The simplest clean law that is exact, and as near as any, if runs chose a longer one.

    Their integration has errors too, which long laws may happen to make up for.
    """
    least = min((c.loss for c in front), default=0.0)
    for c in front:
        if c.loss <= min(exact, HALF * least):
            longer = front.complexity(c) < judged.complexity(judged.best_candidate())
            return judged.position(c.law) if longer else None
    return None


def _terms(law: Law) -> list[sympy.Expr]:
    return [t for row in law.canonical().terms for _, t in row]


def _is_long(found: Judged, limit: float) -> bool:
    law, library = found.front.best(), found.problem.library
    weights = library.term_weights if isinstance(library, Library) else {}
    return any(sum(weights.get(t, 1.0) for _, t in row) > limit for row in law.terms)


def _told(found: Judged) -> Judged:
    note = "the default terms were not enough: terms of the wide set are among these"
    return replace(found, front=replace(found.front, notes=(note, *found.front.notes)))
