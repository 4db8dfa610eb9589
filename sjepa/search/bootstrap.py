"""Bootstrap: the search and the coefficients again, on data drawn with replacement.

Rows of a regression overlap in time, so that segments of them are drawn and not single ones. All
that a search needs of a segment are its sums of products; they are taken once, and a resample is a
weighted sum of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import sympy
from scipy.special import ndtri, stdtrit

from sjepa.backend import Backend, Problem
from sjepa.backend.executors import run_on
from sjepa.backend.registry import make_backend
from sjepa.data import Trajectories
from sjepa.errors import ConfigError, SjepaError
from sjepa.inference.constants import MIN_BLOCKS
from sjepa.inference.segments import Segments
from sjepa.inference.shooting import shoot, solve_scaled
from sjepa.symbolic import Front, Law, Library
from sjepa.symbolic.gram import Gram
from sjepa.symbolic.intervals import LEVEL, Interval
from sjepa.symbolic.text import to_text


# Blocks that are drawn, and the least number of rows in each: windows of the weak form share data
# with seven that follow. A block begins at any of so many places along its length.
BLOCKS, MIN_ROWS, PLACES = 40, 24, 4
# Laws whose losses differ by less than this share fit as well as each other.
AS_WELL = 0.01
# Terms that are not in the law are listed if they were chosen this often.
LISTED = 0.05
# Supports to look at for one output of one resample.
NODES = 50_000
# Resamples that are searched together elsewhere.
TOGETHER = 10

# A term of one of the outputs.
Key = tuple[int, sympy.Expr]


def bootstrap(
    front: Front,
    problem: Problem,
    backend: Backend,
    data: Trajectories,
    n: int,
    *,
    seed: int = 0,
    order: int = 1,
    held: bool = False,
    end: float = math.inf,
    ordered: bool = True,
    known: Law | None = None,
    executor: Any = "local",
    workers: int = 1,
) -> Front:
    """The front with intervals of its chosen law from `n` resamples.

    In each resample the search is asked for the simplest law that fits as well there as the
    chosen structure does; how often that has a term is the term's inclusion. The numbers are
    those of the chosen structure: of simulations where the data are noisy, since noise in the
    states biases a regression, and otherwise of the regression on each resample. At `end`, by the
    problem's clock, no more are drawn, and a note says so. States that are not `ordered` in time
    have no runs. The front is of what was found beside a `known` part of the law.
    """
    law = front.best()
    rng = np.random.default_rng(seed)
    if backend.name != "stlsq":
        backend = make_backend("subset", max_nodes=NODES)
    if not (problem.library is not None and problem.library.covers(law)):
        problem = _of_terms(front, problem)
    cells, asked = list(_cells(problem)), n
    draws = _draws(rng, n, len(cells))
    work = _Searches.of(law, problem, backend, cells)
    many = 1 if executor == "local" and workers == 1 else TOGETHER
    chosen: Counter[Key] = Counter()
    numbers: dict[Key, list[float]] = {}
    n = 0
    parts = [draws[i : i + many] for i in range(0, asked, many)]
    for found in run_on(executor, work, parts, workers):
        for terms, values in found:
            n += 1
            chosen.update(terms)
            for key, value in values.items():
                numbers.setdefault(key, []).append(value)
        if problem.clock() > end:
            break
    ends = {k: np.quantile(v, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) for k, v in numbers.items()}
    if ordered:
        ends |= _free_runs(law, data, order, held, known)
    rows = []
    for j, (output, pairs) in enumerate(zip(law.outputs, law.terms, strict=True)):
        for coefficient, term in pairs:
            low, high = ends[j, term].tolist()
            share = chosen.pop((j, term), 0) / n
            rows.append(Interval(output, to_text(term), coefficient, low, high, share))
        others = [(-count, to_text(t)) for (i, t), count in chosen.items() if i == j]
        rows += [
            Interval(output, term, 0.0, 0.0, 0.0, -count / n)
            for count, term in sorted(others)
            if -count >= LISTED * n
        ]
    notes = front.notes if n == asked else (*front.notes, f"out of time after {n} resamples")
    return replace(front, intervals=tuple(rows), notes=notes)


@dataclass(frozen=True, eq=False)
class _Searches:
    """Searches on resamples: plain data, so that it travels.

    `parts` are, for each output, the columns it may use and the library of them; `stacks` and
    `size` the sums of all cells.
    """

    law: Law
    own: np.ndarray
    backend: Backend
    parts: list[tuple[np.ndarray, Library]]
    stacks: list[np.ndarray]
    size: np.ndarray

    @classmethod
    def of(cls, law: Law, problem: Problem, backend: Backend, cells: list[Gram]) -> _Searches:
        whole, own = problem.candidate_library, problem.candidate_library.coefficients(law) != 0
        parts = []
        for j in range(len(law.outputs)):
            index = np.flatnonzero(problem.usable[:, j] | own[:, j])
            terms, weights = [whole.terms[i] for i in index], whole.weights[index].tolist()
            parts.append((index, Library(terms, whole.inputs, weights, canonical=False)))
        stacks = [np.stack([getattr(g, k) for g in cells]) for k in ("xx", "xy", "yy", "y")]
        size = np.array([[g.rows, g.weight] for g in cells])
        return cls(law, own, backend, parts, stacks, size)

    def __call__(self, number: int, draws: np.ndarray) -> list[tuple[list[Key], dict[Key, float]]]:
        """For each resample the terms that are chosen, and the coefficients of the law's terms."""
        return [self._searched(drawn) for drawn in draws]

    def _searched(self, drawn: np.ndarray) -> tuple[list[Key], dict[Key, float]]:
        law, chosen = self.law, []
        numbers: dict[Key, float] = {}
        rows, weight = drawn @ self.size
        xx, xy, yy, y = (np.tensordot(drawn, stack, 1) for stack in self.stacks)
        for j, (index, library) in enumerate(self.parts):
            products, output = xx[np.ix_(index, index)], law.outputs[j]
            sums = Gram(products, xy[index][:, [j]], yy[[j]], y[[j]], int(rows), float(weight))
            support = np.flatnonzero(self.own[index, j])
            column = sums.solve(support, 0)[:, None]
            numbers |= {(j, library.terms[k]): float(column[k, 0]) for k in support}
            enough = float(sums.loss(column)[0]) * (1 + AS_WELL) + 1e-15
            resample = Problem(
                gram=sums, library=library, names=law.inputs, outputs=[output],
                dynamics=law.dynamics, adequate=enough,
            )  # fmt: skip
            known = resample.front([library.law(column, [output], law.dynamics)], "")
            found = resample.with_(warm=known).solve(self.backend)
            chosen += [(j, term) for _, term in found.select(delta=enough * 1.001).terms[0]]
        return chosen, numbers


def _cells(problem: Problem) -> Iterator[Gram]:
    """Sums over consecutive rows, PLACES of which make a block."""
    if problem.targets is None:
        raise ConfigError("A bootstrap needs the data themselves, not sums over all of them.")
    n = len(problem.targets)
    length = max(MIN_ROWS, -(-n // BLOCKS))
    edges = np.linspace(0, n, min(max(PLACES, n * PLACES // length), n) + 1).astype(int)
    for start, stop in pairwise(edges):
        part = slice(start, stop)
        values = (problem.inputs if problem.features is None else problem.features)[part]  # type: ignore[index]
        rows = [values, problem.targets[part]]
        if problem.weights is not None:
            rows.append(problem.weights[part])
        if problem.features is None:
            yield Gram.from_chunks(problem.candidate_library, [tuple(rows)])
        else:
            yield Gram.from_features(*rows)


def _draws(rng: np.random.Generator, n: int, cells: int) -> np.ndarray:
    """How often each cell is in each resample (n, cells): blocks that begin anywhere."""
    starts = rng.integers(cells, size=(n, -(-cells // PLACES), 1))
    places = (starts + np.arange(PLACES)) % cells
    return np.stack([np.bincount(one.ravel(), minlength=cells) for one in places]).astype(float)


def _free_runs(
    law: Law, data: Trajectories, order: int, held: bool, known: Law | None
) -> dict[tuple[int, sympy.Expr], np.ndarray]:
    """Ends of the intervals of coefficients that were fitted to simulations.

    Segments are few, and their noise is independent: each is left out once, which widens
    intervals by what a segment that decides a coefficient is worth, and Student's distribution
    takes the place of the normal one. Too few of them are no sample: the curvature of the
    likelihood gives the intervals then. Nothing without noise, where no simulations made the
    coefficients.
    """
    try:
        segments = replace(Segments.of(data, order=order, zoh=held), known=known)
    except SjepaError:
        return {}
    count = len(segments)
    if order != 1 or not segments.noisy:
        return {}
    run, free = shoot(law, segments), law.with_free_terms()
    curvature, slope, _ = run.normal
    without = np.stack(
        [
            solve_scaled(curvature.sum(axis=0) - c, slope.sum(axis=0) - s)
            for c, s in zip(curvature, slope, strict=True)
        ]
    )
    # Heavy tails flatten the likelihood: steps by weighted squares alone are too short.
    sharpness = max(run.sharpness, 1e-3)
    spread = np.sqrt(count - 1) * without.std(axis=0) / sharpness
    width = stdtrit(max(count - 1, 1), (1 + LEVEL) / 2) * spread
    if count <= MIN_BLOCKS:
        information = curvature.sum(axis=0) * sharpness
        errors = np.sqrt(np.maximum(np.diag(np.linalg.pinv(information)), 0.0))
        width = ndtri((1 + LEVEL) / 2) * errors
    middle = run.law.coefficients
    structure, symbols, values = free.skeleton
    position = {s: i for i, s in enumerate(symbols)}
    numbers = dict(zip(symbols, map(sympy.Float, values.tolist()), strict=True))
    found = {}
    for j, expr in enumerate(structure):
        for part in sympy.Add.make_args(expr) if expr != 0 else ():
            (own,) = [position[s] for s in sympy.Mul.make_args(part) if s in position]
            term = part.xreplace(numbers).as_coeff_Mul()[1]
            found[j, term] = middle[own] + width[own] * np.array([-1.0, 1.0])
    return found


def _of_terms(front: Front, problem: Problem) -> Problem:
    """The same rows for the terms of the front's laws, where there is no library of them."""
    inputs, _ = problem.rows()
    terms: dict[sympy.Expr, None] = {}
    for candidate in front:
        for _, term in (pair for row in candidate.law.terms for pair in row):
            terms.setdefault(term)
    defined = Library(list(terms), problem.names, canonical=False)
    good = np.isfinite(defined.numpy()(inputs)).all(axis=0)
    kept = [t for t, ok in zip(terms, good, strict=True) if ok]
    return problem.with_(
        library=Library(kept, problem.names, canonical=False), grammar=None, warm=None
    )
