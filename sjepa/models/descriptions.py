"""Laws of noisy states by the shortest description: terms with numbers inside, shared by equations.

What leaves one quantity often enters another: a term that stands in two equations with the same
number inside is written down once. The best laws of all equations together then run freely through
long stretches of the data, with all of their numbers fitted, and the shortest description wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import sympy

from sjepa.backend.constants import Columns
from sjepa.backend.sets import Described, Describer
from sjepa.data import Trajectories
from sjepa.data.integrals import integral_rows
from sjepa.models.free_runs import FreeRun, free_run
from sjepa.models.selection import ADEQUATE, UNDECIDED, missed, undecided
from sjepa.models.stretches import Stretches
from sjepa.symbolic import Law, Library
from sjepa.symbolic.shapes import Shape


# Partial laws that are followed from equation to equation, and whole ones that run.
BEAM, RUN = 40, 6
# Stretches of the runs last so long, in the unit of `free_runs`, and are at least so many.
LONG, LEAST = 6.0, 3
# A number inside a term is that of another equation if both are within this share.
SHARED = 0.35
# Shorter laws that are fitted at every step.
TRIED = 3


# Equations that took over a number: which one, its terms, the place and the number.
Known = dict[tuple[int, Described, int, tuple[float, ...]], Described | None]


@dataclass(frozen=True)
class Description:
    """A law that ran through the data, and the nats of its terms and numbers."""

    law: Law
    run: FreeRun
    nats: float

    def total(self, unit: float) -> float:
        """With those of what it leaves of the data, in units of twice its variance."""
        return self.nats + float(self.run.squares.sum()) / unit


def long_stretches(data: Trajectories) -> Stretches:
    return Stretches.of(data, long=LONG, least=LEAST)


def describe(
    data: Trajectories, base: Library, shapes: Sequence[Shape], outputs: Sequence[str],
    also: Sequence[Law] = (), time_left: Callable[[], bool] = lambda: True,
) -> list[Description]:  # fmt: skip
    """Laws of terms and shapes that describe the data shortest, best first.

    `also` are laws of the base library that are compared with them.
    """
    of, targets, points = integral_rows(data)
    grid = Columns(base, shapes, of, points)
    describers = [Describer(grid, y) for y in targets.T]
    partial: list[tuple[Described, ...]] = [()]
    known: Known = {}
    for describer in describers:
        own = describer.found(time_left)
        grown = [_tied(describers, (*chosen, one), known) for chosen in partial for one in own]
        partial = sorted(grown, key=_total)[:BEAM]
    stretches = long_stretches(data)
    laws: dict[Law, float] = {}
    for chosen in partial[:RUN]:
        law = Law([_expression(one, grid) for one in chosen], base.inputs, outputs)
        laws.setdefault(law, sum(one.length for one in chosen))
    index = {t: i for i, t in enumerate(grid.base.terms)}
    for law in also:
        rows = [tuple(sorted(index[t] for _, t in row)) for row in law.terms]
        plain = [d.of(row, ()) for d, row in zip(describers, rows, strict=True)]
        if all(one is not None for one in plain):
            laws.setdefault(law, sum(one.length for one in plain if one is not None))
    runs = [
        Description(run.law, run, nats)
        for law, nats in laws.items()
        if time_left()
        for run in [free_run(law, stretches, 1)]
    ]
    if not runs:
        return []
    unit = 2 * min(d.run.fitted for d in runs)
    best = min(runs, key=lambda d: d.total(unit))
    runs += _pruned(best, stretches, unit, time_left)
    return sorted(runs, key=lambda d: d.total(unit))


def doubt_of(found: Sequence[Description]) -> str:
    """What is doubtful about the first of some laws ("" for nothing)."""
    best = found[0]
    if best.run.fitted > ADEQUATE:
        return missed(best.run.fitted)
    unit = 2 * min(d.run.fitted for d in found)
    near = [d for d in found[1:] if d.total(unit) < best.total(unit) + UNDECIDED]
    return next(filter(None, (rival_of(best.law, d) for d in near)), "")


def rival_of(law: Law, other: Description) -> str:
    """The doubt that another description casts on a law; one term more is no other law."""
    pairs = zip(_forms(law), _forms(other.law), strict=True)
    return "" if all(own <= theirs for own, theirs in pairs) else undecided(other.law)


def _forms(law: Law) -> list[set[sympy.Expr]]:
    """What stands above and below one fraction line in each equation, numbers left out.

    1 - c/(c + x) and x/(c + x) are one law.
    """
    stripped, numbers, _ = law.skeleton
    number, below = sympy.Symbol("number"), sympy.Symbol("below")
    same = dict.fromkeys(numbers, number)
    found = []
    for expr in stripped:
        parts = sympy.fraction(sympy.together(expr))
        found.append(
            {
                term.as_independent(*law.symbols)[1].xreplace(same) * side
                for part, side in zip(parts, (sympy.S.One, below), strict=True)
                for term in sympy.Add.make_args(sympy.expand(part))
            }
        )
    return found


def _pruned(
    best: Description, stretches: Stretches, unit: float, time_left: Callable[[], bool]
) -> list[Description]:
    """The law with terms left out one by one, as long as that shortens the description."""
    found: list[Description] = []
    while time_left():
        law = best.law.canonical()
        count = sum(map(len, law.terms))
        digits = best.nats / max(count, 1)
        shorter = []
        for j, row in enumerate(law.terms):
            sizes = _sizes(row, law, stretches)
            for k in range(len(row) if len(row) > 1 else 0):
                rest = sympy.Add(*(sympy.Float(c) * t for i, (c, t) in enumerate(row) if i != k))
                less = [*law.expressions[:j], rest, *law.expressions[j + 1 :]]
                shorter.append((sizes[k], Law(less, law.inputs, law.outputs, law.dynamics)))
        tried = []
        for _, one in sorted(shorter, key=lambda pair: pair[0])[:TRIED]:
            run = free_run(one, stretches, 1)
            tried.append(Description(run.law, run, best.nats - digits))
        found += tried
        won = [d for d in tried if d.total(unit) < best.total(unit)]
        if not won:
            break
        best = min(won, key=lambda d: d.total(unit))
    return found


def _sizes(row: Sequence[tuple[float, sympy.Expr]], law: Law, stretches: Stretches) -> list[float]:
    """What each term of an equation contributes, as a share of all of them together."""
    terms = Library([t for _, t in row], law.inputs, canonical=False)
    values = np.abs(terms.numpy()(stretches.inputs)).mean(axis=0)
    parts = [abs(c) * v for (c, _), v in zip(row, values.tolist(), strict=True)]
    return [part / sum(parts) for part in parts]


def _total(chosen: Sequence[Described]) -> float:
    return sum(one.total for one in chosen)


def _tied(
    describers: Sequence[Describer], chosen: tuple[Described, ...], known: Known
) -> tuple[Described, ...]:
    """The equations as they are, or the last with a number inside that it shares with another."""
    best, last = chosen, len(chosen) - 1
    for k, other in enumerate(chosen[:last]):
        for i, (shape, values) in enumerate(chosen[last].shapes):
            for j, (same, theirs) in enumerate(other.shapes):
                if same is not shape or not _near(values, theirs):
                    continue
                # One of both equations tells the number, the other takes it over.
                for at, place, number in ((last, i, theirs), (k, j, values)):
                    one = chosen[at]
                    shapes = [*one.shapes[:place], (shape, number), *one.shapes[place + 1 :]]
                    key = (at, one, place, number)
                    if key not in known:
                        known[key] = describers[at].of(
                            one.base, shapes, frozenset({place}), shared=place
                        )
                    tied = known[key]
                    if tied is not None:
                        trial = (*chosen[:at], tied, *chosen[at + 1 :])
                        best = min(best, trial, key=_total)
    return best


def _near(values: Sequence[float], others: Sequence[float]) -> bool:
    pairs = zip(values, others, strict=True)
    return all(abs(a - b) <= SHARED * max(abs(a), abs(b)) for a, b in pairs)


def _expression(one: Described, grid: Columns) -> sympy.Expr:
    terms = [grid.base.terms[i] for i in one.base]
    terms += [shape.expr_at(values) for shape, values in one.shapes]
    pairs = zip(one.coefficients.tolist(), terms, strict=True)
    return sympy.Add(*(sympy.Float(c) * t for c, t in pairs))
