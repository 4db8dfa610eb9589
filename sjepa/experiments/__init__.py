"""The paper's experiments, and the tables that set our figures beside its own."""

from sjepa.experiments.profiles import PROFILES, Profile
from sjepa.experiments.runner import EXPERIMENTS, run


__all__ = ["EXPERIMENTS", "PROFILES", "Profile", "run"]
