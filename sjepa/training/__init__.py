"""Three ways to a law: structures and coordinates together, in turns, or on fixed coordinates."""

from sjepa.training.alternating.learn import learn_alternating
from sjepa.training.correction import (
    CorrectionSettings,
    correction_figures,
    learn_correction,
)
from sjepa.training.frozen import learn_frozen
from sjepa.training.joint.dimension import MOST as MOST_COORDINATES, Dimension, fewest_coordinates
from sjepa.training.joint.hybrid import refine_hybrid
from sjepa.training.joint.learn import learn_joint
from sjepa.training.libraries import written
from sjepa.training.result import Frozen, Learned, identity


WAYS = ("joint", "alternating")

__all__ = [
    "MOST_COORDINATES",
    "WAYS",
    "CorrectionSettings",
    "Dimension",
    "Frozen",
    "Learned",
    "correction_figures",
    "fewest_coordinates",
    "identity",
    "learn_alternating",
    "learn_correction",
    "learn_frozen",
    "learn_joint",
    "refine_hybrid",
    "written",
]
