"""Polynomial encoders for many structures, for observations that no linear read-out undoes.

Every structure gets the best encoder of a low degree, few of them one of a higher degree.
Structures grow on the way: what an exact search finds in the coordinates of a promising encoder
is tried as well. Laws that are sparse only in some affine gauge (predator and prey, Lorenz) come
from encoders for all quadratic terms at once, whose gauge is then searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial

import torch

from sjepa.metrics.diagnostics import MAX_ROLLOUT_ERROR
from sjepa.metrics.shortcuts import CollapseChecks, CollapseReport, max_information_loss
from sjepa.models.encoders import LinearEncoder
from sjepa.models.polynomials import PolynomialEncoder
from sjepa.training.joint.checkpoint import load_step, save_step, step_name
from sjepa.training.joint.conclude import checked
from sjepa.training.joint.context import SearchContext
from sjepa.training.joint.finalists import enough, report_law, validation_risk
from sjepa.training.joint.levenberg import CURVATURE_PENALTY, levenberg_marquardt
from sjepa.training.joint.nonlinear_gauge import gauged
from sjepa.training.joint.nonlinear_initial import (
    CHILDREN,
    PARENTS,
    Start,
    dense_structure,
    entries,
    planar,
    restart,
    velocity_pairs,
)
from sjepa.training.joint.nonlinear_selection import (
    DEGREE_RAISED,
    DIVERGING,
    PolynomialCandidate,
    close,
    fittest_and_simplest,
    promoted,
    without_information_loss,
)
from sjepa.training.joint.refinement import Head, StructureTask, canceling, linear_head, unit_scale
from sjepa.training.joint.rollout_refinement import RolloutLoss, law_of
from sjepa.training.joint.structure_moves import cheaper, drop_one_term, variants
from sjepa.training.joint.structures import Structure, structure
from sjepa.training.joint.whitened_trajectories import Observed


# Degrees of the two rungs, and the encoders that go on from each.
LOW, HIGH = 3, 5
KEPT = (24, 6)
# Structures that are begun again on the high rung: a low degree may lead them astray.
LIKELY = 5
# The curvature penalty falls from stage to stage: nearly linear coordinates first.
EASING = (100.0, 10.0, 1.0)
# What it costs at last where coordinates would otherwise leave too much.
EASED = 0.1
STEPS = 12
# Samples that are looked at on the low rung, and twice as many on the high one.
SAMPLES = 4000
# Samples whose rollouts are looked at, and points that the checks look at.
ROLLED, CHECKED = 1500, 1000
# Horizons are sampled at this many points on the low rung, and at twice as many on the high one.
POINTS = 6
# Neighbors on the low rung may share this many times what they finally may.
LENIENCY = 1.5
# Equations of more terms than this are no laws.
LONGEST = 5
# Encoders of more numbers a coordinate than this, or that gain less, keep their degree.
MAX_FEATURES, WORTHWHILE = 360, 0.9
# Terms of a force, and forces that go on from each number of terms.
MECHANICAL, BEAM = 3, 4
# Laws whose encoders get the full degree, and simpler ones of each that go on.
FINALISTS, SHORTER = 4, 4
# A simpler law gets a higher degree if it leaves at most this many times what the longer one left.
GROWING = 3.0

Pair = tuple[PolynomialEncoder, StructureTask]


def nonlinear_heads(
    context: SearchContext, linear: Sequence[tuple[LinearEncoder, StructureTask]]
) -> list[Pair]:
    """Polynomial encoders for the structures that suit them best.

    `linear` are the encoders that the linear search ended with: starting points here.
    """
    generator = torch.Generator().manual_seed(context.seed)
    # Linear coordinates may be crude, but they show how little of the observations can be lost.
    max_loss = max_information_loss(_checked(context, head, context.near) for head, _ in linear)
    max_loss = min(context.near.neighbor, max_loss)
    context = replace(context, near=replace(context.near, neighbor=max_loss))
    low = solved(context, entries(context, linear, generator), LOW, EASING) + mechanical_candidates(
        context
    )
    best = promoted(context, low, KEPT[0], each=2, share=0.8)
    best = promoted(context, [*best, *_children(context, best, LOW)], KEPT[0], each=2, share=0.83)
    # Where a low degree finds no admissible coordinates, it is no guide to the likely ones either.
    again = LIKELY if any(own.check_report.passed for own in best) else KEPT[0]
    likely = list(dict.fromkeys(own.structure for own in best))[:again]
    fresh = solved(context, restart(context, likely, generator), HIGH, EASING)
    high = promoted(context, [*_raise_degrees(context, best), *fresh], KEPT[1], share=0.87)
    high = promoted(context, [*high, *_children(context, high, HIGH)], KEPT[1], share=0.89)
    laws = [own for own in close(high) if not _is_long(own.structure)]
    both = [
        *fittest_and_simplest(without_information_loss(laws), FINALISTS),
        *fittest_and_simplest(laws, FINALISTS // 2),
    ]
    finalists = list(dict.fromkeys(both))
    found = [raise_degree(context, own) for own in finalists]
    return found + _simplified(context, finalists, found, generator)


def solved(
    context: SearchContext, starts: Sequence[Start], degree: int, easing: Sequence[float]
) -> list[PolynomialCandidate]:
    """The best encoder of some degree for each structure, from coordinates to start with."""
    if not starts:
        return []
    template, name = _template(context, degree), step_name(degree, easing, starts)
    found = load_step(context, name, template, [own for own, _ in starts])
    if found is None:
        work = partial(_solve, context.bare, template, degree > LOW, tuple(easing))
        found = list(context.pool.map(work, starts))
        save_step(context, name, found)
    return found


def _template(context: SearchContext, degree: int) -> PolynomialEncoder:
    return PolynomialEncoder.of(
        context.train.x[context.train.grid.mask], context.latent_dim, degree
    )


def _solve(
    context: SearchContext,
    template: PolynomialEncoder,
    high: bool,
    easing: Sequence[float],
    start: Start,
) -> PolynomialCandidate:
    own, coordinates = start
    task, train = context.task(own), context.train.thinned(SAMPLES * (2 if high else 1))
    rows = train.x[train.grid.mask]
    with torch.no_grad():
        head = deepcopy(template).imitate(rows, coordinates(rows))
    stride = max(1, context.horizon // (POINTS * (2 if high else 1)))
    for factor in easing:
        loss = levenberg_marquardt(
            head,
            task,
            train,
            curvature_penalty=factor * CURVATURE_PENALTY,
            steps=STEPS,
            stride=stride,
        )
    checks = replace(context.near, neighbor=(1.0 if high else LENIENCY) * context.near.neighbor)
    seen = _checked(context, head, checks)
    more = canceling(head, task, train) + diverging_rollouts(context, head, task, train)
    return PolynomialCandidate(own, head, loss, replace(seen, reasons=(*seen.reasons, *more)))


@torch.no_grad()
def diverging_rollouts(
    context: SearchContext, head: PolynomialEncoder, task: StructureTask, train: Observed
) -> tuple[str, ...]:
    """A reason to refuse a law that the coordinates satisfy, but that does not lead along them.

    A limit cycle mapped onto the line between two equilibria of a pendulum is such a case.
    """
    some = train.thinned(ROLLED)
    numbers = task.fit(task.features, head(train.x), train).coefficients[0]
    law = law_of(context.library, task.structure.support, numbers, context.order, context.actions)
    rollouts = RolloutLoss(some, context.horizon, context.order, max_starts=1)
    missed = float(rollouts(head, law.torch(trainable=False).double()))
    return () if missed <= LENIENCY * MAX_ROLLOUT_ERROR else (DIVERGING,)


def _checked(context: SearchContext, head: Head, checks: CollapseChecks) -> CollapseReport:
    return checked(context, head, context.train.thinned(SAMPLES), checks, CHECKED)


def _raise_degrees(
    context: SearchContext, found: Sequence[PolynomialCandidate]
) -> list[PolynomialCandidate]:
    return solved(context, [(own.structure, own.head) for own in found], HIGH, (1.0,))


def mechanical_candidates(context: SearchContext) -> list[PolynomialCandidate]:
    """z1' = z2 with a law for z2' that grows term by term: planar systems can be written so.

    From the first read-outs of a position and its velocity that do not fold the states: some
    short law has admissible coordinates then.
    """
    library = context.library
    if not planar(context) or library.inputs[1] not in library.names:
        return []
    found: list[PolynomialCandidate] = []
    for readout in velocity_pairs(context.train):
        found += _forces(context, linear_head(readout))
        short = [own for own in found if len(own.structure.support[1]) < MECHANICAL]
        if any(own.check_report.passed for own in short):
            break
    return found


def _forces(context: SearchContext, start: LinearEncoder) -> list[PolynomialCandidate]:
    library, names = context.library, context.library.names
    first = (names.index(library.inputs[1]),)
    moving = {p for p, term in enumerate(library.terms) if term.free_symbols}
    # Spring and friction stay whatever their loss: without a third term both are far off.
    linear = tuple(sorted(names.index(own) for own in library.inputs[:2] if own in names))
    found: list[PolynomialCandidate] = []
    beam: list[tuple[int, ...]] = [()]
    for number in range(MECHANICAL):
        beam += [linear] if number == 2 and linear not in beam else []
        rows = {tuple(sorted((*own, p))) for own in beam for p in range(len(library))}
        tried = [row for row in sorted(rows) if len(set(row)) == len(row) and moving & set(row)]
        starts = [(structure(library, (first, row)), start) for row in tried]
        solutions = solved(context, starts, LOW, EASING)
        found += solutions
        passed = (own for own in solutions if own.check_report.passed)
        good = sorted(passed, key=lambda own: own.loss)
        beam = [own.structure.support[1] for own in good[:BEAM]]
    return found


def _children(
    context: SearchContext, found: Sequence[PolynomialCandidate], degree: int
) -> list[PolynomialCandidate]:
    """Laws that are proposed in the coordinates of the best, from there and from new starts."""
    known = {own.structure for own in found}
    dense = dense_structure(context)
    near: list[Start] = []
    for own in found[:PARENTS]:
        task = context.task(own.structure)
        if own.structure == dense:
            proposed = gauged(context, own.head, task)
        else:
            max_loss = CHILDREN * (2 if _is_long(own.structure) else 1)
            new = variants(own.head, task, context.train, max_loss)
            proposed = [(one, own.head) for one in new]
        near += [start for start in proposed if start[0] not in known]
        known |= {one for one, _ in proposed}
    found = solved(context, near, degree, EASING[1:])
    if degree == LOW:
        # Encoders fitted to one law do not adapt to another: start again.
        fresh = restart(
            context, [one for one, _ in near], torch.Generator().manual_seed(context.seed)
        )
        found = found + solved(context, fresh, degree, EASING)
    return found


def raise_degree(context: SearchContext, own: PolynomialCandidate) -> Pair:
    """Higher and higher degrees, as long as they help on validation data.

    Where the residual is still too large the curvature penalty is lowered: it keeps right laws of
    strongly nonlinear sensors off the noise floor.
    """
    task, head, degree = context.task(own.structure), own.head, HIGH
    head, degree = _raise_while_helpful(context, task, head, degree, 1.0)
    if not enough(context, head, task):
        head, _ = _raise_while_helpful(context, task, head, degree - 1, EASED)
    unit_scale(head, task, context.train)
    report_law(context, "raised degree of", head, task, DEGREE_RAISED)
    return head, task


def _raise_while_helpful(
    context: SearchContext, task: StructureTask, head: PolynomialEncoder, degree: int, easing: float
) -> tuple[PolynomialEncoder, int]:
    risk = validation_risk(context, head, task)
    while _template(context, degree + 1).linear.in_features <= MAX_FEATURES:
        (more,) = solved(context, [(task.structure, head)], degree + 1, (easing,))
        lower = validation_risk(context, more.head, task)
        if not lower < WORTHWHILE * risk:
            break
        head, risk, degree = more.head, lower, degree + 1
    return head, degree


def _simplified(
    context: SearchContext,
    begun: Sequence[PolynomialCandidate],
    found: Sequence[Pair],
    generator: torch.Generator,
) -> list[Pair]:
    """Simpler laws than the simplest adequate one, as long as one of them is adequate too.

    A polynomial encoder makes every term of its law look needed, so that each simpler law gets
    encoders of its own: from new starts, and from the coordinates of the longer law. `begun` is
    what `found` started from.
    """
    tried: set[Structure] = set()
    simpler: list[Pair] = []
    base = simplest_adequate(context, begun, found)
    while base is not None:
        before, (head, task) = base
        names = [own for own in nearest_structures(context, head, task) if own not in tried]
        tried |= set(names)
        fresh = promoted(
            context, solved(context, restart(context, names, generator), LOW, EASING), SHORTER
        )
        near = solved(context, [(own, head) for own in names], HIGH, EASING[1:])
        good = sorted(
            promoted(context, [*near, *_raise_degrees(context, fresh)], SHORTER),
            key=lambda own: (own.structure.cost, own.loss),
        )
        max_loss = GROWING * _risk(context, before)
        good = [own for own in good if own.check_report.passed and _risk(context, own) <= max_loss]
        pairs = [raise_degree(context, own) for own in good]
        simpler += pairs
        base = simplest_adequate(context, good, pairs)
    return simpler


def _risk(context: SearchContext, own: PolynomialCandidate) -> float:
    return validation_risk(context, own.head, context.task(own.structure))


def nearest_structures(
    context: SearchContext, head: PolynomialEncoder, task: StructureTask
) -> list[Structure]:
    """Laws with a term less, and those with a simpler one that fit best as they stand."""
    less = drop_one_term(task)
    others = [own for own in cheaper(task) if own not in less]
    others.sort(
        key=lambda own: float(context.task(own).risk(head, context.train, context.train).risk)
    )
    return [*less, *others[:SHORTER]]


def simplest_adequate(
    context: SearchContext, begun: Sequence[PolynomialCandidate], found: Sequence[Pair]
) -> tuple[PolynomialCandidate, Pair] | None:
    """The simplest adequate law, as it started and with its final degree."""
    both = zip(begun, found, strict=True)
    good = [(own, pair) for own, pair in both if enough(context, *pair)]
    return min(good, key=lambda both: both[1][1].structure.cost) if good else None


def _is_long(own: Structure) -> bool:
    """Whether a structure is there for its coordinates only, not as a law."""
    return max(map(len, own.support)) > LONGEST
