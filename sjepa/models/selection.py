"""Which candidate of a front to believe, by free runs through the data; and how far."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sjepa.backend import Problem
from sjepa.backend.rivals import exchanges, extensions
from sjepa.data import Trajectories
from sjepa.data.derivatives import Derivatives, Smoothing
from sjepa.errors import SjepaError
from sjepa.models.free_runs import FreeRun, better, free_run, judge
from sjepa.models.noisy_actions import weighed
from sjepa.models.stretches import Stretches
from sjepa.symbolic import Front, Law
from sjepa.symbolic.front import Candidate


# Laws with more than CRUDE times the lowest loss, and more than FINE above it, are not simulated.
CRUDE, FINE = 10.0, 1e-9
# Fewer stretches do not tell how sure a difference is.
FEW = 6
# Neighbours of the chosen law that are run, and how often the choice may move on.
MOST, ROUNDS = 3, 4
# Free runs of a true law leave 1 to 1.15, as the noise is itself estimated.
ADEQUATE = 1.3
# Odds of less than ten to one, in nats, are no strong evidence (Jeffreys).
UNDECIDED = math.log(10)
# So many terms, the largest so many times what they add up to, are likely an approximation.
CANCELS = ((6, 1.5), (4, 4.0))
# Folds of the stretches, each run with numbers that were fitted to the others.
FOLDS = 4
# Clean laws whose losses are within this factor leave the same; points of a box at which laws
# that differ by this share of their range are apart.
ALIKE, BOX, APART = 2.0, 256, 1e-3
# Without noise a true law leaves next to nothing, and its neighbours need no look.
NOTHING = 0.5


def judge_front(
    front: Front,
    problem: Problem,
    data: Trajectories,
    order: int = 1,
    held: bool = False,
    end: float = math.inf,
    refit: bool = True,
    like: Smoothing | None = None,
    known: Derivatives | None = None,
) -> tuple[Front, str]:
    """The front with a law chosen by free runs, and what is doubtful about it ("" for nothing).

    Data that are too short for such a judgement, and a budget that is spent (at `end` by the
    problem's clock), leave it as it is. Without `refit` laws run with the numbers that they have:
    those that a constraint asks for must not move. `like` is the smoothing of the data, `known` are
    all their derivatives, if there are any.
    """

    def time_left() -> bool:
        return problem.clock() < end

    if not len(front) or not time_left():
        return front, ""
    try:
        stretches = Stretches.of(data, order=order, held=held, like=like, known=known)
        stretches = weighed(stretches, data, front.best(), held)
    except SjepaError:
        return front, ""
    if len(stretches) < FEW:
        return front, ""
    limit = max(CRUDE * min(c.loss for c in front), FINE)
    first = next(i for i, c in enumerate(front) if c.loss <= limit)
    laws, folds = [c.law for c in front.candidates[first:]], FOLDS if refit else 0
    chosen, runs = judge(laws, stretches, folds, time_left)
    rows = list(front.candidates)
    for i, run in enumerate(runs, first):
        rows[i] = replace(rows[i], free_run=float(run.errors.mean()))
    best, run = rows[first + chosen], runs[chosen]
    rivals: list[Law] = []
    if refit and problem.library is not None and run.errors.mean() > NOTHING and time_left():
        best, run, rivals = _nearby(problem, best, run, stretches, time_left)
    # With noise its numbers are nearer to the truth than those of the regression.
    if refit and stretches.noisy:
        refined = problem.candidate(run.law.canonical())
        fits = refined.loss < min((c.loss for c in rows if _before(front, c, best)), default=2.0)
        best = replace(
            refined, certified=best.certified and fits, free_run=float(run.errors.mean())
        )
    rows = [c for c in rows if not same_terms(c, best)] + [best]
    rows.sort(key=lambda c: (front.complexity(c), c.loss))
    return replace(front, candidates=tuple(rows), chosen=rows.index(best)), _doubt(run, rivals)


def _nearby(
    problem: Problem,
    best: Candidate,
    run: FreeRun,
    stretches: Stretches,
    time_left: Callable[[], bool],
) -> tuple[Candidate, FreeRun, list[Law]]:
    """Move to neighbouring structures as long as they run better; and those that run as well."""

    def runs(laws: list[Law]) -> list[tuple[Law, FreeRun]]:
        return [(one, free_run(one, stretches)) for one in laws[:MOST] if time_left()]

    for _ in range(ROUNDS):
        tried = runs(exchanges(problem, best.law))
        wider = runs(extensions(problem, best.law))
        won = [t for t in tried if t[1].errors.mean() < run.errors.mean()]
        won += [t for t in wider if better(t[1].errors, run.errors)]
        if not won:
            own = best.law.skeleton[0]  # another number inside a term is no other law
            others = [(one, r) for one, r in tried if one.skeleton[0] != own]
            return best, run, [one for one, r in others if _nats(run, r) < UNDECIDED]
        found, run = min(won, key=lambda t: float(t[1].errors.mean()))
        best = problem.candidate(found)
    return best, run, []


def _nats(run: FreeRun, other: FreeRun) -> float:
    """How much likelier one law makes the data than another with as many numbers."""
    unit = 2 * min(run.fitted, other.fitted)
    return float(other.squares.sum() - run.squares.sum()) / max(unit, 1e-300)


def _before(front: Front, one: Candidate, other: Candidate) -> bool:
    return front.complexity(one) < front.complexity(other)


def same_terms(one: Candidate, other: Candidate) -> bool:
    """Whether two laws of the same outputs differ in their numbers alone."""
    return all(
        len(a.pairs) == len(b.pairs) and {t for _, t in a.pairs} == {t for _, t in b.pairs}
        for a, b in zip(one.law.equations, other.law.equations, strict=True)
    )


def _doubt(run: FreeRun, rivals: list[Law]) -> str:
    error = float(run.errors.mean())
    if error > ADEQUATE:
        error = min(run.fitted, error)
    if error > ADEQUATE:
        return missed(error)
    return undecided(rivals[0]) if rivals else ""


def imitates(law: Law, problem: Problem) -> str:
    """Whether an equation is a long sum whose parts cancel, as series for something else are."""
    places = {t: i for i, t in enumerate(problem.candidate_library.terms)}
    sums = problem.sums
    for j, (output, equation) in enumerate(zip(law.outputs, law.equations, strict=True)):
        row = equation.pairs
        limit = next((c for many, c in CANCELS if len(row) >= many), math.inf)
        if limit == math.inf or not all(t in places for _, t in row):
            continue
        sizes = [c**2 * sums.xx[places[t], places[t]] for c, t in row]
        if max(sizes) > limit**2 * sums.yy[j]:
            return (
                f"The equation of {output} has {len(row)} terms that nearly cancel: it may imitate "
                "a shorter law with other terms; give a wider library."
            )
    return ""


def twin(best: Candidate, problem: Problem, x: np.ndarray) -> str:
    """Whether a law that is no longer leaves as little of clean data, and differs elsewhere.

    Elsewhere is between the least and largest of the inputs `x` (n, d), off the paths.
    """
    box = np.random.default_rng(0).uniform(x.min(axis=0), x.max(axis=0), (BOX, x.shape[1]))
    own, values = np.array(best.losses), best.law.numpy()(box)
    for other in exchanges(problem, best.law)[:MOST]:
        apart = np.abs(other.numpy()(box) - values).max(axis=0) > APART * np.ptp(values, axis=0)
        if apart.any() and (problem.losses(other) <= ALIKE * own).all():
            return undecided(other)
    return ""


def missed(error: float) -> str:
    return (
        f"Free runs of the chosen law miss the data by {error**0.5:.2g} times the noise: "
        "a term is missing or wrong, or a state is not measured; widen the library, try order=2 or "
        "lags=1, or give more data."
    )


def undecided(rival: Law) -> str:
    text = "; ".join(rival.lines(digits=3))
    return f"The data cannot tell the chosen law from {text}: give more or cleaner data."
