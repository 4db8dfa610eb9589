"""Three ways to a law: structures and coordinates together, in turns, or on fixed coordinates."""

from sjepa.training.alternating.learn import fit_alternating
from sjepa.training.correction import (
    CorrectionSettings,
    correction_figures,
    learn_correction,
)
from sjepa.training.frozen import fit_frozen
from sjepa.training.joint.dimension import MAX_COORDINATES, Dimension, fewest_coordinates
from sjepa.training.joint.hybrid import refine_hybrid
from sjepa.training.joint.learn import fit_joint
from sjepa.training.libraries import as_library
from sjepa.training.result import FitResult, Frozen, identity


WAYS = ("joint", "alternating")

__all__ = [
    "MAX_COORDINATES",
    "WAYS",
    "CorrectionSettings",
    "Dimension",
    "FitResult",
    "Frozen",
    "as_library",
    "correction_figures",
    "fewest_coordinates",
    "fit_alternating",
    "fit_frozen",
    "fit_joint",
    "identity",
    "learn_correction",
    "refine_hybrid",
]
