"""A law in other people's languages: what :class:`~sjepa.symbolic.law.Law` has as methods."""

from sjepa.symbolic.export.c import c
from sjepa.symbolic.export.html import law_html
from sjepa.symbolic.export.julia import julia
from sjepa.symbolic.export.latex import latex, notebook_latex
from sjepa.symbolic.export.mathml import mathml
from sjepa.symbolic.export.modelica import modelica
from sjepa.symbolic.export.modules import casadi, jax, torch
from sjepa.symbolic.export.python import python, torch_source
from sjepa.symbolic.export.sbml import sbml


__all__ = [
    "c",
    "casadi",
    "jax",
    "julia",
    "latex",
    "law_html",
    "mathml",
    "modelica",
    "notebook_latex",
    "python",
    "sbml",
    "torch",
    "torch_source",
]
