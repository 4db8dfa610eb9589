"""The terms of the objective, one small function each."""

from sjepa.training.losses.bottleneck import LatentNoise
from sjepa.training.losses.prediction import (
    DISCREPANCIES,
    correction_penalty,
    one_step_loss,
    rollout_loss,
    squared,
    variance_of,
)
from sjepa.training.losses.representation import REPRESENTATION_TERMS, RepresentationLoss


__all__ = [
    "DISCREPANCIES",
    "REPRESENTATION_TERMS",
    "LatentNoise",
    "RepresentationLoss",
    "correction_penalty",
    "one_step_loss",
    "rollout_loss",
    "squared",
    "variance_of",
]
