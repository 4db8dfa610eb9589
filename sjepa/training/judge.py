"""The verdict on an encoder with its law, the same for every way of learning them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from sjepa.data import Trajectories
from sjepa.errors import DataError
from sjepa.inference.coordinates import Encode, Observations
from sjepa.inference.evidence import Adequacy
from sjepa.inference.score import Fit, Scores
from sjepa.models.pretrained.embedder import encode_all
from sjepa.search.verdicts import verdict_of
from sjepa.symbolic import Law
from sjepa.symbolic.verdict import Verdict
from sjepa.training.whitening import fit_whitening


def judge(
    evidence: Observations, encode: Encode, law: Law, scores: Scores, exact: bool = True
) -> Verdict:
    """Whether residuals are noise, whether the observations are followed, and what else fits."""
    verdict = verdict_of(law, scores, adequacy(evidence, encode, law, exact))
    adequate, reasons = verdict.adequate, list(verdict.reasons)
    if evidence.is_incomplete(encode, scores.best):
        adequate = None if adequate else adequate
        reasons.append(
            "The observations move in ways that the coordinates do not follow: linear "
            "predictions from them explain them far better."
        )
    if (outside := evidence.outside(encode)) > 0:
        reasons.append(
            f"{outside:.1%} of the held-out data lie outside the range of the training data; "
            "they count like the others."
        )
    figures = dict(verdict.figures) | {"outside_range": outside}
    return replace(verdict, adequate=adequate, reasons=tuple(reasons), figures=figures)


def adequacy(evidence: Observations, encode: Encode, law: Law, exact: bool = True) -> Adequacy:
    try:
        return evidence.adequacy(encode, law, exact)
    except DataError as error:
        return Adequacy(None, f"Whether the residuals are noise cannot be decided: {error}")


def score(evidence: Observations, encode: Encode, law: Law, complexity: float) -> Fit | None:
    """None where the data are too short, or the coordinates too fast, for simulations."""
    try:
        fit = evidence.fit(encode, law, complexity)
    except DataError:
        return None
    return fit if np.isfinite(fit.log_likelihood).all() else None


def judge_trained(
    law: Law,
    others: Sequence[Law],
    encoder: Callable[[Any], Any],
    train: Trajectories,
    held_out: Trajectories,
) -> Verdict:
    """The verdict on a law as it was trained, on trajectories that did not train it.

    `others` are laws that it is compared with, fitted to the same coordinates. Nothing is allowed
    for errors of the encoder: more training would reduce them.
    """
    zoh = law.dynamics == "discrete" or train.u is not None
    try:
        whitening = fit_whitening(train).double()
    except DataError as error:
        return Verdict(law, None, (), (str(error),))

    def values(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(whitening(torch.as_tensor(x).double()).numpy())

    def encode(x: np.ndarray) -> np.ndarray:
        return np.asarray(encode_all(encoder, [x])[0], dtype=float)

    evidence = Observations(train, held_out, zoh=zoh, refit=False, values=values)
    own = score(evidence, encode, law, law.complexity("terms"))
    if own is None:
        tested = adequacy(evidence, encode, law)
        if tested.adequate is None and "cannot be decided" in tested.reason:
            return Verdict(law, None, (), (tested.reason,))
        return Verdict(law, False, (), ("Simulations of the law diverge from the data.",))
    evidence.refit = True
    fits = [score(evidence, encode, one, one.complexity("terms")) for one in others if one != law]
    evidence.refit = False
    scores = Scores((own, *(fit for fit in fits if fit is not None)), own)
    return judge(evidence, encode, law, scores)
