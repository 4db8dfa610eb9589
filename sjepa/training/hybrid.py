"""A law, with or without a correction, as one differentiable predictor."""

from __future__ import annotations

from typing import Any

from sjepa.data import Trajectories
from sjepa.errors import ConfigError
from sjepa.models import Transition
from sjepa.symbolic import Law
from sjepa.symbolic.torch_law import TorchLaw
from sjepa.training.correction import CorrectionSettings, fit_correction


def check_correction(correction: Any, order: int) -> None:
    """Refuse settings of a correction before anything long starts."""
    if correction is None:
        return
    if order == 2:
        raise ConfigError("No correction beside a law of second order yet; set correction=None.")
    CorrectionSettings.of(correction)


def learn_correction(
    encoded: Trajectories, law: Law, correction: Any, integrator: str, seed: int
) -> tuple[Law, Transition]:
    """Train a correction beside a law on fixed coordinates; the law only moves if asked to."""
    settings = CorrectionSettings.of(correction)
    transition = fit_correction(
        encoded, None if settings.alone else law, settings,
        dynamics=law.dynamics, integrator=integrator,
        seed=seed,
    )  # fmt: skip
    if settings.joint and isinstance(transition.symbolic, TorchLaw):
        law = transition.symbolic.law()
    return law, transition


def with_law(old: Transition | None, law: Law, integrator: str, order: int) -> Transition:
    """The transition of a law, with the correction of another one if that has any."""
    if old is not None and old.symbolic is None:
        return old
    return Transition(
        law.torch(trainable=False),
        None if old is None else old.correction,
        dynamics=law.dynamics,
        integrator=integrator,
        order=2 if order == 2 else 1,
    )
