"""Three ways to a law: structures and coordinates together, in turns, or on fixed coordinates."""

from sjepa.training.alternating.learn import fit_alternating
from sjepa.training.correction import (
    Neural,
    correction_figures,
    learn_correction,
)
from sjepa.training.frozen import fit_frozen
from sjepa.training.joint.dimension import MAX_COORDINATES, Dimension, fewest_coordinates
from sjepa.training.joint.hybrid import refine_hybrid
from sjepa.training.joint.learn import fit_joint
from sjepa.training.libraries import as_library
from sjepa.training.result import FitResult, Frozen, identity
from sjepa.training.searches import Alternating, Joint, LawOnly


__all__ = [
    "MAX_COORDINATES",
    "Alternating",
    "Dimension",
    "FitResult",
    "Frozen",
    "Joint",
    "LawOnly",
    "Neural",
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
