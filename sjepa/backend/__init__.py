"""The contract between a problem and the backends that solve it, and where backends are found."""

from sjepa.backend.base import Backend, StopNote
from sjepa.backend.budget import Budget
from sjepa.backend.problem import Problem, Progress


__all__ = ["Backend", "Budget", "Problem", "Progress", "StopNote"]
