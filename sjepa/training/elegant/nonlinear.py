"""Successive halving over nonlinear encoders, for observations that no linear read-out undoes.

Structures grow on the way: what an exact search finds in the coordinates of a promising encoder
joins the next rung with a copy of that encoder. Laws that are sparse only in some affine gauge
(predator and prey, Lorenz) come from encoders for all quadratic terms at once, whose gauge is
then searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import partial

import torch

from sjepa.models.encoders import LinearEncoder, ResidualEncoder
from sjepa.training.elegant.context import SearchContext
from sjepa.training.elegant.finalists import report_law
from sjepa.training.elegant.halving import Rung, climb, promote
from sjepa.training.elegant.noise import noise_floor
from sjepa.training.elegant.nonlinear_gauge import gauged
from sjepa.training.elegant.nonlinear_restarts import NonlinearRestarts
from sjepa.training.elegant.nonlinear_starts import (
    CHILDREN,
    PARENTS,
    anew,
    dense_structure,
    entries,
)
from sjepa.training.elegant.polish import StructureTask, polish, unit_scale
from sjepa.training.elegant.reduce import cheaper, without_one
from sjepa.training.elegant.select import NOISE_MULTIPLE
from sjepa.training.elegant.structures import Structure
from sjepa.training.elegant.variants import variants


RATE = 6e-3
# Equations of more terms than this are no laws.
LONGEST = 5
# Stretches of polishing, and the share to which each must lower the risk for another one.
STRETCHES, WORTHWHILE = 5, 0.95
# Laws with a term less or a simpler one that get fresh encoders in the end.
SHORTER = 4


def nonlinear_heads(
    context: SearchContext, linear: Sequence[tuple[LinearEncoder, StructureTask]]
) -> list[tuple[ResidualEncoder, StructureTask]]:
    """Polished nonlinear encoders for the structures that suit them best.

    `linear` are the encoders that the linear search ended with: starting points here.
    """
    generator = torch.Generator().manual_seed(context.seed)
    rungs = _rungs(context)
    found = _halved(context, entries(context, linear, generator), rungs, generator)
    shorter = _shorter(context, found)
    if shorter:
        found += _halved(context, anew(context, shorter, generator), rungs[:3], generator, 1)
    return found


def _halved(
    context: SearchContext,
    restarts: NonlinearRestarts,
    rungs: Sequence[Rung],
    generator: torch.Generator,
    most: int = 3,
) -> list[tuple[ResidualEncoder, StructureTask]]:
    """Fewer and fewer restarts on longer and longer horizons; the best structures, polished.

    Neighbours of good laws join, unless the structures are given and only the fittest is wanted.
    """
    for number, rung in enumerate(rungs):
        risk, reports = climb(restarts, context.train, rung, context.near, generator, context.pool)
        chosen = promote(restarts.structures, risk, reports, rung.keep)
        chosen = chosen or sorted(range(len(restarts)), key=lambda i: risk[i])[: rung.keep]
        line = f"{len(restarts)} nonlinear encoders, horizon {rung.horizon}: best risk "
        context.report(line + f"{min(risk[i] for i in chosen):.2g}", 0.76 + 0.02 * number)
        if number < len(rungs) - 1:
            restarts = (
                _with_children(context, restarts, chosen) if most > 1 else restarts.keep(chosen)
            )
    best: dict[Structure, int] = {}
    for i in sorted(chosen, key=lambda i: risk[i]):
        if not _is_long(restarts.structures[i]):
            best.setdefault(restarts.structures[i], i)
    ranked = list(best.items())[:most]
    if most == 1:  # and the fittest of those that are shorter still
        ranked += [pair for pair in best.items() if pair[0].cost < ranked[0][0].cost][:1]
    heads = [(restarts.head(i), context.task(own)) for own, i in ranked]
    found = []
    for head, task in context.pool.map(partial(polished_pair, context.bare), heads):
        report_law(context, "polished", head, task, 0.83)
        found.append((head, task))
    return found


def _shorter(
    context: SearchContext, found: Sequence[tuple[ResidualEncoder, StructureTask]]
) -> list[Structure]:
    """The fittest laws with a term less, or a simpler one, where that has not been tried.

    They get encoders of their own: coordinates that have bent to suit a term do not bend back.
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


def _rungs(context: SearchContext) -> list[Rung]:
    def rung(steps: int, samples: int, share: float, keep: int, leniency: float) -> Rung:
        far = max(4, round(share * context.horizon))
        return Rung(
            steps=max(5, round(context.budget.effort * steps)),
            batch=max(2, round(samples / context.train.length)),
            horizon=far, keep=keep, leniency=leniency, stride=max(1, far // 8), rate=RATE,
        )  # fmt: skip

    return [
        rung(150, 1200, 0.35, 12, 2.2),
        rung(200, 1200, 0.6, 8, 1.5),
        rung(300, 1200, 1.0, 6, 1.0),
        rung(400, 2000, 1.0, 4, 1.0),
    ]


def _is_long(own: Structure) -> bool:
    """Whether a structure is there for its coordinates only, not as a law."""
    return max(map(len, own.support)) > LONGEST


def _with_children(
    context: SearchContext,
    restarts: NonlinearRestarts,
    chosen: Sequence[int],
) -> NonlinearRestarts:
    """The chosen restarts and, beside them, laws that are proposed in their coordinates."""
    kept, dense = restarts.keep(chosen), dense_structure(context)
    known = set(kept.structures)
    parents: dict[Structure, int] = {}
    for i in chosen:  # those on the front of complexity and risk first
        parents.setdefault(restarts.structures[i], i)
    for own, i in list(parents.items())[:PARENTS]:
        if own == dense:
            for child in gauged(context, restarts, i):
                if child.structures[0] not in known:
                    known.add(child.structures[0])
                    kept = kept.joined(child)
            continue
        task, head = context.task(own), restarts.head(i)
        found = variants(head, task, context.train, CHILDREN * (2 if _is_long(own) else 1))
        new = [s for s in found if s not in known]
        if new:
            known |= set(new)
            kept = kept.joined(restarts.retitled([i] * len(new), new))
    return kept


def polished_pair(
    context: SearchContext, pair: tuple[ResidualEncoder, StructureTask]
) -> tuple[ResidualEncoder, StructureTask]:
    """Quasi-Newton until noise explains what is left, it no longer helps, or the budget ends.

    What helps is seen on validation data: a network goes on fitting the training data for ever.
    """
    head, task = pair
    best, lowest = head, float("inf")
    for _ in range(STRETCHES):
        polish(head, task, context.train, context.budget.polish, context.stride)
        risk = float(task.risk(head, context.train, context.validation).risk)
        worthwhile = risk < WORTHWHILE * lowest
        if risk < lowest:
            best, lowest = deepcopy(head), risk
        floor = noise_floor(head, task, context.validation)
        if risk <= NOISE_MULTIPLE * floor or not worthwhile:
            break
    unit_scale(best, task, context.train)
    return best, task
