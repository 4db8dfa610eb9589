"""The paper's Algorithm 1: coordinates and equations in turns."""

from sjepa.training.alternating.conditions import (
    DYNAMICS_PHASE,
    FROZEN,
    SPACE_PHASE,
    WARM_START,
    Condition,
)
from sjepa.training.alternating.config import TrainingConfig
from sjepa.training.alternating.latent_model import LatentModel
from sjepa.training.alternating.loop import AlternatingLoop, Alternation
from sjepa.training.alternating.phase import Phase, discrete_complexity
from sjepa.training.alternating.proposals import (
    StructurePolicy,
    as_part,
    latent_rows,
    propose,
)
from sjepa.training.alternating.selection import Record, Shortlist, choose


__all__ = [
    "DYNAMICS_PHASE",
    "FROZEN",
    "SPACE_PHASE",
    "WARM_START",
    "AlternatingLoop",
    "Alternation",
    "Condition",
    "LatentModel",
    "Phase",
    "Record",
    "Shortlist",
    "StructurePolicy",
    "TrainingConfig",
    "as_part",
    "choose",
    "discrete_complexity",
    "latent_rows",
    "propose",
]
