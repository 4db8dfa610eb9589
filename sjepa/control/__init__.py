"""Actions: local analysis of a learned transition, and planning with it."""

from sjepa.control.controller import Controller, Observer
from sjepa.control.equilibria import Equilibria, Equilibrium, classify, equilibria
from sjepa.control.gymnasium import collect, evaluate, make_env
from sjepa.control.ilqr import ILQR
from sjepa.control.linearize import (
    ContinuousModel,
    DiscreteModel,
    LawJacobian,
    Linearization,
    Linearizer,
    linearize,
)
from sjepa.control.lqr import LQR, Controllability, controllability, lqr
from sjepa.control.planner import Plan, Planner
from sjepa.control.portrait import phase_portrait
from sjepa.control.shooting import CEM, MPPI, GradientShooting, RandomShooting
from sjepa.control.task import CVaR, Task, expected


__all__ = [
    "CEM",
    "ILQR",
    "LQR",
    "MPPI",
    "CVaR",
    "ContinuousModel",
    "Controllability",
    "Controller",
    "DiscreteModel",
    "Equilibria",
    "Equilibrium",
    "GradientShooting",
    "LawJacobian",
    "Linearization",
    "Linearizer",
    "Observer",
    "Plan",
    "Planner",
    "RandomShooting",
    "Task",
    "classify",
    "collect",
    "controllability",
    "equilibria",
    "evaluate",
    "expected",
    "linearize",
    "lqr",
    "make_env",
    "phase_portrait",
]
