"""The paper's experiments, and the tables that set our figures beside its own."""

from benchmarks.paper.profiles import PROFILES, Profile
from benchmarks.paper.runner import EXPERIMENTS, run


__all__ = ["EXPERIMENTS", "PROFILES", "Profile", "run"]
