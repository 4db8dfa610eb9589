"""Three ways to a law: structures and coordinates together, in turns, or on fixed coordinates."""

from sjepa.training.alternating.learn import learn_alternating
from sjepa.training.correction import (
    CorrectionSettings,
    correction_figures,
    learn_correction,
)
from sjepa.training.elegant.dimension import MOST as MOST_COORDINATES, Dimension, fewest_coordinates
from sjepa.training.elegant.hybrid import refine_hybrid
from sjepa.training.elegant.learn import learn_elegant
from sjepa.training.frozen import learn_frozen
from sjepa.training.result import Frozen, Learned, identity
from sjepa.training.terms import written


WAYS = ("elegant", "alternating")

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
    "learn_elegant",
    "learn_frozen",
    "refine_hybrid",
    "written",
]
