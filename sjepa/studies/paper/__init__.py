"""The paper's experiments, and the tables that set our figures beside its own."""

from sjepa.studies.paper.profiles import PROFILES, Profile
from sjepa.studies.paper.runner import EXPERIMENTS, run


__all__ = ["EXPERIMENTS", "PROFILES", "Profile", "run"]
