"""Coordinates and the shortest adequate equation that moves them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sjepa import errors


if TYPE_CHECKING:
    from sjepa.backend import Backend, Budget, Problem
    from sjepa.backend.registry import available_backends, make_backend
    from sjepa.data import Trajectories
    from sjepa.data.derivative_settings import Discrete, Smooth, Weak, ZeroOrderHold
    from sjepa.discovery import discover
    from sjepa.discovery.per_trajectory import PerTrajectory
    from sjepa.discovery.units import Units
    from sjepa.estimator import SJEPA, SymbolicRegressor, load
    from sjepa.metrics.induced import induced_complexity
    from sjepa.metrics.operator_complexity import operator_complexity
    from sjepa.models.pretrained.heads import ReadOut
    from sjepa.studies.compare import compare
    from sjepa.symbolic import Candidate, Front, Gram, Grammar, Law, Library
    from sjepa.training import Alternating, Joint, LawOnly, Neural


__version__ = "0.1.0"

__all__ = [
    "SJEPA",
    "Alternating",
    "Backend",
    "Budget",
    "Candidate",
    "Discrete",
    "Front",
    "Gram",
    "Grammar",
    "Joint",
    "Law",
    "LawOnly",
    "Library",
    "Neural",
    "PerTrajectory",
    "Problem",
    "ReadOut",
    "Smooth",
    "SymbolicRegressor",
    "Trajectories",
    "Units",
    "Weak",
    "ZeroOrderHold",
    "available_backends",
    "compare",
    "discover",
    "errors",
    "induced_complexity",
    "load",
    "make_backend",
    "operator_complexity",
]

# Imported at first use: who asks for help or reads a law should not wait for the training code.
_LAZY = {
    "Alternating": "sjepa.training.searches:Alternating",
    "Backend": "sjepa.backend:Backend",
    "Budget": "sjepa.backend:Budget",
    "Candidate": "sjepa.symbolic:Candidate",
    "Discrete": "sjepa.data.derivative_settings:Discrete",
    "Front": "sjepa.symbolic:Front",
    "Gram": "sjepa.symbolic:Gram",
    "Grammar": "sjepa.symbolic:Grammar",
    "Joint": "sjepa.training.searches:Joint",
    "Law": "sjepa.symbolic:Law",
    "LawOnly": "sjepa.training.searches:LawOnly",
    "Library": "sjepa.symbolic:Library",
    "Neural": "sjepa.training.correction:Neural",
    "PerTrajectory": "sjepa.discovery.per_trajectory:PerTrajectory",
    "Problem": "sjepa.backend:Problem",
    "ReadOut": "sjepa.models.pretrained.heads:ReadOut",
    "SJEPA": "sjepa.estimator:SJEPA",
    "Smooth": "sjepa.data.derivative_settings:Smooth",
    "SymbolicRegressor": "sjepa.estimator.regressor:SymbolicRegressor",
    "Trajectories": "sjepa.data:Trajectories",
    "Units": "sjepa.discovery.units:Units",
    "Weak": "sjepa.data.derivative_settings:Weak",
    "ZeroOrderHold": "sjepa.data.derivative_settings:ZeroOrderHold",
    "available_backends": "sjepa.backend.registry:available_backends",
    "backend": "sjepa.backend",
    "bayes": "sjepa.bayes",
    "callbacks": "sjepa.callbacks",
    "compare": "sjepa.studies.compare:compare",
    "control": "sjepa.control",
    "data": "sjepa.data",
    "discover": "sjepa.discovery:discover",
    "encoders": "sjepa.models.pretrained",
    "induced_complexity": "sjepa.metrics.induced:induced_complexity",
    "load": "sjepa.estimator:load",
    "make_backend": "sjepa.backend.registry:make_backend",
    "metrics": "sjepa.metrics",
    "models": "sjepa.models",
    "operator_complexity": "sjepa.metrics.operator_complexity:operator_complexity",
    "report": "sjepa.report",
    "studies": "sjepa.studies",
    "symbolic": "sjepa.symbolic",
}


def _lazy(
    package: str, places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package whose names are imported at first use.

    `places` says for each name the module, or ``"module:attribute"``, that it stands for.
    """

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = places[name].partition(":")
        value: Any = import_module(module)
        if attribute:
            value = getattr(value, attribute)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *places})


__getattr__, __dir__ = _lazy(__name__, _LAZY)
