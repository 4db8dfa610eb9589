"""The finalists: promising encoders refined, their laws extended and shortened, then scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor, nn

from sjepa.metrics.diagnostics import MAX_ROLLOUT_ERROR, RESIDUAL, largest_residual
from sjepa.models.encoders import LinearEncoder
from sjepa.models.polynomials import PolynomialEncoder
from sjepa.symbolic.front import EXACT
from sjepa.training.joint.conclude import scored
from sjepa.training.joint.context import SearchContext
from sjepa.training.joint.levenberg import refine_encoder
from sjepa.training.joint.refinement import (
    Head,
    StructureTask,
    linear_head,
    noise_floor,
    unit_scale,
)
from sjepa.training.joint.rollout_refinement import RolloutLoss, law_of
from sjepa.training.joint.structure_moves import proposals, reductions
from sjepa.training.joint.structures import Structure, structure
from sjepa.training.joint.successive_halving import Survivor


# Laws longer than this many units of complexity for each coordinate ask for better coordinates.
LONG = 4.5
# Risks up to this multiple of the noise floor are not told apart.
NOISE_MULTIPLE = 1.5


def lacking(
    context: SearchContext,
    heads: Sequence[tuple[LinearEncoder, StructureTask]],
    long: float = LONG,
) -> bool:
    """Whether linear encoders are inadequate, or adequate only with a long law or a shortcut."""
    short = [p for p in heads if p[1].structure.cost <= long * context.latent_dim]
    good = (pair for pair in short if enough(context, *pair))
    return not any(scored(context, task, head).check_report.passed for head, task in good)


def enough(context: SearchContext, head: Head, task: StructureTask) -> bool:
    """Whether the residual of a law on held-out data is near the noise floor."""
    floor = noise_floor(head, task, context.validation)
    linear = isinstance(head, LinearEncoder)
    limit = largest_left(floor) if linear else largest_residual(floor, False)
    fit = task.risk(head, context.train, context.validation)
    if linear or float(fit.risk) > limit:
        return float(fit.risk) <= limit
    law = law_of(
        context.library, task.structure.support, fit.coefficients[0], context.order, context.actions
    )
    holdout = RolloutLoss(context.validation, context.horizon, context.order)
    with torch.no_grad():
        return float(holdout(head, law.torch(trainable=False).double())) <= MAX_ROLLOUT_ERROR


def largest_left(floor: float) -> float:
    """Largest residual of a linear encoder before nonlinear ones are tried, for a noise floor.

    One that is adequate, but only just, is still worth a better one.
    """
    return max(RESIDUAL, 2 * NOISE_MULTIPLE * floor)


def refined_encoders(
    context: SearchContext, promote: Sequence[Survivor]
) -> list[tuple[LinearEncoder, StructureTask]]:
    """All survivors of the most promising structures, refined: which is best shows afterwards."""
    structures = list(dict.fromkeys(survivor.structure for survivor in promote))
    chosen = [s for s in promote if s.structure in structures[: context.budget.finalists]]
    heads = [(padded(context, own.readout), context.task(own.structure)) for own in chosen]
    found = []
    for i, (head, task) in enumerate(_improved(context, heads)):
        share = 0.5 + 0.25 * (i + 1) / len(chosen)
        report_law(context, "refined", head, task, share)
        found.append((head, task))
    return found


def padded(context: SearchContext, readout: Tensor) -> LinearEncoder:
    """An encoder of all components from a read-out of the leading ones."""
    missing = context.whitening.rank - len(readout)
    return linear_head(nn.functional.pad(readout, (0, 0, 0, missing)))


def warm_started(
    context: SearchContext, begun: Sequence[tuple[LinearEncoder, Structure]]
) -> list[tuple[LinearEncoder, StructureTask]]:
    """Structures warm-started from the encoders they were found with, refined."""
    pairs = [(deepcopy(head), context.task(own)) for head, own in begun]
    return list(_improved(context, pairs))


def companion_form(
    context: SearchContext,
    starts: Sequence[Tensor],
    known: Sequence[Structure],
    max_proposals: int = 6,
) -> list[tuple[LinearEncoder, StructureTask]]:
    """Laws in companion form: a coordinate and its derivatives, the last of which has a law."""
    library, found = context.library, []
    names = library.names
    chain = [str(name) for name in library.inputs[: context.latent_dim]]
    if context.order != 1 or not set(chain) <= set(names):
        return []
    rows = tuple((names.index(name),) for name in [*chain[1:], chain[0]])
    seen = set(known)
    for start in starts:
        # Whitened observations hold what is signal of a read-out.
        white, unit = context.whitening.directions.double(), context.whitening.unit.double()
        head = linear_head(torch.linalg.pinv(white) @ (unit[:, None] * start))
        for own in proposals(
            head, context.task(structure(library, rows)), context.train, max_proposals
        ):
            if own not in seen:
                seen.add(own)
                found.append((deepcopy(head), context.task(own)))
    return list(_improved(context, found))


def extend(
    context: SearchContext, heads: Sequence[tuple[LinearEncoder, StructureTask]], rounds: int = 2
) -> list[tuple[LinearEncoder, StructureTask]]:
    """Structures that an exact search proposes in the coordinates that fit best so far.

    Nothing is proposed once noise explains what is left.
    """
    known = {task.structure for _, task in heads}
    longer: list[tuple[LinearEncoder, StructureTask]] = []
    for _ in range(rounds):
        head, task = min([*heads, *longer], key=lambda pair: validation_risk(context, *pair))
        floor = noise_floor(head, task, context.validation)
        # Twice that where noise is small and integration errors matter; a term is more.
        noise = NOISE_MULTIPLE * floor + min(NOISE_MULTIPLE * floor, RESIDUAL)
        if validation_risk(context, head, task) <= max(noise, EXACT):
            break
        fresh = [s for s in proposals(head, task, context.train) if s not in known]
        known |= set(fresh)
        begun = [(deepcopy(head), context.task(own)) for own in fresh]
        for pair in _improved(context, begun):
            longer.append(pair)
            report_law(context, "extended to", *pair, 0.76)
        if not fresh:
            break
    return longer


def _improved(
    context: SearchContext, pairs: Sequence[tuple[LinearEncoder, StructureTask]]
) -> Iterator[tuple[LinearEncoder, StructureTask]]:
    return context.pool.map(partial(_improve, context.bare), pairs)


def _improve(
    context: SearchContext, pair: tuple[LinearEncoder, StructureTask]
) -> tuple[LinearEncoder, StructureTask]:
    head, task = pair
    refine_encoder(head, task, context.train, context.budget.refinement, context.stride)
    unit_scale(head, task, context.train)
    return head, task


def report_law(
    context: SearchContext, what: str, head: Head, task: StructureTask, share: float
) -> None:
    """Report a law in one line; one whose coordinates are a shortcut is never the best."""
    if context.tell is None:
        return
    found = scored(context, task, head)
    line = f"{what} {'; '.join(found.law.lines(digits=3))}: residual {found.candidate.loss:.2g}"
    if not found.check_report.passed:
        context.report(f"{line}, failed checks ({', '.join(found.check_report.reasons)})", share)
        return
    floor = noise_floor(head, task, context.validation)
    context.report(line, share, found.candidate, floor)


def validation_risk(context: SearchContext, head: nn.Module, task: StructureTask) -> float:
    """Risk on the validation data of the coefficients that suit the training data best."""
    return float(task.risk(head, context.train, context.validation).risk)


def shortened(
    context: SearchContext, heads: Sequence[tuple[Head, StructureTask]]
) -> list[tuple[Head, StructureTask]]:
    """Shorter structures from the encoders that fit best."""
    max_proposals = 4 if any(isinstance(head, PolynomialEncoder) for head, _ in heads) else 2
    risks = [validation_risk(context, *pair) for pair in heads]
    shorter: list[tuple[Head, StructureTask]] = []
    for i in sorted(range(len(heads)), key=lambda i: risks[i])[:max_proposals]:
        for head, task in reductions(
            *heads[i], context.train, context.budget.refinement, context.stride
        ):
            context.report(f"shortened to {task.structure.names(context.library)}", 0.94)
            unit_scale(head, task, context.train)
            shorter.append((head, task))
    return shorter
