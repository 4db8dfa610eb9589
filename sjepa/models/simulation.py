"""Adaptive integration of a law for plotting and prediction; it always comes back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal

import numpy as np
from scipy import integrate

from sjepa.errors import DataError
from sjepa.models.lookup import lookup


SOLVERS: Mapping[str, Any] = {
    "BDF": integrate.BDF,
    "DOP853": integrate.DOP853,
    "LSODA": integrate.LSODA,
    "RK45": integrate.RK45,
    "Radau": integrate.Radau,
}


@dataclass(frozen=True)
class Simulation:
    """A simulated trajectory, and how it ended.

    ``z`` is (T, d), NaN from the first time that was not reached; ``reached`` counts the times
    that were. ``status`` is "ok", "diverged" (beyond the limit, non-finite, or so steep that
    the solver's steps vanished) or "budget" (evaluations or seconds used up).
    """

    z: np.ndarray
    status: Literal["ok", "diverged", "budget"]
    reached: int
    evaluations: int


class _BudgetSpent(Exception):
    """Leaves a solver from inside the field it is evaluating."""


def simulate(
    field: Callable[[float, np.ndarray], np.ndarray],
    z0: np.ndarray,
    t: np.ndarray,
    *,
    method: str = "DOP853",
    rtol: float = 1e-8,
    atol: float = 1e-10,
    limit: float = 1e8,
    max_evaluations: int = 200_000,
    max_seconds: float = 60.0,
) -> Simulation:
    """Follow dz/dt = field(t, z) from z0 (d,) and sample it at increasing times t (T,).

    A search proposes many laws that blow up in finite time; such a law gives a trajectory that
    ends in NaN and says so, never an exception and never a wait without end. Use "LSODA",
    "Radau" or "BDF" for stiff laws.
    """
    z0, t = np.array(z0, dtype=float), np.asarray(t, dtype=float)
    if z0.ndim != 1 or t.ndim != 1 or len(t) == 0 or not (np.diff(t) > 0).all():
        raise DataError(f"Needs z0 (d,) and increasing t (T,), got {z0.shape} and {t.shape}.")
    if not np.isfinite(z0).all():
        raise DataError(f"z0 must be finite, got {z0}.")
    solver_class = lookup(SOLVERS, method, "solver")
    deadline = monotonic() + max_seconds
    evaluations = 0

    def guarded(time: float, z: np.ndarray) -> np.ndarray:
        nonlocal evaluations
        evaluations += 1
        if evaluations > max_evaluations or monotonic() > deadline:
            raise _BudgetSpent
        return np.asarray(field(time, z), dtype=float)

    z = np.full((len(t), len(z0)), np.nan)
    z[0], reached = z0, 1
    status: Literal["ok", "diverged", "budget"] = "ok"
    # A law on its way to infinity overflows; that is an answer here, not a warning.
    with np.errstate(all="ignore"):
        try:
            solver = solver_class(guarded, t[0], z0, t[-1], rtol=rtol, atol=atol)
            while reached < len(t):
                solver.step()
                if solver.status == "failed" or not (np.abs(solver.y) < limit).all():
                    status = "diverged"
                    break
                stop = int(np.searchsorted(t, solver.t, side="right"))
                if stop > reached:
                    z[reached:stop] = solver.dense_output()(t[reached:stop]).T
                    reached = stop
        except _BudgetSpent:
            status = "budget"
    return Simulation(z, status, reached, evaluations)
