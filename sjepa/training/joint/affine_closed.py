"""The search for libraries that are closed under affine maps: subspace, gauge, exact support."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from sjepa.metrics.diagnostics import SHORT
from sjepa.models.encoders import LinearEncoder
from sjepa.symbolic import Library
from sjepa.symbolic.front import knee
from sjepa.training.joint.context import HALVING_RANK, SearchContext
from sjepa.training.joint.finalists import (
    lacking,
    largest_left,
    report_law,
    validation_risk,
    warm_started,
)
from sjepa.training.joint.gauge import PRESENT, THRESHOLDS, Gauge, GaugeMoves, search_gauge
from sjepa.training.joint.initial_subspaces import starting_readouts
from sjepa.training.joint.levenberg import refine_encoder
from sjepa.training.joint.refinement import StructureTask, linear_head, noise_floor
from sjepa.training.joint.structure_moves import drop_one_term
from sjepa.training.joint.structures import Structure, structure
from sjepa.training.joint.subspace import Subspace, apart, search_subspace


# Points on which the size of terms is measured, for each term of the library.
POINTS_PER_TERM = 20
# Read-outs near the slowest modes that a subspace is looked for from.
STARTS = 12
# Subspaces whose laws are looked at then.
NEXT_BEST = 2


def gauged_heads(
    context: SearchContext, max_risk: float = math.inf, starts: Tensor | None = None
) -> list[tuple[LinearEncoder, StructureTask]]:
    """Refined encoders for the sparse laws of the best subspace.

    With `starts`, read-outs (n, rank, d) to begin with instead of random ones, also of the next
    best; a square has a law of its own. None where the risk of the whole library exceeds
    `max_risk`: parts of it fit no better.
    """
    spaces = search_subspace(
        context.train, context.library, context.latent_dim, context.horizon,
        order=context.order, steps=round(200 * context.budget.effort), seed=context.seed,
        starts=starts,
    )  # fmt: skip
    context.report(f"subspace: the residual of the whole library is {spaces[0].risk:.2g}", 0.3)
    spaces = apart([space for space in spaces if space.risk <= max_risk])
    chosen = spaces[: 1 if starts is None else NEXT_BEST]
    return [pair for space in chosen for pair in _sparse_heads(context, space)]


def _sparse_heads(
    context: SearchContext, space: Subspace
) -> list[tuple[LinearEncoder, StructureTask]]:
    library, effort = context.library, context.budget.effort
    generator = torch.Generator().manual_seed(context.seed)
    seen = context.train.x[context.train.grid.mask]
    chosen = torch.randperm(len(seen), generator=generator)[: POINTS_PER_TERM * len(library)]
    points = seen[chosen]
    gauges = search_gauge(space, points, library, steps=round(400 * effort), seed=context.seed)
    moves = GaugeMoves(space, points, library)
    best = min((moves.improve(g) for g in gauges[:3]), key=moves.score)
    context.report(f"gauge: {moves.score(best)[0]} terms", 0.6)
    heads: dict[Structure, tuple[LinearEncoder, StructureTask]] = {}
    for threshold in THRESHOLDS:
        support = best.support(threshold)
        if all(support) and (found := structure(library, support)) not in heads:
            heads[found] = _head(context, space, best, context.task(found))
    again = _regauged(context, list(heads.values()), points)
    if again is not None and again[1].structure not in heads:
        heads[again[1].structure] = again
    return list(heads.values())


def monomial_heads(
    context: SearchContext, degree: int, max_risk: float = math.inf, starts: Tensor | None = None
) -> list[tuple[LinearEncoder, StructureTask]]:
    """The same for the monomials up to a degree inside a larger library; none if it lacks some.

    Laws that are sparse in one affine gauge only (predator and prey, Lorenz) are out of reach of
    restarts that begin with a structure.
    """
    library, names = context.library, context.library.inputs[: context.latent_dim]
    part = Library.polynomial(list(names), degree)
    if context.order != 1 or library.to_dict()["mask"] is not None or context.actions:
        return []
    if not set(part.terms) <= set(library.terms):
        return []
    position = [library.terms.index(t) for t in part.terms]
    heads = []
    for head, task in gauged_heads(replace(context, library=part), max_risk, starts):
        support = tuple(tuple(sorted(position[p] for p in row)) for row in task.structure.support)
        heads.append((head, context.task(structure(library, support))))
    return heads


def closed_heads(
    context: SearchContext, heads: Sequence[tuple[LinearEncoder, StructureTask]], degree: int
) -> list[tuple[LinearEncoder, StructureTask]]:
    """Short laws of monomials up to a degree, where all of these together leave little but noise.

    None if such a law is long: then the coordinates only seem to be linear. `heads` are what did
    worse. From the simplest adequate law the search continues with simpler ones, a term less each
    time, and refines each before it is judged: a square that is added to one coordinate brings
    terms into both equations, none of which can be left out as things stand.
    """
    best = min(heads, key=lambda pair: validation_risk(context, *pair))
    max_risk = largest_left(noise_floor(*best, context.validation))
    rank = min(context.whitening.rank, HALVING_RANK)
    generator = torch.Generator().manual_seed(context.seed)
    starts = starting_readouts(context.modes, rank, context.latent_dim, STARTS, generator)
    starts = functional.pad(starts, (0, 0, 0, context.whitening.rank - rank))
    tried = monomial_heads(replace(context, tell=None), degree, max_risk, starts)
    found = list(tried)
    if found:
        context.report(f"coordinates in which all terms up to degree {degree} close", 0.77)
    while good := [pair for pair in tried if not lacking(context, [pair], long=math.inf)]:
        head, task = min(good, key=lambda pair: pair[1].structure.cost)
        known = {task.structure for _, task in found}
        tried = warm_started(context, [(head, s) for s in drop_one_term(task) if s not in known])
        found += tried
    return [] if lacking(context, found, long=SHORT) else found


def _regauged(
    context: SearchContext, heads: list[tuple[LinearEncoder, StructureTask]], points: Tensor
) -> tuple[LinearEncoder, StructureTask] | None:
    """Better coordinates for the simplest good law, which is cleaner than the dense one was."""
    risks = [float(t.risk(h, context.train, context.validation).risk) for h, t in heads]
    # A law that runs away, or a validation set that is too short to tell, leaves no finite risk.
    finite = [risk for risk in risks if math.isfinite(risk)]
    if not finite:
        return None
    limit = max(knee(min(finite)), min(finite))
    good = [pair for pair, risk in zip(heads, risks, strict=True) if risk <= limit]
    head, task = min(good, key=lambda pair: pair[1].structure.cost)
    library, d = context.library, context.latent_dim
    with torch.no_grad():
        seen = head(points)
        numbers = task.risk(head, context.train, context.train).coefficients[0]
    law = torch.zeros(len(library), d, dtype=torch.float64)
    for j, row in enumerate(task.structure.support):
        law[list(row), j] = numbers[j, : len(row)]
    eye, zero = torch.eye(d, dtype=torch.float64), torch.zeros(d, dtype=torch.float64)
    moves = GaugeMoves(Subspace(eye, law, 0.0), seen, library)
    best = moves.improve(moves.gauge(eye, zero))
    found = best.support(PRESENT)
    if not all(found):
        return None
    weight, bias = head.linear.weight.detach(), head.linear.bias.detach()
    space = Subspace(weight.T, law, 0.0)
    shifted = Gauge(best.matrix, bias @ best.matrix + best.offset, best.shares)
    return _head(context, space, shifted, context.task(structure(library, found)))


def _head(
    context: SearchContext, space: Subspace, gauge: Gauge, task: StructureTask
) -> tuple[LinearEncoder, StructureTask]:
    head = linear_head(space.readout @ gauge.matrix)
    with torch.no_grad():
        head.linear.bias.copy_(gauge.offset)
    refine_encoder(head, task, context.train, context.budget.refinement, context.stride)
    report_law(context, "refined", head, task, 0.7)
    return head, task
