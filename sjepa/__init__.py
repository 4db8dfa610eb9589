"""Coordinates and the shortest adequate equation that moves them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sjepa import errors
from sjepa.backend import Backend, Budget, Problem
from sjepa.registry import available_backends, make_backend
from sjepa.symbolic import Candidate, Front, Gram, Grammar, Law, Library


if TYPE_CHECKING:
    from sjepa import encoders
    from sjepa.data import Trajectories
    from sjepa.discovery import discover
    from sjepa.estimator import SJEPA, load
    from sjepa.induced import induced_complexity


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
    "encoders",
    "errors",
    "induced_complexity",
    "load",
    "make_backend",
]

# Imported at first use: someone who only reads a law should not wait for the training code.
_LAZY = {
    "SJEPA": "sjepa.estimator",
    "Trajectories": "sjepa.data",
    "discover": "sjepa.discovery",
    "induced_complexity": "sjepa.induced",
    "load": "sjepa.estimator",
}


def __getattr__(name: str) -> Any:
    if name == "encoders":
        return import_module("sjepa.encoders")
    if name not in _LAZY:
        raise AttributeError(f"module 'sjepa' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
