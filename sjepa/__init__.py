"""Coordinates and the shortest adequate equation that moves them."""

from sjepa import errors
from sjepa.backend import Backend, Budget, Problem
from sjepa.data import Trajectories
from sjepa.discover import discover
from sjepa.estimator import SJEPA
from sjepa.induced import induced_complexity
from sjepa.registry import available_backends, make_backend
from sjepa.symbolic import Candidate, Front, Gram, Grammar, Law, Library


__version__ = "0.1.0"

__all__ = [
    "SJEPA",
    "Backend",
    "Budget",
    "Candidate",
    "Front",
    "Gram",
    "Grammar",
    "Law",
    "Library",
    "Problem",
    "Trajectories",
    "available_backends",
    "discover",
    "errors",
    "induced_complexity",
    "make_backend",
]
