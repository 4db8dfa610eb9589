"""Polynomial encoders for many structures, for observations that no linear read-out undoes.

Every structure gets the best encoder of a low degree, few of them one of a higher degree.
Structures grow on the way: what an exact search finds in the coordinates of a promising encoder
is tried as well. Laws that are sparse only in some affine gauge (predator and prey, Lorenz) come
from encoders for all quadratic terms at once, whose gauge is then searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import nn

from sjepa.metrics.shortcuts import CollapseReport
from sjepa.models.encoders import LinearEncoder
from sjepa.models.polynomials import PolynomialEncoder
from sjepa.training.elegant.context import SearchContext
from sjepa.training.elegant.finalists import report_law, validation_risk
from sjepa.training.elegant.halving import promote
from sjepa.training.elegant.levenberg import BENDING, levenberg_marquardt
from sjepa.training.elegant.nonlinear_gauge import gauged
from sjepa.training.elegant.nonlinear_starts import (
    CHILDREN,
    PARENTS,
    Start,
    anew,
    dense_structure,
    entries,
    planar,
)
from sjepa.training.elegant.polish import StructureTask, cancelling, linear_head, unit_scale
from sjepa.training.elegant.reduce import cheaper, without_one
from sjepa.training.elegant.rollout import states
from sjepa.training.elegant.select import NOISE_MULTIPLE
from sjepa.training.elegant.structures import Structure, structure
from sjepa.training.elegant.variants import variants
from sjepa.training.elegant.velocity import velocity_pairs


# Degrees of the two rungs, and the encoders that go on from each.
LOW, HIGH = 3, 5
KEPT = (10, 6)
# Structures that are begun again on the high rung: a low degree may lead them astray.
LIKELY = 5
# How much less bending costs from one stretch to the next: nearly linear coordinates first.
EASING = (100.0, 10.0, 1.0)
STEPS = 12
# Samples that are looked at on the low rung, and twice as many on the high one.
SAMPLES = 4000
# Horizons are sampled at this many points on the low rung, and at twice as many on the high one.
POINTS = 6
# Neighbours on the low rung may share this many times what they finally may.
LENIENCY = 1.5
# Equations of more terms than this are no laws.
LONGEST = 5
# Encoders of more numbers a coordinate than this, or that gain less, are not grown further.
MAX_FEATURES, WORTHWHILE = 240, 0.9
# Terms of a force, and forces that go on from each number of terms.
MECHANICAL, BEAM = 3, 4
# Laws that are grown to the end, half of them the fittest, half the simplest, and laws with a term
# less that get encoders of their own.
FINALISTS, SHORTER = 4, 4
# How often laws with a term less, or a simpler one, are tried in place of the best.
ROUNDS = 2
# Simple laws that leave this many times more than the best are not grown.
CLOSE = 20.0

Pair = tuple[PolynomialEncoder, StructureTask]


@dataclass(frozen=True, eq=False)
class Bent:
    """A structure with the polynomial encoder that suits it best, and what that leaves."""

    structure: Structure
    head: PolynomialEncoder
    loss: float
    admission: CollapseReport


def nonlinear_heads(
    context: SearchContext, linear: Sequence[tuple[LinearEncoder, StructureTask]]
) -> list[Pair]:
    """Polynomial encoders for the structures that suit them best.

    `linear` are the encoders that the linear search ended with: starting points here.
    """
    generator = torch.Generator().manual_seed(context.seed)
    low = solved(context, entries(context, linear, generator), LOW, EASING) + _mechanical(context)
    best = _promoted(context, low, KEPT[0], each=2)
    best = _promoted(context, [*best, *_children(context, best, LOW)], KEPT[0], each=2)
    likely = list(dict.fromkeys(own.structure for own in best))[:LIKELY]
    again = solved(context, anew(context, likely, generator), HIGH, EASING)
    high = _promoted(context, [*_raised(context, best), *again], KEPT[1])
    high = _promoted(context, [*high, *_children(context, high, HIGH)], KEPT[1])
    lowest = min(own.loss for own in high)
    laws = [own for own in high if not _is_long(own.structure) and own.loss <= CLOSE * lowest]
    laws.sort(key=lambda own: own.loss)
    fittest, others = laws[: FINALISTS // 2], laws[FINALISTS // 2 :]
    simplest = sorted(others, key=lambda own: own.structure.cost)[: FINALISTS // 2]
    found = [grown(context, own) for own in [*fittest, *simplest]]
    for number in range(ROUNDS if found else 0):
        names = _shorter(context, found)
        shorter = solved(context, [(own, found[0][0]) for own in names], HIGH, EASING[1:])
        if number == 0:  # coordinates that have bent to suit a term do not bend back
            fresh = solved(context, anew(context, names, generator), LOW, EASING)
            shorter += _raised(context, _promoted(context, fresh, SHORTER))
        good = sorted(_promoted(context, shorter, SHORTER), key=lambda own: own.loss)
        found += [grown(context, own) for own in good[:2]]
    return found


def solved(
    context: SearchContext, starts: Sequence[Start], degree: int, easing: Sequence[float]
) -> list[Bent]:
    """The best encoder of some degree for each structure, from coordinates to start with."""
    if not starts:
        return []
    template = PolynomialEncoder.of(
        context.train.x[context.train.grid.mask], context.latent_dim, degree
    )
    work = partial(_solve, context.bare, template, degree > LOW, tuple(easing))
    return list(context.pool.map(work, starts))


def _solve(
    context: SearchContext,
    template: PolynomialEncoder,
    high: bool,
    easing: Sequence[float],
    start: Start,
) -> Bent:
    own, coordinates = start
    task, train = context.task(own), context.train.thinned(SAMPLES * (2 if high else 1))
    rows = train.x[train.grid.mask]
    with torch.no_grad():
        head = deepcopy(template).imitate(rows, coordinates(rows))
    stride = max(1, context.horizon // (POINTS * (2 if high else 1)))
    for factor in easing:
        loss = levenberg_marquardt(
            head, task, train, bending=factor * BENDING, steps=STEPS, stride=stride
        )
    checks = replace(context.near, neighbour=(1.0 if high else LENIENCY) * context.near.neighbour)
    with torch.no_grad():
        z = states(head(train.x), train.grid.times, context.order)
    admission = checks.check(z, train.raw, train.grid.mask, points=1000)
    more = cancelling(head, task, train)
    return Bent(own, head, loss, replace(admission, reasons=(*admission.reasons, *more)))


def _promoted(
    context: SearchContext, found: Sequence[Bent], keep: int, each: int = 1
) -> list[Bent]:
    """The best of the admissible ones; where nothing is admissible, what fits best.

    A low degree may mistake the coordinates of a structure, so `each` of them may stay twice.
    """
    if not found:
        return []
    losses = [own.loss for own in found]
    reports = [own.admission for own in found]
    chosen = promote([own.structure for own in found], losses, reports, keep, each)
    chosen = chosen or sorted(range(len(found)), key=lambda i: losses[i])[:keep]
    line = f"{len(found)} polynomial encoders: best risk {min(losses[i] for i in chosen):.2g}"
    context.report(line, 0.78)
    return [found[i] for i in chosen]


def _raised(context: SearchContext, found: Sequence[Bent]) -> list[Bent]:
    return solved(context, [(own.structure, own.head) for own in found], HIGH, (1.0,))


def _mechanical(context: SearchContext) -> list[Bent]:
    """z1' = z2 with a law for z2' that grows term by term: planar systems can be written so."""
    library, names = context.library, context.library.names
    if not planar(context) or library.inputs[1] not in names:
        return []
    start = linear_head(velocity_pairs(context.train, most=1)[0])
    first = (names.index(library.inputs[1]),)
    moving = {p for p, term in enumerate(library.terms) if term.free_symbols}
    found: list[Bent] = []
    beam: list[tuple[int, ...]] = [()]
    for _ in range(MECHANICAL):
        rows = {tuple(sorted((*own, p))) for own in beam for p in range(len(library))}
        tried = [row for row in sorted(rows) if len(set(row)) == len(row) and moving & set(row)]
        starts = [(structure(library, (first, row)), start) for row in tried]
        bent = solved(context, starts, LOW, EASING)
        found += bent
        good = sorted((own for own in bent if own.admission.admitted), key=lambda own: own.loss)
        beam = [own.structure.support[1] for own in good[:BEAM]]
    return found


def _children(context: SearchContext, found: Sequence[Bent], degree: int) -> list[Bent]:
    """Laws that are proposed in the coordinates of the best, from there and from new starts."""
    known = {own.structure for own in found}
    dense = dense_structure(context)
    near: list[Start] = []
    for own in found[:PARENTS]:
        task = context.task(own.structure)
        if own.structure == dense:
            proposed = gauged(context, own.head, task)
        else:
            most = CHILDREN * (2 if _is_long(own.structure) else 1)
            new = variants(own.head, task, context.train, most)
            proposed = [(one, own.head) for one in new]
        near += [start for start in proposed if start[0] not in known]
        known |= {one for one, _ in proposed}
    found = solved(context, near, degree, EASING[1:])
    if degree == LOW:
        # Coordinates that have bent to suit one law do not bend back for another.
        fresh = anew(context, [one for one, _ in near], torch.Generator().manual_seed(context.seed))
        found = found + solved(context, fresh, degree, EASING)
    return found


def grown(context: SearchContext, own: Bent) -> Pair:
    """Higher and higher degrees, as long as they help on validation data."""
    task, head, degree = context.task(own.structure), own.head, HIGH
    risk = validation_risk(context, head, task)
    while True:
        degree += 1
        (more,) = solved(context, [(own.structure, head)], degree, (1.0,))
        if more.head.linear.in_features > MAX_FEATURES:
            break
        lower = validation_risk(context, more.head, task)
        if not lower < WORTHWHILE * risk:
            break
        head, risk = more.head, lower
    unit_scale(head, task, context.train)
    report_law(context, "grown", head, task, 0.83)
    return head, task


def _shorter(context: SearchContext, found: Sequence[tuple[nn.Module, StructureTask]]
) -> list[Structure]:  # fmt: skip
    """The fittest laws with a term less, or a simpler one, where that has not been tried.

    Half of them have a term less, which bent coordinates make look needed.
    """
    if not found:
        return []
    risks = [float(task.risk(head, context.train, context.validation).risk) for head, task in found]
    tried = {other.structure for _, other in found}
    drops: dict[Structure, float] = {}
    others: dict[Structure, float] = {}
    for risk, (head, task) in zip(risks, found, strict=True):
        if risk <= NOISE_MULTIPLE * min(risks):
            less = without_one(task)
            for s in cheaper(task):
                if s not in tried:
                    left = float(context.task(s).risk(head, context.train, context.train).risk)
                    group = drops if s in less else others
                    group[s] = min(left, group.get(s, float("inf")))
    half = sorted(drops, key=lambda s: drops[s])[: SHORTER // 2]
    every = {**others, **drops}
    rest = sorted((s for s in every if s not in half), key=lambda s: every[s])
    return [*half, *rest[: SHORTER - len(half)]]


def _is_long(own: Structure) -> bool:
    """Whether a structure is there for its coordinates only, not as a law."""
    return max(map(len, own.support)) > LONGEST
