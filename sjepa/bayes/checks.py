"""Checks that the data satisfy the assumptions of the inference."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from sjepa.bayes.transitions import Transitions
from sjepa.data import Trajectories
from sjepa.errors import DataError, NumericalWarning
from sjepa.symbolic import Law


if TYPE_CHECKING:
    from sjepa.bayes.result import Posterior

# Correlation of neighboring residuals below which noise looks like noise of observation, whose
# own value is -0.5.
ALTERNATING = -0.25


def check_inputs(law: Law, trajectories: Trajectories) -> None:
    d = trajectories.obs_shape[0]
    m = trajectories.u[0].shape[1] if trajectories.u else 0
    if len(law.outputs) != d or len(law.inputs) != d + m:
        raise DataError(
            f"The candidates have {len(law.outputs)} equations in {', '.join(law.inputs)}; the "
            f"data have {d} coordinates and {m} actions."
        )


def check_movement(rows: Transitions, law: Law) -> None:
    still = ((rows.target - rows.z).abs().amax(0) == 0).tolist()
    if any(still):
        raise DataError(
            f"{law.outputs[still.index(True)]} never changes in the evidence; leave it out."
        )


def warn_observed(result: Posterior, evidence: Trajectories) -> None:
    """Noise of observation comes back with the opposite sign one step later; say so."""
    rows, law = Transitions.of(evidence), result.law

    def field(inputs: Tensor) -> Tensor:
        return torch.as_tensor(law.numpy()(inputs.numpy()))

    left = (rows.target - result.step.mean(field, rows.z, rows.dt, rows.u)).numpy()
    parts = np.split(left, np.cumsum(evidence.lengths - 1)[:-1])
    before = np.concatenate([p[:-1] for p in parts])
    after = np.concatenate([p[1:] for p in parts])
    if len(before) < 30:
        return
    size = np.sqrt((before**2).sum(axis=0) * (after**2).sum(axis=0))
    lag = float(((before * after).sum(axis=0) / np.maximum(size, 1e-300)).min())
    if lag < ALTERNATING:
        warnings.warn(
            f"One-step residuals alternate (correlation {lag:.2f}), as noise of observation does. "
            "It is treated as noise of the transition, so intervals of long rollouts will be "
            "too wide; use noise='observation'.",
            NumericalWarning,
            stacklevel=3,
        )
