"""The end of a search: front, choice and refinement."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace

import torch
from torch import nn

from sjepa.errors import TrainingDiverged
from sjepa.metrics.diagnostics import (
    MAX_ROLLOUT_ERROR,
    NONLINEAR_NOT_NOISE,
    RESIDUAL,
    SMALL,
    Diagnostic,
    diagnose_hidden,
    diagnose_information_loss,
    diagnose_latents,
    diagnose_law,
    diagnose_length,
    diagnose_residual,
    diagnose_rollouts,
    largest_residual,
    small_residual,
    times_noise,
)
from sjepa.metrics.shortcuts import CollapseChecks, CollapseReport, max_information_loss
from sjepa.models.encoders import LinearEncoder
from sjepa.symbolic import Candidate, Library
from sjepa.training.joint.context import SearchContext
from sjepa.training.joint.noise import noise_floor
from sjepa.training.joint.observed import Observed
from sjepa.training.joint.paired_errors import CLEARLY, joint_residual, standard_errors
from sjepa.training.joint.refinement import StructureTask, canceling
from sjepa.training.joint.result import JointCandidate, SearchResult
from sjepa.training.joint.rollout import (
    RolloutLoss,
    coefficients_of,
    law_of,
    refine_by_rollouts,
    states,
)
from sjepa.training.joint.select import (
    NOISE_MULTIPLE,
    adequacy,
    adequacy_limits,
    caveats,
    front_of,
    rivals_of,
    simplest_adequate,
)
from sjepa.training.joint.structures import structure


# Points that the checks of coordinates look at.
POINTS = 2000
# Rollouts go this much further than the horizon of the search.
FURTHER = 1.35
# Noise that coordinates carry is excused up to this multiple of the least that others carry.
HIDDEN = 3.0
# Rollouts may raise the residual of linear coordinates by this factor, where it is worth a word
# at all, and that of nonlinear ones, which can overfit a few trajectories.
WORSE, NONLINEAR_WORSE = 2.0, 1.1


def scored(context: SearchContext, task: StructureTask, head: nn.Module) -> JointCandidate:
    """Score an encoder for a structure on the validation data."""
    fit = task.risk(head, context.train, context.validation)
    law = law_of(
        context.library, task.structure.support, fit.coefficients[0], context.order, context.actions
    )
    candidate = Candidate.score(law, fit.losses[0].tolist(), context.library)
    check_report = checked(context, head, context.whole, context.checks, POINTS)
    # Held-out trajectories may be too few to meet where coordinates fold: the others are not.
    others = checked(context, head, context.train, context.near, POINTS)
    folded = {"neighbor"} & set(others.reasons) - set(check_report.reasons)
    more = (*folded, *canceling(head, task, context.train))
    reasons = (*check_report.reasons, *more)
    check_report = replace(check_report, neighbor=others.neighbor, reasons=reasons)
    linear = isinstance(head, LinearEncoder)
    return JointCandidate(candidate, task.structure, context.encoder(head), check_report, linear)


@torch.no_grad()
def checked(
    context: SearchContext, head: nn.Module, seen: Observed, checks: CollapseChecks, points: int
) -> CollapseReport:
    """What the checks say of an encoder's coordinates."""
    z = states(head(seen.x), seen.grid.times, context.order)
    return checks.check(z, seen.raw, seen.grid.mask, points, seen.grid.u)


def conclude(
    context: SearchContext,
    found: Sequence[JointCandidate],
    delta: float | str,
    delta_roll: float | None,
    select: str | None = None,
) -> SearchResult:
    """Select the simplest adequate candidate, or that of the shortest code, and refine it."""
    notes = []
    found = [f for f in found if math.isfinite(f.candidate.loss)]
    if not found:
        raise TrainingDiverged(
            "No law of the library has a finite error on these data; leave out terms with poles, "
            "such as quotients and logarithms, or rescale the data."
        )
    passed = [f for f in found if f.check_report.passed]
    if not passed:
        notes.append("No candidate passes the checks; the one that fits best is returned.")
        passed = list(found)
    holdout = RolloutLoss(context.validation, context.horizon, context.order)
    max_loss = max_information_loss(f.check_report for f in passed)
    passed = _without_information_loss(context, passed, max_loss, holdout)
    fittest = min(passed, key=lambda f: f.candidate.loss)
    task = context.task(fittest.structure)
    floor = noise_floor(head_of(fittest.encoder), task, context.validation)
    chosen = adequacy(delta, [f.candidate.loss for f in passed], floor)
    limits: list[str] = []
    if delta_roll is not None:
        passing = [f for f in passed if _rollout(holdout, f) <= delta_roll]
        if not passing:
            limits.append(f"No candidate reaches a rollout loss of {delta_roll:g}.")
        passed = passing or passed
    own_floor = _floors(context, passed)
    sound = passed
    if delta == "auto" and not all(one.linear for one in passed):
        # Nonlinear encoders differ in the noise they amplify: no common limit fits them all.
        near = [
            one
            for one in passed
            if one.candidate.loss <= largest_residual(own_floor(one), linear=False)
            and (one.linear or _rollout(holdout, one) <= MAX_ROLLOUT_ERROR)
        ]
        if near:
            sound, chosen = near, adequacy_limits([one.candidate.loss for one in near])
    notes.append(chosen.reason)
    front, rows = front_of(passed, notes)
    worse = _clearly_worse(context, sound, chosen.delta, own_floor) if delta == "auto" else []
    if worse:
        notes.append(
            f"{len(worse)} of the laws within delta have a clearly larger residual than the best"
        )
    best, reached = simplest_adequate([f for f in sound if f not in worse], chosen.delta)
    if select == "mdl":
        count = int(context.validation.grid.mask.sum())
        best = min(passed, key=lambda f: f.law.description_length(f.candidate.loss, count))
        reached = best.candidate.loss <= chosen.delta
        notes.append(f"the shortest code for {count} held-out observations was chosen")
    if not reached:
        notes.append(
            f"No candidate reaches delta; the smallest residual is {best.candidate.loss:.2g}."
        )
    line = f"refining {'; '.join(best.law.lines(digits=3))}"
    kept = best.candidate if best.check_report.passed else None
    context.report(line, 0.96, kept, own_floor(best))
    refined = _refine(context, best, holdout)
    floor = own_floor(refined)
    warnings = (
        diagnose_residual(refined.candidate.loss, floor, refined.linear)
        if delta == "auto"
        else diagnose_law(best.candidate.loss, chosen.delta, floor)
    )
    seen = RolloutLoss(context.train, context.horizon, context.order)
    rollouts = _rollout(holdout, refined), _rollout(seen, refined)
    lost = diagnose_rollouts(*rollouts)
    findings = [*_diagnose(context, refined), *warnings]
    if not refined.linear:
        findings += [*lost, *diagnose_information_loss(refined.check_report.neighbor, max_loss)]
    # Linear encoders need many terms as well to compensate for nonlinear sensors.
    above = refined.candidate.loss > max(RESIDUAL, NONLINEAR_NOT_NOISE * floor)
    if not refined.linear or (delta == "auto" and above):
        findings += diagnose_length(refined.structure.cost, context.latent_dim, context.order)
    adequate = not findings
    if context.order == 1 and context.validation.noise is None and warnings:
        whole = context.whole
        findings += diagnose_hidden(whole.raw, whole.grid.mask, context.horizon, whole.grid.u)
    rivals: tuple[JointCandidate, ...] = ()
    if adequate:
        equals = [f for f in sound if f not in worse]
        rivals = rivals_of(best, equals, chosen.delta, context.library, context.actions)
    notes.append(
        f"rollout error: {rollouts[0]:.2g} of the variance of the coordinates on held-out "
        f"trajectories, {rollouts[1]:.2g} in training"
    )
    left = _losses(context, refined, context.train)
    training = sum(left) / len(left)
    notes.append(
        f"unexplained variance of the increments (1 - R²): {refined.candidate.loss:.2g} on "
        f"held-out trajectories, {times_noise(refined.candidate.loss, floor)}, and "
        f"{training:.2g} in training"
    )
    limits += [finding.sentence for finding in lost if refined.linear]
    limits += caveats(refined, rivals, _by_start(context, refined))
    if adequate and delta == "auto":
        limits += small_residual(refined.candidate.loss, floor)
    context.report("done", 1.0)
    return SearchResult(
        front, rows, refined, context.order, chosen.delta, floor, adequate, training, *rollouts,
        rivals, tuple(findings), tuple(limits), tuple(notes),
    )  # fmt: skip


def _without_information_loss(
    context: SearchContext, found: Sequence[JointCandidate], max_loss: float, holdout: RolloutLoss
) -> list[JointCandidate]:
    """Candidates whose encoder is linear or whose information loss is at most `max_loss`.

    The others are used only if no candidate besides them is adequate, and are flagged then.
    """
    kept = [one for one in found if one.linear or one.check_report.neighbor <= max_loss]
    if len(kept) == len(found) or not kept:
        return list(found)
    floor = _floors(context, found)

    def adequate(one: JointCandidate) -> bool:
        within = one.candidate.loss <= largest_residual(floor(one), one.linear)
        return within and (one.linear or _rollout(holdout, one) <= MAX_ROLLOUT_ERROR)

    alone = not any(map(adequate, kept)) and any(map(adequate, found))
    return list(found) if alone else kept


def _floors(
    context: SearchContext, found: Sequence[JointCandidate]
) -> Callable[[JointCandidate], float]:
    """The noise floor of a law in its own coordinates.

    Nonlinear coordinates that are nearly the same carry much noise, which can hide much: no
    more counts than three times the least that noise leaves in any of the coordinates found.
    """

    def floor(one: JointCandidate) -> float:
        return noise_floor(head_of(one.encoder), _own_task(context, one), context.validation)

    if all(one.linear for one in found):
        return floor
    lowest = min(floor(one) for one in found)
    return lambda one: min(floor(one), HIDDEN * lowest)


def _clearly_worse(
    context: SearchContext,
    found: Sequence[JointCandidate],
    delta: float,
    floor: Callable[[JointCandidate], float],
) -> list[JointCandidate]:
    """The laws within delta that are clearly worse than the best, if only noise is left of that.

    Where noise is large, so is delta, and a term can be missing within it. Integration errors are
    not considered, nor are nonlinear encoders, which overfit a few trajectories.
    """

    def score(one: JointCandidate, holdout: Observed) -> float:
        task = _own_task(context, one)
        numbers = coefficients_of(one.law, task.library, task.structure.support)
        return joint_residual(head_of(one.encoder), task, numbers, holdout)

    near = [one for one in found if one.linear and one.candidate.loss <= delta]
    if not near:
        return []
    scores = {id(one): score(one, context.validation) for one in near}
    best = min(near, key=lambda one: scores[id(one)])
    if best.candidate.loss > NOISE_MULTIPLE * floor(best):
        return []
    return [
        one
        for one in near
        if scores[id(one)] - scores[id(best)] > RESIDUAL
        and standard_errors(score, one, best, context.validation) > CLEARLY
    ]


def _refine(context: SearchContext, best: JointCandidate, holdout: RolloutLoss) -> JointCandidate:
    """Encoder and coefficients by rollouts over the longest horizon the data allow."""
    if not context.budget.rollout:
        return best
    head = deepcopy(head_of(best.encoder))
    far = int(FURTHER * context.horizon)
    law, _ = refine_by_rollouts(
        head, best.law, context.train, far, context.order, context.budget.rollout
    )
    moved = replace(best.candidate, law=law)
    refined = replace(best, candidate=moved, encoder=context.encoder(head))
    losses = _losses(context, refined, context.validation)
    candidate = Candidate.score(law, losses, context.library)
    refined = replace(refined, candidate=candidate)
    before = best.candidate.loss
    limit = WORSE * max(before, SMALL) if best.linear else NONLINEAR_WORSE * before
    # Said so that what is not a number is never accepted.
    better = candidate.loss <= limit and _rollout(holdout, refined) <= _rollout(holdout, best)
    return refined if better else best


def _own_task(context: SearchContext, one: JointCandidate) -> StructureTask:
    """The task of a law, whose nonlinear parameters may differ from those of the library."""
    library = context.library
    if not library.has_numbers:
        return context.task(one.structure)
    terms = list(dict.fromkeys(term for row in one.law.terms for _, term in row))
    own = Library(terms, library.inputs, canonical=False)
    support = tuple(tuple(terms.index(term) for _, term in row) for row in one.law.terms)
    return replace(context.task(one.structure), library=own, structure=structure(own, support))


@torch.no_grad()
def _losses(context: SearchContext, one: JointCandidate, observed: Observed) -> list[float]:
    """What a law with its own coefficients leaves of each coordinate's changes."""
    task, head = _own_task(context, one), head_of(one.encoder)
    numbers = coefficients_of(one.law, task.library, task.structure.support)
    losses = task.fit(task.features, head(observed.x), observed, numbers[None]).losses[0]
    return [float(loss) for loss in losses]


@torch.no_grad()
def _diagnose(context: SearchContext, best: JointCandidate) -> list[Diagnostic]:
    """Shortcuts on held-out trajectories, and folds where all the others are."""

    def seen(observed: Observed, checks: CollapseChecks) -> list[Diagnostic]:
        z = states(head_of(best.encoder)(observed.x), observed.grid.times, context.order)
        return diagnose_latents(z, observed.raw, observed.grid.mask, checks, observed.grid.u)

    found = seen(context.whole, context.checks)
    return found or [one for one in seen(context.train, context.near) if one.name == "folding"]


@torch.no_grad()
def _rollout(loss: RolloutLoss, found: JointCandidate) -> float:
    return float(loss(head_of(found.encoder), found.law.torch(trainable=False).double()))


@torch.no_grad()
def _by_start(context: SearchContext, found: JointCandidate) -> tuple[float, float]:
    """Rollout losses from the quarter of held-out starts that is farthest out, and the others."""
    z = head_of(found.encoder)(context.validation.x)[:, 0]
    spread = z.std(0, correction=0).clamp(min=1e-300)  # there may be one start only
    order = ((z - z.mean(0)) / spread).norm(dim=1).argsort()
    cut = len(order) - max(1, len(order) // 4)
    if cut < 1:
        return 0.0, 0.0
    parts = (context.validation.pick(rows) for rows in (order[cut:], order[:cut]))
    wide, near = (_rollout(RolloutLoss(p, context.horizon, context.order), found) for p in parts)
    return wide, near


def head_of(encoder: nn.Module) -> nn.Module:
    assert isinstance(encoder, nn.Sequential)
    return encoder[1]
