"""Paths of plain functions from a start: adaptive solvers that end in time, and maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal

import numpy as np
from scipy import integrate as scipy_integrate

from sjepa.errors import DataError, lookup


SOLVERS: Mapping[str, Any] = {
    name: getattr(scipy_integrate, name) for name in ("BDF", "DOP853", "LSODA", "RK45", "Radau")
}


@dataclass(frozen=True)
class SimulatedPath:
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


def integrate(
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
) -> SimulatedPath:
    """Solve dz/dt = field(t, z) from z0 (d,) and sample it at increasing times t (T,).

    A search proposes many laws that blow up in finite time; their trajectories end in NaN, with the
    reason as status. Divergence raises no exception, and time and evaluations are bounded. Use
    "LSODA", "Radau" or "BDF" for stiff laws.
    """
    z0, t = np.array(z0, dtype=float), np.asarray(t, dtype=float)
    if z0.ndim != 1 or t.ndim != 1 or len(t) == 0 or not (np.diff(t) > 0).all():
        raise DataError(f"Needs z0 (d,) and increasing t (T,), got {z0.shape} and {t.shape}.")
    if not np.isfinite(z0).all():
        raise DataError(f"z0 must be finite, got {z0}.")
    solver_class = lookup(SOLVERS, method, "solver")
    deadline = monotonic() + max_seconds
    evaluations, finite = 0, True

    def guarded(time: float, z: np.ndarray) -> np.ndarray:
        nonlocal evaluations, finite
        evaluations += 1
        if evaluations > max_evaluations or monotonic() > deadline:
            raise _BudgetSpent
        slope = np.asarray(field(time, z), dtype=float)
        finite = finite and bool(np.isfinite(slope).all())
        return slope

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
        except ValueError:  # implicit solvers refuse a Jacobian that is not finite
            if finite:
                raise
            status = "diverged"
    return SimulatedPath(z, status, reached, evaluations)


def integrate_zoh(
    field: Callable[[np.ndarray], np.ndarray],
    z0: np.ndarray,
    t: np.ndarray,
    u: np.ndarray,
    **options: Any,
) -> SimulatedPath:
    """Solve dz/dt = field((z, u)) where row i of u (T, m) is held from t[i] to t[i + 1].

    Each segment of equal actions is integrated on its own: a solver that steps over a jump would
    lose its accuracy. Options are those of :func:`integrate`.
    """
    z0, t, u = np.asarray(z0, dtype=float), np.asarray(t, dtype=float), np.asarray(u, dtype=float)
    if u.shape[:1] != t.shape:
        raise DataError(f"Needs one row of actions per time, got {u.shape} for {t.shape} times.")
    deadline = monotonic() + float(options.pop("max_seconds", 60.0))  # for all segments together
    z = np.full((len(t), len(z0)), np.nan)
    z[0], reached, evaluations, start = z0, 1, 0, 0
    while start < len(t) - 1:
        end = start + 1
        while end < len(t) - 1 and (u[end] == u[start]).all():
            end += 1
        u_zoh = u[start]
        run = integrate(
            lambda _, state, u_zoh=u_zoh: field(np.concatenate([state, u_zoh])),  # type: ignore[misc]
            z[start],
            t[start : end + 1],
            max_seconds=max(deadline - monotonic(), 0.0),
            **options,
        )
        z[start : start + run.reached] = run.z[: run.reached]
        reached = start + run.reached
        evaluations += run.evaluations
        if run.status != "ok":
            return SimulatedPath(z, run.status, reached, evaluations)
        start = end
    return SimulatedPath(z, "ok", reached, evaluations)


def iterate(
    step: Callable[[np.ndarray], np.ndarray],
    z0: np.ndarray,
    steps: int,
    u: np.ndarray | None = None,
    limit: float = 1e8,
) -> SimulatedPath:
    """Apply a map z' = step((z, u)) again and again: states (steps + 1, d), the start included."""
    z0 = np.asarray(z0, dtype=float)
    if u is not None and len(u) < steps:
        raise DataError(f"{steps} steps need as many rows of actions, got {len(u)}.")
    z = np.full((steps + 1, len(z0)), np.nan)
    z[0] = z0
    with np.errstate(all="ignore"):  # as in integrate: overflow is an answer
        for i in range(steps):
            state = z[i] if u is None else np.concatenate([z[i], u[i]])
            following = np.asarray(step(state), dtype=float)
            if not (np.abs(following) < limit).all():
                return SimulatedPath(z, "diverged", i + 1, i + 1)
            z[i + 1] = following
    return SimulatedPath(z, "ok", steps + 1, steps)
