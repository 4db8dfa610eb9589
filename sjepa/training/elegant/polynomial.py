"""The search for libraries that are closed under affine maps: subspace, gauge, exact support."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from sjepa.models.encoders import LinearEncoder
from sjepa.symbolic import Library
from sjepa.symbolic.front import knee
from sjepa.training.elegant.context import SearchContext
from sjepa.training.elegant.finalists import report_law
from sjepa.training.elegant.gauge import THRESHOLDS, Gauge, search_gauge
from sjepa.training.elegant.gauge_moves import PRESENT, GaugeMoves
from sjepa.training.elegant.polish import StructureTask, linear_head, polish
from sjepa.training.elegant.structures import Structure, structure
from sjepa.training.elegant.subspace import Subspace, search_subspace


# Points on which the size of terms is measured, for each term of the library.
POINTS_PER_TERM = 20


def gauged_heads(context: SearchContext) -> list[tuple[LinearEncoder, StructureTask]]:
    """Polished encoders for the sparse laws of the best subspace."""
    library, effort = context.library, context.budget.effort
    space = search_subspace(
        context.train, library, context.latent_dim, context.horizon,
        order=context.order, steps=round(200 * effort), seed=context.seed,
    )[0]  # fmt: skip
    context.report(f"subspace: the whole library leaves {space.risk:.2g}", 0.3)
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


def quadratic_heads(context: SearchContext) -> list[tuple[LinearEncoder, StructureTask]]:
    """The same for the quadratic monomials inside a larger library; none if it lacks some.

    Laws that are sparse in one affine gauge only (predator and prey, Lorenz) are out of reach of
    restarts that begin with a structure.
    """
    library, names = context.library, context.library.inputs[: context.latent_dim]
    part = Library.polynomial(list(names), 2)
    if context.order != 1 or library.to_dict()["mask"] is not None or context.actions:
        return []
    if not set(part.terms) <= set(library.terms):
        return []
    position = [library.terms.index(t) for t in part.terms]
    heads = []
    for head, task in gauged_heads(replace(context, library=part)):
        support = tuple(tuple(sorted(position[p] for p in row)) for row in task.structure.support)
        heads.append((head, context.task(structure(library, support))))
    return heads


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
    polish(head, task, context.train, context.budget.polish, context.stride)
    report_law(context, "polished", head, task, 0.7)
    return head, task
