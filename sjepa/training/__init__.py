"""Training: conditions, phases, and the alternating search for coordinates and equations."""

from sjepa.training.alternating import Alternating, Alternation
from sjepa.training.conditions import (
    CONDITIONS,
    EXPERIMENT_1,
    EXPERIMENT_2,
    FROZEN,
    Condition,
)
from sjepa.training.correction import CorrectionSettings, fit_correction
from sjepa.training.devices import resolve_device
from sjepa.training.phase import Event, Phase, discrete_complexity
from sjepa.training.proposals import as_part, derivative_rows, propose
from sjepa.training.refine import refine
from sjepa.training.selection import Record, Shortlist, choose
from sjepa.training.settings import Settings
from sjepa.training.tree_law import TreeLaw
from sjepa.training.world import World


__all__ = [
    "CONDITIONS",
    "EXPERIMENT_1",
    "EXPERIMENT_2",
    "FROZEN",
    "Alternating",
    "Alternation",
    "Condition",
    "CorrectionSettings",
    "Event",
    "Phase",
    "Record",
    "Settings",
    "Shortlist",
    "TreeLaw",
    "World",
    "as_part",
    "choose",
    "derivative_rows",
    "discrete_complexity",
    "fit_correction",
    "propose",
    "refine",
    "resolve_device",
]
