"""The end of a search: every candidate is scored on the observations, the best is refined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from sjepa.data import Trajectories
from sjepa.errors import ConfigError, TrainingDiverged
from sjepa.inference.coordinates import Encode, Observations
from sjepa.inference.evidence import Adequacy
from sjepa.inference.score import Fit, Scores
from sjepa.metrics.diagnostics import Diagnostic, diagnose_hidden, diagnose_latents, times_noise
from sjepa.metrics.shortcuts import CollapseChecks, CollapseReport
from sjepa.models.encoders import LinearEncoder
from sjepa.symbolic import Candidate, Front, Library
from sjepa.symbolic.verdict import Verdict
from sjepa.training.joint.context import SearchContext
from sjepa.training.joint.refinement import StructureTask, canceling, noise_floor
from sjepa.training.joint.result import JointCandidate, SearchResult
from sjepa.training.joint.rollout_refinement import (
    RolloutLoss,
    coefficients_of,
    law_of,
    refine_by_rollouts,
    states,
)
from sjepa.training.joint.structures import Symmetry, structure
from sjepa.training.joint.whitened_trajectories import Observed
from sjepa.training.judge import adequacy, judge, score


# Points that the checks of coordinates look at.
POINTS = 2000
# Rollouts go this much further than the horizon of the search.
FURTHER = 1.35


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


@dataclass(eq=False)
class Judge:
    """Scores of candidates on held-out observations, and whether their residuals are noise."""

    context: SearchContext
    fits: dict[int, tuple[JointCandidate, Fit]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        train, whole = self.context.train, self.context.whole
        self.evidence = Observations(
            _trajectories(train), _trajectories(whole), self.context.order, bool(whole.grid.zoh)
        )

    def fit(self, one: JointCandidate) -> Fit | None:
        """None where no simulation can tell."""
        if id(one) not in self.fits:
            fit = score(self.evidence, _encode(one), one.law, one.candidate.terms)
            if fit is None:
                return None
            self.fits[id(one)] = one, fit
        return self.fits[id(one)][1]

    def scores(self, found: Sequence[JointCandidate], best: JointCandidate | None = None) -> Scores:
        fits = [fit for one in found if (fit := self.fit(one)) is not None]
        return Scores(tuple(fits), None if best is None else self.fit(best))

    def owner(self, fit: Fit) -> JointCandidate:
        return next(one for one, other in self.fits.values() if other is fit)

    def verdict(
        self, best: JointCandidate, found: Sequence[JointCandidate], given: Adequacy | None = None
    ) -> Verdict:
        """The verdict of inference, and what the checks of coordinates say to explain it."""
        if given is not None:  # nothing is to be compared
            return Verdict(best.law, given.adequate, (), (given.reason,))
        if self.fit(best) is None:  # nothing can be compared
            tested = adequacy(self.evidence, _encode(best), best.law, exact=False)
            verdict = Verdict(best.law, tested.adequate, (), (tested.reason,))
        else:
            scores = self.scores([best, *found], best)
            verdict = judge(self.evidence, _encode(best), best.law, scores, exact=False)
        reasons = list(verdict.reasons)
        if verdict.adequate is not True:
            reasons += map(_sentence, _diagnose(self.context, best))
        hidden = verdict.adequate is False and self.context.order == 1
        if hidden and self.context.validation.noise is None:
            whole, ahead = self.context.whole, self.context.horizon
            found_hidden = diagnose_hidden(whole.raw, whole.grid.mask, ahead, whole.grid.u)
            reasons += map(_sentence, found_hidden)
        return replace(verdict, reasons=tuple(reasons))


def _sentence(one: Diagnostic) -> str:
    return one.sentence[:1].upper() + one.sentence[1:]


def _encode(one: JointCandidate) -> Encode:
    head = head_of(one.encoder)

    def encode(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(head(torch.as_tensor(x)).double().numpy())

    return encode


def _trajectories(seen: Observed) -> Trajectories:
    lengths = seen.grid.mask.sum(1).tolist()

    def cut(values: Tensor) -> list[np.ndarray]:
        return [own[:n].double().numpy() for own, n in zip(values, lengths, strict=True)]

    u = seen.grid.u
    return Trajectories(
        cut(seen.x), cut(seen.grid.times), None if u is None else cut(u), gaps="keep"
    )


def conclude(
    context: SearchContext,
    found: Sequence[JointCandidate],
    delta: float | str,
    delta_roll: float | None,
    select: str | None = None,
) -> SearchResult:
    """Choose the candidate of the highest score, or the simplest within a given `delta`."""
    limit = given_delta(delta)
    found = [f for f in found if math.isfinite(f.candidate.loss)]
    if not found:
        raise TrainingDiverged(
            "No law of the library has a finite error on these data; leave out terms with poles, "
            "such as quotients and logarithms, or rescale the data."
        )
    found = sorted(found, key=lambda f: f.candidate.loss)
    judge, notes = Judge(context), list[str]()
    scores = judge.scores(found)
    best = judge.owner(scores.best) if scores.fits else found[0]
    holdout = RolloutLoss(context.validation, context.horizon, context.order)
    within = found
    if delta_roll is not None:
        within = [f for f in found if _rollout(holdout, f) <= delta_roll]
        if not within:
            notes.append(f"No candidate reaches a rollout loss of {delta_roll:g}.")
    if limit is not None and select != "mdl":
        best = _simplest_within(within or found, limit)
    elif delta_roll is not None and within:
        best = judge.owner(judge.scores(within).best)
    context.report(f"refining {'; '.join(best.law.lines(digits=3))}", 0.96, best.candidate)
    choices = [best]
    if limit is None and delta_roll is None:
        symmetry = Symmetry(context.library, context.latent_dim, context.actions)
        choices += _parts(judge, symmetry, best, found)
    refined = [_refined(context, judge, one) for one in choices]
    final = judge.scores(refined)
    fits = [judge.fit(one) for one in refined]
    chosen = fits.index(final.best) if final.fits else 0
    front, rows = _front(judge, scores, found, choices[chosen])
    best = refined[chosen]
    given = None
    if limit is not None:
        loss = best.candidate.loss
        given = Adequacy(
            loss <= limit,
            f"The unexplained variance of the increments is {loss:.2g}, "
            f"{'within' if loss <= limit else 'more than'} the given delta of {limit:g}.",
        )
    equal = [] if scores.fits == () else [judge.owner(f) for f in scores.fits]
    others = _others(context, judge, best, equal)
    verdict = judge.verdict(best, others, given)
    seen = RolloutLoss(context.train, context.horizon, context.order)
    rollouts = _rollout(holdout, best), _rollout(seen, best)
    notes.append(
        f"rollout error: {rollouts[0]:.2g} of the variance of the coordinates on held-out "
        f"trajectories, {rollouts[1]:.2g} in training"
    )
    floor = noise_floor(head_of(best.encoder), _own_task(context, best), context.validation)
    left = candidate_losses(context, best, context.train)
    training = sum(left) / len(left)
    notes.append(
        f"unexplained variance of the increments (1 - R²): {best.candidate.loss:.2g} on "
        f"held-out trajectories, {times_noise(best.candidate.loss, floor)}, and {training:.2g} in "
        "training"
    )
    if not best.linear:
        notes.append("the encoder is nonlinear: it and the law are valid on the training range.")
    if verdict.adequate is not False:
        notes = [*verdict.reasons, *notes]
    context.report("done", 1.0)
    likely = {rival.law for rival in verdict.rivals}
    rivals = tuple(f for f in others if f.law in likely)
    return SearchResult(
        replace(front, notes=tuple(notes)), rows, best, context.order, floor, verdict, training,
        *rollouts, rivals, tuple(notes),
    )  # fmt: skip


def given_delta(delta: float | str) -> float | None:
    if delta == "auto":
        return None
    try:
        value = float(delta)
    except (TypeError, ValueError):
        raise ConfigError(f"delta is a number or 'auto', got {delta!r}.") from None
    if not value > 0:
        raise ConfigError(f"delta must be positive, got {value}.")
    return value


def _simplest_within(found: Sequence[JointCandidate], delta: float) -> JointCandidate:
    """The cheapest candidate within delta, or the one that fits best."""
    reached = [f for f in found if f.candidate.loss <= delta * (1 + 1e-9)]
    return min(
        reached or found, key=lambda f: (f.candidate.terms if reached else 0, f.candidate.loss)
    )


def _front(
    judge: Judge, scores: Scores, found: Sequence[JointCandidate], best: JointCandidate
) -> tuple[Front, tuple[JointCandidate, ...]]:
    """Candidates that no simpler one has a higher score than, and their encoders.

    Each structure once: restarts that came to the same law are no other law.
    """
    kept: list[JointCandidate] = []
    rows: list[Candidate] = []
    highest = -math.inf
    structures = {best.law.skeleton[0]}
    for one in sorted(found, key=lambda f: (f.candidate.terms, f.candidate.loss)):
        if one is not best and one.law.skeleton[0] in structures:
            continue
        fit = judge.fit(one)
        score = -math.inf if fit is None else scores.score(fit)
        if one is not best and not score > highest:
            continue
        highest = max(highest, score)
        row = one.candidate
        if fit is not None:
            row = replace(
                row, evidence=-scores.lead(fit), standard_error=scores.standard_error(fit)
            )
        structures.add(one.law.skeleton[0])
        kept.append(one)
        rows.append(row)
    front = Front(tuple(rows), "terms", "joint", chosen=kept.index(best))
    return front, tuple(kept)


def _others(
    context: SearchContext, judge: Judge, best: JointCandidate, found: Sequence[JointCandidate]
) -> list[JointCandidate]:
    """The best of each other structure.

    A law that renames coordinates, shifts them, or adds terms to the best one is not another.
    """
    symmetry = Symmetry(context.library, context.latent_dim, context.actions)
    scores, fittest = judge.scores(found), dict[object, JointCandidate]()
    for fit in sorted(scores.fits, key=scores.score, reverse=True):
        one = judge.owner(fit)
        if not symmetry.contains(one.structure, best.structure):
            fittest.setdefault(symmetry.law(one.structure.support), one)
    return list(fittest.values())


def _parts(
    judge: Judge, symmetry: Symmetry, best: JointCandidate, found: Sequence[JointCandidate]
) -> list[JointCandidate]:
    """The best candidate of each length among the shorter laws that the chosen one contains.

    A term may make up for coordinates that are not refined yet, as a constant does for an origin.
    """
    scores, fittest = judge.scores(found), dict[float, JointCandidate]()
    for fit in sorted(scores.fits, key=scores.score, reverse=True):
        one = judge.owner(fit)
        shorter = one.candidate.terms < best.candidate.terms
        if shorter and symmetry.contains(best.structure, one.structure):
            fittest.setdefault(one.candidate.terms, one)
    return list(fittest.values())


def _refined(context: SearchContext, judge: Judge, best: JointCandidate) -> JointCandidate:
    """Encoder and coefficients by rollouts over the longest horizon, where the score gains by it.

    The coefficients are those of simulations: noise in the states does not bias them.
    """
    choices = [best]
    if context.budget.rollout:
        head, far = deepcopy(head_of(best.encoder)), int(FURTHER * context.horizon)
        law, _ = refine_by_rollouts(
            head, best.law, context.train, far, context.order, context.budget.rollout
        )
        moved = replace(best.candidate, law=law)
        choices.append(replace(best, candidate=moved, encoder=context.encoder(head)))
    scores = judge.scores(choices)
    if not scores.fits:
        return best
    one = judge.owner(scores.highest)
    fitted = replace(one, candidate=replace(one.candidate, law=scores.highest.law))
    try:
        losses = candidate_losses(context, fitted, context.validation)
    except (ValueError, IndexError):  # a coefficient of zero is no term
        return one
    result = replace(fitted, candidate=Candidate.score(fitted.law, losses, context.library))
    judge.fits[id(result)] = result, scores.highest
    return result


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
def candidate_losses(
    context: SearchContext, one: JointCandidate, observed: Observed
) -> list[float]:
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


def head_of(encoder: nn.Module) -> nn.Module:
    assert isinstance(encoder, nn.Sequential)
    return encoder[1]
