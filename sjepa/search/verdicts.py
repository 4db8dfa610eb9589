"""The verdict on the chosen law, from its scores beside the others' and the test of adequacy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sjepa.data import Trajectories
from sjepa.inference.causes import cause_of, is_moved
from sjepa.inference.constants import EXACT
from sjepa.inference.evidence import Adequacy, Regression, Simulation
from sjepa.inference.noise import resolution
from sjepa.inference.score import Scores
from sjepa.inference.segments import Segments
from sjepa.inference.shooting import shoot
from sjepa.search.ranking import best_of
from sjepa.symbolic import Front, Law
from sjepa.symbolic.known import with_known
from sjepa.symbolic.verdict import Domain, Rival, Verdict


# Laws of either kind beside which a cause is looked for.
BESIDE = 3


def validated(front: Front, data: Trajectories, order: int, zoh: bool) -> Front:
    """The front with scores and a verdict by simulations through data that it was not fitted to."""
    segments = Segments.of(data, order=order, zoh=zoh)
    evidence = Simulation(segments, lambda law: front.complexity(known[law]), refit=False)
    known = {c.law: c for c in front}
    scores = Scores(tuple(evidence.fit(c.law) for c in front))
    best = known[best_of(evidence.fits)]
    rows = [
        replace(
            c,
            evidence=-scores.lead(evidence.fit(c.law)),
            standard_error=scores.standard_error(evidence.fit(c.law)),
        )
        for c in front
    ]
    verdict = verdict_of(best.law, scores, evidence.adequacy(best.law))
    kept = front.intervals if best is front.best_candidate() else ()
    return replace(
        front, candidates=tuple(rows), chosen=front.candidates.index(best), intervals=kept,
        verdict=verdict,
    )  # fmt: skip


def with_cause(
    verdict: Verdict, law: Law, front: Front, evidence: Simulation | Regression,
    segments: Segments, whole: Callable[[Law], Law], time_left: Callable[[], bool],
) -> Verdict:  # fmt: skip
    """The verdict with what acts beside the law, where that explains the residuals far better.

    It is looked for beside the chosen law, other laws that were simulated, and simpler ones of the
    front; `whole` gives these all states and inputs.
    """
    shots = dict(evidence.shots) if isinstance(evidence, Simulation) else {}
    chosen = shots.get(law) or shoot(law, segments)
    # What is left of exact data is the error of solvers, which follows the state.
    if (chosen.unexplained <= EXACT).all() or not is_moved(chosen, time_left):
        return verdict
    simulated: list[Law] = []
    for other in sorted(shots, key=lambda one: evidence.fits[one].complexity):
        if not simulated or evidence.fits[other].total > evidence.fits[simulated[-1]].total:
            simulated.append(other)
    known = {one.skeleton[0] for one in shots}
    others = [one for one in map(whole, (c.law for c in front)) if one.skeleton[0] not in known]
    every = max(1, -(-len(simulated) // BESIDE))
    beside = [one for one in simulated[::every] if one != law] + others[:BESIDE]
    fits = [(chosen, evidence.complexity(law))]
    for one in beside:
        if time_left():
            fits.append((shots.get(one) or shoot(one, segments), evidence.complexity(one)))
    cause = cause_of(fits, time_left)
    if cause is None:
        return verdict
    figures = {**verdict.figures, "cause_lead": cause.lead}
    # A random walk has a law of its mean, which may be this one.
    adequate = None if cause.name == "walk" and verdict.adequate is not False else False
    reasons = (cause.sentence, *verdict.reasons)
    return replace(verdict, adequate=adequate, reasons=reasons, figures=figures)


def verdict_of(law: Law, scores: Scores, adequacy: Adequacy, known: Law | None = None) -> Verdict:
    """Of a law that was found beside a `known` part; the sentences speak of whole laws."""
    chosen = scores.best
    near = {fit.law.skeleton[0]: fit for fit in reversed(scores.rivals)}
    near.pop(chosen.law.skeleton[0], None)
    rivals = tuple(
        Rival(fit.law, math.exp(scores.lead(fit))) for fit in sorted(near.values(), key=scores.lead)
    )
    reasons, adequate = [adequacy.reason], adequacy.adequate
    if (better := scores.decisive) is not None:
        adequate = None if adequate else adequate
        text = "; ".join(with_known(known, better.law).lines(digits=3))
        reasons.append(f"Terms outside the library explain the data far better: {text}.")
    elif rivals:
        if adequate and scores.probability < 0.5:
            adequate = None
        text = "; ".join(with_known(known, rivals[0].law).lines(digits=3))
        more = "" if len(rivals) == 1 else f" and {len(rivals) - 1} more"
        reasons.append(
            f"The data do not decide against {text} (odds {rivals[0].odds:.2g} to 1){more}."
        )
    figures = {
        "correlation_time": scores.correlation_time,
        "laws_compared": float(len(scores.fits)),
        "probability": scores.probability,
    }
    if adequacy.p_value is not None:
        figures["p_value"] = adequacy.p_value
    return Verdict(law, adequate, rivals, tuple(reasons), figures)


def domain_of(data: Trajectories, segments: Segments, scale: np.ndarray | float) -> Domain:
    """Where a law was compared with data, whose noise is `scale` (d,) in the segments' units."""
    durations = [float(t[-1] - t[0]) for t in data.t]
    low, high = _ranges(data, segments)
    return Domain(
        tuple(low), tuple(high), tuple((segments.unit * scale).tolist()),
        float(np.median(durations)), int(np.median(data.lengths)),
    )  # fmt: skip


def rounding_reason(data: Trajectories) -> str:
    steps = zip(data.names or (), resolution(data.x), strict=False)
    digits = ", ".join(f"{name} to {step:.3g}" for name, step in steps if step > 0)
    return f"The readings are rounded as coarsely as their noise ({digits})."


def _ranges(data: Trajectories, segments: Segments) -> tuple[list[float], list[float]]:
    """Least and largest values of states, velocities of second-order laws, and inputs."""
    x = np.concatenate(data.x)
    low, high = [x.min(axis=0)], [x.max(axis=0)]
    if segments.start.shape[1] > x.shape[1]:
        low.append(-2 * segments.speed)
        high.append(2 * segments.speed)
    if data.u is not None:
        u = np.concatenate(data.u)
        low.append(u.min(axis=0))
        high.append(u.max(axis=0))
    return np.concatenate(low).tolist(), np.concatenate(high).tolist()
