"""Proposals for noisy states: laws with parametric terms, which equations may share.

What leaves one quantity often enters another: a term that stands in two equations with the same
parameter is written down once. Sets of terms are ranked by their code length in the integral form;
the evidence of simulations decides between the laws that come out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy

from sjepa.data import Trajectories
from sjepa.data.integrals import integral_rows
from sjepa.search.parametric import Columns
from sjepa.search.supports import Described, Describer
from sjepa.symbolic import Law, Library
from sjepa.symbolic.term_templates import TermTemplate as Shape


# Partial laws that are followed from equation to equation, and whole ones that are proposed.
BEAM, PROPOSED = 40, 6
# A number inside a term is that of another equation if both are within this share.
SHARED = 0.35


# Equations that took over a number: which one, its terms, the place and the number.
Known = dict[tuple[int, Described, int, tuple[float, ...]], Described | None]


def propose(
    data: Trajectories, base: Library, shapes: Sequence[Shape], outputs: Sequence[str],
    time_left: Callable[[], bool] = lambda: True,
) -> list[Law]:  # fmt: skip
    """Laws of terms and term templates with the shortest codes of noisy states, best first."""
    of, targets, points = integral_rows(data)
    grid = Columns(base, shapes, of, points)
    describers = [Describer(grid, y) for y in targets.T]
    partial: list[tuple[Described, ...]] = [()]
    known: Known = {}
    for describer in describers:
        own = describer.found(time_left)
        grown = [_tied(describers, (*chosen, one), known) for chosen in partial for one in own]
        partial = sorted(grown, key=_total)[:BEAM]
    laws = (
        Law([_expression(one, grid) for one in chosen], base.inputs, outputs)
        for chosen in partial[:PROPOSED]
        if len(chosen) == len(outputs)
    )
    return list(dict.fromkeys(laws))


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
