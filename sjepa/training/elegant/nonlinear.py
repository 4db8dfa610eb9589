"""Successive halving over nonlinear encoders, for observations that no linear read-out undoes.

Structures grow on the way: what an exact search finds in the coordinates of a promising encoder
joins the next rung with a copy of that encoder. Laws that are sparse only in some affine gauge
(predator and prey, Lorenz) come from encoders for all quadratic terms at once, whose gauge is
then searched.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sjepa.models.encoders import LinearEncoder, ResidualEncoder
from sjepa.symbolic import Library
from sjepa.training.elegant.context import SearchContext
from sjepa.training.elegant.gauge import THRESHOLDS, search_gauge
from sjepa.training.elegant.gauge_moves import GaugeMoves
from sjepa.training.elegant.halving import Rung, evaluate, ladder, promote
from sjepa.training.elegant.noise import noise_floor
from sjepa.training.elegant.nonlinear_restarts import NonlinearRestarts
from sjepa.training.elegant.observed import Observed
from sjepa.training.elegant.polish import StructureTask, polish, unit_scale
from sjepa.training.elegant.select import NOISE_MULTIPLE
from sjepa.training.elegant.starts import starting_readouts
from sjepa.training.elegant.structures import (
    Structure,
    enumerate_structures,
    structure,
    without_constants,
)
from sjepa.training.elegant.subspace import Subspace
from sjepa.training.elegant.variants import variants
from sjepa.training.elegant.velocity import velocity_pairs


RATE = 6e-3
# Cheapest structures that are tried whatever the linear search said, and encoders for all terms.
CHEAPEST, DENSE = 4, 2
# Encoders that propose longer laws after a rung, and laws that each may propose.
PARENTS, CHILDREN = 4, 3
# Linear encoders this many times worse than the best are no starting points.
HOPELESS = 5.0
# Equations of more terms than this are no laws.
LONGEST = 5
# Stretches of polishing, and the share to which each must lower the risk for another one.
SPELLS, WORTHWHILE = 5, 0.95
# Points on which the size of terms is measured when a gauge is searched.
POINTS = 400


def nonlinear_heads(
    context: SearchContext, linear: Sequence[tuple[LinearEncoder, StructureTask]]
) -> list[tuple[ResidualEncoder, StructureTask]]:
    """Polished nonlinear encoders for the structures that suit them best.

    `linear` are the encoders that the linear search ended with: starting points here.
    """
    generator = torch.Generator().manual_seed(context.seed)
    restarts = _entries(context, linear, generator)
    dense = {s for s in restarts.structures if s == _dense(context)}
    rungs = _rungs(context)
    for number, rung in enumerate(rungs):
        train_nonlinear(restarts, context.train, rung, 1.5 * context.near.within, generator)
        risk, reports = evaluate(restarts, context.train, rung, context.near, generator)
        chosen = promote(restarts.structures, risk, reports, rung.keep)
        chosen = chosen or sorted(range(len(restarts)), key=lambda i: risk[i])[: rung.keep]
        line = f"{len(restarts)} nonlinear encoders, horizon {rung.horizon}: best risk "
        context.report(line + f"{min(risk[i] for i in chosen):.2g}", 0.76 + 0.02 * number)
        if number < len(rungs) - 1:
            restarts = _with_children(context, restarts, chosen, dense)
    best: dict[Structure, int] = {}
    for i in sorted(chosen, key=lambda i: risk[i]):
        if not _is_long(restarts.structures[i]):
            best.setdefault(restarts.structures[i], i)
    return [_polished(context, restarts, i) for i in list(best.values())[: rungs[-1].keep]]


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


def _entries(
    context: SearchContext,
    linear: Sequence[tuple[LinearEncoder, StructureTask]],
    generator: torch.Generator,
) -> NonlinearRestarts:
    """What the linear search liked from where it ended, the cheapest structures, all terms."""
    library, d, rank = context.library, context.latent_dim, context.whitening.rank
    warm = _warm(context, linear)
    cheap = enumerate_structures(library, d, CHEAPEST, context.budget.max_terms)
    whole = _dense(context)
    fresh = [s for s in cheap if s not in warm] + ([whole] * DENSE if whole else [])
    starts = starting_readouts(context.modes, rank, d, len(fresh), generator)
    entries = [*warm.items(), *zip(fresh, starts, strict=True), *_second_order(context)]
    structures = [s for s, _ in entries]
    readouts = torch.stack([r for _, r in entries])
    return NonlinearRestarts.from_readouts(library, structures, readouts, context.order, generator)


def _second_order(context: SearchContext) -> list[tuple[Structure, Tensor]]:
    """z1' = z2 with anything polynomial for z2': every planar system can be written so.

    The terms that are needed are picked in the coordinates that come out.
    """
    library, names = context.library, context.library.inputs
    velocity = library.names.index(names[1]) if len(names) == 2 else None
    if context.order != 1 or velocity is None or library.to_dict()["mask"] is not None:
        return []
    every = [p for p, t in enumerate(library.terms) if t.is_polynomial() and t.free_symbols]
    own = structure(library, ((velocity,), tuple(every)))
    return [(own, pair) for pair in velocity_pairs(context.train) for _ in range(2)]


def _warm(
    context: SearchContext, linear: Sequence[tuple[LinearEncoder, StructureTask]]
) -> dict[Structure, Tensor]:
    """Structures with read-outs: the good linear ones, then neighbours of the best of them.

    Neighbours are sought before anything nonlinear is trained, because an encoder that may bend
    soon bends to suit the law it has.
    """
    risks = [float(task.risk(head, context.train, context.train).risk) for head, task in linear]
    order = sorted(range(len(linear)), key=lambda i: risks[i])
    liked = [linear[i] for i in order if risks[i] <= HOPELESS * risks[order[0]]]
    supports = {task.structure.support for _, task in liked}
    warm: dict[Structure, Tensor] = {}
    for head, task in liked:
        # An encoder with an offset needs no constant that a shift of coordinates makes.
        support = task.structure.support
        plain = without_constants(context.library, support)
        if plain == support or plain not in supports:
            warm.setdefault(task.structure, head.linear.weight.detach().T)
    kept = dict(list(warm.items())[: context.budget.finalists])
    for head, task in [pair for pair in liked if pair[1].structure in kept][:PARENTS]:
        for near in variants(head, task, context.train, CHILDREN):
            kept.setdefault(near, head.linear.weight.detach().T)
    return kept


def _is_long(own: Structure) -> bool:
    """Whether a structure is there for its coordinates only, not as a law."""
    return max(map(len, own.support)) > LONGEST


def _dense(context: SearchContext) -> Structure | None:
    """All monomials up to the second degree in every equation, if the library has them."""
    library, names = context.library, context.library.inputs[: context.latent_dim]
    if context.order != 1 or library.to_dict()["mask"] is not None:
        return None
    wanted = [library.terms.index(t) for t in quadratic(names).terms if t in library.terms]
    if len(wanted) < len(quadratic(names)):
        return None
    return structure(library, (tuple(sorted(wanted)),) * context.latent_dim)


def quadratic(names: Sequence[str]) -> Library:
    return Library.polynomial(list(names), 2)


def _with_children(
    context: SearchContext,
    restarts: NonlinearRestarts,
    chosen: Sequence[int],
    dense: set[Structure],
) -> NonlinearRestarts:
    """The chosen restarts and, beside them, laws that are proposed in their coordinates."""
    kept = restarts.keep(chosen)
    known = set(kept.structures)
    parents: dict[Structure, int] = {}
    for i in chosen:  # those on the front of complexity and risk first
        parents.setdefault(restarts.structures[i], i)
    for own, i in list(parents.items())[:PARENTS]:
        if own in dense:
            for child in _gauged(context, restarts, i):
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


@torch.no_grad()
def _law(context: SearchContext, head: nn.Module, task: StructureTask) -> Tensor:
    """The dense law (quadratic terms, d) in the order of the quadratic library."""
    numbers = task.risk(head, context.train, context.train).coefficients[0]  # (d, S)
    library = quadratic(context.library.inputs[: context.latent_dim])
    row = task.structure.support[0]
    order = [row.index(context.library.terms.index(t)) for t in library.terms]
    return numbers[:, order].T.contiguous()


def _gauged(context: SearchContext, restarts: NonlinearRestarts, i: int) -> list[NonlinearRestarts]:
    """The same encoder in the gauges that make its dense law sparse, with those structures."""
    d, task, head = context.latent_dim, context.task(restarts.structures[i]), restarts.head(i)
    library = quadratic(context.library.inputs[:d])
    law = _law(context, head, task)
    with torch.no_grad():
        z = head(context.train.x[context.train.grid.mask])
    z = z[:: max(1, len(z) // POINTS)]
    white, shift = _whitener(z)
    # The law is closed under affine maps, so it is read off again in whitened coordinates.
    features, points = library.torch(), z @ white + shift
    law = torch.linalg.lstsq(features(points), features(z) @ law @ white).solution
    space = Subspace(torch.eye(d, dtype=z.dtype), law, 0.0)
    steps = round(250 * context.budget.effort)
    gauges = search_gauge(space, points, library, restarts=32, steps=steps, seed=context.seed)
    moves = GaugeMoves(space, points, library)
    best = min((moves.improve(g) for g in gauges[:2]), key=moves.score)
    position = [context.library.terms.index(t) for t in library.terms]
    children: dict[Structure, NonlinearRestarts] = {}
    for threshold in THRESHOLDS:
        support = best.support(threshold)
        if all(support):
            own = tuple(tuple(sorted(position[p] for p in row)) for row in support)
            found = structure(context.library, own)
            if found not in children:
                matrix, offset = white @ best.matrix, shift @ best.matrix + best.offset
                child = restarts.mapped(i, matrix, offset)
                children[found] = child.retitled([0], [found])
    return list(children.values())


def _whitener(z: Tensor) -> tuple[Tensor, Tensor]:
    """Matrix and shift that give rows (n, d) zero mean and unit covariance."""
    mean = z.mean(0)
    values, vectors = torch.linalg.eigh((z - mean).T @ (z - mean) / len(z))
    white = vectors / values.clamp_min(1e-12).sqrt()
    return white, -mean @ white


def _polished(
    context: SearchContext, restarts: NonlinearRestarts, i: int
) -> tuple[ResidualEncoder, StructureTask]:
    """Quasi-Newton until noise explains what is left, it no longer helps, or the budget ends."""
    head, task = restarts.head(i), context.task(restarts.structures[i])
    before = float("inf")
    for _ in range(SPELLS):
        risk = polish(head, task, context.train, context.budget.polish, context.stride)
        floor = noise_floor(head, task, context.validation)
        if risk <= NOISE_MULTIPLE * floor or risk > WORTHWHILE * before:
            break
        before = risk
    unit_scale(head, task, context.train)
    context.report(f"polished {task.structure.names(context.library)}", 0.83)
    return head, task


def train_nonlinear(
    restarts: NonlinearRestarts,
    observed: Observed,
    rung: Rung,
    within: float,
    generator: torch.Generator,
) -> None:
    """Adam on the integral form and the penalties, every restart a problem of its own."""
    optimiser = torch.optim.Adam(restarts.parameters, lr=rung.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, rung.rate, total_steps=rung.steps + 1, pct_start=0.2
    )
    horizons = ladder(rung.horizon)
    for _ in range(rung.steps):
        rows = torch.randperm(len(observed), generator=generator)[: rung.batch]
        fit, z = restarts.fit(observed, rows, horizons, rung.stride)
        loss = fit.risk + restarts.penalty(z, observed, rows, within)
        optimiser.zero_grad()
        torch.nan_to_num(loss, nan=0.0, posinf=0.0).sum().backward()
        _clip(restarts.parameters)
        optimiser.step()
        schedule.step()


def _clip(parameters: Sequence[Tensor]) -> None:
    """Gradients of at most unit length for each restart: none may drown the others."""
    grads = [p.grad for p in parameters if p.grad is not None]
    size = torch.stack([g.flatten(1).square().sum(1) for g in grads]).sum(0).sqrt()
    for grad in grads:
        grad.div_(size.clamp_min(1.0).reshape(-1, *[1] * (grad.ndim - 1))).nan_to_num_(0.0)
