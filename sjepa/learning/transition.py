"""A law, with or without a correction, as one differentiable predictor."""

from __future__ import annotations

from typing import Any, Literal

from torch import nn

from sjepa.data import Trajectories
from sjepa.errors import ConfigError
from sjepa.models import Transition
from sjepa.symbolic import Law
from sjepa.training import CorrectionSettings, fit_correction


def learn_transition(
    encoded: Trajectories, law: Law, correction: Any, integrator: str, order: int, seed: int
) -> Transition:
    """Law and correction as one predictor; the correction is trained on the fixed coordinates."""
    kind: Literal["field", "direct"] = "direct" if law.realisation == "map" else "field"
    if order == 2:
        raise ConfigError("A correction beside a law of second order is not there yet; set None.")
    module = correction if isinstance(correction, nn.Module) else None
    settings = CorrectionSettings() if module else CorrectionSettings.of(correction)
    return fit_correction(
        encoded, None if settings.alone else law, settings, kind=kind, integrator=integrator,
        module=module, seed=seed,
    )  # fmt: skip


def with_law(old: Transition | None, law: Law, integrator: str, order: int) -> Transition:
    """The transition of a law, with the correction of another one if that has any."""
    if old is not None and old.symbolic is None:
        return old
    return Transition(
        law.torch(trainable=False),
        None if old is None else old.correction,
        kind="direct" if law.realisation == "map" else "field",
        integrator=integrator,
        order=2 if order == 2 else 1,
    )
