"""The verdict on the chosen law, from its scores beside the others' and the test of adequacy."""

from __future__ import annotations

import math
from dataclasses import replace

from sjepa.data import Trajectories
from sjepa.inference.evidence import Adequacy, Simulation
from sjepa.inference.score import Scores
from sjepa.inference.segments import Segments
from sjepa.search.choice import best_of
from sjepa.symbolic import Front, Law
from sjepa.symbolic.known import with_known
from sjepa.symbolic.verdict import Rival, Verdict


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
