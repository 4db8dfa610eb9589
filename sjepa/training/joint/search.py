"""Search structures and coordinates together: the shortest adequate law and what it moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from sjepa.callbacks import Step
from sjepa.data import Trajectories
from sjepa.metrics.shortcuts import CollapseChecks
from sjepa.models.devices import one_thread
from sjepa.models.encoders import LinearEncoder
from sjepa.symbolic import Library
from sjepa.training.joint.affine_closed import closed_heads, gauged_heads, monomial_heads
from sjepa.training.joint.batched_encoders import Restarts
from sjepa.training.joint.best_candidate import best_candidate, best_candidate_raised
from sjepa.training.joint.budget import SearchBudget
from sjepa.training.joint.checkpoint import load_heads, load_round, save_heads, save_round
from sjepa.training.joint.conclude import (
    POINTS,
    checked,
    conclude,
    given_delta,
    head_of,
    scored,
)
from sjepa.training.joint.context import (
    HALVING_RANK,
    LONGEST,
    Memory,
    SearchContext,
    prepare,
)
from sjepa.training.joint.finalists import (
    companion_form,
    extend,
    lacking,
    padded,
    refined_encoders,
    report_law,
    shortened,
    warm_started,
)
from sjepa.training.joint.initial_subspaces import starting_readouts
from sjepa.training.joint.nonlinear import nonlinear_heads
from sjepa.training.joint.refinement import Head, StructureTask
from sjepa.training.joint.result import SearchResult
from sjepa.training.joint.structures import Structure, enumerate_structures
from sjepa.training.joint.subspace import closed_under_affine_maps
from sjepa.training.joint.successive_halving import Survivor, successive_halving
from sjepa.training.joint.whitened_trajectories import within_range


# How much longer horizons are for nonlinear encoders, which can hide more in a short one.
FURTHER = 1.6


@one_thread()
def joint_search(
    trajectories: Trajectories,
    library: Library,
    latent_dim: int,
    *,
    order: int = 1,
    seed: int = 0,
    budget: SearchBudget | None = None,
    validation: Trajectories | None = None,
    delta: float | str = "auto",
    delta_roll: float | None = None,
    select: str | None = None,
    checks: CollapseChecks | None = None,
    structures: Sequence[Structure] = (),
    rank: int | None = None,
    report: Callable[[Step], None] | None = None,
    memory: Memory | None = None,
    noisier_copy: Trajectories | None = None,
    starts: Sequence[Tensor] = (),
    begun: Sequence[tuple[LinearEncoder, Structure]] = (),
) -> SearchResult:
    """Find coordinates of observations and the simplest adequate law that moves them.

    Many structures are tried at once, each with encoders of its own, on whitened observations;
    the best are refined, those that are shortcuts are refused, and the cheapest whose validation
    risk is within `delta` is refined by rollouts. With all monomials up to some degree as library,
    the subspace is found with the whole library instead, and then the coordinates in it that
    make the law sparse.

    Parameters
    ----------
    trajectories : Trajectories
        Observations of any shape; states, if there are any, are not looked at.
    library : Library
        Terms in the names of the latent coordinates; for ``order=2`` optionally also of their
        velocities, after them.
    latent_dim : int
    order : 1 or 2
        Whether the law gives first or second time derivatives of the coordinates.
    budget : SearchBudget, optional
    validation : Trajectories, optional
        By default a fifth of the trajectories is set aside.
    delta : float or "auto"
        Largest adequate validation risk, as a share of the variance of the increments.
    delta_roll : float, optional
        Largest adequate rollout loss, in units of the variance of the coordinates.
    checks : CollapseChecks, optional
        What makes coordinates admissible.
    structures : structures to try besides the enumerated ones, for instance from a backend's front
        (:func:`sjepa.training.joint.structures_of`)
    rank : int, optional
        Principal components to search in; by default those that are not noise.
    report : callable, optional
        Called at every step, with the law and its residual on held-out data where there is one.
    memory : Memory, optional
        Where restarts between rounds, refined and polynomial encoders are kept, and looked for when
        a search starts again.
    noisier_copy : Trajectories, optional
        The same observations with as much noise again, for a noise floor where roughness in time
        does not show it.
    starts : read-outs (values, d) of observations that are a coordinate and its derivatives
    begun : encoders of whitened observations, and structures that they are refined for as well
    """
    given_delta(delta)  # refused now, not after the search
    arguments = (
        trajectories, library, latent_dim, order, seed, budget or SearchBudget(), validation,
        checks or CollapseChecks(), rank, report,
    )  # fmt: skip
    context = prepare(*arguments, noisier_copy=noisier_copy)
    heads = load_heads(context, memory)
    if not heads and not structures and closed_under_affine_maps(library, latent_dim):
        heads = gauged_heads(context)
        save_heads(heads, memory)
    if not heads:
        # Three coordinates have too many structures for a race, if a gauge makes one of them.
        many = latent_dim > 2 and not structures
        heads = monomial_heads(context, 2) if many else []
        if not heads or lacking(context, heads):
            heads += refined_encoders(context, _survivors(context, structures, memory))
            heads += warm_started(context, begun)
            heads += companion_form(context, starts, [task.structure for _, task in heads])
            heads += extend(context, heads)
            if latent_dim < 3 and not structures and lacking(context, heads):
                heads += closed_heads(_losing(context, heads), heads, degree=3)
        save_heads(heads, memory)
    best: Sequence[tuple[Head, StructureTask]] = heads
    inside = context = _losing(context, heads)
    if context.budget.grow and lacking(context, heads):
        context = prepare(*arguments, reach=FURTHER, noisier_copy=noisier_copy)
        context = _losing(context, heads)
        lead = best_candidate(context, heads)  # linear encoders are judged wherever there are data
        # Polynomials have no bound outside, so there they say nothing of which to try next.
        near = within_range(context.train, context.validation)
        inside = replace(context, validation=near, memory=memory)
        best = [*heads, *(best_candidate_raised(inside, lead) or nonlinear_heads(inside, heads))]
        best = [(head, context.task(task.structure)) for head, task in best]
    quiet = context if context.every == 1 else replace(context, tell=None)
    best = [*best, *shortened(inside, best)]
    found = [scored(context, task, head) for head, task in best]
    result = conclude(quiet, found, delta, delta_roll, select)
    if context.every == 1 or result.verdict.adequate is not False or not result.best.linear:
        return result
    # Errors of quadrature may be what is left.
    linear = [(h, one.structure) for one in (result.best, *result.rivals)
              if isinstance(h := head_of(one.encoder), LinearEncoder)]  # fmt: skip
    whole = replace(context.budget, horizon=LONGEST)
    fine = prepare(*arguments[:5], whole, *arguments[6:], noisier_copy=noisier_copy)
    found = [scored(fine, task, head) for head, task in warm_started(fine, linear)]
    again = conclude(fine, found, delta, delta_roll, select)
    if again.verdict.adequate is False and not again.residual < result.residual:
        return result
    note = f"chosen on one sample in {context.every}, over long horizons; numbers are those of all"
    return replace(again, front=result.front, found=result.found, notes=(*again.notes, note))


def _losing(
    context: SearchContext, heads: Sequence[tuple[LinearEncoder, StructureTask]]
) -> SearchContext:
    """The checks allow for what the best of these encoders lose of the observations."""
    reports = [checked(context, head, context.train, context.near, POINTS) for head, _ in heads]
    losses = [one.neighbor for one in reports if set(one.reasons) <= {"neighbor"}]
    return context.losing(min(losses, default=0.0))


def _survivors(
    context: SearchContext, given: Sequence[Structure], memory: Memory | None
) -> list[Survivor]:
    budget = context.budget
    structures = enumerate_structures(
        context.library, context.latent_dim, budget.structures, budget.max_terms,
        actions=context.actions,
    )  # fmt: skip
    structures += [s for s in given if s not in structures]
    generator = torch.Generator().manual_seed(context.seed)
    entries = [s for s in structures for _ in range(budget.starts)]
    rank = min(context.whitening.rank, HALVING_RANK)
    readouts = starting_readouts(context.modes, rank, context.latent_dim, len(entries), generator)
    restarts = Restarts(context.library, entries, readouts.float(), context.order)
    rounds = budget.rounds(context.horizon, len(entries), context.train.length)
    done, restarts = load_round(context, generator, memory) or (0, restarts)

    def goes_on(done: int, kept: Restarts) -> None:
        save_round(done, kept, generator, memory)
        readout = kept.readouts.detach()[0].double()  # the first one leaves least
        leading = padded(context, readout), context.task(kept.structures[0])
        report_law(context, "leading", *leading, 0.5 * done / len(rounds))

    return successive_halving(
        restarts, context.train.leading(rank), rounds, context.near, generator,
        lambda line, share: context.report(line, 0.5 * share), context.pool, done=done,
        save=goes_on,
    )  # fmt: skip
